"""ReadGrowingFiles: reads files that arrive in a folder or grow, as an unbounded collection."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.base.paths import absolute, matching
from beam_joins.pipelines.formats.registry import GROWING, growing_format
from beam_joins.pipelines.io.sources.event_time import EventTime
from beam_joins.pipelines.io.sources.files import Files
from beam_joins.pipelines.io.sources.follow import read_with
from beam_joins.pipelines.io.sources.rows import Rows, TimestampBy
from beam_joins.spans import Span
from beam_joins.transforms.connect import as_arrow, flag

__all__ = ["ReadGrowingFiles"]


class ReadGrowingFiles(beam.PTransform[PBegin, PCollection[Any]]):
    r"""Reads the rows of the files that match ``pattern`` (a path or a glob), now and later: JSON lines,
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
        pattern: str,
        *,
        timestamp_by: TimestampBy,
        schema: Any = None,
        out_of_orderness: Span = 0,
        idle_after: Span | None = None,
        follow: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(pattern, str) or not pattern.endswith(GROWING):
            raise ValueError(f"pattern={pattern!r}: give a path or a glob that ends with one of {', '.join(GROWING)}")
        schema_of = growing_format(pattern).schema
        self._pattern = absolute(pattern)
        if schema is None and schema_of is not None:
            schema = _first_schema(self._pattern, schema_of)
        self._rows = Rows.of(timestamp_by, schema)
        self._event_time = EventTime.of(out_of_orderness, idle_after)
        self._follow = flag("follow", follow)

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the elements, where these are record batches and not dicts."""
        return self._rows.schema

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        read = read_with(Files(self._rows, self._follow), self._event_time, follow=self._follow)
        patterns = begin | "Pattern" >> beam.Create([self._pattern], reshuffle=False)
        schema = self._rows.schema
        rows: PCollection[Any] = patterns | "Read" >> read.with_output_types(dict[str, Any] if schema is None else pa.RecordBatch)
        return rows if schema is None else as_arrow(rows, schema)


def _first_schema(pattern: str, schema_of: Callable[[str], pa.Schema]) -> pa.Schema:
    files = matching(pattern)
    if not files:
        raise ValueError(f"schema=None: there is no file {pattern} yet that says which columns there are; give a schema")
    try:
        return schema_of(files[0].path)
    except ValueError as error:
        raise InputError(f"{files[0].path} {error}") from error
