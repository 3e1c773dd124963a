"""Keys in columns: of one type, as small numbers that are equal where the keys are, and hashed to find their partition."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def comparable(keys: pa.Array, what: str) -> pa.Array:
    """Keys in the type by which they are compared: whole numbers as int64, text as string, bytes as binary, times in microseconds.

    Raises ``ValueError``, naming ``what`` they are, for a type without exact equality.

    >>> comparable(pa.array([7], pa.int16()), "the key").type
    DataType(int64)
    """
    kind = keys.type
    if pa.types.is_dictionary(kind):
        return comparable(keys.dictionary_decode(), what)
    if pa.types.is_struct(kind):
        parts = [comparable(part, f"{what}.{field.name}") for part, field in zip(keys.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, names=[field.name for field in kind], mask=keys.is_null())
    for of_kind, common in _COMPARED_AS:
        if of_kind(kind):
            return _cast(keys, pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else common or kind, what)
    raise ValueError(f"{what} is of type {kind}, which has no exact equality: use whole numbers, text, bytes, dates or times")


_COMPARED_AS = (
    (pa.types.is_null, None),
    (pa.types.is_boolean, None),
    (pa.types.is_integer, pa.int64()),
    (pa.types.is_string, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.binary()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_timestamp, None),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_time, pa.time64("us")),
    (pa.types.is_duration, pa.duration("us")),
)


def hashes(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """A hash of every key, the same on every machine; of a null any.

    >>> (hashes(pa.array(["a", "b", "a"])) == hashes(pa.array(["a", "b", "a"]))).all()
    np.True_
    """
    kind = keys.type
    if pa.types.is_struct(kind):
        mixed = np.zeros(len(keys), np.uint64)
        for part in keys.flatten():
            mixed = _mix(mixed ^ hashes(part))
        return mixed
    if pa.types.is_integer(kind):
        return _mix(keys.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64))
    if not pa.types.is_binary(kind):
        keys = keys.cast(pa.string()).cast(pa.binary())
    return np.fromiter(map(xxhash.xxh3_64_intdigest, keys.fill_null(b"").to_pylist()), np.uint64, len(keys))


def codes(*columns: pa.Array) -> list[Ints]:
    """Small numbers for the keys of several columns, equal where the keys are.

    Raises ``ValueError`` if the columns are of different types: their keys would never be equal.

    >>> [column.tolist() for column in codes(pa.array([7, 9]), pa.array([9, 9, 7]))]
    [[0, 1], [1, 1, 0]]
    """
    types = {column.type for column in columns if not pa.types.is_null(column.type)}
    if len(types) > 1:
        raise ValueError(f"keys of the types {' and '.join(sorted(map(str, types)))} are compared: they are never equal")
    kind = types.pop() if types else pa.null()
    numbers = _codes(pa.concat_arrays([column if column.type == kind else pa.nulls(len(column), kind) for column in columns]))
    return np.split(numbers, np.cumsum([len(column) for column in columns])[:-1])


def _codes(keys: pa.Array) -> Ints:
    if pa.types.is_null(keys.type):
        return np.zeros(len(keys), np.int64)
    if pa.types.is_struct(keys.type):
        numbers = np.zeros(len(keys), np.int64)
        for part in keys.flatten():
            part_codes = _codes(part)
            # numbered anew at each step, they never grow beyond the number of keys
            numbers = _codes(pa.array(numbers * (int(part_codes.max(initial=0)) + 1) + part_codes))
        return numbers
    indices: Ints = keys.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    # splitmix64
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _cast(keys: pa.Array, kind: Any, what: str) -> pa.Array:
    try:
        return keys.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{what} cannot be compared as {kind}: {error}") from None
