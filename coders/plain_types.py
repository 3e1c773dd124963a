"""Encodes types that consist of a few plain values, such as dates and decimals, as these values."""

import datetime as dt
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.timestamp import Duration, Timestamp

_MICROS = 6


def _of_timestamp(value: Timestamp) -> tuple[int, int]:
    precision = getattr(value, "_precision", _MICROS)  # Beam before 2.70 has microseconds only
    return (value.micros, _MICROS) if precision == _MICROS else (value.nanos // 10 ** (9 - precision), precision)


def _timestamp(parts: Any) -> Timestamp:
    subseconds, precision = parts
    return Timestamp(micros=subseconds) if precision == _MICROS else Timestamp(0, subseconds, precision)


def _of_zone(value: ZoneInfo) -> tuple[str]:
    if value.key is None:
        raise ValueError(f"the time zone {value!r} has no name by which it can be written: use zoneinfo.ZoneInfo(name)")
    return (value.key,)


def _of_array(value: np.ndarray[Any, Any]) -> tuple[bytes]:
    if value.dtype.hasobject:
        raise ValueError("a NumPy array of Python objects cannot be written: use a list")
    file = BytesIO()
    np.save(file, value, allow_pickle=False)
    return (file.getvalue(),)


def _of_pairs(value: Any) -> Any:
    return chain.from_iterable(value.items())


def _of_big_int(value: int) -> Any:
    return value if -(1 << 63) <= value < 1 << 63 else (value.to_bytes(value.bit_length() // 8 + 1, signed=True),)


def _pairs(parts: list[Any]) -> Any:
    return zip(parts[::2], parts[1::2], strict=True)


def _scalar(kind: type[np.generic]) -> "_Plain":
    def make(parts: Any) -> Any:
        dtype, data = parts
        (made,) = np.frombuffer(data, np.dtype(dtype))
        return made

    return kind, lambda value: (value.dtype.str, value.tobytes()), make


_Plain = tuple[type, Callable[[Any], Any], Callable[[Any], Any]]
_NUMPY = (
    *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, np.float32, np.float64, np.complex64, np.complex128, np.datetime64, np.timedelta64),
)

PLAIN: tuple[_Plain, ...] = (
    (int, _of_big_int, lambda parts: int.from_bytes(*parts, signed=True)),
    (set, list, set),
    (frozenset, list, frozenset),
    (bytearray, lambda value: (bytes(value),), lambda parts: bytearray(*parts)),
    (complex, lambda value: (value.real, value.imag), lambda parts: complex(*parts)),
    (range, lambda value: (value.start, value.stop, value.step), lambda parts: range(*parts)),
    (Decimal, lambda value: (str(value),), lambda parts: Decimal(*parts)),
    (Fraction, lambda value: (value.numerator, value.denominator), lambda parts: Fraction(*parts)),
    (uuid.UUID, lambda value: (value.bytes,), lambda parts: uuid.UUID(bytes=parts[0])),
    (dt.date, lambda value: (value.toordinal(),), lambda parts: dt.date.fromordinal(*parts)),
    (
        dt.time,
        lambda value: (value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo),
        lambda parts: dt.time.fromisoformat(parts[0]).replace(fold=parts[1], tzinfo=parts[2]),
    ),
    (
        dt.datetime,
        lambda value: (value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo),
        lambda parts: dt.datetime.fromisoformat(parts[0]).replace(fold=parts[1], tzinfo=parts[2]),
    ),
    (dt.timedelta, lambda value: (value.days, value.seconds, value.microseconds), lambda parts: dt.timedelta(*parts)),
    (
        dt.timezone,
        lambda value: (value.utcoffset(None), value.tzname(None)),
        lambda parts: dt.UTC if parts == [dt.timedelta(0), "UTC"] else dt.timezone(*parts),
    ),
    (ZoneInfo, _of_zone, lambda parts: ZoneInfo(*parts)),
    (Timestamp, _of_timestamp, _timestamp),
    (Duration, lambda value: (value.micros,), lambda parts: Duration(micros=parts[0])),
    (beam.Row, lambda value: tuple(_of_pairs(value.as_dict())), lambda parts: beam.Row(**dict(_pairs(parts)))),
    (Counter, lambda value: tuple(_of_pairs(value)), lambda parts: Counter(dict(_pairs(parts)))),
    (OrderedDict, lambda value: tuple(_of_pairs(value)), lambda parts: OrderedDict(_pairs(parts))),
    (deque, lambda value: (value.maxlen, *value), lambda parts: deque(parts[1:], parts[0])),
    (pa.Schema, lambda value: (value.serialize().to_pybytes(),), lambda parts: pa.ipc.read_schema(pa.py_buffer(*parts))),
    (np.ndarray, _of_array, lambda parts: np.load(BytesIO(*parts), allow_pickle=False)),
    (np.str_, lambda value: (str(value),), lambda parts: np.str_(*parts)),
    (np.bytes_, lambda value: (bytes(value),), lambda parts: np.bytes_(*parts)),
    *map(_scalar, _NUMPY),
)
"""Each type with a function that gives its parts, and a function that makes a value of the list of them; a
value's type is at the same place in every version.
"""
