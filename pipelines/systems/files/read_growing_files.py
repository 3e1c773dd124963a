"""ReadGrowingFiles: reads files that arrive in a folder or grow, as an unbounded collection."""

from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.options.spans import Span
from beam_joins.pipelines.changelogs.event_time import EventTime
from beam_joins.pipelines.changelogs.source_rows import SourceRows, TimestampBy
from beam_joins.pipelines.systems.files.growing_files import GrowingFiles, growing_schema
from beam_joins.transforms.connect.checks import flag
from beam_joins.transforms.connect.tables import as_arrow

__all__ = ["ReadGrowingFiles"]


class ReadGrowingFiles(beam.PTransform[PBegin, PCollection[Any]]):
    r"""Reads the rows of all present and later files that match ``path``, a path or a glob: JSON lines,
    Avro, Parquet and Arrow, by the suffix.

    Files are read one after the other, in the order of their paths and the numbers in them (``part-9`` before ``part-10``), each
    once: give later files later names.
    The last file may grow until a later file exists. Only complete data is read: lines up to their newline,
    blocks of Avro, and files of Parquet and Arrow with their footer. A new file whose name sorts before the
    current file is not read.

    * ``timestamp_by``: the column with the event time (microseconds since the epoch as whole numbers, or
      timestamps with a time zone), or a function of a row where the rows are dicts.
    * ``schema``: a ``pyarrow.Schema``, a ``NamedTuple`` or a dataclass. With a schema the elements are
      ``pyarrow.RecordBatch``, which is fast, without the columns that it does not name. Without a schema
      elements are dicts; for Parquet and Arrow they are record batches with the columns of the first file.
    * ``out_of_orderness``: the distance of the watermark behind the largest event time: seconds, a
      ``timedelta`` or a Beam ``Duration``.
    * ``idle_after``: the time without a row after which the watermark follows the clock, ``out_of_orderness``
      behind it. By default the watermark waits for the next row, so that no result depends on the time of
      arrival.
    * ``follow=False`` reads the files present when the run begins, and ends.

    An element's timestamp is its event time; a batch has the smallest of its rows. A job that restarts from a
    savepoint or a checkpoint continues reading at that point. Raises ``ValueError`` at construction for an
    option of a wrong form; a line or a file that cannot be read fails the run with InputError, which names
    it.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "1.jsonl"), "w") as file:
    ...     _ = file.write('{"id": 1, "at": 7}\n{"id": 2, "at": 5}\n')
    >>> with beam.Pipeline() as pipeline:
    ...     rows = pipeline | ReadGrowingFiles(f"{folder}/*.jsonl", timestamp_by="at", follow=False)
    ...     _ = rows | beam.Map(print)
    {'id': 1, 'at': 7}
    {'id': 2, 'at': 5}
    """

    def __init__(
        self,
        path: str,
        *,
        timestamp_by: TimestampBy,
        schema: Any = None,
        out_of_orderness: Span = 0,
        idle_after: Span | None = None,
        follow: bool = True,
    ) -> None:
        super().__init__()
        rows = SourceRows.of(timestamp_by, growing_schema(path) if schema is None else schema)
        made: Any = dict[str, Any] if rows.schema is None else pa.RecordBatch
        event_time = EventTime.of(out_of_orderness, idle_after)
        self._schema = rows.schema
        self._files = GrowingFiles(path, rows, made, event_time, follow=flag("follow", follow))

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        rows: PCollection[Any] = begin | "Files" >> self._files
        return rows if self._schema is None else as_arrow(rows, self._schema)
