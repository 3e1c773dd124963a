"""The rows of a source as elements: dicts, or Arrow batches of declared columns, with their event times."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.sources.follow import Piece, Place, Timed
from beam_joins.places import micros, times_of
from beam_joins.transforms.engine.arrow_input import declared_schema, struct_of

TimestampBy = str | Callable[[Any], Any]
"""The name of a column, or a function of a row."""
BATCH_ROWS: Final = 65_536


@dataclass(frozen=True)
class Rows:
    """How rows become elements: batches of the columns of ``schema``, or dicts without one."""

    timestamp_by: TimestampBy
    schema: pa.Schema | None

    @classmethod
    def of(cls, timestamp_by: TimestampBy, schema: Any) -> "Rows":
        """Of what a user gives. Raises ``ValueError`` for a column that the schema does not have, and for a function of a row of a batch."""
        columns = None if schema is None else declared_schema(schema)
        if columns is not None and timestamp_by not in columns.names:
            raise ValueError(f"timestamp_by={timestamp_by!r}: with a schema give one of its columns: {', '.join(columns.names)}")
        if not isinstance(timestamp_by, str) and not callable(timestamp_by):
            raise ValueError(f"timestamp_by={timestamp_by!r}: give the name of a column, or a function of a row")
        return cls(timestamp_by, columns)

    def of_dicts(self, after: Place, rows: Sequence[Mapping[str, Any]]) -> Piece:
        """The elements of rows that are mappings."""
        if self.schema is not None:
            return self.of_table(after, pa.Table.from_pylist([*rows], schema=self.schema))
        by = self.timestamp_by
        timed = [Timed(row, micros(row[by] if isinstance(by, str) else by(row))) for row in rows]
        return Piece(after, timed, max((each.micros for each in timed), default=None), len(timed))

    def of_lines(self, after: Place, lines: bytes) -> Piece:
        """The elements of whole lines of JSON. Raises InputError for a line that is none, or not of the schema's types."""
        if not lines.strip():
            return Piece(after, [], None, 0)
        try:
            if self.schema is None:
                return self.of_dicts(after, [orjson.loads(line) for line in lines.splitlines() if line.strip()])
            options = pj.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="ignore")
            table = pj.read_json(io.BytesIO(lines), pj.ReadOptions(block_size=len(lines) + 1), options)
        except (orjson.JSONDecodeError, pa.ArrowInvalid) as error:
            raise InputError(f"a line cannot be read ({error})") from error
        return self.of_table(after, table)

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
