"""Coder of ``Change``: ``{flags}{timestamp}{position}{key}{old}{new}{checksum}``.

The flags' byte holds the version (high four bits) and which values are present; absent values are left out.
Timestamp, position and checksum are 8 bytes, the rest has its 4-byte length before it; all integers are
big-endian.
"""

import struct
from typing import Any

from apache_beam.coders import Coder, registry

from beam_joins.coders.checked import checked, unchecked
from beam_joins.coders.key import value_coder
from beam_joins.coders.strict import StrictCoder
from beam_joins.coders.values import ValueCoder
from beam_joins.elements.change import Change
from beam_joins.elements.parameters import Parameterised, when_made
from beam_joins.errors import CorruptData

_HEAD = struct.Struct(">Bqq")
_LENGTH = struct.Struct(">I")
_VERSION = 1 << 4
_HAS_OLD, _HAS_NEW = 1, 2


class ChangeCoder(StrictCoder):
    """Coder of ``Change[K, V]`` from the coders of key and value.

    It is registered for :class:`Change`, so that Beam does not fall back to pickling one.

    >>> coder = ChangeCoder()
    >>> coder.decode(coder.encode(Change("k", None, {"a": 1}, timestamp=0, position=7)))
    Change(key='k', old=None, new={'a': 1}, timestamp=0, position=7)
    """

    def __init__(self, key_coder: Coder | None = None, value_coder: Coder | None = None) -> None:
        self._key_coder = key_coder or ValueCoder()
        self._value_coder = value_coder or ValueCoder()

    def encode(self, value: Change[Any, Any]) -> bytes:
        """All five fields."""
        key, old, new, timestamp, position = value
        flags = _VERSION | (0 if old is None else _HAS_OLD) | (0 if new is None else _HAS_NEW)
        parts = [self._key_coder.encode(key)]
        parts += [self._value_coder.encode(side) for side in (old, new) if side is not None]
        return checked(_HEAD.pack(flags, timestamp, position) + b"".join(_LENGTH.pack(len(part)) + part for part in parts))

    def read(self, encoded: bytes) -> Change[Any, Any]:
        """All five fields."""
        content = unchecked(encoded)
        flags, timestamp, position = _HEAD.unpack_from(content)
        if flags & ~(_HAS_OLD | _HAS_NEW) != _VERSION:
            raise CorruptData(f"a change cannot begin with the byte {flags:#04x}")
        key, at = _part(content, _HEAD.size)
        old = new = None
        if flags & _HAS_OLD:
            part, at = _part(content, at)
            old = self._value_coder.decode(part)
        if flags & _HAS_NEW:
            part, at = _part(content, at)
            new = self._value_coder.decode(part)
        if at != len(content):
            raise CorruptData(f"a change has {len(content) - at} bytes too many")
        return Change(self._key_coder.decode(key), old, new, timestamp, position)

    def is_deterministic(self) -> bool:
        """True if the coders of key and value are."""
        return bool(self._key_coder.is_deterministic() and self._value_coder.is_deterministic())

    @classmethod
    def from_type_hint(cls, hint: Any, registry: Any) -> Any:
        """The coder of ``Change[K, V]`` from those of K and V in the registry."""
        parameters = hint.parameters if isinstance(hint, Parameterised) else ()
        return cls(*(None if parameter is Any else value_coder(parameter) for parameter in parameters))

    def to_type_hint(self) -> type:
        """``Change``."""
        return Change


def _part(content: memoryview, at: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(content, at)
    start, end = at + _LENGTH.size, at + _LENGTH.size + length
    if end > len(content):
        raise CorruptData(f"a change ends after {len(content)} bytes, before byte {end}")
    return bytes(content[start:end]), end


registry.register_coder(Change, ChangeCoder)
when_made(Change, lambda made: registry.register_coder(made, ChangeCoder))
