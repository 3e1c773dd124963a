"""Casts Arrow columns to other types without changing any value.

Arrow's cast cuts floats off, drops fields of structs, reads text as numbers and a time without a zone as UTC.
Here a value is equal afterwards, or refused with the path of its column.
"""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.values.arrow_types import is_bytes, is_list, is_text, is_uuid, items_of, lists_of, plain_type, uuid_texts
from beam_joins.values.exact_values import ValuePlace


def exact_cast(column: pa.Array, kind: pa.DataType, place: ValuePlace) -> pa.Array:
    """Casts a column to a plain type, UUIDs also to their text; raises ``ValueError`` for a value that the type does not hold exactly,
    and for a field that it does not have.

    >>> exact_cast(pa.array([1, None], pa.int8()), pa.int64(), ValuePlace("a batch")).type
    DataType(int64)
    >>> exact_cast(pa.array([{"n": 1.5}]), pa.struct([("n", pa.int64())]), ValuePlace("a batch"))
    Traceback (most recent call last):
    ValueError: a batch gave 1.5 (float) for the column 'n' of type int64, which does not hold it exactly
    """
    column = _decoded(column)
    if column.type == kind:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if isinstance(kind, pa.BaseExtensionType) and type(kind) is type(column.type):
        return pa.ExtensionArray.from_storage(kind, exact_cast(column.storage, kind.storage_type, place))
    if is_uuid(column.type) and is_text(kind):
        return uuid_texts(column).cast(kind)
    return next((cast for is_kind, cast in _NESTED if is_kind(column.type) and is_kind(kind)), _scalars)(column, kind, place)


def _decoded(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return _decoded(column.dictionary_decode())
    if pa.types.is_run_end_encoded(column.type):
        return _decoded(pc.run_end_decode(column))
    is_view = pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type)
    return column.cast(plain_type(column.type)) if is_view else column


def as_plain(column: pa.Array) -> pa.Array:
    """Casts a column to its plain type.

    >>> as_plain(pa.array(["a"]).dictionary_encode()).type
    DataType(string)
    """
    return exact_cast(column, plain_type(column.type), ValuePlace("a column"))


def _structs(column: pa.Array, kind: pa.StructType, place: ValuePlace) -> pa.Array:
    column_of = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    for name, values in column_of.items():
        if kind.get_field_index(name) < 0:
            has_values = values.null_count < len(values)
            place.refuse_field(name, _first(values, values.is_valid()) if has_values else None, kind)
    columns = []
    for field in kind:
        inner = place.within(field.name)
        columns.append(exact_cast(column_of.get(field.name, pa.nulls(len(column))), field.type, inner))
        inner.require(columns[-1], field, column.null_count)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=column.is_null())


def _lists(column: pa.Array, kind: Any, place: ValuePlace) -> pa.Array:
    items, lengths = items_of(column)
    if pa.types.is_fixed_size_list(kind):
        wrong = pc.not_equal(pc.list_value_length(column), kind.list_size).fill_null(False)
        if wrong.true_count:
            place.refuse(_first(column, wrong), kind, f"which has {kind.list_size} items")
    inner = place.within("[]")
    items = exact_cast(items, kind.value_type, inner)
    inner.require(items, kind.value_field)
    return lists_of(items, lengths, column.is_null().to_numpy(zero_copy_only=False), kind)


def _maps(column: pa.Array, kind: pa.MapType, place: ValuePlace) -> pa.Array:
    parts = pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")])
    pairs, lengths = items_of(column)
    return lists_of(exact_cast(pairs, parts, place.within("[]")), lengths, column.is_null().to_numpy(zero_copy_only=False), kind)


def _scalars(column: pa.Array, kind: pa.DataType, place: ValuePlace) -> pa.Array:
    if not _are_alike(column.type, kind):
        if column.null_count == len(column):
            return pa.nulls(len(column), kind)
        place.refuse(_first(column, column.is_valid()), kind, f"and it is of type {column.type} there")
    try:
        made = column.cast(kind)
        back = made.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        place.refuse(_first_not_held(column, kind).as_py(), kind)
    compared = pa.float32() if pa.types.is_float16(column.type) else column.type  # Arrow does not compare halves
    same = pc.equal(back.cast(compared), column.cast(compared))
    if pa.types.is_floating(column.type):
        same = pc.or_(same, pc.is_nan(column.cast(compared)))
    if same.false_count:
        place.refuse(_first(column, pc.invert(same).fill_null(False)), kind)
    return made


def _first(column: pa.Array, where: pa.Array) -> Any:
    return column[pc.index(where, True).as_py()].as_py()


def _first_not_held(column: pa.Array, kind: pa.DataType) -> Any:
    while len(column) > 1:
        half = column.slice(0, len(column) // 2)
        try:
            half.cast(kind).cast(column.type)
            column = column.slice(len(half))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            column = half
    return column[0]


def _are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether one type may hold values of the other; a decimal and a float of one column are seldom equal."""
    kinds = (one, other)
    if any(map(pa.types.is_decimal, kinds)) and any(map(pa.types.is_floating, kinds)):
        return False
    return any(all(map(is_of, kinds)) for is_of in _FAMILIES)


_FAMILIES: Final[tuple[Callable[[Any], bool], ...]] = (
    lambda kind: bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)),
    is_text,
    is_bytes,
    pa.types.is_date,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    pa.types.is_time,
    pa.types.is_duration,
)
_NESTED: Final[tuple[tuple[Callable[[Any], bool], Callable[[pa.Array, Any, ValuePlace], pa.Array]], ...]] = (
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (is_list, _lists),
)
