"""Chooses the coder of a key or a value by its type.

Two keys are the same key if their bytes are. The bytes of keys are canonical
(:mod:`beam_joins.keys.canonical`): equal in Python, equal here.
"""

import datetime as dt
import enum
import uuid
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from decimal import Decimal
from typing import Any, get_origin

import numpy as np
import pyarrow as pa
from apache_beam import Row
from apache_beam.coders import BooleanCoder, BytesCoder, Coder, FloatCoder, StrUtf8Coder, VarIntCoder, registry
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import Timestamp

from beam_joins.coders.own_types import own_coder
from beam_joins.coders.strict import StrictCoder
from beam_joins.coders.values import ValueCoder
from beam_joins.keys.canonical import decode, encode
from beam_joins.keys.key_columns import kind_of_column, kinds_of_encoded
from beam_joins.keys.kinds import kind as kind_of
from beam_joins.keys.numbers import NotCanonical
from beam_joins.keys.opaque import opaque_encoded
from beam_joins.keys.plain import encoded_plain

_NUMBERS = (int, float, Decimal, np.bool_, np.integer, np.floating)
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (_NUMBERS, "number"),
    (str, "text"),
    ((bytes, bytearray, memoryview), "bytes"),
    (uuid.UUID, "UUID"),
    (dt.date, "date"),
    (dt.time, "time of day"),
    ((dt.timedelta, np.timedelta64), "timedelta"),
    (Timestamp, "Beam Timestamp"),
)
_CANONICAL = (*_NUMBERS, np.datetime64, str, bytes, bytearray, memoryview, uuid.UUID, dt.date, dt.time, dt.timedelta, Timestamp, Row)
_STRICT = (StrictCoder, BooleanCoder, BytesCoder, FloatCoder, StrUtf8Coder, VarIntCoder)
_CONTAINERS = (tuple, list, dict, set, frozenset, enum.Enum)


class KeyCoder(StrictCoder):
    """Coder of keys: canonical bytes, and keys read as values of ``key_type`` where that is a number or a
    ``NamedTuple`` and has them.

    Without a type a key comes back as the plain value that it equals: ``7.0`` as ``7``, a list or a
    ``NamedTuple`` as a tuple.

    >>> coder = KeyCoder()
    >>> coder.encode(7) == coder.encode(7.0), coder.decode(coder.encode([7.0, "a"]))
    (True, (7, 'a'))
    """

    def __init__(self, key_type: Any = Any) -> None:
        self._type = key_type
        self._kind = _kind_of_type(key_type)
        self._as_type = _presented(key_type)

    def encode(self, value: Any) -> bytes:
        """The canonical bytes; raises ``ValueError`` for a key that cannot be equal to one of the coder's
        type.
        """
        encoded = encode(value)
        if self._kind is not None and kind_of(encoded) != self._kind and not isinstance(value, self._type):
            raise NotCanonical(
                f"it is a {kind_of(encoded)}, and keys here are of type {type_name(self._type)}: the two are never equal"
            )
        return encoded

    def column(self, keys: Sequence[Any], what: str, *, nulls: bool = False) -> pa.Array:
        """Keys as an opaque column, with ``nulls`` null for ``None``; raises ``ValueError``, naming ``what``
        they are, as :func:`encode_key` does.
        """
        plain = encoded_plain(keys)
        if plain is None or (plain.null_count and not nulls) or self._kind not in (None, *kinds_of_encoded(plain)):
            return opaque_encoded([None if nulls and key is None else encode_key(self, key, what) for key in keys])
        return opaque_encoded(plain)

    def read(self, encoded: bytes) -> Any:
        """The key, in the form that the type asks for."""
        return self.presented(decode(encoded))

    @property
    def presents(self) -> bool:
        """Whether keys of the type have a form of their own."""
        return self._as_type is not None

    def presented(self, key: Any) -> Any:
        """A key in the form that the type asks for."""
        return key if self._as_type is None else _in_type(self._as_type, key)

    def is_deterministic(self) -> bool:
        """True."""
        return True

    def to_type_hint(self) -> Any:
        """The type of the keys."""
        return self._type


def key_coder(key_type: Any, what: str) -> KeyCoder:
    """The deterministic coder of keys of ``key_type`` (``Any``: of any type); ``what`` names them in
    messages.

    A type of one's own needs a deterministic coder of its own, registered with Beam. Raises ``ValueError`` if
    it has none. A key of an unknown type is checked when it is encoded.

    >>> key_coder(str, "the key").decode(key_coder(str, "the key").encode("k"))
    'k'
    """
    registered = own_coder(key_type) if isinstance(key_type, type) and get_origin(key_type) is None else None
    if _is_canonical(key_type) or (registered is not None and registered.is_deterministic()):
        return KeyCoder(key_type)
    raise ValueError(
        f"{what} is of type {type_name(key_type)}, whose encoding is not deterministic: two equal keys might be written "
        "differently and"
        " never meet. Use text, bytes, a number, a date or a time, a UUID, an enum, a dataclass or a tuple of these as "
        "the key, or register"
        " a deterministic coder for the type with apache_beam.coders.registry.register_coder."
    )


def common_type(left: Any, right: Any) -> Any:
    """The type by which keys of two types are written, the left one where that can be; ``None`` if none of
    them are ever equal.

    >>> common_type(int, float), common_type(int, str), common_type(int, Any), common_type(pa.int64(), pa.string())
    (<class 'int'>, None, typing.Any, None)
    """
    if left == right:
        return left
    if Any in (left, right):
        return Any
    kinds = _kind_of_type(left), _kind_of_type(right)
    if None not in kinds and kinds[0] != kinds[1]:
        return None
    if isinstance(left, pa.DataType) or isinstance(right, pa.DataType):
        return Any
    if not (_is_canonical(left) and _is_canonical(right)):
        return None
    return left if kinds[0] in (None, kinds[1]) else Any


def value_coder(value_type: Any) -> Coder:
    """The coder of values of ``value_type``, which reads no pickles.

    >>> value_coder(Any).decode(value_coder(Any).encode({"a": 1}))
    {'a': 1}
    """
    coder = registry.get_coder(convert_to_beam_type(value_type))
    is_own = isinstance(value_type, type) and own_coder(value_type) is not None
    return coder if is_own or isinstance(coder, _STRICT) else ValueCoder()


def encode_key(coder: Coder, key: Any, what: str) -> bytes:
    """The bytes of a key; raises ``ValueError`` if it is not of the coder's type or has no deterministic
    encoding.
    """
    try:
        encoded: bytes = coder.encode(key)
        return encoded
    except Exception as error:
        raise ValueError(f"{what} {key!r} of type {type_name(type(key))} cannot be written: {error}") from error


def _is_canonical(key_type: Any) -> bool:
    if key_type in (Any, object, type(None)) or isinstance(key_type, typehints.AnyTypeConstraint):
        return True
    if isinstance(key_type, typehints.TypeConstraint) or get_origin(key_type) is not None or not isinstance(key_type, type):
        return True  # a tuple, a union and the like: their parts are checked when they are encoded
    if issubclass(key_type, (*_CANONICAL, *_CONTAINERS)):
        return True
    return bool(is_dataclass(key_type) and key_type.__eq__ is not object.__eq__)


def _kind_of_type(key_type: Any) -> str | None:
    if isinstance(key_type, pa.DataType):
        kind = kind_of_column(key_type)
        # of keys that have parts, or that are Python objects, the kinds are compared in the run
        return None if kind == "null" or kind.startswith("(") else kind
    if not isinstance(key_type, type) or get_origin(key_type) is not None or issubclass(key_type, enum.Enum | dt.datetime):
        return None
    # numpy has a timedelta among its numbers
    return next((kind for types, kind in reversed(_KINDS) if issubclass(key_type, types)), None)


def _presented(key_type: Any) -> Callable[[Any], Any] | None:
    if get_origin(key_type) is not None or not isinstance(key_type, type):
        return None
    if key_type in (bool, float, Decimal):
        return key_type  # 7.0 is written as 7
    make: Callable[[Any], Any] | None = getattr(key_type, "_make", None) if issubclass(key_type, tuple) else None
    return make


def _in_type(as_type: Callable[[Any], Any], key: Any) -> Any:
    """The key in the type, or as it is where that would be another key: 5 as a truth value."""
    try:
        read = as_type(key)
    except (TypeError, ValueError, ArithmeticError):
        return key
    return read if read == key else key


def type_name(key_type: Any) -> str:
    """A type as messages name it.

    >>> type_name(int), type_name(int | str)
    ('int', 'int | str')
    """
    if isinstance(key_type, pa.DataType):
        return str(key_type)
    if not isinstance(key_type, type) or get_origin(key_type) is not None:
        return repr(key_type)
    return key_type.__qualname__ if key_type.__module__ == "builtins" else f"{key_type.__module__}.{key_type.__qualname__}"
