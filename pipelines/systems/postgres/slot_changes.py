"""The changes of a table in a slot, spooled as Arrow: columns about the change, and one of PostgreSQL's texts per column.

An update that has an old row is two records: the row before it, and the row. The reader makes them a delete and an insert
where the row has got another key, by whichever columns are the key there.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import valid
from beam_joins.errors import InputError
from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.formats.arrow import opened, record_batches
from beam_joins.pipelines.formats.changelog_columns import LEFT_OUT, LIFE, LOG, OPERATION, ORDER, POSITION, TIME, Unit
from beam_joins.pipelines.formats.envelopes.row_change import DELETE, INSERT, TRUNCATE, UPSERT, lists_of_names
from beam_joins.pipelines.formats.file_parts import PLACES, File, FormatReader, Part
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows, fitting_rows, structs_of
from beam_joins.pipelines.formats.types.json_text import NULL, joined, objects
from beam_joins.pipelines.formats.types.postgres_types import column_of_numbers, json_texts, python_values, typed_values
from beam_joins.pipelines.systems.postgres.pgoutput import BEFORE, Column, LoggedChange, Table, no_text
from beam_joins.tables.key_handover import Life

ABOUT: Final = pa.schema(
    [(OPERATION, pa.string()), *((name, pa.int64()) for name in (TIME, POSITION, ORDER)), (LEFT_OUT, pa.string()), (LIFE, pa.string())]
)
"""The columns about a change, before those of the table."""
_TABLE: Final = b"table"
_ROWS, _BYTES = 1 << 16, 16 << 20
"""The limits of a batch: its records, and their bytes."""
_ENCODE: Final = msgspec.json.encode


class TableFile:
    """Writes changes of a table into a file, which it closes; ``path`` is that of the file."""

    def __init__(self, file: Any, path: str, table: Table) -> None:
        self._path, self._table, self._sink = path, table, pa.PythonFile(file, "w")
        self._file = file
        self._schema = pa.schema([*ABOUT, *((name, pa.string()) for name in table.names)], metadata={_TABLE: _ENCODE(table)})
        self._batches = pa.ipc.new_file(self._sink, self._schema)
        self._about, self._values = _lists(len(ABOUT)), _lists(len(table.columns))
        self._count = self._bytes = 0

    def takes(self, table: Table) -> bool:
        """Whether the table has the columns of this file."""
        if table is not self._table and table == self._table:
            self._table = table
        return table is self._table

    def write(self, change: LoggedChange, size: int) -> None:
        """Write a change of about so many bytes."""
        # a list per column: a tuple kept for each change would be one more object for the garbage collector to traverse
        for values, value in zip(self._values, change.row, strict=True):
            values.append(value)
        operation, time, position, order, _, left_out, life = change
        for values, mark in zip(self._about, (operation, time, position, order, left_out, life), strict=True):
            values.append(mark)
        self._count += 1
        self._bytes += size
        # an update stays in the batch of its old row
        if (self._count >= _ROWS or self._bytes >= _BYTES) and operation != BEFORE:
            self._flush()

    def write_rows(self, rows: pa.RecordBatch, change: LoggedChange) -> None:
        """Write rows that share the operation, time and position of ``change``; its order is that of the first row, and
        each following row has the next order.
        """
        self._flush()
        orders = pa.array(np.arange(change.order, change.order + len(rows)))
        marks = (change.operation, change.time, change.position, orders, change.left_out, change.life)
        about = [
            value if isinstance(value, pa.Array) else pa.array([value] * len(rows), field.type)
            for value, field in zip(marks, ABOUT, strict=True)
        ]
        whole = pa.record_batch([*about, *rows.columns], schema=self._schema)
        with writing(self._path):
            for start in range(0, len(whole), _ROWS):
                self._batches.write_batch(whole.slice(start, _ROWS))

    def close(self) -> int:
        """Close the file; returns its size."""
        self._flush()
        with writing(self._path):
            self._batches.close()
            size = int(self._sink.tell())
            self._file.close()
        return size

    def _flush(self) -> None:
        if not self._count:
            return
        columns = [pa.array(values, field.type) for values, field in zip(self._about, ABOUT, strict=True)]
        columns += [self._texts(column, values) for column, values in zip(self._table.columns, self._values, strict=True)]
        with writing(self._path):
            self._batches.write_batch(pa.record_batch(columns, schema=self._schema))
        for values in (*self._about, *self._values):
            values.clear()
        self._count = self._bytes = 0

    def _texts(self, column: Column, values: Sequence[bytes | None]) -> pa.Array:
        try:
            return pa.array(values, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            for value in filter(None, values):
                try:
                    value.decode()
                except UnicodeDecodeError:
                    raise InputError(no_text(self._table, column.name, value)) from None
            raise


def _lists(count: int) -> list[list[Any]]:
    return [[] for _ in range(count)]


class SlotChanges(FormatReader):
    """Reads spooled changes."""

    name = "changes of a slot"
    bytes_text = "hexadecimal"
    expansion = 1

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By record batches, of about so many bytes together."""
        with opened(file.path) as batches:
            count = batches.num_record_batches
        each = max(1, round(size * count / max(size, file.bytes)))
        return [(start, min(start + each, count)) for start in range(0, count, each)]

    def unit(self, file: File, column: str) -> Unit | None:
        """Microseconds."""
        return "us"

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The changes."""
        for raw in self.rows(Part(0, file, 0, 0), None):
            yield from (row for n in range(len(raw.places)) if isinstance(row := raw.row(n), dict))

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The changes of some record batches."""
        place = part.first_place
        for batch in record_batches(part.file.path, range(part.start, part.stop) if part.stop else None):
            changes = _Changes(batch, part.file.key)
            yield changes.raw(place, plan)
            place += len(changes)

    def where(self, part: Part, place: int) -> str:
        """The number of the change in its part."""
        return f"change {place % PLACES + 1:,}"


class _Changes:
    """The changes of a batch, by the columns of a key: an update that has given its row another key is a delete and an
    insert.
    """

    def __init__(self, batch: pa.RecordBatch, key: Sequence[str]) -> None:
        self._table = msgspec.json.decode(batch.schema.metadata[_TABLE], type=Table)
        self._key = key
        self._about = {name: batch[n] for n, name in enumerate(ABOUT.names)}
        self._texts = dict(zip(self._table.names, batch.columns[len(ABOUT) :], strict=True))
        self._of = {column.name: column for column in self._table.columns}
        self._split_moves()
        self._operations = self._about[OPERATION]
        self._about[OPERATION] = pc.replace_substring(self._operations, INSERT, UPSERT)
        self._left_out = lists_of_names(self._about[LEFT_OUT])

    def __len__(self) -> int:
        return len(self._operations)

    def raw(self, first_place: int, plan: ReadPlan | None) -> RawRows:
        """The changes as a plan asks for them."""
        count = len(self)
        places = pa.array(np.arange(first_place, first_place + count))
        if plan is None or not plan.fits(self._texts):
            return RawRows(places, self._row)
        about = {**self._about, LOG: pa.nulls(count, pa.string())}
        missing = pa.nulls(count)
        columns = {name: about[name] if name in about else self._plain(name, missing) for name in plan.names()}
        texts = self._json_texts(plan) if "json lines" in plan.forms else None
        structs, type_faults = None, dict[int, str]()
        if plan.typed is not None:
            values = plan.value_of({name: (self._of[name], text) for name, text in self._texts.items()}, None)
            structs, type_faults = fitting_rows(partial(_structs, values, plan.typed), plan.typed, count)
        sure = None
        if type_faults:
            sure = np.array([n not in type_faults for n in range(count)], np.bool_)
        values_of = cache(self._python_rows)
        return RawRows(
            places, self._row, columns, texts, sure, structs=structs, type_faults=type_faults, value=lambda n: values_of()[n]
        )

    def _plain(self, name: str, missing: pa.Array) -> pa.Array:
        """A column as keys and numbers are made of it."""
        if name not in self._texts:
            return missing
        texts, held = self._texts[name], self._of[name].texts
        if held == "numbers":
            return column_of_numbers(texts)
        if held == "booleans":
            return pc.equal(texts, "t")
        return pc.utf8_slice_codeunits(texts, 2) if held == "bytes" else texts

    def _split_moves(self) -> None:
        """Make a delete and an insert of each update that has given its row another key."""
        before_at: Ints = np.flatnonzero(pc.equal(self._about[OPERATION], BEFORE).to_numpy(zero_copy_only=False))
        if not len(before_at):
            return
        moved = np.zeros(len(before_at), np.bool_)
        for name in self._key:
            if name in self._texts:
                old, new = (self._texts[name].take(pa.array(at)) for at in (before_at, before_at + 1))
                moved |= pc.and_(old.is_valid(), pc.not_equal(old, new).fill_null(True)).to_numpy(zero_copy_only=False)
        kept = np.ones(len(self._about[OPERATION]), np.bool_)
        kept[before_at[~moved]] = False
        if moved.any():
            self._move(before_at[moved])
        self._about = {name: column.filter(pa.array(kept)) for name, column in self._about.items()}
        self._texts = {name: column.filter(pa.array(kept)) for name, column in self._texts.items()}

    def _move(self, at: Ints) -> None:
        """Make deletes, by the key alone, of the old rows at these places, and inserts of the updates behind them."""
        count = len(self._about[OPERATION])
        deletes, inserts = (_mask(places, count) for places in (at, at + 1))
        self._about[OPERATION] = pc.replace_with_mask(self._about[OPERATION], deletes, pa.array([DELETE] * len(at)))
        self._about[OPERATION] = pc.replace_with_mask(self._about[OPERATION], inserts, pa.array([INSERT] * len(at)))
        lives = [Life.of(text) for text in self._about[LIFE].take(pa.array(at + 1)).to_pylist()]
        for mask, made in (
            (deletes, [Life(before=life.before).text() for life in lives]),
            (inserts, [Life(True, after=life.after).text() for life in lives]),
        ):
            self._about[LIFE] = pc.replace_with_mask(self._about[LIFE], mask, pa.array(made, pa.string()))
        for name, texts in self._texts.items():
            old, new = (texts.take(pa.array(places)) for places in (at, at + 1))
            left = pc.coalesce(old, new) if name in self._key else pa.nulls(len(at), pa.string())
            self._texts[name] = pc.replace_with_mask(texts, deletes, left)

    def _json_texts(self, plan: ReadPlan) -> pa.Array:
        """The JSON texts of rows, without the columns that they do not have."""
        count = len(self)
        shown = {name: json_texts(texts, self._of[name].texts) for name, texts in self._texts.items()}
        partial_rows = self._is_partial()
        if plan.taken is not None or not partial_rows.any():
            return objects(plan.value_of(shown, pa.nulls(count)), count)
        members = []
        left_out = plan.columns.about_the_change()
        for name, text in shown.items():
            if name not in left_out:
                member = joined(b"," + _ENCODE(name) + b":", text, null=NULL)
                members.append(pc.if_else(pa.array(self._lacks(name)), pa.scalar(b""), member))
        return joined(b"{", pc.binary_slice(joined(*members), 1), b"}")

    def _has_old_rows(self) -> Bools:
        """Which rows are those of deletes, or none."""
        have: Bools = pc.is_in(self._operations, pa.array([DELETE, TRUNCATE])).to_numpy(zero_copy_only=False)
        return have

    def _is_partial(self) -> Bools:
        """Which rows do not have all columns."""
        return self._has_old_rows() | valid(self._left_out)

    def _lacks(self, name: str) -> Bools:
        """Which rows do not have a column: an old row has none that is null."""
        lacks = self._has_old_rows() & ~valid(self._texts[name])
        for n in np.flatnonzero(valid(self._left_out)).tolist():
            lacks[n] = name in self._left_out[n].as_py()
        return lacks

    def _row(self, n: int) -> dict[str, Any] | str:
        """A change with the columns about it."""
        (row,) = self._python_rows(n, n + 1)
        about = {name: column[n].as_py() for name, column in self._about.items()}
        return row if isinstance(row, str) else {**about, LOG: None, **row}

    def _python_rows(self, start: int = 0, stop: int | None = None) -> list[dict[str, Any] | str]:
        """The rows as Python has them."""
        stop = len(self) if stop is None else stop
        rows: list[dict[str, Any] | str] = [{} for _ in range(start, stop)]
        is_partial = self._is_partial()
        for name, texts in self._texts.items():
            lacks = self._lacks(name)[start:stop] if is_partial[start:stop].any() else np.zeros(stop - start, np.bool_)
            values = python_values(texts.slice(start, stop - start), self._of[name].texts)
            for n, (value, is_absent) in enumerate(zip(values, lacks.tolist(), strict=True)):
                row = rows[n]
                if isinstance(value, ValueError):
                    rows[n] = f"column '{name}': {value}"
                elif isinstance(row, dict) and not is_absent:
                    row[name] = value
        return rows


def _structs(values: Mapping[str, Any], typed: pa.Schema, start: int, stop: int) -> pa.StructArray:
    """Some rows in typed columns; raises ValueError, a sentence, for a row that does not fit."""
    made = []
    for field in typed:
        column, texts = values.get(field.name) or (None, None)
        if texts is None or column is None:
            made.append(pa.nulls(stop - start, field.type))
        else:
            made.append(typed_values(texts.slice(start, stop - start), column.texts, column.type, field))
    return structs_of(made, typed, stop - start)


def _mask(places: Ints, count: int) -> pa.Array:
    mask = np.zeros(count, np.bool_)
    mask[places] = True
    return pa.array(mask)
