"""The rows of a source as elements: dicts, or Arrow batches of declared columns, with their event times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.function_failed import failure, shortened
from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.formats.columns import Columns
from beam_joins.pipelines.formats.files import Block
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.io.sources.follow import Piece, Place, Timed
from beam_joins.pipelines.io.sources.followed_changes import followed
from beam_joins.positions import times_of
from beam_joins.transforms.connect import declared_schema, struct_of
from beam_joins.typed_rows import column_writer

TimestampBy = str | Callable[[Any], Any]
"""The name of a column, or a function of a row."""
BATCH_ROWS: Final = 65_536


def time_given(label: str, timestamp_by: Callable[..., Any], *record: Any) -> int:
    """Calls a user's function for a time: microseconds since the epoch.

    Raises FunctionFailed if it raises, and ValueError for what is no time.
    """
    try:
        time = timestamp_by(*record)
    except Exception as error:
        raise failure(label, "timestamp_by", error, record) from error
    return _micros(time)


def require_instants(timestamp_by: Any, columns: pa.Schema) -> None:
    """Raises ``ValueError`` for a column of times that are no instants: of a day, or without a zone."""
    kind = columns.field(timestamp_by).type
    if pa.types.is_time(kind):
        raise ValueError(f"timestamp_by={timestamp_by!r}: the column has times of day ({kind}): take one with the date as well")
    if pa.types.is_timestamp(kind) and kind.tz is None:
        raise ValueError(f"timestamp_by={timestamp_by!r}: the column has timestamps without a time zone ({kind}): write them with one")


def _micros(time: Any) -> int:
    """The microseconds of a time. Raises ``ValueError`` for what is no time, or does not fit in 64 bits."""
    (micros,) = times_of("timestamp_by", [time])
    if not micros.is_valid:
        raise ValueError("timestamp_by gave None: give each row a time")
    return int(micros.as_py())


@dataclass(frozen=True)
class Rows:
    """Converts rows to elements: batches with the columns of ``schema``, or dicts without one."""

    timestamp_by: TimestampBy
    schema: pa.Schema | None

    @classmethod
    def of(cls, timestamp_by: TimestampBy, schema: Any) -> "Rows":
        """From the options.

        Raises ``ValueError`` for a column that the schema does not have, and for a function of a row of a
        batch.
        """
        columns = None if schema is None else declared_schema(schema)
        if columns is not None and not (isinstance(timestamp_by, str) and timestamp_by in columns.names):
            raise ValueError(f"timestamp_by={timestamp_by!r}: with a schema give one of its columns: {', '.join(columns.names)}")
        if not timestamp_by or not (isinstance(timestamp_by, str) or callable(timestamp_by)):
            raise ValueError(f"timestamp_by={timestamp_by!r}: give the name of a column, or a function of a row")
        if columns is not None:
            require_instants(timestamp_by, columns)
        return cls(timestamp_by, columns)

    def of_dicts(self, after: Place, rows: Sequence[Mapping[str, Any]]) -> Piece:
        """The elements of rows that are mappings."""
        if self.schema is not None:
            names = self.schema.names
            chosen = ({name: row.get(name) for name in names} for row in rows)
            return self.of_table(after, pa.Table.from_struct_array(column_writer("a row", self.schema)(chosen)))
        timed = [Timed(row, self._time(row)) for row in rows]
        return Piece(after, timed, max((each.micros for each in timed), default=None), len(timed))

    def _time(self, row: Any) -> int:
        by = self.timestamp_by
        if not isinstance(row, Mapping):
            raise InputError(f"a row is no JSON object: {shortened(row)}")
        if callable(by):
            return time_given("ReadGrowingFiles", by, row)
        if by not in row:
            raise InputError(f"a row has no column {by!r} (timestamp_by=); it has {', '.join(map(str, row))}")
        return _micros(row[by])

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Those of the schema."""
        return None if self.schema is None else tuple(self.schema.names)

    def piece(self, after: Place, block: Block) -> Piece:
        """The elements of some records of a file. Raises InputError for a bad one."""
        if self.schema is not None and isinstance(self.timestamp_by, str):
            reading = Reading.of_rows(Columns(key=(), timestamp=self.timestamp_by, side=None), self.schema)
            made = followed(reading, after, block(reading))
            if made.fault is not None:
                raise InputError(f"a record cannot be read ({made.fault[1]})")
            names = self.schema.names
            return made.piece._replace(elements=[Timed(each.value.select(names), each.micros) for each in made.piece.elements])
        rows = [row for raw in block(None) for row in raw.objects()]
        if bad := [row for row in rows if isinstance(row, str)]:
            raise InputError(f"a record cannot be read ({bad[0]})")
        return self.of_dicts(after, [row for row in rows if not isinstance(row, str)])

    def of_table(self, after: Place, table: pa.Table) -> Piece:
        """The elements of rows in columns: one for each 65,536 of them."""
        assert self.schema is not None
        assert isinstance(self.timestamp_by, str)
        rows = pa.RecordBatch.from_struct_array(struct_of(table, self.schema))
        times = times_of("timestamp_by", rows.column(self.timestamp_by))
        if times.null_count:
            raise InputError(f"a row has no time: its column {self.timestamp_by!r} is null")
        if not len(rows):
            return Piece(after, [], None, 0)
        starts = range(0, len(rows), BATCH_ROWS)
        elements = [Timed(rows.slice(start, BATCH_ROWS), pc.min(times.slice(start, BATCH_ROWS)).as_py()) for start in starts]
        return Piece(after, elements, pc.max(times).as_py(), len(rows))
