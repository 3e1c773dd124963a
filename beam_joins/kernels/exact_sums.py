"""Exact running sums of floats: each is rounded once, as by ``math.fsum``, whatever rows were added and
subtracted.

A finite ``double`` is a whole number times a power of two, so a sum is kept as a whole number of any size. It
depends on neither the order of the rows nor on where a history is cut, and a row that leaves takes away
exactly what it brought. Infinities and NaNs are counted beside it.
"""

import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_joins.keys.key_columns import Bools, Ints

Floats = npt.NDArray[np.float64]

_LIMB: Final = 32
_MASK: Final = (1 << _LIMB) - 1
_DIGITS: Final = 53
_COUNTS: Final = struct.Struct("<iqqqq")


class Exact(NamedTuple):
    """The sum ``mantissa * 2**exponent`` of finite numbers, how many of all numbers are floats, and how many
    are not finite.
    """

    mantissa: int = 0
    exponent: int = 0
    floats: int = 0
    nans: int = 0
    infinities: int = 0
    negative_infinities: int = 0

    def plus(self, number: float | int, sign: int) -> "Exact":
        """The sum with a number, or with ``sign=-1`` without it.

        >>> Exact().plus(1e300, 1).plus(1.0, 1).plus(1e300, -1).value()
        1.0
        """
        is_float = isinstance(number, float)
        floats = self.floats + sign * is_float
        if is_float and math.isnan(number):
            return self._replace(floats=floats, nans=self.nans + sign)
        if is_float and math.isinf(number):
            at = "infinities" if number > 0 else "negative_infinities"
            return self._replace(floats=floats, **{at: getattr(self, at) + sign})
        numerator, denominator = number.as_integer_ratio()
        exponent = 1 - denominator.bit_length()
        least = min(exponent, self.exponent)
        mantissa = (self.mantissa << (self.exponent - least)) + sign * (numerator << (exponent - least))
        return self._replace(mantissa=mantissa, exponent=least if mantissa else 0, floats=floats)

    def value(self) -> float | int:
        """The sum as a number of Python, an ``int`` where no float is present."""
        if self.nans or (self.infinities and self.negative_infinities):
            return float("nan")
        if self.infinities or self.negative_infinities:
            return float("inf") if self.infinities else float("-inf")
        if not self.floats:
            return self.mantissa >> -self.exponent
        try:
            return self.mantissa / (1 << -self.exponent) if self.exponent < 0 else float(self.mantissa << self.exponent)
        except OverflowError:
            return float("inf") if self.mantissa > 0 else float("-inf")

    def encoded(self) -> bytes:
        """The sum as bytes, the same for the same sum.

        >>> Exact.decoded(Exact().plus(0.5, 1).encoded()).value()
        0.5
        """
        mantissa, exponent = self.mantissa, self.exponent
        zeros = (mantissa & -mantissa).bit_length() - 1 if mantissa else 0
        mantissa, exponent = mantissa >> zeros, exponent + zeros if mantissa else 0
        return _COUNTS.pack(exponent, *self[2:]) + mantissa.to_bytes(mantissa.bit_length() // 8 + 1, "little", signed=True)

    @classmethod
    def decoded(cls, data: bytes) -> "Exact":
        """The sum that these bytes stand for."""
        exponent, *counts = _COUNTS.unpack_from(data)
        mantissa = int.from_bytes(data[_COUNTS.size :], "little", signed=True)
        # a positive exponent of an int would lose the place of its units
        return cls(mantissa << max(exponent, 0), min(exponent, 0), *counts)


def running_sums(
    numbers: Floats, sign: Ints, first: Bools, at: Ints, before: Sequence[Exact], stays: Bools
) -> tuple[Floats, list[Exact]]:
    """The sums at some of the rows of groups, and the exact ones of those of them that ``stays`` marks.

    ``sign`` says which rows enter (1), leave (-1) or do not count (0); ``first`` marks the first row of each
    group, and ``before`` is the sum of each group before its rows.

    >>> rows = np.array([1e300, 1.0, 1e300]), np.array([1, 1, -1]), np.array([True, False, False])
    >>> running_sums(*rows, np.arange(3), [Exact()], np.array([False, False, True]))[0].tolist()
    [1e+300, 1e+300, 1.0]
    """
    groups = _Segments(first, at)
    finite = np.isfinite(numbers)
    mantissa, exponent = np.frexp(np.where(finite, numbers, 0.0))
    whole = np.abs(np.ldexp(mantissa, _DIGITS)).astype(np.uint64)
    signs = np.where(np.signbit(numbers), -sign, sign)
    used = (whole != 0) & (sign != 0)
    lowest = min([int((exponent[used] - _DIGITS).min(initial=0)), *(each.exponent for each in before)])
    place = np.where(used, exponent - _DIGITS - lowest, 0)
    limb, shift = np.divmod(place, _LIMB)
    low, high = ((part << shift.astype(np.uint64)) for part in (whole & np.uint64(_MASK), whole >> np.uint64(_LIMB)))
    parts = [
        (low & np.uint64(_MASK)).astype(np.int64),
        ((low >> np.uint64(_LIMB)) + (high & np.uint64(_MASK))).astype(np.int64),
        (high >> np.uint64(_LIMB)).astype(np.int64),
    ]
    parts = [np.where(used, part * signs, 0) for part in parts]
    earlier = [each.mantissa << (each.exponent - lowest) for each in before]
    remembers, of = any(earlier), (np.cumsum(first) - 1)[at]
    limbs = max(int(limb.max(initial=0)) + 3, max((each.bit_length() // _LIMB + 1 for each in earlier), default=0))
    digits, carry = np.empty((limbs, len(at)), np.uint32), np.zeros(len(at), np.int64)
    for n in range(limbs):
        added = sum((np.where(limb == n - k, part, 0) for k, part in enumerate(parts)), np.zeros(len(numbers), np.int64))
        carry += groups.sums(added)
        if remembers:
            carry += np.array([(each >> (n * _LIMB)) & _MASK for each in earlier], np.int64)[of]
        digits[n] = carry & _MASK
        carry >>= _LIMB
    carry += np.array([each >> (limbs * _LIMB) for each in earlier], np.int64)[of]
    counts = [
        groups.sums(np.where(which, sign, 0)) + np.array([each[2 + n] for each in before], np.int64)[of]
        for n, which in enumerate((np.ones(len(numbers), np.bool_), np.isnan(numbers), numbers == np.inf, numbers == -np.inf))
    ]
    kept = zip(digits.T[stays].astype("<u4"), *(each[stays].tolist() for each in (carry, *counts)), strict=True)
    exact = [
        Exact(int.from_bytes(row.tobytes(), "little") + (over << (limbs * _LIMB)), lowest, *counted) for row, over, *counted in kept
    ]
    sums = _rounded(digits, carry < 0, lowest)
    _, nans, positive, negative = counts
    sums = np.where(positive > 0, np.inf, np.where(negative > 0, -np.inf, sums))
    return np.where((nans > 0) | ((positive > 0) & (negative > 0)), np.nan, sums), exact


class _Segments:
    """Running sums within groups, read at some rows."""

    def __init__(self, first: Bools, at: Ints) -> None:
        begins = np.flatnonzero(first)
        self._at = at
        self._begin = begins[np.cumsum(first)[at] - 1] if len(at) else at

    def sums(self, numbers: Ints) -> Ints:
        """The running sum within its group at each of the rows."""
        sums = np.cumsum(numbers)
        totals: Ints = sums[self._at] - sums[self._begin] + numbers[self._begin]
        return totals


def _rounded(digits: npt.NDArray[np.uint32], negative: Bools, exponent: int) -> Floats:
    """The doubles nearest to whole numbers times ``2**exponent``; digits of base 2**32, the lowest first, of
    negative ones in two's complement.
    """
    magnitude, carry = np.zeros((len(digits) + 2, digits.shape[1]), np.uint64), negative.astype(np.uint64)
    for n, limb in enumerate(digits.astype(np.uint64)):
        total = np.where(negative, limb ^ np.uint64(_MASK), limb) + carry
        magnitude[n + 2], carry = total & np.uint64(_MASK), total >> np.uint64(_LIMB)
    top = len(magnitude) - 1 - np.argmax(magnitude[::-1] != 0, axis=0)
    top = np.maximum(top, 2)
    rows = np.arange(digits.shape[1])
    one, two, three = (magnitude[top - k, rows] for k in range(3))
    zeros = (_LIMB - np.frexp(one.astype(np.float64))[1]).clip(0, _LIMB - 1).astype(np.uint64)
    leading = (((one << np.uint64(_LIMB)) | two) << zeros) | (three >> (np.uint64(_LIMB) - zeros))
    below = np.cumsum(magnitude != 0, axis=0)
    rest = ((three << zeros) & np.uint64(_MASK) != 0) | (np.where(top >= 3, below[np.maximum(top - 3, 0), rows], 0) > 0)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(
            (leading | rest.astype(np.uint64)).astype(np.float64), exponent + _LIMB * (top - 2) - _LIMB - zeros.astype(np.int64)
        )
    rounded: Floats = np.where(negative, -scaled, scaled)
    return rounded
