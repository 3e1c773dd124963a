"""Parses many records at a time from the columns of a file into those that a reader needs."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.columns import Bools
from beam_joins.operations import deletes_by, word
from beam_joins.pipelines.formats.columns import EXACT_IN_DOUBLES, NANOSECONDS, Unit
from beam_joins.pipelines.formats.envelopes.typed_texts import typed
from beam_joins.pipelines.formats.exact_json import loads
from beam_joins.pipelines.formats.json_text import without_units
from beam_joins.pipelines.formats.reading import (
    DELETED,
    KEY,
    PLACE,
    REFERENCE,
    TIME,
    Reading,
    sequence_name,
)
from beam_joins.sorting import valid

_ISO: Final = r"^[1-9]\d{3}-\d{2}-\d{2}[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_ZONE: Final = r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
_DIGITS: Final = r"^-?[0-9]{1,18}$"
_LONG: Final = r"[0-9.]{17}"
"""What may be a number of more digits than a double has."""


class RawRows(NamedTuple):
    """Records of a part: ``columns`` that are read, as the file has them, null where a record has none; none
    at all where they are not of one type.

    ``places`` says where each begins; ``texts`` are the JSON texts of the rows without the columns about the
    change, and ``structs`` the rows in typed columns, where files have types of their own. ``sure`` are the
    records that these are right for; the others must be read one by one with ``row``, which gives a dict, or
    says what is wrong.
    """

    places: pa.Array
    row: Callable[[int], dict[str, Any] | str]
    columns: Mapping[str, pa.Array] | None = None
    texts: pa.Array | None = None
    sure: Bools | None = None
    skipped: Mapping[str, int] = {}
    """How many items were about no row, by what they are."""
    structs: pa.StructArray | None = None

    def text(self, n: int) -> bytes | None:
        """The JSON text of a record's row, if it is right."""
        if self.texts is None or (self.sure is not None and not self.sure[n]):
            return None
        text: bytes = self.texts[n].as_py()
        return text


def typed_rows(raw: RawRows, reading: Reading) -> tuple[pa.RecordBatch | None, Bools]:
    """The columns of the records that can be used as they are, and which these are.

    All others, those that have no key or no sequence and bad ones among them, are to be read one by one.
    """
    count = len(raw.places)
    if raw.columns is None:
        return None, np.zeros(count, np.bool_)
    columns, raw_columns = reading.columns, raw.columns
    try:
        made = {
            KEY: _keys([raw_columns[name] for name in columns.key], reading.key_type),
            TIME: _times(raw_columns[columns.timestamp], columns.unit, exact=columns.sequence is None),
            **{sequence_name(n): _whole_numbers(raw_columns[name]) for n, name in enumerate(reading.sequences)},
            DELETED: pa.array(np.zeros(count, np.bool_))
            if columns.delete is None
            else _meant(raw_columns[columns.delete], columns.deletes, columns.upserts),
        }
        texts = {name: raw_columns[column].cast(pa.string()) for name, column in reading.texts.items()}
        nullable = {PLACE: raw.places, **texts}
        if reading.reference:
            nullable[REFERENCE] = _keys([raw_columns[name] for name in reading.reference], reading.reference_type)
        if not all(_is_number(raw_columns[name].type) for name in reading.numbers):
            raise pa.ArrowInvalid("no numbers")
        made_sure = np.ones(count, np.bool_) if raw.sure is None else raw.sure.copy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None, np.zeros(count, np.bool_)
    for column in made.values():
        if column.null_count:
            made_sure &= valid(column)
    parsed: dict[str, pa.Array] = {**made, **nullable, "json lines": raw.texts}
    if "columns" in reading.forms:
        parsed["columns"], made_sure = (raw.structs, made_sure) if raw.structs is not None else _structs(raw.texts, reading, made_sure)
    batch = pa.record_batch([parsed[field.name] for field in reading.schema], schema=reading.schema)
    return (batch if made_sure.all() else batch.filter(pa.array(made_sure))), made_sure


def _structs(texts: pa.Array, reading: Reading, sure: Bools) -> tuple[pa.StructArray, Bools]:
    """Rows in typed columns, null where that takes a closer look, and for which rows they are right."""
    schema = reading.typed or pa.schema([])
    if any(pa.types.is_floating(kind) for kind in schema.types):
        sure = sure & ~pc.match_substring_regex(texts, _LONG).fill_null(False).to_numpy(zero_copy_only=False)
    try:
        rows = _typed_structs(texts.filter(pa.array(sure)).to_pylist(), schema, reading)
    except ValueError:  # one of them does not fit
        return pa.nulls(len(texts), pa.struct(list(schema))), np.zeros(len(texts), np.bool_)
    return rows.take(pa.array(np.cumsum(sure) - 1, mask=~sure)), sure


def structs_one_by_one(texts: list[bytes], reading: Reading) -> pa.StructArray:
    """Rows in typed columns; raises ValueError, a sentence, for one that does not fit.

    A number of more digits than a double has is refused in a column of doubles.
    """
    schema = reading.typed or pa.schema([])
    doubles = [field.name for field in schema if pa.types.is_floating(field.type)]
    for row in map(loads, texts) if doubles else ():
        for name in doubles:
            if isinstance(row.get(name), Decimal):
                raise ValueError(f"column '{name}' is of type double, which does not hold all digits of {row[name]}")
    return _typed_structs(texts, schema, reading)


def _typed_structs(texts: list[bytes], schema: pa.Schema, reading: Reading) -> pa.StructArray:
    columns = (
        typed(texts, schema, reading.bytes_text).columns if len(schema) and texts else [pa.nulls(0, kind) for kind in schema.types]
    )
    return structs_of(columns, schema, len(texts))


def structs_of(columns: list[pa.Array], schema: pa.Schema, count: int) -> pa.StructArray:
    """So many rows of these columns, of which there may be none.

    >>> structs_of([], pa.schema([]), 2).to_pylist()
    [{}, {}]
    """
    return pa.StructArray.from_arrays(columns, fields=list(schema)) if columns else pa.array([{}] * count, pa.struct([]))


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
    """What values of a type are; types of different families never are the same key."""
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
    """Which records have one of the words; null for one that has none of the others either."""
    column = _whole(column)
    if _family(column.type) not in ("text", "whole numbers") and not pa.types.is_boolean(column.type):
        raise pa.ArrowInvalid("no words")
    written = column.cast(pa.string()).dictionary_encode("encode")
    texts = [word(text) for text in written.dictionary.to_pylist()]
    means = pa.array([deletes_by(each, words, others) for each in texts], pa.bool_())
    return means.take(written.indices)


def ignored_rows(raw: RawRows, reading: Reading) -> Bools:
    """Which records are no changes, of those whose columns are right."""
    columns, count = reading.columns, len(raw.places)
    if not columns.ignored or columns.delete is None or raw.columns is None:
        return np.zeros(count, np.bool_)
    try:
        are = _meant(raw.columns[columns.delete], columns.ignored, frozenset()).fill_null(False).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return np.zeros(count, np.bool_)
    chosen: Bools = are if raw.sure is None else are & raw.sure
    return chosen


def _is_number(kind: pa.DataType) -> bool:
    is_fraction = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_fraction or pa.types.is_integer(kind) or pa.types.is_null(kind))
