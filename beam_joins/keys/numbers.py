"""Numbers in the canonical encoding (:mod:`beam_joins.keys.canonical`): one encoding for each value,
independent of its type.
"""

import math
import struct
from decimal import Decimal
from typing import Any, Final

import numpy as np

from beam_joins.errors import CorruptData

_NUMBER, _LENGTH, _DOUBLE = struct.Struct(">BQ"), struct.Struct(">I"), struct.Struct(">d")
_QUAD: Final = struct.Struct(">Q")
_SIGN: Final = 1 << 63
_64_BITS: Final = (1 << 64) - 1
_LENGTHS: Final = (1 << 32) - 1
_DIGITS: Final = 10_000
"""The largest decimal exponent of a ``Decimal``, positive or negative: the digits of 1E+999999999 would take
minutes and gigabytes.
"""

FRACTION, DECIMAL, BELOW, WHOLE, ABOVE = b"f", b"g", b"h", b"i", b"j"


class NotCanonical(ValueError):
    """A value of a type that has no canonical encoding."""


def whole(value: int) -> bytes:
    """A whole number; those of 64 bits sort by their bytes among each other, and the others below and above
    them.
    """
    if -_SIGN <= value < _SIGN:
        return _NUMBER.pack(WHOLE[0], value + _SIGN)
    size = (value.bit_length() + 8) // 8
    if value < 0:  # the more bytes, the smaller
        return BELOW + _LENGTH.pack(_LENGTHS - size) + value.to_bytes(size, "big", signed=True)
    return ABOVE + _LENGTH.pack(size) + value.to_bytes(size, "big", signed=True)


def read_number(data: bytes) -> int:
    """A whole number of 64 bits, without the byte at the front."""
    (biased,) = _QUAD.unpack(data)
    number: int = biased - _SIGN
    return number


def read_below(data: bytes) -> int:
    """A number below those of 64 bits."""
    return _read_big(data, _LENGTHS - _LENGTH.unpack_from(data)[0])


def read_above(data: bytes) -> int:
    """A number above those of 64 bits."""
    return _read_big(data, _LENGTH.unpack_from(data)[0])


def _read_big(data: bytes, size: int) -> int:
    if len(data) != _LENGTH.size + size:
        raise CorruptData(f"a number of {size} bytes in {len(data)}")
    return int.from_bytes(data[_LENGTH.size :], "big", signed=True)


def fraction(value: float) -> bytes:
    """A float: whole numbers as such, the two zeros as one, all nans as one."""
    if value.is_integer():
        return whole(int(value))
    bits: int
    (bits,) = _QUAD.unpack(_DOUBLE.pack(math.nan if math.isnan(value) else value))
    return FRACTION + (bits ^ (_64_BITS if bits & _SIGN else _SIGN)).to_bytes(8, "big")


def read_fraction(data: bytes) -> float:
    """A float."""
    (bits,) = _QUAD.unpack(data)
    (value,) = _DOUBLE.unpack((bits ^ (_SIGN if bits & _SIGN else _64_BITS)).to_bytes(8, "big"))
    return float(value)


def decimal(value: Decimal) -> bytes:
    """A ``Decimal``: as a whole number or a float where it equals one; raises :class:`NotCanonical` for more
    than 10,000 digits.
    """
    if not value.is_finite():
        return fraction(math.nan if value.is_nan() else float(value))
    if value and abs(value.adjusted()) > _DIGITS:
        raise NotCanonical(
            f"a Decimal between 1E-{_DIGITS} and 1E+{_DIGITS} can be a key, and this one is of order 1E{value.adjusted():+}"
        )
    if value == value.to_integral_value():
        return whole(int(value))
    as_float = float(value)
    if math.isfinite(as_float) and Decimal.from_float(as_float) == value:
        return fraction(as_float)
    sign, digits, exponent = value.as_tuple()
    kept = "".join(map(str, digits)).rstrip("0")
    return DECIMAL + f"{'-' if sign else ''}{kept}E{int(exponent) + len(digits) - len(kept)}".encode()


def read_decimal(data: bytes) -> Decimal:
    """A ``Decimal`` that is neither a whole number nor a float."""
    value = Decimal(data.decode("ascii"))
    if not value.is_finite() or abs(value.adjusted()) > _DIGITS:
        raise CorruptData("a Decimal that no key is")
    return value


def of_numpy(value: np.generic) -> Any:
    """The Python value of a numpy scalar; raises :class:`NotCanonical` for a float that needs more than 64
    bits.
    """
    plain = value.item()
    if not isinstance(plain, np.longdouble):
        return plain
    rounded = float(plain)
    if rounded != plain and not math.isnan(rounded):
        raise NotCanonical(f"{value!r} is no float of 64 bits")
    return rounded
