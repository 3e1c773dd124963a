"""Predicates on Arrow types, and the plain type for types that encode the same values."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_DECIMAL_BITS: Final = 128
_UUID_BYTES: Final = 16
_HYPHENS: Final = (8, 12, 16, 20)
_IN_MICROSECONDS: Final = {pa.time64("ns"): pa.time64("us"), pa.duration("ns"): pa.duration("us")}


if TYPE_CHECKING or hasattr(pa, "JsonType"):
    JsonType = pa.JsonType
    JSON_TYPE = pa.json_(pa.string())
else:  # before PyArrow 19

    class JsonType(pa.ExtensionType):
        """Arrow's extension type of JSON texts."""

        def __init__(self) -> None:
            super().__init__(pa.string(), "arrow.json")

        def __hash__(self) -> int:
            return hash(self.extension_name)

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> "JsonType":
            return cls()

    JSON_TYPE = JsonType()
    pa.unregister_extension_type(JSON_TYPE.extension_name)  # the one of C++, which Python does not know
    pa.register_extension_type(JSON_TYPE)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    of_any_length = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return bool(of_any_length or pa.types.is_fixed_size_binary(kind))


def is_uuid(kind: pa.DataType) -> bool:
    """Whether values of a type are UUIDs."""
    return bool(isinstance(kind, pa.UuidType))


def is_json(kind: pa.DataType) -> bool:
    """Whether values of a type are JSON texts."""
    return isinstance(kind, JsonType)


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists."""
    views = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    return bool(views or pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without dictionaries, run-ends, views and short decimals, at any depth, for which Arrow lacks
    functions.

    >>> plain_type(pa.list_(pa.dictionary(pa.int8(), pa.string_view())))
    ListType(list<item: string>)
    """
    return next((made(kind) for is_kind, made in _PLAIN if is_kind(kind)), kind)


def without_uuids(kind: pa.DataType) -> pa.DataType:
    """The type with text in place of UUIDs, at any depth.

    >>> without_uuids(pa.list_(pa.uuid()))
    ListType(list<item: string>)
    """
    if is_uuid(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(without_uuids(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = (field.with_type(without_uuids(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, item, kind.keys_sorted)
    if is_list(kind) and (value := without_uuids(kind.value_type)) != kind.value_type:
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else -1
        return pa.large_list(value) if pa.types.is_large_list(kind) else pa.list_(value, size)
    return kind


def uuid_texts(column: pa.Array) -> pa.Array:
    """The text form of UUIDs: lower-case, with hyphens.

    >>> uuid_texts(pa.array([bytes(range(16)), None], pa.uuid())).to_pylist()
    ['00010203-0405-0607-0809-0a0b0c0d0e0f', None]
    """
    content = column.storage.cast(pa.binary()).fill_null(bytes(_UUID_BYTES))
    digits = np.frombuffer(b"".join(content.to_pylist()).hex().encode(), np.uint8).reshape(len(column), 2 * _UUID_BYTES)
    texts = np.insert(digits, _HYPHENS, ord("-"), axis=1).astype(np.uint8, copy=False)
    width = texts.shape[1]
    offsets = pa.py_buffer(np.arange(0, (len(column) + 1) * width, width, dtype=np.int32))
    made = pa.StringArray.from_buffers(len(column), offsets, pa.py_buffer(texts.tobytes()))
    return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.string())) if column.null_count else made


def texts_of_json(column: pa.Array) -> pa.Array:
    """The values of JSON as text: text as it is, others as they are written.

    >>> texts_of_json(pa.array(['{"a":1}', '"b"', None], pa.json_())).to_pylist()
    ['{"a":1}', 'b', None]
    """
    texts = column.storage.cast(pa.string())
    quoted = pc.starts_with(texts, '"').fill_null(False)
    plain = pa.array([json.loads(text) for text in texts.filter(quoted).to_pylist()], pa.string())
    return pc.replace_with_mask(texts, quoted, plain)


def plain_field(field: pa.Field) -> pa.Field:
    """The field with its plain type."""
    return field.with_type(plain_type(field.type))


def python_list(column: pa.Array) -> list[Any]:
    """The values as Python's own types. Raises ``ValueError`` for a time, or a time of day, with nanoseconds, which they do not
    hold, and which pyarrow gives as pandas' types where pandas is installed.

    >>> python_list(pa.array([1_000, None], pa.timestamp("ns")))
    [datetime.datetime(1970, 1, 1, 0, 0, 0, 1), None]
    """
    kind = _without_nanoseconds(column.type)
    values: list[Any] = (column if kind == column.type else column.cast(kind)).to_pylist()
    return values


def _without_nanoseconds(kind: pa.DataType) -> pa.DataType:
    """The type with microseconds in place of nanoseconds at any depth."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if kind in _IN_MICROSECONDS:
        return _IN_MICROSECONDS[kind]
    if pa.types.is_struct(kind):
        fields = [field.with_type(_without_nanoseconds(field.type)) for field in kind]
        return pa.struct(fields)
    if pa.types.is_map(kind):
        key, item = _without_nanoseconds(kind.key_type), _without_nanoseconds(kind.item_type)
        return pa.map_(key, item)
    if is_list(kind) and (value := _without_nanoseconds(kind.value_type)) != kind.value_type:
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else -1
        return pa.large_list(value) if pa.types.is_large_list(kind) else pa.list_(value, size)
    return kind


def items_of(column: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The items of lists, or the pairs of maps as structs of key and value, one after the other, and how many each has: the
    inverse of :func:`lists_of`. Arrow lacks functions for maps with UUIDs.

    >>> items_of(pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())))[0].to_pylist()
    [{'key': 'a', 'value': 1}]
    """
    kind, present = column.type, column.is_valid().to_numpy(zero_copy_only=False)
    if not pa.types.is_map(kind):
        lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return column.flatten(), lengths
    offsets = column.offsets.to_numpy().astype(np.int64)
    lengths = np.where(present, np.diff(offsets), 0)
    fields = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    pairs = pa.StructArray.from_arrays([column.keys, column.items], fields=fields)
    if len(offsets) < 2 or lengths.sum() == offsets[-1] - offsets[0]:
        return pairs.slice(offsets[0] if len(offsets) else 0, lengths.sum()), lengths
    begins = offsets[:-1] - np.cumsum(lengths) + lengths
    return pairs.take(pa.array(np.repeat(begins, lengths) + np.arange(lengths.sum()))), lengths


def lists_of(items: pa.Array, lengths: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_], kind: Any) -> pa.Array:
    """Lists, or maps of structs of key and value, built from items and lengths; a missing list has none."""
    mask = pa.array(missing) if missing.any() else None
    if pa.types.is_fixed_size_list(kind):
        at = np.full((len(missing), kind.list_size), -1)
        at[~missing] = np.arange(len(items)).reshape(-1, kind.list_size) if kind.list_size else at[~missing]
        placed = items.take(pa.array(at.ravel(), mask=at.ravel() < 0))
        return pa.FixedSizeListArray.from_arrays(placed, type=kind, mask=mask)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64() if pa.types.is_large_list(kind) else pa.int32())
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, *items.flatten(), type=kind, mask=mask)
    made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return made.from_arrays(offsets, items, type=kind, mask=mask)


_PLAIN: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], pa.DataType]], ...]] = (
    (lambda kind: pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind), lambda kind: plain_type(kind.value_type)),
    (pa.types.is_string_view, lambda kind: pa.string()),
    (pa.types.is_binary_view, lambda kind: pa.binary()),
    (
        lambda kind: pa.types.is_decimal(kind) and kind.bit_width < _DECIMAL_BITS,
        lambda kind: pa.decimal128(kind.precision, kind.scale),
    ),
    (pa.types.is_struct, lambda kind: pa.struct([plain_field(field) for field in kind])),
    (pa.types.is_map, lambda kind: pa.map_(plain_field(kind.key_field), plain_field(kind.item_field), kind.keys_sorted)),
    (pa.types.is_fixed_size_list, lambda kind: pa.list_(plain_field(kind.value_field), kind.list_size)),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_list_view(kind), lambda kind: pa.list_(plain_field(kind.value_field))),
    (is_list, lambda kind: pa.large_list(plain_field(kind.value_field))),
)
