"""Encodes and decodes columns of 64-bit whole numbers or text, the most frequent keys, a column at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys import canonical
from beam_joins.keys.numbers import WHOLE

_SIGN = np.uint64(1 << 63)
_END = 2**31 - 1  # of the longest text; without an end Arrow reckons with too few bytes for the result, and fails
_WIDTH = 9  # a byte that says the kind, and the number


def encoded_plain(keys: Sequence[Any]) -> pa.Array | None:
    """Keys in their canonical encoding if all are such numbers, or all are text; null for ``None``.

    >>> encoded_plain([7, None])[0].as_py() == canonical.encode(7), encoded_plain([7, "a"])
    (True, None)
    """
    kinds = set(map(type, keys)) - {type(None)}
    try:
        if kinds == {int}:
            return encoded_whole(pa.array(keys, pa.int64()))
        if kinds == {str}:
            return encoded_text(pa.array(keys, pa.string()))
    except (OverflowError, UnicodeEncodeError):
        pass  # a larger number, or half of a pair of surrogates
    return None


def decoded_plain(encoded: pa.Array) -> list[Any] | None:
    """The keys of their canonical encoding if all are such numbers, or all are text.

    >>> decoded_plain(encoded_plain(["a", None]))
    ['a', None]
    """
    keys: list[Any]
    numbers = whole_numbers(encoded)
    if numbers is not None:
        keys = pa.array(numbers.view(np.int64), mask=encoded.is_null().to_numpy(zero_copy_only=False)).to_pylist()
        return keys
    if not pc.all(pc.starts_with(encoded, canonical.TEXT)).as_py():
        return None
    try:
        keys = pc.binary_slice(encoded, 1, _END).cast(pa.string()).to_pylist()
    except pa.ArrowInvalid:  # half of a pair of surrogates
        return None
    return keys


def encoded_whole(numbers: pa.Array) -> pa.Array:
    """A column of int64."""
    biased = (numbers.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64) ^ _SIGN).astype(">u8").view(np.uint8)
    rows = np.empty((len(numbers), _WIDTH), np.uint8)
    rows[:, 0], rows[:, 1:] = WHOLE[0], biased.reshape(-1, _WIDTH - 1)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_WIDTH), len(numbers), [None, pa.py_buffer(rows.tobytes())])
    encoded = fixed.cast(pa.binary())
    return pc.if_else(numbers.is_valid(), encoded, pa.scalar(None, pa.binary())) if numbers.null_count else encoded


def encoded_text(text: pa.Array, tag: bytes = canonical.TEXT) -> pa.Array:
    """A column of text; with its tag one of bytes."""
    return pc.binary_join_element_wise(pa.scalar(tag), text.cast(pa.binary()), pa.scalar(b""))


def whole_numbers(encoded: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Keys in their canonical encoding as 64 bits if all are such numbers; nulls are arbitrary."""
    lengths = pc.binary_length(encoded)
    if encoded.null_count == len(encoded) or not pc.all(pc.equal(lengths, _WIDTH)).as_py():
        return None
    present = encoded.drop_null() if encoded.null_count else encoded
    first = int(np.frombuffer(present.buffers()[1], np.int32, 1, present.offset * 4)[0])
    rows = np.frombuffer(present.buffers()[2], np.uint8, len(present) * _WIDTH, first).reshape(-1, _WIDTH)
    if not (rows[:, 0] == WHOLE[0]).all():
        return None
    numbers = np.zeros(len(encoded), np.uint64)
    biased = np.ascontiguousarray(rows[:, 1:]).view(">u8").ravel().astype(np.uint64)
    numbers[encoded.is_valid().to_numpy(zero_copy_only=False)] = biased ^ _SIGN
    return numbers
