"""Which of Delta's types hold the values of Arrow's."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from beam_joins.pipelines.plain_types import plain_type

_SAME: Final = {
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.date32(),
}


def delta_schema(schema: pa.Schema, keys: Sequence[str]) -> pa.Schema:
    """The columns as Delta holds them, of the same values.

    Raises ``ValueError`` for a column whose values Delta has no type for, and for a key of one whose values are not equal to themselves, or have others within.

    >>> delta_schema(pa.schema([("id", pa.uint8()), ("at", pa.timestamp("ms", "CET"))]), ["id"])
    id: int16
    at: timestamp[us, tz=UTC]
    """
    fields = [pa.field(field.name, _delta_type(field.name, field.type)) for field in schema]
    for field in fields:
        if field.name in keys and (pa.types.is_floating(field.type) or pa.types.is_nested(field.type)):
            raise ValueError(
                f"WriteToDelta: the key's column '{field.name}' is {field.type}, by which Delta finds no row: make the key text or a whole number"
            )
    return pa.schema(fields)


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are the same to Delta, whatever the items of lists are called.

    >>> same_type(pa.list_(pa.int8()), pa.list_(pa.field("element", pa.int8())))
    True
    """
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return [field.name for field in one] == [field.name for field in other] and all(
            same_type(a.type, b.type) for a, b in zip(one, other, strict=True)
        )
    if pa.types.is_list(one) and pa.types.is_list(other):
        return same_type(one.value_type, other.value_type)
    return bool(one == other)


def _delta_type(name: str, given: Any) -> pa.DataType:
    kind = plain_type(given)
    if pa.types.is_list(kind):
        return pa.list_(_delta_type(name, kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _delta_type(f"{name}.{field.name}", field.type)) for field in kind])
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", kind.tz)
    if kind in _SAME or pa.types.is_decimal128(kind):
        return kind
    raise ValueError(f"WriteToDelta: column '{name}' is {given}, which Delta has no type for: make it another with MapTable")
