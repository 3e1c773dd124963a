"""The one encoding of a value: two values have the same bytes exactly if they are equal in Python.

Keys are compared by it, and records that nothing else orders are ordered by it. What is equal in Python is written once: 7, 7.0 and
``Decimal(7)`` as the whole number, a list and a ``NamedTuple`` as the tuple, a numpy scalar as the number or text that it holds, the fields of a
dict by name. Reading gives the plain form: ``int``, ``tuple``, ``bytes``.

A byte at the front says the kind; numbers of 64 bits, text and times sort by their bytes as they sort in Python.
"""

import dataclasses
import datetime as dt
import enum
import math
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

import apache_beam as beam
import numpy as np
from apache_beam.utils.timestamp import Timestamp

from beam_joins.coders.classes import class_of, name_of
from beam_joins.coders.corrupt import CorruptData

_NUMBER, _LENGTH, _DOUBLE = struct.Struct(">BQ"), struct.Struct(">I"), struct.Struct(">d")
_SIGN: Final = 1 << 63
_EPOCH, _UTC_EPOCH = dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

NULL, FRACTION, DECIMAL, BELOW, WHOLE, ABOVE = b"0", b"f", b"g", b"h", b"i", b"j"
TEXT, BYTES, UUID = b"s", b"b", b"u"
INSTANT, LOCAL, DATE, TIME, SPAN, TIMESTAMP = b"t", b"l", b"d", b"c", b"x", b"m"
TUPLE, SET, FIELDS, ROW, MEMBER, RECORD = b"(", b"{", b"=", b"r", b"e", b"a"


class NotCanonical(ValueError):
    """A value of a type that has no canonical encoding."""


def encode(value: Any) -> bytes:
    """The canonical encoding of a value; raises :class:`NotCanonical` for a type that has none, such as a class of one's own.

    >>> encode(7) == encode(7.0), encode((1, "a")) == encode([1, "a"]), encode(7) == encode("7")
    (True, True, False)
    """
    write = _WRITERS.get(type(value))
    return write(value) if write is not None else _encode_other(value)


def decode(encoded: bytes) -> Any:
    """The plain value of its canonical encoding; raises :class:`CorruptData`.

    >>> decode(encode({"b": [1.0], "a": None}))
    {'a': None, 'b': (1,)}
    """
    try:
        return _READERS[encoded[:1]](encoded[1:])
    except CorruptData:
        raise
    except Exception as error:
        raise CorruptData(f"{len(encoded)} bytes are no canonical encoding: {error}") from error


def parts(encoded: bytes) -> Iterator[bytes]:
    """The encoded parts of an encoded tuple."""
    return _parts(encoded[1:])


def number(encoded: bytes) -> int | float | None:
    """The number that an encoded one is, or the count of days or microseconds of a date or a time; ``None`` for anything else.

    >>> number(encode(7.5)), number(encode(dt.timedelta(seconds=1))), number(encode("7"))
    (7.5, 1000000, None)
    """
    tag, data = encoded[:1], encoded[1:]
    if tag in (WHOLE, BELOW, ABOVE):
        return int(_READERS[tag](data))
    if tag in (INSTANT, LOCAL, SPAN):
        return _read_number(data)
    if tag == FRACTION:
        return _read_float(data)
    if tag == DATE:
        return dt.date.fromisoformat(data.decode()).toordinal() - _EPOCH.toordinal()
    if tag == TIME:
        return (dt.datetime.combine(_EPOCH, dt.time.fromisoformat(data.decode())) - _EPOCH) // _MICROSECOND
    return None


def _whole(value: int) -> bytes:
    if -_SIGN <= value < _SIGN:
        return _NUMBER.pack(WHOLE[0], value + _SIGN)
    size = (value.bit_length() + 8) // 8
    if value < 0:  # the more bytes, the smaller
        return BELOW + _LENGTH.pack((1 << 32) - 1 - size) + value.to_bytes(size, "big", signed=True)
    return ABOVE + _LENGTH.pack(size) + value.to_bytes(size, "big", signed=True)


def _read_big(data: bytes) -> int:
    return int.from_bytes(data[_LENGTH.size :], "big", signed=True)


def _float(value: float) -> bytes:
    if value.is_integer():
        return _whole(int(value))
    bits: int
    (bits,) = struct.unpack(">Q", _DOUBLE.pack(math.nan if math.isnan(value) else value))
    return FRACTION + (bits ^ ((1 << 64) - 1 if bits & _SIGN else _SIGN)).to_bytes(8, "big")


def _read_float(data: bytes) -> float:
    bits = int.from_bytes(data, "big")
    (value,) = _DOUBLE.unpack((bits ^ (_SIGN if bits & _SIGN else (1 << 64) - 1)).to_bytes(8, "big"))
    return float(value)


def _decimal(value: Decimal) -> bytes:
    if not value.is_finite():
        return _float(float(value))
    if value == value.to_integral_value():
        return _whole(int(value))
    as_float = float(value)
    if math.isfinite(as_float) and Decimal(as_float) == value:
        return _float(as_float)
    sign, digits, exponent = value.as_tuple()
    kept = "".join(map(str, digits)).rstrip("0")
    return DECIMAL + f"{'-' if sign else ''}{kept}E{int(exponent) + len(digits) - len(kept)}".encode()


def _text(value: str) -> bytes:
    return TEXT + value.encode("utf-8", "surrogatepass")


def _datetime(value: dt.datetime) -> bytes:
    if getattr(value, "nanosecond", 0):
        raise NotCanonical(f"{value!r} has nanoseconds, and times are compared in microseconds: round it")
    if value.tzinfo is None:
        return LOCAL + _whole((value.replace(fold=0) - _EPOCH) // _MICROSECOND)[1:]
    return INSTANT + _whole((value - _UTC_EPOCH) // _MICROSECOND)[1:]


def _read_number(data: bytes) -> int:
    return int.from_bytes(data, "big") - _SIGN


def _time(value: dt.time) -> bytes:
    if value.tzinfo is not None:
        raise NotCanonical(f"{value!r} is a time of day with a time zone, which has no place in time: leave the zone out")
    return TIME + value.isoformat("microseconds").encode()


def _joined(tag: bytes, parts: Iterable[bytes]) -> bytes:
    return tag + b"".join([_LENGTH.pack(len(part)) + part for part in parts])


def _parts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise CorruptData(f"a part ends at byte {at + length} of {len(data)}")
        yield data[at : at + length]
        at += length


def _tuple(value: Iterable[Any]) -> bytes:
    return _joined(TUPLE, map(encode, value))


def _fields(value: dict[Any, Any], tag: bytes = FIELDS) -> bytes:
    return _joined(tag, (part for pair in sorted((encode(name), encode(part)) for name, part in value.items()) for part in pair))


def _read_fields(data: bytes) -> dict[Any, Any]:
    parts = list(map(decode, _parts(data)))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _member(value: enum.Enum) -> bytes:
    return _joined(MEMBER, (name_of(type(value)), value.name.encode()))


def _read_member(data: bytes) -> enum.Enum:
    name, member = _parts(data)
    found = class_of(name)
    assert issubclass(found, enum.Enum)
    return found[member.decode()]


def _record(value: Any) -> bytes:
    fields = [field.name for field in dataclasses.fields(value) if field.compare]
    return _joined(RECORD, (name_of(type(value)), *(encode(part) for field in fields for part in (field, getattr(value, field)))))


def _read_record(data: bytes) -> Any:
    name, *parts = _parts(data)
    found, fields = class_of(name), list(map(decode, parts))
    record: Any = object.__new__(found)
    for field in dataclasses.fields(found):
        if field.default is not dataclasses.MISSING:  # a field that takes no part in comparing is not written
            object.__setattr__(record, field.name, field.default)
    for field_name, part in zip(fields[::2], fields[1::2], strict=True):
        object.__setattr__(record, field_name, part)
    return record


def _encode_other(value: Any) -> bytes:
    if isinstance(value, np.generic):
        if isinstance(value, np.datetime64 | np.timedelta64):
            return encode(value.astype(f"{type(value).__name__[:-2]}[us]").item())
        return encode(value.item())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if type(value).__eq__ is object.__eq__:
            raise NotCanonical(f"{value!r} is equal to nothing but itself: let its dataclass have eq=True")
        return _record(value)
    for base, write in _BASES:
        if isinstance(value, base):
            return write(value)
    raise NotCanonical(f"{value!r} is of type {type(value).__module__}.{type(value).__qualname__}, which has no canonical encoding")


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: NULL,
    bool: _whole,
    int: _whole,
    float: _float,
    Decimal: _decimal,
    str: _text,
    bytes: lambda value: BYTES + value,
    bytearray: lambda value: BYTES + bytes(value),
    memoryview: lambda value: BYTES + bytes(value),
    dt.datetime: _datetime,
    dt.date: lambda value: DATE + value.isoformat().encode(),
    dt.time: _time,
    dt.timedelta: lambda value: SPAN + _whole(value // _MICROSECOND)[1:],
    uuid.UUID: lambda value: UUID + value.bytes,
    Timestamp: lambda value: TIMESTAMP + _whole(value.micros)[1:],
    tuple: _tuple,
    list: _tuple,
    dict: _fields,
    set: lambda value: _joined(SET, sorted(map(encode, value))),
    frozenset: lambda value: _joined(SET, sorted(map(encode, value))),
    beam.Row: lambda value: _fields(value.as_dict(), ROW),
}
# A datetime is a date, and what is both an enum and a number or a text equals that.
_BASES = [(base, write) for base, write in _WRITERS.items() if base not in (type(None), bool)] + [(enum.Enum, _member)]

_READERS: dict[bytes, Callable[[bytes], Any]] = {
    NULL: lambda data: None,
    WHOLE: _read_number,
    BELOW: _read_big,
    ABOVE: _read_big,
    FRACTION: _read_float,
    DECIMAL: lambda data: Decimal(data.decode()),
    TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
    BYTES: bytes,
    UUID: lambda data: uuid.UUID(bytes=data),
    INSTANT: lambda data: _UTC_EPOCH + _read_number(data) * _MICROSECOND,
    LOCAL: lambda data: _EPOCH + _read_number(data) * _MICROSECOND,
    DATE: lambda data: dt.date.fromisoformat(data.decode()),
    TIME: lambda data: dt.time.fromisoformat(data.decode()),
    SPAN: lambda data: _read_number(data) * _MICROSECOND,
    TIMESTAMP: lambda data: Timestamp(micros=_read_number(data)),
    TUPLE: lambda data: tuple(map(decode, _parts(data))),
    SET: lambda data: frozenset(map(decode, _parts(data))),
    FIELDS: _read_fields,
    ROW: lambda data: beam.Row(**_read_fields(data)),
    MEMBER: _read_member,
    RECORD: _read_record,
}
