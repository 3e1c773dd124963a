"""Encodes Python objects as MessagePack, which names values and never code to be called.

Null, truth values, numbers of 64 bits, text, bytes, lists, and dicts with such keys are MessagePack's own
types. All else is an extension type with a code of its own: types of the standard library by their
parts, enums, dataclasses and named tuples with the name of their class, types with a registered coder as
that coder writes them. A class is imported where a value is read, and must be of the kind that was written;
no constructor is called.

A value of any other type is refused, unless pickles are accepted (:mod:`beam_joins.coders.pickles`).
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable
from types import MemberDescriptorType
from typing import Any

from apache_beam.utils.proto_utils import message_types
from msgspec.msgpack import Decoder, Encoder, Ext

from beam_joins.coders import pickles
from beam_joins.coders.own_types import OwnTypes, own_coder, read_own, write_own
from beam_joins.coders.plain_types import PLAIN
from beam_joins.coders.strict import StrictCoder
from beam_joins.errors import CorruptData
from beam_joins.keys.classes import class_of, name_of
from beam_joins.values.copying import require_value

_TUPLE, _OWN, _MEMBER, _NAMED_TUPLE, _DATACLASS, _MESSAGE, _DICT, _PICKLE = range(1, 9)
_PLAIN = 32  # the code of the first of PLAIN
_SCALARS = frozenset({type(None), bool, int, float, str, bytes})

_to_bytes = Encoder().encode


class _Writer:
    """Makes values that MessagePack has of all others; ``scalars`` are the types that it has already."""

    def __init__(self, scalars: frozenset[type]) -> None:
        self._scalars = scalars
        self._scalar = scalars.issuperset
        self._plain = {kind: (_PLAIN + n, parts) for n, (kind, parts, _) in enumerate(PLAIN)}

    def encode(self, value: Any) -> bytes:
        return _to_bytes(self._made(value))

    def _made(self, value: Any) -> Any:
        kind = type(value)
        if kind in self._scalars:
            return value
        if kind is dict:
            if not self._scalar(map(type, value)):
                return self._extension(_DICT, [part for pair in value.items() for part in pair])
            return value if self._scalar(map(type, value.values())) else {name: self._made(part) for name, part in value.items()}
        if kind is list:
            return value if self._scalar(map(type, value)) else list(map(self._made, value))
        if kind is tuple:
            return self._extension(_TUPLE, value)
        return self._other(kind, value)

    def _extension(self, code: int, parts: Any) -> Ext:
        return Ext(code, _to_bytes(parts if self._scalar(map(type, parts)) else list(map(self._made, parts))))

    def _other(self, kind: type, value: Any) -> Any:
        if (coder := own_coder(kind)) is not None:
            return Ext(_OWN, write_own(value, coder))
        if (plain := self._plain.get(kind)) is not None:
            code, parts = plain
            made = parts(value)
            return made if type(made) is int else self._extension(code, made)
        if (named := _named(kind, value)) is not None:
            return self._extension(*named)
        if isinstance(value, Iterable) and kind.__module__.startswith("apache_beam."):
            return self._made(list(value))  # the values of a group, which Beam may have left where they are
        require_value(value)
        if pickles.are_accepted():
            return Ext(_PICKLE, pickles.write(value))
        raise ValueError(
            f"a value of type {kind.__module__}.{kind.__qualname__} is written by pickle only, which is not accepted: "
            "use a dataclass, a NamedTuple or typed"
            f" columns, register a coder for the type, or allow pickles with {pickles.OPTION}"
        )


_writer = _Writer(_SCALARS)
_writer_of_any_int = _Writer(_SCALARS - {int})


def encode(value: Any) -> bytes:
    """The bytes of a value; raises ``ValueError`` for a type that cannot be written.

    >>> decode(encode({"a": (1, None), "b": {2.5}}))
    {'a': (1, None), 'b': {2.5}}
    """
    try:
        return _writer.encode(value)
    except OverflowError:
        return _writer_of_any_int.encode(value)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text {error.object!a} has half of a character, a surrogate, which UTF-8 does not have: mend it"
        ) from None
    except RecursionError:
        raise ValueError("a value that is nested too deeply, or in itself, cannot be written") from None


def _named(kind: type, value: Any) -> tuple[int, tuple[Any, ...]] | None:
    """The code and the parts of a value that is written with the name of its class; ``None`` for any other."""
    if isinstance(value, enum.Enum):
        return _MEMBER, (_name(kind), value.value if isinstance(value, enum.Flag) else value.name)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return _NAMED_TUPLE, (_name(kind), *value)
    if dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__:
        return _DATACLASS, (_name(kind), _state(value))
    if isinstance(value, message_types):
        return _MESSAGE, (_name(kind), value.SerializePartialToString(deterministic=True))
    return None


def _name(kind: type) -> bytes:
    if "<locals>" in kind.__qualname__:
        raise ValueError(f"the class {kind.__qualname__} is local to a function, and workers cannot import it: define it in a module")
    return name_of(kind)


def _state(value: Any) -> dict[str, Any]:
    """All attributes; those in slots are fields."""
    slots = [field.name for field in dataclasses.fields(value) if _is_slot(type(value), field.name) and hasattr(value, field.name)]
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}


def _is_slot(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), MemberDescriptorType)


def _read_member(data: memoryview) -> enum.Enum:
    name, member = decode(data)
    enum_class = class_of(name)
    if not issubclass(enum_class, enum.Enum):
        raise CorruptData(f"{enum_class} is no enum")
    return enum_class(member) if issubclass(enum_class, enum.Flag) else enum_class[member]


def _read_named_tuple(data: memoryview) -> Any:
    name, *parts = decode(data)
    tuple_class: Any = class_of(name)
    if not (issubclass(tuple_class, tuple) and hasattr(tuple_class, "_fields") and len(tuple_class._fields) == len(parts)):
        raise CorruptData(f"{tuple_class} is no named tuple of {len(parts)} fields")
    return tuple.__new__(tuple_class, parts)


def _read_dataclass(data: memoryview) -> Any:
    name, state = decode(data)
    record_class = class_of(name)
    if not dataclasses.is_dataclass(record_class):
        raise CorruptData(f"{record_class} is no dataclass")
    made: Any = object.__new__(record_class)
    for field, part in state.items():
        if _is_slot(record_class, field):
            object.__setattr__(made, field, part)
        else:
            made.__dict__[field] = part
    return made


def _read_message(data: memoryview) -> Any:
    name, encoded = decode(data)
    message_class: Any = class_of(name)
    if not issubclass(message_class, message_types):
        raise CorruptData(f"{message_class} is no protobuf message")
    return message_class.FromString(encoded)


def _read_dict(data: memoryview) -> dict[Any, Any]:
    parts = decode(data)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _reader(make: Callable[[Any], Any]) -> Callable[[memoryview], Any]:
    return lambda data: make(decode(data))


_READERS: dict[int, Callable[[memoryview], Any]] = {
    _TUPLE: lambda data: tuple(decode(data)),
    _OWN: lambda data: read_own(bytes(data)),
    _MEMBER: _read_member,
    _NAMED_TUPLE: _read_named_tuple,
    _DATACLASS: _read_dataclass,
    _MESSAGE: _read_message,
    _DICT: _read_dict,
    _PICKLE: pickles.read,
    **{_PLAIN + n: _reader(make) for n, (_, _, make) in enumerate(PLAIN)},
}


def _read_extension(code: int, data: memoryview) -> Any:
    if code not in _READERS:
        raise CorruptData(f"{len(data)} bytes of a type of value that is not known: {code}")
    return _READERS[code](data)


decode: Callable[[bytes | memoryview], Any] = Decoder(ext_hook=_read_extension).decode
"""Reads a value from its bytes; raises :class:`CorruptData`, or the error of the function that makes a value
of its parts.
"""


class ValueCoder(StrictCoder):
    """Coder of values of any type that has an encoding.

    >>> ValueCoder().decode(ValueCoder().encode({"a": (1, None)}))
    {'a': (1, None)}
    """

    def __init__(self) -> None:
        self._own_types = OwnTypes()

    def encode(self, value: Any) -> bytes:
        """The value; raises ``ValueError`` for a type that cannot be written."""
        return encode(value)

    def read(self, encoded: bytes) -> Any:
        """The value."""
        return decode(encoded)

    def is_deterministic(self) -> bool:
        """False: two equal values may be written differently."""
        return False

    def to_type_hint(self) -> Any:
        """Any."""
        return Any
