"""A change as bytes: ``{flags}{timestamp}{position}{length of key}{key}{length of old}{old}{new}``, absent values left out.

The flags' byte holds the version (high four bits) and which values there are. Integers are big-endian.
"""

import struct
from typing import Any

from apache_beam.coders import Coder, FastPrimitivesCoder, registry

from beam_joins.change import Change
from coders.corrupt import CorruptData, StrictCoder

_HEAD = struct.Struct(">BqqI")
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
        self._key_coder = key_coder or FastPrimitivesCoder()
        self._value_coder = value_coder or FastPrimitivesCoder()

    def encode(self, value: Change[Any, Any]) -> bytes:
        """All five fields."""
        flags = _VERSION
        key = self._key_coder.encode(value.key)
        tail = b""
        if value.old is not None:
            flags |= _HAS_OLD
            old = self._value_coder.encode(value.old)
            tail = _LENGTH.pack(len(old)) + old
        if value.new is not None:
            flags |= _HAS_NEW
            tail += self._value_coder.encode(value.new)
        return _HEAD.pack(flags, value.timestamp, value.position, len(key)) + key + tail

    def read(self, encoded: bytes) -> Change[Any, Any]:
        """All five fields."""
        flags, timestamp, position, key_length = _HEAD.unpack_from(encoded)
        if flags & ~(_HAS_OLD | _HAS_NEW) != _VERSION:
            raise CorruptData(f"a change cannot begin with the byte {flags:#04x}")
        at = _HEAD.size
        key, at = _take(encoded, at, key_length)
        old = new = None
        if flags & _HAS_OLD:
            (old_length,) = _LENGTH.unpack_from(encoded, at)
            old_bytes, at = _take(encoded, at + _LENGTH.size, old_length)
            old = self._value_coder.decode(old_bytes)
        if flags & _HAS_NEW:
            new = self._value_coder.decode(encoded[at:])
        elif at != len(encoded):
            raise CorruptData(f"a change has {len(encoded) - at} bytes too many")
        return Change(self._key_coder.decode(key), old, new, timestamp, position)

    def is_deterministic(self) -> bool:
        """True if the coders of key and value are."""
        return bool(self._key_coder.is_deterministic() and self._value_coder.is_deterministic())

    def to_type_hint(self) -> type:
        """``Change``."""
        return Change


def _take(encoded: bytes, at: int, length: int) -> tuple[bytes, int]:
    end = at + length
    if end > len(encoded):
        raise CorruptData(f"a change ends after {len(encoded)} bytes, before byte {end}")
    return encoded[at:end], end


registry.register_coder(Change, ChangeCoder)
