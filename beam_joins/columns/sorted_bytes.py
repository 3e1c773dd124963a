"""Binary search in sorted Arrow columns of bytes.

Keys of one kind are mostly of one length, and differ in few of their bytes: those are compared as numbers.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.key_columns import Ints

_WORD = 8
_SIGN = np.uint64(1 << 63)
_HALF, _LOW_HALF = np.uint64(32), np.uint64((1 << 32) - 1)


def bytes_order(column: pa.Array) -> Ints:
    """The indices that sort a column of bytes, nulls last.

    >>> bytes_order(pa.array([b"c", b"a", None, b"b"])).tolist()
    [1, 3, 0, 2]
    """
    numbers = byte_numbers(column)
    if numbers is None:
        by: Ints = pc.sort_indices(column).to_numpy(zero_copy_only=False).astype(np.int64)
        return by
    return sorted_by(numbers)


def sorted_by(numbers: Ints) -> Ints:
    """The indices that sort numbers, equal ones in the order in which they are.

    >>> sorted_by(np.array([7, -(2**63), 7, 2**63 - 1])).tolist()
    [1, 0, 2, 3]
    """
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    # numbers with their places in the lowest bits: to sort these takes half as long as to sort places by numbers
    bits = int(len(numbers) - 1).bit_length()
    above = (numbers - numbers.min()).view(np.uint64)
    if int(above.max()) >> (64 - bits):
        low = sorted_by((above & _LOW_HALF).view(np.int64))
        return low[sorted_by((above >> _HALF)[low].view(np.int64))]
    above <<= np.uint64(bits)
    above |= np.arange(len(numbers), dtype=np.uint64)
    above.sort()
    above &= np.uint64((1 << bits) - 1)
    places: Ints = above.view(np.int64)
    return places


def byte_numbers(column: pa.Array) -> Ints | None:
    """Numbers that are equal and ordered as the bytes of a column are; ``None`` if there are none: lengths
    differ, or more than eight places do, or one is null.

    >>> numbers = byte_numbers(pa.array([b"key 10", b"key 02", b"key 10"]))
    >>> bool(numbers[0] == numbers[2] > numbers[1]), byte_numbers(pa.array([b"a", b"ab"]))
    (True, None)
    """
    text = _of_one_length(column)
    if text is None or not len(text):
        return None
    rows = text.view(np.uint8).reshape(len(text), -1)
    places = np.flatnonzero(np.bitwise_or.reduce(rows ^ rows[0], axis=0))
    if len(places) > _WORD:
        return None
    words = np.zeros((len(rows), _WORD), np.uint8)
    for at, place in enumerate(places.tolist(), _WORD - len(places)):
        words[:, at] = rows[:, place]
    numbers: Ints = (words.view(">u8").ravel().astype(np.uint64) ^ _SIGN).view(np.int64)
    return numbers


def search_bytes(ordered: pa.Array, wanted: pa.Array) -> Ints:
    r"""For each of ``wanted``, which is best sorted, the index of the first of the ordered bytes that is not
    smaller.

    >>> search_bytes(pa.array([b"a1", b"b1"]), pa.array([b"a", b"a2", b"b1", b"b1\xff"])).tolist()
    [0, 1, 1, 2]
    """
    text = _of_one_length(ordered)
    if text is not None:
        of_one_length = _of_one_length(wanted)
        filled = (np.array(wanted.to_pylist(), np.bytes_) if of_one_length is None else of_one_length).astype(text.dtype)
        # what is shorter is filled up with zeros, and stands before all that begin with it; what is longer is
        # cut, and stands behind what it begins with
        longer = pc.greater(pc.binary_length(wanted), text.itemsize).to_numpy(zero_copy_only=False)
        if longer.all():
            return np.searchsorted(text, filled, side="right")
        index = np.searchsorted(text, filled)
        return np.where(longer, np.searchsorted(text, filled, side="right"), index) if longer.any() else index
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(ordered), np.int64)
    while (low < high).any():
        middle = np.minimum((low + high) // 2, len(ordered) - 1)
        smaller = pc.less(ordered.take(pa.array(middle)), wanted).to_numpy(zero_copy_only=False)
        open_ = low < high
        low, high = np.where(open_ & smaller, middle + 1, low), np.where(open_ & ~smaller, middle, high)
    return low


def _of_one_length(column: pa.Array) -> npt.NDArray[np.bytes_] | None:
    """The bytes of a column where they lie, if all have one length and none is null."""
    if column.null_count or not len(column):
        return None
    _, offsets, content = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    length = int(ends[1] - ends[0])
    if not length or (np.diff(ends) != length).any():
        return None
    return np.frombuffer(content, f"S{length}", len(column), int(ends[0]))
