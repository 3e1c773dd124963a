"""The rule by which the columns of stored rows become those of later ones, without a look at any value.

Columns are matched by name. A column that is new is null in the stored rows; a column that later rows lack stays until they
change; and a type may only get wider, so that it holds each value that its column can have.
"""

from contextlib import suppress
from typing import Final

import pyarrow as pa

from beam_joins.values.arrow_types import is_bytes, is_list, is_text
from beam_joins.values.schema_union import common_schema

_UNITS: Final = ("s", "ms", "us", "ns")


def union_type(before: pa.DataType, now: pa.DataType) -> pa.DataType:
    """The type of values that are of one type in stored rows and of another in later ones.

    Raises ``ValueError`` for a column whose two types have none that holds all values of both.

    >>> union_type(pa.struct({"a": pa.int32(), "b": pa.string()}), pa.struct({"c": pa.bool_(), "a": pa.int64()}))
    StructType(struct<a: int64, b: string, c: bool>)
    >>> union_type(pa.struct({"a": pa.int64()}), pa.struct({"a": pa.float64()}))
    Traceback (most recent call last):
    ValueError: the column 'a' was int64 and is double, which does not hold all of its values
    """
    if before == now:
        return before
    schemas = [pa.schema({"": kind}) for kind in (before, now)]
    try:
        union = common_schema(schemas, remedy="").field(0).type
    except ValueError:
        union = now
    for kind in (before, now):
        if (fault := narrowing(kind, union)) is not None:
            name, *_ = fault
            column, was, is_now = f"the column '{name}'" if name else "the value", _at(before, name), _at(now, name)
            raise ValueError(f"{column} was {was} and is {is_now}, which does not hold all of its values") from None
    return union


def union_schema(before: pa.Schema, now: pa.Schema) -> pa.Schema:
    """The columns of stored rows and of later ones, for rows that are read. Where no type holds the values of both, a column
    keeps the stored one: records that do not fit are bad records.

    >>> union_schema(pa.schema({"a": pa.int32(), "b": pa.int64()}), pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.bool_()}))
    a: int64
    b: int64
    c: bool
    """
    types = dict(zip(before.names, before.types, strict=True))
    for name, kind in zip(now.names, now.types, strict=True):
        with suppress(ValueError):
            types[name] = union_type(types[name], kind) if name in types else kind
    return pa.schema(types)


def narrowing(before: pa.DataType, now: pa.DataType, path: str = "") -> tuple[str, pa.DataType, pa.DataType | None] | None:
    """The first column whose later type does not hold all values of the stored one: its name, and both types; the later
    one is ``None`` for a column that is gone.

    >>> narrowing(pa.struct({"a": pa.int64(), "b": pa.string()}), pa.struct({"a": pa.int64()}))
    ('b', DataType(string), None)
    >>> narrowing(pa.struct({"a": pa.int32()}), pa.struct({"a": pa.int64(), "b": pa.string()}))
    >>> narrowing(pa.time32("ms"), pa.time64("us"))
    """
    if isinstance(before, pa.BaseExtensionType) and type(before) is type(now):
        before, now = before.storage_type, now.storage_type
    if before == now or pa.types.is_null(before):
        return None
    if pa.types.is_struct(before) and pa.types.is_struct(now):
        later = {field.name: field.type for field in now}
        for field in before:
            name = f"{path}.{field.name}" if path else field.name
            if field.name not in later:
                return name, field.type, None
            if (fault := narrowing(field.type, later[field.name], name)) is not None:
                return fault
        return None
    if is_list(before) and is_list(now) and not pa.types.is_fixed_size_list(now):
        return narrowing(before.value_type, now.value_type, f"{path}[]")
    return None if _holds(now, before) else (path, before, now)


def _holds(now: pa.DataType, before: pa.DataType) -> bool:
    """Whether a type of scalars has all values of another one."""
    kinds = (now, before)
    if all(map(pa.types.is_integer, kinds)):
        if pa.types.is_signed_integer(now) == pa.types.is_signed_integer(before):
            return bool(now.bit_width >= before.bit_width)
        return bool(pa.types.is_signed_integer(now) and now.bit_width > before.bit_width)
    if all(map(pa.types.is_floating, kinds)):
        return bool(now.bit_width >= before.bit_width)
    if all(map(pa.types.is_decimal, kinds)):
        return bool(now.scale >= before.scale and now.precision - now.scale >= before.precision - before.scale)
    if any(all(map(is_such, kinds)) for is_such in (pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration)):
        of_one_zone = getattr(now, "tz", None) == getattr(before, "tz", None)
        return of_one_zone and _UNITS.index(now.unit) >= _UNITS.index(before.unit)
    return all(map(is_text, kinds)) or (all(map(is_bytes, kinds)) and not pa.types.is_fixed_size_binary(now))


def _at(kind: pa.DataType, path: str) -> str:
    """The type of the column at a path within a type."""
    for name in filter(None, path.replace("[]", ".[]").split(".")):
        if name == "[]" and is_list(kind):
            kind = kind.value_type
        elif pa.types.is_struct(kind) and kind.get_field_index(name) >= 0:
            kind = kind.field(name).type
        else:
            return "absent"
    return str(kind)
