"""The canonical encoding of values: two values have the same bytes exactly if they are equal in Python.

Keys are compared by it, and records that nothing else orders are ordered by it. Values that are equal in
Python are written once: 7, 7.0 and ``Decimal(7)`` as the whole number, a ``NamedTuple`` as the tuple, a numpy
scalar as the number or text that it holds, the fields of a dict by name. Reading gives the plain form:
``int``, ``tuple``, ``bytes``.

Where it is not as Python has it: a list equals the tuple, and nan itself; times with a zone are equal if they
are one instant, also in the hour that a clock shows twice; a Beam ``Timestamp`` is no number, a numpy time no
date; dataclasses are compared by class and fields, enums by class and member, without asking an ``__eq__`` of
their own; an ``OrderedDict`` is a dict.

A byte at the front says the kind. Whole numbers, fractions, text, bytes, dates, times and timedeltas sort by
their bytes among their kind as they sort in Python.
"""

import dataclasses
import datetime as dt
import enum
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from beam_joins.errors import CorruptData
from beam_joins.keys import times
from beam_joins.keys.classes import class_of, name_of
from beam_joins.keys.numbers import (
    ABOVE,
    BELOW,
    DECIMAL,
    FRACTION,
    WHOLE,
    NotCanonical,
    decimal,
    fraction,
    of_numpy,
    read_above,
    read_below,
    read_decimal,
    read_fraction,
    read_number,
    whole,
)

_LENGTH = struct.Struct(">I")
NULL = b"0"
TEXT, BYTES, UUID = b"s", b"b", b"u"
TUPLE, SET, FIELDS, ROW, MEMBER, RECORD, OWN = b"(", b"{", b"=", b"r", b"e", b"a", b"o"


def encode(value: Any) -> bytes:
    """The canonical encoding of a value; raises :class:`NotCanonical` for a type that has none, such as a
    class of one's own.

    >>> encode(7) == encode(7.0), encode((1, "a")) == encode([1, "a"]), encode(7) == encode("7")
    (True, True, False)
    """
    write = _WRITERS.get(type(value))
    try:
        return write(value) if write is not None else _encode_other(value)
    except RecursionError:
        raise NotCanonical("it is nested too deeply, or in itself") from None


def decode(encoded: bytes) -> Any:
    """The plain value of its canonical encoding; raises :class:`CorruptData`.

    >>> decode(encode({"b": [1.0], "a": None}))
    {'a': None, 'b': (1,)}
    """
    return _read(_READERS.get(encoded[:1], _read_unknown), encoded)


def _read(reader: Callable[[bytes], Any], encoded: bytes) -> Any:
    try:
        return reader(encoded[1:])
    except CorruptData:
        raise
    except Exception as error:
        raise CorruptData(f"{len(encoded)} bytes are no canonical encoding: {error}") from error


def register(of_type: type, tag: bytes, write: Callable[[Any], bytes], read: Callable[[bytes], Any]) -> None:
    """Registers the canonical encoding of a type: the tag, followed by what ``write`` returns; ``read``
    decodes that.
    """

    def tagged(value: Any) -> bytes:
        return tag + write(value)

    _WRITERS[of_type] = tagged
    _BASES.append((of_type, tagged))
    _READERS[tag] = read


def joined(parts: Iterable[bytes]) -> bytes:
    """Concatenates encoded parts, each preceded by its length."""
    return b"".join([_LENGTH.pack(len(part)) + part for part in parts])


def joined_parts(data: bytes) -> Iterator[bytes]:
    """Splits the bytes that :func:`joined` has written; raises :class:`CorruptData`."""
    at = 0
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise CorruptData(f"the length of a part ends at byte {at + _LENGTH.size} of {len(data)}")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise CorruptData(f"a part ends at byte {at + length} of {len(data)}")
        yield data[at : at + length]
        at += length


def parts(encoded: bytes) -> Iterator[bytes]:
    """The encoded parts of an encoded tuple."""
    return joined_parts(encoded[1:])


def number(encoded: bytes) -> int | float | None:
    """The number that an encoded one is, or the count of days or microseconds of a date or a time; ``None``
    for anything else.

    Raises :class:`CorruptData` for bytes that are none.

    >>> number(encode(7.5)), number(encode(dt.timedelta(seconds=1))), number(encode("7"))
    (7.5, 1000000, None)
    """
    tag = encoded[:1]
    read: Callable[[bytes], Any] | None = _READERS[tag] if tag in (WHOLE, BELOW, ABOVE, FRACTION) else times.COUNTS.get(tag)
    return None if read is None else _read(read, encoded)


def _text(value: str) -> bytes:
    return TEXT + value.encode("utf-8", "surrogatepass")


def _read_unknown(data: bytes) -> None:
    raise CorruptData(f"{len(data)} bytes of no known kind")


def _read_null(data: bytes) -> None:
    if data:
        raise CorruptData(f"a null of {len(data)} bytes")


def _tuple(value: Iterable[Any]) -> bytes:
    return TUPLE + joined(map(encode, value))


def _fields(value: dict[Any, Any]) -> bytes:
    return FIELDS + joined(part for pair in sorted((encode(name), encode(part)) for name, part in value.items()) for part in pair)


def read_fields(data: bytes) -> dict[Any, Any]:
    """Names and parts that :func:`joined` has written one after the other."""
    parts = list(map(decode, joined_parts(data)))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _member(value: enum.Enum) -> bytes:
    # a combination of flags has no name of its own
    member = encode(value.value if isinstance(value, enum.Flag) else value.name)
    return MEMBER + joined((name_of(type(value)), member))


def _read_member(data: bytes) -> enum.Enum:
    name, encoded = joined_parts(data)
    enum_class, member = class_of(name), decode(encoded)
    if not issubclass(enum_class, enum.Enum):
        raise CorruptData(f"{enum_class} is no enum")
    return enum_class(member) if issubclass(enum_class, enum.Flag) else enum_class[member]


def _record(value: Any) -> bytes:
    fields = [field.name for field in dataclasses.fields(value) if field.compare]
    return RECORD + joined((name_of(type(value)), *(encode(part) for field in fields for part in (field, getattr(value, field)))))


def _read_record(data: bytes) -> Any:
    name, *parts = joined_parts(data)
    record_class, decoded = class_of(name), list(map(decode, parts))
    written = dict(zip(decoded[::2], decoded[1::2], strict=True))
    fields = dataclasses.fields(record_class)
    if written.keys() != {field.name for field in fields if field.compare}:
        raise CorruptData(f"{record_class} has other fields than {', '.join(map(str, written))}")
    record: Any = object.__new__(record_class)
    for field in fields:  # a field that takes no part in comparing is not written
        object.__setattr__(record, field.name, written[field.name] if field.compare else _default(field))
    return record


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _encode_other(value: Any) -> bytes:
    if isinstance(value, np.generic):
        return encode(times.of_numpy(value) if isinstance(value, np.datetime64 | np.timedelta64) else of_numpy(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type | enum.Enum):
        if type(value).__eq__ is object.__eq__:
            raise NotCanonical(f"{value!r} is equal to nothing but itself: let its dataclass have eq=True")
        return _record(value)
    for base, write in _BASES:
        if isinstance(value, base):
            return write(value)
    raise NotCanonical(f"{value!r} is of type {type(value).__module__}.{type(value).__qualname__}, which has no canonical encoding")


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: NULL,
    bool: whole,
    int: whole,
    float: fraction,
    Decimal: decimal,
    str: _text,
    bytes: lambda value: BYTES + value,
    bytearray: lambda value: BYTES + bytes(value),
    memoryview: lambda value: BYTES + bytes(value),
    dt.datetime: times.datetime,
    dt.date: lambda value: times.DATE + value.isoformat().encode(),
    dt.time: times.time,
    dt.timedelta: times.span,
    uuid.UUID: lambda value: UUID + value.bytes,
    tuple: _tuple,
    list: _tuple,
    dict: _fields,
    set: lambda value: SET + joined(sorted(map(encode, value))),
    frozenset: lambda value: SET + joined(sorted(map(encode, value))),
}
# A datetime is a date, and what is both an enum and a number or a text equals that.
_BASES: list[tuple[type, Callable[[Any], bytes]]] = (
    [(dt.datetime, times.other_datetime)]
    + [(base, write) for base, write in _WRITERS.items() if base not in (type(None), bool)]
    + [(enum.Enum, _member)]
)

_READERS: dict[bytes, Callable[[bytes], Any]] = {
    NULL: _read_null,
    WHOLE: read_number,
    BELOW: read_below,
    ABOVE: read_above,
    FRACTION: read_fraction,
    DECIMAL: read_decimal,
    TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
    BYTES: bytes,
    UUID: lambda data: uuid.UUID(bytes=data),
    **times.READERS,
    TUPLE: lambda data: tuple(map(decode, joined_parts(data))),
    SET: lambda data: frozenset(map(decode, joined_parts(data))),
    FIELDS: read_fields,
    MEMBER: _read_member,
    RECORD: _read_record,
}
