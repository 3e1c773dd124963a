"""Hashes columns of keys for routing: the same hash on every machine, and for equal keys of any column type."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from beam_joins.keys import canonical
from beam_joins.keys.nested import is_combined, is_windowed, parts_of
from beam_joins.keys.opaque import is_opaque, opaque_keys
from beam_joins.keys.plain import whole_numbers

Hashes = npt.NDArray[np.uint64]
_64_BITS = (1 << 64) - 1


def hashes(keys: pa.Array) -> Hashes:
    """A 64-bit hash for each key; 0 for null.

    >>> (hashes(pa.array(["a", "b", "a"])) == hashes(opaque_keys(["a", "b", "a"]))).all()
    np.True_
    """
    hashed = _hashes(keys)
    if keys.null_count:
        hashed[keys.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashed


def _hashes(keys: pa.Array) -> Hashes:
    kind = keys.type
    if is_windowed(kind) or is_combined(kind):
        # the windows of a key must meet
        keys = parts_of(keys)[0] if is_windowed(kind) else keys.storage
        return hashes(keys)
    if is_opaque(kind):
        numbers = whole_numbers(keys.storage)
        if numbers is not None:
            return _mix(numbers)
        return np.fromiter((0 if key is None else _hash(key) for key in keys.storage.to_pylist()), np.uint64, len(keys))
    if pa.types.is_struct(kind):
        mixed = np.zeros(len(keys), np.uint64)
        for part in keys.flatten():
            # a null part counts as 0, as it does in an encoded tuple
            mixed = _mix(mixed ^ np.where(part.is_valid().to_numpy(zero_copy_only=False), hashes(part), np.uint64(0)))
        return mixed
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        keys = keys.cast(pa.binary()).fill_null(b"")
        return np.fromiter(map(xxhash.xxh3_64_intdigest, keys.to_pylist()), np.uint64, len(keys))
    return hashes(opaque_keys(keys.to_pylist())) if pa.types.is_decimal(kind) else _mix(_bits(keys))


def _bits(keys: pa.Array) -> Hashes:
    """Numbers, dates and times as 64 bits."""
    kind = keys.type
    if pa.types.is_floating(kind):
        return _bits_of_floats(keys.fill_null(0).to_numpy(zero_copy_only=False))
    if pa.types.is_date32(kind):
        keys = keys.cast(pa.int32())
    if not pa.types.is_uint64(kind):
        keys = keys.cast(pa.int64())
    bits: Hashes = keys.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    return bits


def _bits_of_floats(numbers: npt.NDArray[np.float64]) -> Hashes:
    """Whole numbers as themselves, fractions as the bits of their representation."""
    bits = (numbers + 0.0).view(np.uint64).copy()
    bits[np.isnan(numbers)] = np.uint64(_QUIET_NAN)
    whole = np.isfinite(numbers) & (np.floor(numbers) == numbers)
    small = whole & (np.abs(numbers) < 2.0**63)
    bits[small] = numbers[small].astype(np.int64).view(np.uint64)
    for i in np.flatnonzero(whole & ~small):
        bits[i] = np.uint64(int(numbers[i]) & _64_BITS)
    return bits


_QUIET_NAN = int(np.float64("nan").view(np.uint64))


def _hash(encoded: bytes) -> int:
    """The hash of a key in its canonical encoding."""
    tag = encoded[:1]
    if tag == canonical.TUPLE:
        mixed = 0
        for part in canonical.parts(encoded):
            mixed = _mix_one(mixed ^ (0 if part == canonical.NULL else _hash(part)))
        return mixed
    if tag in (canonical.TEXT, canonical.BYTES):
        return int(xxhash.xxh3_64_intdigest(encoded[1:]))
    number = canonical.number(encoded)
    if isinstance(number, float):
        return _mix_one(int(_bits_of_floats(np.array([number]))[0]))
    return int(xxhash.xxh3_64_intdigest(encoded)) if number is None else _mix_one(number & _64_BITS)


def _mix(numbers: Hashes) -> Hashes:
    # splitmix64
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _mix_one(number: int) -> int:
    mixed = (number + 0x9E3779B97F4A7C15) & _64_BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return mixed ^ (mixed >> 31)
