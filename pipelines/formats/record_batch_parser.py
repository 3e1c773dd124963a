"""Parses many records at a time from the columns of a file into those that a reader needs."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, valid
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.options.operations import deletes_by, word
from beam_joins.pipelines.formats.changelog_columns import (
    DELETED,
    EXACT_IN_DOUBLES,
    KEY,
    NANOSECONDS,
    PLACE,
    REFERENCE,
    TIME,
    Unit,
    now,
)
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.types.exact_json import loads
from beam_joins.pipelines.formats.types.json_text import without_units
from beam_joins.pipelines.formats.types.typed_texts import require_double, typed
from beam_joins.values.arrow_types import is_json
from beam_joins.values.exact_values import ValuePlace, exact_column

_ISO: Final = r"^[1-9]\d{3}-\d{2}-\d{2}[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_ZONE: Final = r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
_DIGITS: Final = r"^-?[0-9]{1,18}$"
FEW: Final = 64
"""The number of records that are read one by one where one of them does not fit."""


class RawRows(NamedTuple):
    """Records of a part: ``columns`` that are read, as the file has them, null where a record has none; none
    at all where they are not of one type.

    ``places`` says where each begins; ``texts`` are the JSON texts of the rows without the columns about the
    change, or ``lines`` those of whole records, and ``structs`` the rows in typed columns, where files have types of
    their own. ``sure`` are the
    records that these are right for; the others must be read one by one with ``row``, which gives a dict, or
    says what is wrong, and with ``line``, the JSON text of the whole record. ``value`` gives the dict that Python gets,
    where times and bytes have types that JSON does not have.
    """

    places: pa.Array
    row: Callable[[int], dict[str, Any] | str]
    columns: Mapping[str, pa.Array] | None = None
    texts: pa.Array | None = None
    sure: Bools | None = None
    skipped: Mapping[str, int] = {}
    """The numbers of items about no row, by their kind."""
    structs: pa.StructArray | None = None
    type_faults: Mapping[int, str] = {}
    """Why records have no place in the typed columns of ``structs``."""
    fitting: pa.StructArray | None = None
    """The rows in typed columns, as many as are sure."""
    lines: pa.Array | None = None
    line: Callable[[int], bytes] | None = None
    value: Callable[[int], dict[str, Any] | str] | None = None

    def text(self, n: int) -> bytes | None:
        """The JSON text of a record's row, if it is right."""
        if self.texts is None or (self.sure is not None and not self.sure[n]):
            return None
        text: bytes = self.texts[n].as_py()
        return text

    def take(self, chosen: Ints) -> "RawRows":
        """The chosen records."""
        at = pa.array(chosen)

        def of(rows: pa.Array | None) -> pa.Array | None:
            return None if rows is None else rows.take(at)

        def one(read: Callable[[int], Any] | None) -> Callable[[int], Any] | None:
            return None if read is None else lambda n: read(int(chosen[n]))

        sure = np.ones(len(self.places), np.bool_) if self.sure is None else self.sure
        fitting = self.fitting
        if fitting is not None:
            fitting = fitting.take(pa.array((np.cumsum(sure) - 1)[chosen[sure[chosen]]]))
        return self._replace(
            places=self.places.take(at),
            row=lambda n: self.row(int(chosen[n])),
            columns=None if self.columns is None else {name: column.take(at) for name, column in self.columns.items()},
            texts=of(self.texts),
            sure=None if self.sure is None else self.sure[chosen],
            structs=of(self.structs),
            type_faults={n: self.type_faults[at] for n, at in enumerate(chosen.tolist()) if at in self.type_faults},
            fitting=fitting,
            lines=of(self.lines),
            line=one(self.line),
            value=one(self.value),
        )

    def with_constants(self, constants: Mapping[str, Any]) -> "RawRows":
        """The records with the same values in other columns."""

        def row(n: int) -> dict[str, Any] | str:
            read = self.row(n)
            return {**read, **constants} if isinstance(read, dict) else read

        added = {name: pa.repeat(value, len(self.places)) for name, value in constants.items()}
        return self._replace(row=row, columns=None if self.columns is None else {**self.columns, **added})

    def objects(self) -> list[dict[str, Any] | str]:
        """The dicts for Python, or the fault of a record."""
        return list(map(self.value or self.row, range(len(self.places))))


def many_at_a_time(raw: RawRows, plan: ReadPlan) -> tuple[dict[str, pa.Array] | None, Bools]:
    """The columns of the records that can be used as they are, and which these are; without those of objects.

    All others, those that have no key or no sequence and bad ones among them, are to be read one by one.
    """
    count = len(raw.places)
    if raw.columns is None:
        return None, np.zeros(count, np.bool_)
    columns, raw_columns = plan.columns, raw.columns
    try:
        made = {
            TIME: pa.array(np.full(count, NO_TIME))
            if columns.timestamp is None
            else _times(raw_columns[columns.timestamp], columns.unit, exact=columns.sequence is None),
            **{name: _whole_numbers(raw_columns[column]) for name, column in zip(plan.positions, plan.sequences, strict=True)},
            DELETED: pa.array(np.zeros(count, np.bool_))
            if columns.delete is None
            else _meant(raw_columns[columns.delete], columns.deletes, columns.upserts),
        }
        if columns.key:
            made[KEY] = _keys([raw_columns[name] for name in columns.key], plan.key_type)
        texts = {name: raw_columns[column].cast(pa.string()) for name, column in plan.texts.items()}
        nullable = {PLACE: raw.places, **texts}
        if plan.reference:
            nullable[REFERENCE] = _keys([raw_columns[name] for name in plan.reference], plan.reference_type)
        if not all(_is_number(raw_columns[name].type) for name in plan.numbers):
            raise pa.ArrowInvalid("no numbers")
        is_near = None if columns.ahead is None else pc.less_equal(made[TIME], now() + columns.ahead)
        made_sure = np.ones(count, np.bool_) if raw.sure is None else raw.sure.copy()
        if columns.truncate is not None:
            made_sure &= ~_is_any(raw_columns[columns.truncate], columns.truncates)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None, np.zeros(count, np.bool_)
    for column in made.values():
        if column.null_count:
            made_sure &= valid(column)
    if is_near is not None:
        made_sure &= is_near.fill_null(False).to_numpy(zero_copy_only=False)
    parsed: dict[str, pa.Array] = {**made, **nullable}
    if "json lines" in plan.forms:
        parsed["json lines"] = raw.texts
    if plan.typed is not None:
        parsed["columns"], made_sure = (raw.structs, made_sure) if raw.structs is not None else _structs(raw, plan, made_sure)
    return parsed, made_sure


def record_batch(plan: ReadPlan, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The batch of columns, among them ``columns`` with the rows in typed columns."""
    if "row" in plan.forms:
        typed = zip(plan.value.names, columns["columns"].flatten(), strict=True)
        columns = {name: columns[name] for name in plan.about.names} | dict(typed)
    return pa.record_batch([columns[field.name] for field in plan.schema], schema=plan.schema)


def _structs(raw: RawRows, plan: ReadPlan, sure: Bools) -> tuple[pa.StructArray, Bools]:
    """Rows in typed columns, null where that takes a closer look, and for which rows they are right."""
    texts, schema = (raw.texts, plan.typed_texts) if raw.lines is None else (raw.lines, plan.typed_lines)
    assert texts is not None
    doubles = [field.name for field in schema if pa.types.is_floating(field.type)]
    if doubles:
        sure = sure & ~pc.match_substring_regex(texts, long_members(doubles)).fill_null(False).to_numpy(zero_copy_only=False)
    if raw.fitting is not None:
        return raw.fitting, sure
    rows, fits = _fitting_structs(texts if sure.all() else texts.filter(pa.array(sure)), schema, plan)
    if sure.all():
        return rows, fits
    all_fit = sure.copy()
    all_fit[sure] = fits
    return rows.take(pa.array(np.cumsum(sure) - 1, mask=~sure)), all_fit


def _fitting_structs(texts: pa.Array, schema: pa.Schema, plan: ReadPlan) -> tuple[pa.StructArray, Bools]:
    """The rows of texts, and for which they are right: a few around one that does not fit are not, and null."""
    try:
        return _typed_structs(texts, schema, plan), np.ones(len(texts), np.bool_)
    except ValueError:
        if len(texts) <= FEW:
            return pa.nulls(len(texts), pa.struct(list(plan.typed or ()))), np.zeros(len(texts), np.bool_)
    half = len(texts) // 2
    (one, one_fits), (other, other_fits) = (_fitting_structs(each, schema, plan) for each in (texts[:half], texts[half:]))
    return pa.concat_arrays([one, other]), np.concatenate([one_fits, other_fits])


def structs_one_by_one(texts: list[bytes], plan: ReadPlan, *, of_lines: bool) -> pa.StructArray:
    """Rows in typed columns, of their texts or those of whole records (``of_lines``); raises ValueError, a sentence, for one
    that does not fit.

    A number of more digits than a double has is refused in a column of doubles.
    """
    schema = plan.typed_lines if of_lines else plan.typed_texts
    doubles = [field.name for field in schema if pa.types.is_floating(field.type)]
    for row in map(loads, texts) if doubles else ():
        for name in doubles:
            require_double(name, row.get(name))
    return _typed_structs(pa.array(texts, pa.binary()), schema, plan)


def _typed_structs(texts: pa.Array, schema: pa.Schema, plan: ReadPlan) -> pa.StructArray:
    """The rows of texts, whose columns of ``schema`` are those taken, in their order."""
    typed_as = plan.typed or pa.schema([])
    is_read = len(schema) and len(texts)
    read = typed(texts, schema, plan.bytes_text) if is_read else schema.empty_table()
    names = schema.names if len(schema) == len(typed_as) else [column for column, _ in plan.taken or ()]
    columns = [combine_chunks(read[name]) for name in names]
    return structs_of(columns, typed_as, len(texts))


def structs_of_values(
    records: Sequence[Mapping[str, Any]],
    plan: ReadPlan,
    text: Callable[[str, Any], bytes],
    prepared: Callable[[list[Any], pa.DataType], tuple[list[Any], pa.DataType]] | None = None,
) -> pa.StructArray:
    """Rows of records of Python values in typed columns; raises ValueError, a sentence, for a value that does not fit.

    A column that does not hold its values exactly is made of their JSON: ``text`` gives it for a column and a value. ``prepared``
    gives the values and the type that they are first made of, if these are not those of the column.
    """
    read, columns = plan.typed or pa.schema([]), dict[str, pa.Array]()
    taken = plan.taken or [(name, name) for name in read.names]
    for column, name in taken:
        field = read.field(name).with_name(column)
        values, stored = [record.get(column) for record in records], field.type
        if prepared is not None:
            values, stored = prepared(values, stored)
        if (made := None if is_json(field.type) else _exact(values, stored, field.type, column)) is None:
            texts = [text(column, value) if column in record else b"{}" for record, value in zip(records, values, strict=True)]
            made = typed(texts, pa.schema([field]), plan.bytes_text).column(0)
        columns[column] = made
    return structs_of([columns[column] for column, _ in taken], read, len(records))


def _exact(values: list[Any], stored: pa.DataType, kind: pa.DataType, column: str) -> pa.Array | None:
    """The values in the type ``stored`` and then in that of their column; ``None`` where it does not hold them."""
    try:
        made = exact_column(values, stored, ValuePlace("a record", column))
        return made if stored == kind else made.cast(kind)
    except ValueError:
        return None


def long_members(names: Sequence[str]) -> str:
    """A pattern of members of these names whose number may have more digits than a double."""
    quoted = "|".join(re.escape(json.dumps(name, ensure_ascii=False)) for name in names)
    return rf"(?:{quoted})\s*:\s*-?[0-9.]{{17}}"


def structs_of(columns: list[pa.Array], schema: pa.Schema, count: int) -> pa.StructArray:
    """So many rows of these columns, of which there may be none.

    >>> structs_of([], pa.schema([]), 2).to_pylist()
    [{}, {}]
    """
    return pa.StructArray.from_arrays(columns, fields=list(schema)) if columns else pa.array([{}] * count, pa.struct([]))


def fitting_rows(make: Callable[[int, int], pa.StructArray], typed: pa.Schema, count: int) -> tuple[pa.StructArray, dict[int, str]]:
    """The structs of ``make`` for rows from one to another number, null for rows for which it raises ValueError
    alone, and the sentences of these errors.
    """
    faults: dict[int, str] = {}

    def made(start: int, stop: int) -> list[pa.StructArray]:
        try:
            return [make(start, stop)]
        except ValueError as error:
            if stop - start == 1:
                faults[start] = str(error)
                return [pa.nulls(1, pa.struct(list(typed)))]
        half = (start + stop) // 2
        return [*made(start, half), *made(half, stop)]

    parts = made(0, count)
    return (parts[0] if len(parts) == 1 else pa.concat_arrays(parts)), faults


def _keys(columns: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """The keys that columns make, null where one of them is."""
    if not pa.types.is_struct(kind):
        return _key(columns[0], kind)
    parts = [_key(column, field.type) for column, field in zip(columns, kind, strict=True)]
    missing = ~np.logical_and.reduce([valid(part) for part in parts])
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array(missing))


def _key(column: pa.Array, kind: pa.DataType) -> pa.Array:
    column = _whole(without_units(column))
    if column.type == kind or pa.types.is_null(column.type):
        return column.cast(kind)
    if _family(column.type) != _family(kind):
        raise pa.ArrowInvalid("keys of another kind")
    return column.cast(kind)


def _family(kind: pa.DataType) -> str:
    """The family of a type; values of different families never are the same key."""
    for family, belongs in _FAMILIES.items():
        if belongs(kind):
            return family
    return str(kind)


_FAMILIES: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "text": lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)),
    "whole numbers": lambda kind: bool(pa.types.is_integer(kind)),
    "bytes": lambda kind: bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)),
}


def _times(column: pa.Array, unit: Unit, *, exact: bool = False) -> pa.Array:
    """Microseconds since the epoch; null where that takes a closer look. Raises ``pa.ArrowInvalid`` for nanoseconds
    that are no whole microseconds where they are to be ``exact``.
    """
    column = _whole(column)
    if pa.types.is_date(column.type):
        return column.cast(pa.timestamp("us")).cast(pa.int64())
    if pa.types.is_timestamp(column.type):
        column, unit = column.cast(pa.int64()), column.type.unit
    if _family(column.type) == "whole numbers":
        whole = column.cast(pa.int64())
        if unit != "ns":
            return pc.multiply_checked(whole, pa.scalar(NANOSECONDS[unit] // 1_000, pa.int64()))
        micros, nanos = np.divmod(whole.fill_null(0).to_numpy(zero_copy_only=False), 1_000)
        if exact and nanos.any():
            raise pa.ArrowInvalid("nanoseconds")
        return pa.array(micros, mask=~valid(whole))
    if _family(column.type) != "text":
        raise pa.ArrowInvalid("not times")
    zoned = pc.match_substring_regex(column, _ISO + _ZONE)
    bare = pc.match_substring_regex(column, f"{_ISO}$")
    nothing = pa.scalar(None, column.type)
    with_zone = pc.if_else(zoned, column, nothing).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    without = pc.if_else(bare, column, nothing).cast(pa.timestamp("us")).cast(pa.int64())
    return pc.coalesce(with_zone, without)


def _whole_numbers(column: pa.Array) -> pa.Array:
    """Whole numbers, times as microseconds since the epoch; null where that takes a closer look."""
    if pa.types.is_date(column.type):
        return _times(column, "us")
    column = _whole(without_units(column))
    if _family(column.type) == "whole numbers":
        return column.cast(pa.int64())
    if _family(column.type) != "text":
        raise pa.ArrowInvalid("no whole numbers")
    digits = pc.match_substring_regex(column, _DIGITS)
    return pc.if_else(digits, column, pa.scalar(None, column.type)).cast(pa.int64())


def _whole(column: pa.Array) -> pa.Array:
    """Decimals and floats as whole numbers of 64 bits; other columns as they are. Raises ``pa.ArrowInvalid`` for one
    that is none, or that a double does not tell from its neighbours.
    """
    if pa.types.is_floating(column.type):
        if pc.any(pc.greater_equal(pc.abs(column), EXACT_IN_DOUBLES)).as_py():
            raise pa.ArrowInvalid("a number beyond those that doubles tell apart")
        return column.cast(pa.int64())
    return column.cast(pa.int64()) if pa.types.is_decimal(column.type) else column


def _meant(column: pa.Array, words: frozenset[str], others: frozenset[str]) -> pa.Array:
    """Which records have one of the words; null for a record that has none of the others either."""
    column = column.cast(pa.string()) if pa.types.is_null(column.type) else _whole(column)
    if _family(column.type) not in ("text", "whole numbers") and not pa.types.is_boolean(column.type):
        raise pa.ArrowInvalid("no words")
    written = column.cast(pa.string()).dictionary_encode("encode")
    texts = [word(text) for text in written.dictionary.to_pylist()]
    means = pa.array([deletes_by(each, words, others) for each in texts], pa.bool_())
    return means.take(written.indices)


def ignored_rows(raw: RawRows, plan: ReadPlan) -> Bools:
    """Which records are no changes, of those whose columns are right."""
    columns = plan.columns
    if columns.ignoring is None or raw.columns is None:
        return np.zeros(len(raw.places), np.bool_)
    try:
        are = _is_any(raw.columns[columns.ignoring], columns.ignored)
    except pa.ArrowInvalid:
        return np.zeros(len(raw.places), np.bool_)
    chosen: Bools = are if raw.sure is None else are & raw.sure
    return chosen


def _is_any(column: pa.Array, words: frozenset[str]) -> Bools:
    """Which records have one of the words."""
    are: Bools = _meant(column, words, frozenset()).fill_null(False).to_numpy(zero_copy_only=False)
    return are


def _is_number(kind: pa.DataType) -> bool:
    is_fraction = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_fraction or pa.types.is_integer(kind) or pa.types.is_null(kind))
