"""Records in Arrow columns, as files of Parquet and Arrow IPC have them: read as rows, and written.

In changelogs timestamps are microseconds, dates and UUIDs text.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.pipelines.formats.changelog_columns import Unit
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows, fitting_rows, structs_of
from beam_joins.pipelines.formats.types.json_text import at_any_depth, is_nested, objects, texts_without_units, without_units
from beam_joins.values.arrow_types import plain_type, python_list, without_uuids
from beam_joins.values.exact_casts import as_plain, exact_cast
from beam_joins.values.exact_values import ValuePlace

RECORDS: Final = 1 << 16
"""The number of rows that are read at a time."""
_FIRST_DAY: Final = pa.scalar(dt.date.min, pa.date32())
_LAST_DAY: Final = pa.scalar(dt.date.max, pa.date32())
_ROWS: Final = 1 << 16
_BYTES: Final = 1 << 27


def rows_of_table(table: pa.Table, first_place: int, plan: ReadPlan | None) -> Iterator[RawRows]:
    """The rows of a table, some at a time; the places begin with the first."""
    for raw in table.to_batches(RECORDS):
        batch = readable(raw, None if plan is None else plan.typed)
        yield column_rows(batch, pa.array(np.arange(first_place, first_place + len(batch))), plan)
        first_place += len(batch)


def column_rows(raw: pa.RecordBatch, places: pa.Array, plan: ReadPlan | None) -> RawRows:
    """The records of a batch of plain types whose columns are all known."""

    @cache
    def plain_rows() -> pa.RecordBatch:
        return _without_units(raw)

    @cache
    def python_rows() -> list[dict[str, Any]]:
        return python_list(raw.to_struct_array())

    def row(n: int) -> dict[str, Any] | str:
        one: dict[str, Any] = plain_rows().slice(n, 1).to_pylist()[0]
        return faults.get(n, one)

    faults: dict[int, str] = {}
    if plan is None or not plan.fits(raw.schema.names):
        return RawRows(places, row)
    missing = pa.nulls(len(raw))
    columns = dict(zip(raw.schema.names, raw.columns, strict=True))
    texts = None
    if "json lines" in plan.forms:
        shown = {name: _named(column, name, texts_without_units) for name, column in columns.items()}
        texts = objects(plan.value_of(shown, pa.nulls(len(raw), pa.binary())), len(raw))
    structs, sure = None, None
    if plan.typed is not None:
        structs, faults = fitting_rows(partial(_structs, plan.value_of(columns, missing), plan.typed), plan.typed, len(raw))
        sure = np.array([n not in faults for n in range(len(raw))], np.bool_) if faults else None
    read = {name: columns.get(name, missing) for name in plan.names()}
    return RawRows(places, row, read, texts, sure, structs=structs, value=lambda n: python_rows()[n])


def _structs(values: Mapping[str, pa.Array], typed: pa.Schema, start: int, stop: int) -> pa.StructArray:
    """Some rows in typed columns; raises ValueError, a sentence, for a value that does not fit."""
    made = []
    for field in typed:
        column = values[field.name].slice(start, stop - start) if field.name in values else pa.nulls(stop - start)
        made.append(exact_cast(column, field.type, ValuePlace("a row", field.name)))
    return structs_of(made, typed, stop - start)


def marked(rows: Any) -> Any:
    """Rows of a batch or table with their bytes as text; raises ValueError, a sentence, for bytes that are none."""
    for n, field in enumerate(rows.schema):
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            try:
                rows = rows.set_column(n, field.name, rows.column(n).cast(pa.string()))
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"has bytes that are no text in its column '{field.name}', and its text is without the mark of text (STRING), "
                    "as the operation shows, so that the two cannot be told apart: write it with the mark"
                ) from error
    return rows


def row_dicts(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a batch of plain types, one by one: timestamps as microseconds, dates as dates, at any depth."""
    yield from _without_units(batch).to_pylist()


def _without_units(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        _named(column, name, lambda column: at_any_depth(column, _value_column))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def readable(batch: pa.RecordBatch, typed: pa.Schema | None = None) -> pa.RecordBatch:
    """The batch in plain types, UUIDs as text, but in columns that are to be of UUIDs."""
    kept = {field.name for field in typed or () if without_uuids(field.type) != field.type}
    columns = [
        exact_cast(as_plain(column), plain if name in kept else without_uuids(plain), ValuePlace("a column"))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        for plain in [plain_type(column.type)]
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def readable_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a file as they are read: UUIDs as text."""
    return pa.schema([field.with_type(without_uuids(field.type)) for field in schema])


def require_names(fields: Iterable[pa.Field], within: str = "") -> None:
    """Raises ValueError, a sentence without the path, for two columns of one name: one of them would be lost."""
    names = set[str]()
    for field in fields:
        path = f"{within}{field.name}"
        if field.name in names:
            raise ValueError(f"has two columns '{path}', where each has a name of its own: give one of them another")
        names.add(field.name)
        if is_nested(field.type):
            require_names([field.type.field(n) for n in range(field.type.num_fields)], f"{path}.")


def unit_of(schema: pa.Schema, column: str) -> Unit | None:
    """The unit of a column as event time or sequence: microseconds where its type is of times; None where the type
    names no unit.

    Raises ValueError, a sentence without the path, for times of day and durations.
    """
    kind = schema.field(column).type if column in schema.names else pa.null()
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        raise no_instants(column, str(kind))
    return "us" if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else None


def no_instants(column: str, kind: str) -> ValueError:
    """The error for a column of times of day or durations as event time or sequence."""
    what = "durations" if kind.startswith("duration") else "times of day"
    return ValueError(f"has {what} in column '{column}' ({kind}): take a column with the date as well")


def _value_column(column: pa.Array) -> pa.Array:
    """The column as Python holds it: as :func:`without_units` says, but dates that Python has as dates."""
    kind = column.type
    if not pa.types.is_date(kind):
        return without_units(column)
    days = column.cast(pa.date32())
    within = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
    return days if pc.all(within).as_py() is not False else without_units(column)


def _named(column: pa.Array, name: str, made: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The result of a function of a column; its ValueError names the column."""
    try:
        return made(column)
    except ValueError as error:
        if isinstance(error, pa.ArrowException):
            raise
        raise ValueError(f"column '{name}' {error}") from None


class StructEncoder:
    """Rows as structs."""

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        self._columns = columns

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The rows."""
        return pa.StructArray.from_arrays(columns, fields=list(self._columns))


class RowsWriter:
    """Writes rows that are structs, many at a time: those that are written together are a row group of Parquet."""

    def __init__(self, file: Any, writer: Any) -> None:
        self._file = file
        self._writer = writer
        self._rows: list[pa.RecordBatch] = []

    def write(self, rows: pa.StructArray) -> None:
        """Write rows, or keep them until they are many."""
        self._rows.append(pa.RecordBatch.from_struct_array(rows))
        if sum(map(len, self._rows)) >= _ROWS or sum(each.nbytes for each in self._rows) >= _BYTES:
            self._write()

    def close(self) -> None:
        """Write the remaining rows and close the file."""
        try:
            try:
                self._write()
            finally:
                self._writer.close()
        finally:
            self._file.close()

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._writer.write_table(pa.Table.from_batches(rows))
