"""ReadGrowingFiles: reads files that arrive in a folder or grow, as an unbounded collection."""

from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.pipelines.io.sources.event_time import EventTime
from beam_joins.pipelines.io.sources.files import GrowingFiles, growing_schema
from beam_joins.pipelines.io.sources.rows import Rows, TimestampBy
from beam_joins.spans import Span
from beam_joins.transforms.connect import as_arrow, flag

__all__ = ["ReadGrowingFiles"]


class ReadGrowingFiles(beam.PTransform[PBegin, PCollection[Any]]):
    r"""Reads the rows of the files that match ``path`` (a path or a glob), now and later: JSON lines,
    Avro, Parquet and Arrow, by the suffix.

    The files are read one after the other, in the order of their paths, each once: name them so that later
    ones come later. The last file may grow, until there is a later one. Only what is whole is read: lines up
    to their newline, blocks of Avro, and files of Parquet and Arrow once they have their footer. A file that
    comes with a name before one that has been begun is not read.

    * ``timestamp_by``: the column with the event time (microseconds since the epoch as whole numbers, or
      timestamps with a time zone), or a function of a row where the rows are dicts.
    * ``schema``: a ``pyarrow.Schema``, a ``NamedTuple`` or a dataclass. With one the elements are
      ``pyarrow.RecordBatch``, which is fast; columns that it does not name are left out. Without one they are
      dicts, but for files of Parquet and Arrow, whose columns are those of the first.
    * ``out_of_orderness``: how far behind the largest event time the watermark stays: seconds, a
      ``timedelta`` or a Beam ``Duration``.
    * ``idle_after``: after so long without a row the watermark follows the clock, ``out_of_orderness`` behind
      it. By default it waits for the next row, so that no result depends on when rows come.
    * ``follow=False`` reads what is there when the run begins, and ends.

    An element's timestamp is its event time; that of a batch is the smallest of its rows. Where a job goes on
    from a savepoint or a checkpoint, the source goes on where it was. Raises ``ValueError`` at construction
    for an option that is not of its form; a line or a file that cannot be read fails the run with InputError,
    which names it.

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
        rows = Rows.of(timestamp_by, growing_schema(path) if schema is None else schema)
        made: Any = dict[str, Any] if rows.schema is None else pa.RecordBatch
        event_time = EventTime.of(out_of_orderness, idle_after)
        self._schema = rows.schema
        self._files = GrowingFiles(path, rows, made, event_time, follow=flag("follow", follow))

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        rows: PCollection[Any] = begin | "Files" >> self._files
        return rows if self._schema is None else as_arrow(rows, self._schema)
