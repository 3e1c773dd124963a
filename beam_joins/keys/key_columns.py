"""Compares and factorizes columns of keys of any type.

Keys are equal where they are equal in Python, whatever types their columns are of: 7 in a column of whole
numbers and 7.0 in one of fractions.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.kinds import OF_PARTS
from beam_joins.keys.kinds import kind as kind_of
from beam_joins.keys.nested import combined_keys, is_combined, is_windowed, parts_of, windowed_keys
from beam_joins.keys.opaque import KEYS, is_opaque, opaque_keys, python_keys
from beam_joins.values.arrow_types import is_bytes, is_list, is_text, lists_of
from beam_joins.values.exact_casts import as_plain

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


_INSTANT = pa.timestamp("us", "UTC")


def comparable(keys: pa.Array, what: str) -> pa.Array:
    """Casts keys to the type in which they are compared: whole numbers to int64, text to string, bytes to
    binary, times to microseconds.

    Lists and UUIDs, and structs with one, become opaque keys. Raises ``ValueError``, naming ``what`` they
    are, for a type that no key can be of.

    >>> comparable(pa.array([7], pa.int16()), "the key").type
    DataType(int64)
    """
    if is_opaque(keys.type) or is_windowed(keys.type) or is_combined(keys.type):
        return keys
    made = _comparable(as_plain(keys), what)
    return opaque_keys(python_keys(made)) if _has_objects(made.type) else made


def _comparable(keys: pa.Array, what: str) -> pa.Array:
    kind = keys.type
    if is_opaque(kind) or isinstance(kind, pa.UuidType):
        return keys
    if pa.types.is_struct(kind):
        parts = [_comparable(part, f"{what}'s {field.name}") for part, field in zip(keys.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, names=[field.name for field in kind], mask=keys.is_null())
    if is_list(kind):
        items = _comparable(keys.flatten(), f"an item of {what}")
        lengths = pc.list_value_length(keys).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return lists_of(items, lengths, keys.is_null().to_numpy(zero_copy_only=False), pa.list_(items.type))
    for of_kind, common, _ in _COMPARED_AS:
        if of_kind(kind):
            return _cast(keys, pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else common or kind, what)
    raise ValueError(f"{what} is of type {kind}, which has no equality: use numbers, text, bytes, dates or times")


def _has_objects(kind: pa.DataType) -> bool:
    """Whether keys of the type have no columns: their parts are of any number, or have no Arrow type that
    compares.
    """
    if pa.types.is_struct(kind):
        return any(_has_objects(field.type) for field in kind)
    return is_list(kind) or is_opaque(kind) or isinstance(kind, pa.UuidType)


def _is_signed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) and not pa.types.is_uint64(kind))


_COMPARED_AS: tuple[tuple[Callable[[Any], bool], Any, str], ...] = (
    (pa.types.is_null, None, "null"),
    (pa.types.is_boolean, None, "number"),
    (_is_signed, pa.int64(), "number"),
    (pa.types.is_uint64, None, "number"),
    (pa.types.is_floating, pa.float64(), "number"),
    (pa.types.is_decimal, None, "number"),
    (is_text, pa.string(), "text"),
    (is_bytes, pa.binary(), "bytes"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, None, "datetime with a time zone"),
    (pa.types.is_timestamp, None, "datetime without a time zone"),
    (pa.types.is_date, pa.date32(), "date"),
    (pa.types.is_time, pa.time64("us"), "time of day"),
    (pa.types.is_duration, pa.duration("us"), "timedelta"),
)


def kinds(keys: pa.Array) -> set[str]:
    """The kinds of the keys of a column, in words as in :func:`beam_joins.keys.kinds.kind`; none if all are
    null.

    Of windowed keys those of their source keys.

    >>> sorted(kinds(opaque_keys([7, "a", None, 8.5])))
    ['number', 'text']
    """
    kind = keys.type
    if keys.null_count == len(keys):
        return set()
    if is_opaque(kind):
        return kinds_of_encoded(keys.storage)
    if is_windowed(kind):
        return kinds(parts_of(keys)[0])
    if pa.types.is_struct(kind) or is_combined(kind):
        parts = parts_of(keys) if is_combined(kind) else keys.flatten()
        return {
            f"({', '.join(of_parts)})" for of_parts in product(*(sorted(kinds(part) or {kind_of_column(part.type)}) for part in parts))
        }
    return {kind_of_column(kind)}


def kinds_of_encoded(keys: pa.Array) -> set[str]:
    """The kinds of keys in their canonical encoding, a column of bytes."""
    return {kind_of(encoded) for encoded in _samples_of_each_kind(keys)}


def kind_of_column(kind: pa.DataType) -> str:
    """The kind of the keys of a column by its type, ``"null"`` where that does not determine it.

    >>> kind_of_column(pa.int8())
    'number'
    """
    if is_windowed(kind):
        return kind_of_column(kind.storage_type.field("key").type)
    if is_combined(kind):
        return kind_of_column(kind.storage_type)
    if pa.types.is_struct(kind):
        return f"({', '.join(kind_of_column(field.type) for field in kind)})"
    return next((name for of_kind, _, name in _COMPARED_AS if of_kind(kind)), "null")


def _samples_of_each_kind(encoded: pa.Array) -> Iterator[bytes]:
    tags = pc.binary_slice(encoded, 0, 1)
    for tag in pc.unique(tags).to_pylist():
        if tag is not None:
            of_tag = encoded.filter(pc.equal(tags, tag))
            # the kind of what has parts is that of its parts
            yield from of_tag.to_pylist() if tag in OF_PARTS else [of_tag[0].as_py()]


def factorize(*columns: pa.Array) -> list[Ints]:
    """Small integer codes for the keys of several columns: equal exactly where the keys are equal, whatever
    the columns' types.

    >>> [column.tolist() for column in factorize(pa.array([7, 9]), pa.array([9.0, 9.5, 7.0]))]
    [[0, 1], [1, 2, 0]]
    """
    return np.split(_codes(columns), np.cumsum([len(column) for column in columns])[:-1])


def _codes(columns: tuple[pa.Array, ...]) -> Ints:
    columns = tuple(column.storage if is_windowed(column.type) or is_combined(column.type) else column for column in columns)
    types = {column.type for column in columns if not pa.types.is_null(column.type)}
    if not types:
        return np.zeros(sum(map(len, columns)), np.int64)
    if all(pa.types.is_struct(kind) for kind in types) and len({kind.num_fields for kind in types}) == 1:
        return _struct_codes(columns, types.pop().num_fields)
    if len(types) > 1:
        columns, types = _of_one_type(columns)
    kind = types.pop()
    keys = pa.concat_arrays([column if column.type == kind else pa.nulls(len(column), kind) for column in columns])
    if is_opaque(kind):
        keys = keys.storage
    elif pa.types.is_floating(kind):
        # of the two zeros one, and of the many nans
        keys = pc.if_else(pc.is_nan(keys), pa.scalar(np.nan, kind), pc.add(keys, 0.0))
    indices: Ints = keys.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def _struct_codes(columns: tuple[pa.Array, ...], fields: int) -> Ints:
    # a null struct is not the struct of nulls
    numbers = np.concatenate([column.is_valid().to_numpy(zero_copy_only=False) for column in columns]).astype(np.int64)
    flat = [[pa.nulls(len(column))] * fields if pa.types.is_null(column.type) else column.flatten() for column in columns]
    for part in zip(*flat, strict=True):
        part_codes = _codes(part)
        # numbered anew at each step, they never grow beyond the number of keys
        numbers = _codes((pa.array(numbers * (int(part_codes.max(initial=0)) + 1) + part_codes),))
    return numbers


def _of_one_type(columns: tuple[pa.Array, ...]) -> tuple[tuple[pa.Array, ...], set[pa.DataType]]:
    """The columns as whole numbers or instants if they are such, else as opaque keys."""
    if all(pa.types.is_null(column.type) or (pa.types.is_timestamp(column.type) and column.type.tz is not None) for column in columns):
        return tuple(column.cast(_INSTANT) for column in columns), {_INSTANT}
    if all(
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type) for column in columns
    ):
        try:
            return tuple(column.cast(pa.int64()) for column in columns), {pa.int64()}
        except pa.ArrowInvalid:
            pass
    return tuple(as_opaque(column) for column in columns), {KEYS}


def as_opaque(keys: pa.Array) -> pa.Array:
    """Keys of any type as opaque keys, equal where those are."""
    return keys if is_opaque(keys.type) else opaque_keys(python_keys(keys))


def joined_keys(left: pa.Array, right: pa.Array) -> pa.Array:
    """Concatenates two columns of keys: in their common type, or opaque if they have none."""
    if left.type != right.type:
        for nested, make in ((is_windowed, windowed_keys), (is_combined, combined_keys)):
            if nested(left.type) and nested(right.type):
                return make(*map(joined_keys, parts_of(left), parts_of(right)))
        if pa.types.is_null(left.type) or pa.types.is_null(right.type):
            kind = right.type if pa.types.is_null(left.type) else left.type
            left, right = (side if side.type == kind else pa.nulls(len(side), kind) for side in (left, right))
        else:
            left, right = as_opaque(left), as_opaque(right)
    return pa.concat_arrays([left, right])


def _cast(keys: pa.Array, kind: Any, what: str) -> pa.Array:
    try:
        return keys.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{what} cannot be compared as {kind}: {error}") from None
