"""Which coder writes a key or a value of a given type.

Two keys are the same key if their bytes are: a key's coder must be deterministic.
"""

import enum
from dataclasses import is_dataclass
from typing import Any, get_origin

from apache_beam.coders import Coder, FastPrimitivesCoder, registry
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type

_PRIMITIVES = (Any, int, str, bytes, bool, float, type(None), tuple, list, dict, object)


def key_coder(key_type: Any, what: str) -> Coder:
    """The deterministic coder of keys of ``key_type`` (``Any``: whatever a key turns out to be); ``what`` names them in messages.

    Raises ``ValueError`` if the type has no deterministic coder. A key of an unknown type is checked when it is encoded.

    >>> key_coder(str, "the key").encode("k")
    b'k'
    """
    remedy = (
        f"{what} is of type {_name(key_type)}, whose encoding is not deterministic: two equal keys might be written differently and"
        " never meet. Use a str, bytes, int, a tuple of these or a NamedTuple as the key, or register a deterministic coder for the"
        " type with apache_beam.coders.registry.register_coder."
    )
    coder: Coder = registry.get_coder(convert_to_beam_type(key_type))
    if isinstance(coder, FastPrimitivesCoder) and not _may_be_deterministic(key_type):
        raise ValueError(remedy)
    if coder.is_deterministic():
        return coder
    try:
        deterministic: Coder = coder.as_deterministic_coder(what, remedy)
        return deterministic
    except ValueError:
        raise ValueError(remedy) from None


def value_coder(value_type: Any) -> Coder:
    """The coder of values of ``value_type``; any coder will do.

    >>> value_coder(Any).decode(value_coder(Any).encode({"a": 1}))
    {'a': 1}
    """
    beam_type = convert_to_beam_type(value_type)
    # Beam's coder of a dict type calls a Python function for every key; the one for anything writes a dict in C.
    return FastPrimitivesCoder() if isinstance(beam_type, typehints.DictConstraint) else registry.get_coder(beam_type)


def encode_key(coder: Coder, key: Any, what: str) -> bytes:
    """The bytes of a key; raises ``ValueError`` if it is not of the coder's type or has no deterministic encoding."""
    try:
        encoded: bytes = coder.encode(key)
        return encoded
    except Exception as error:
        raise ValueError(f"{what} {key!r} of type {_name(type(key))} cannot be written by {coder}: {error}") from error


def _may_be_deterministic(key_type: Any) -> bool:
    if not isinstance(key_type, type) or isinstance(key_type, typehints.TypeConstraint) or get_origin(key_type):
        return True
    if key_type in _PRIMITIVES or issubclass(key_type, (tuple, enum.Enum)):
        return True
    return is_dataclass(key_type) and key_type.__dataclass_params__.frozen  # type: ignore[attr-defined]


def _name(key_type: Any) -> str:
    return f"{key_type.__module__}.{key_type.__qualname__}" if isinstance(key_type, type) else repr(key_type)
