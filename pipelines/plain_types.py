"""Arrow's types as the formats know them that are not Arrow's own: without unsigned numbers, dictionaries and twice the same with larger offsets."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

_WIDER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.timestamp("s"): pa.timestamp("ms"),
    pa.time32("s"): pa.time32("ms"),
}
_LISTS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def plain_type(kind: Any) -> pa.DataType:
    """A type that holds the same values and is one that other formats have; another type stays as it is.

    >>> plain_type(pa.uint8()), plain_type(pa.large_list(pa.uint32())), plain_type(pa.timestamp("ms", "CET"))
    (DataType(int16), ListType(list<item: int64>), TimestampType(timestamp[ms, tz=UTC]))
    """
    if any(is_list(kind) for is_list in _LISTS):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("ms" if kind.unit == "s" else kind.unit, "UTC")
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else _WIDER.get(kind, kind)
