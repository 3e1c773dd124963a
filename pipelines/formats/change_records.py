"""Writes a table as records of a file: its changes as upserts with tombstones, as Debezium's pairs of old and
new row, or as those of the command line; or its rows.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.batch import ChangeBatch
from beam_joins.pipelines.formats.plain_rows import PlainRows
from beam_joins.pipelines.formats.registry import FILE_FORMATS, Written
from beam_joins.pipelines.formats.row_encoding import change_columns, columns_of_changes, fitted
from beam_joins.sorting import integers, valid

As = Literal["upserts", "pairs", "changes", "rows"]
MARKS: Final = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("position", pa.int64()), ("deleted", pa.bool_())])
"""The columns of upserts about the change."""
_SOURCE: Final = pa.struct(
    [("connector", pa.string()), ("table", pa.string()), ("lsn", pa.int64()), ("ts_ms", pa.int64()), ("ts_us", pa.int64())]
)
_MILLI: Final = 1_000


class ChangeRecords:
    """How a table is written: as what, in which format; ``table`` is the name of the table in pairs."""

    def __init__(self, rows: PlainRows, form: As, format_: Written, table: str) -> None:
        """Raises ``ValueError`` for a column that would be there twice, or of a type that the format does not
        have.
        """
        self._rows = rows
        self._table = table
        self._form = form
        if taken := [name for name in MARKS.names if name in rows.schema.names and form == "upserts"]:
            raise ValueError(
                f"the table has a column '{taken[0]}', as the change itself: give it another name with MapTable, or write as_='pairs'"
            )
        if form == "pairs" and format_ == "csv":
            raise ValueError("format='csv' has no pairs: choose as_='upserts', 'changes' or 'rows'")
        row = pa.struct(list(rows.schema))
        pairs = [("before", row), ("after", row), ("op", pa.string()), ("source", _SOURCE), ("ts_ms", pa.int64())]
        time = pa.int64() if format_ == "jsonl" else MARKS.field("timestamp").type
        self.columns = {
            "upserts": pa.schema([*rows.schema, *MARKS]),
            "pairs": pa.schema(pairs),
            "changes": pa.schema([*columns_of_changes(rows.key_type, row, time)]),
            "rows": rows.schema,
        }[form]
        records = next(each.records for each in FILE_FORMATS if each.option == format_)
        self._records = records(self.columns, form == "pairs")

    def writer(self, file: Any) -> Any:
        """What writes records to a file."""
        return self._records.writer(file)

    def of_changes(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> pa.Array:
        """The records of changes with their old and new values."""
        made = {"upserts": self._of_upserts, "pairs": self._of_pairs, "changes": self._of_changes}[self._form]
        return self._records.encoded(made(changes, old, new))

    def of_rows(self, keys: pa.Array, values: pa.Array) -> pa.Array:
        """The records of rows that there are in the end."""
        return self._records.encoded(self._rows.columns(keys, values))

    def _of_changes(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        before, after = (self._rows.structs(changes.key, values) for values in (old, new))
        return fitted(change_columns(changes, before, after), self.columns)

    def _of_upserts(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        at = changes.timestamp.cast(MARKS.field("timestamp").type)
        return [*self._rows.columns(changes.key, new), at, changes.position, new.is_null()]

    def _of_pairs(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        operations = pa.array(["c", "u", "d"]).take(pc.if_else(new.is_null(), 2, pa.array(valid(old).astype("int64"))))
        times = pa.array(integers(changes.timestamp) // _MILLI)
        count = len(changes)
        constant: Callable[[str], pa.Array] = lambda text: pa.array([text] * count, pa.string())  # noqa: E731
        source = [constant("beam_joins"), constant(self._table), changes.position, times, changes.timestamp]
        return [
            self._rows.structs(changes.key, old),
            self._rows.structs(changes.key, new),
            operations,
            pa.StructArray.from_arrays(source, fields=list(_SOURCE)),
            times,
        ]
