"""Coder of ``CombinedKey`` (KIP-213): ``{4-byte big-endian length of the foreign key}{foreign key}{primary
key}``.

The length comes first so that the prefix ``{length}{foreign key}`` selects exactly the rows of one foreign
key: that of "A0" does not select those of "A01".
"""

from typing import Any

from apache_beam.coders import Coder, registry

from beam_joins.coders.key import KeyCoder
from beam_joins.coders.strict import StrictCoder
from beam_joins.elements.combined_key import CombinedKey
from beam_joins.errors import CorruptData

_LENGTH = 4


def prefix(foreign_key: bytes) -> bytes:
    """The bytes that every combined key of this encoded foreign key begins with, and no other.

    >>> prefix(b"A0").hex()
    '000000024130'
    """
    return len(foreign_key).to_bytes(_LENGTH, "big") + foreign_key


def combine(foreign_key: bytes, primary_key: bytes) -> bytes:
    """A combined key of two encoded keys.

    >>> combine(b"A0", b"B1").hex()
    '0000000241304231'
    """
    return prefix(foreign_key) + primary_key


def split(encoded: bytes) -> CombinedKey[bytes, bytes]:
    """The two encoded keys of a combined key; raises :class:`CorruptData`.

    >>> split(combine(b"A0", b"B1"))
    CombinedKey(foreign_key=b'A0', primary_key=b'B1')
    """
    end = _LENGTH + int.from_bytes(encoded[:_LENGTH], "big")
    if len(encoded) < max(end, _LENGTH):
        raise CorruptData(f"a combined key of {len(encoded)} bytes, of which {end} should be its prefix")
    return CombinedKey(encoded[_LENGTH:end], encoded[end:])


class CombinedKeyCoder(StrictCoder):
    """Coder of ``CombinedKey[FK, PK]`` from the coders of both keys; deterministic if they are.

    Without them it writes keys of any type that has one encoding, ``None`` too. It is registered for
    :class:`CombinedKey`.

    >>> from apache_beam.coders import StrUtf8Coder
    >>> coder = CombinedKeyCoder(StrUtf8Coder(), StrUtf8Coder())
    >>> coder.encode(CombinedKey("A0", "B1")).startswith(coder.prefix("A0"))
    True
    """

    def __init__(self, foreign_key_coder: Coder | None = None, primary_key_coder: Coder | None = None) -> None:
        self._foreign_key_coder = foreign_key_coder or KeyCoder()
        self._primary_key_coder = primary_key_coder or KeyCoder()

    def prefix(self, foreign_key: Any) -> bytes:
        """The bytes that select all rows of ``foreign_key``."""
        return prefix(self._foreign_key_coder.encode(foreign_key))

    def encode(self, value: CombinedKey[Any, Any]) -> bytes:
        """Both keys, the foreign key's length before them."""
        return combine(self._foreign_key_coder.encode(value.foreign_key), self._primary_key_coder.encode(value.primary_key))

    def read(self, encoded: bytes) -> CombinedKey[Any, Any]:
        """The two keys."""
        foreign_key, primary_key = split(encoded)
        return CombinedKey(self._foreign_key_coder.decode(foreign_key), self._primary_key_coder.decode(primary_key))

    def is_deterministic(self) -> bool:
        """True if both keys' coders are."""
        return bool(self._foreign_key_coder.is_deterministic() and self._primary_key_coder.is_deterministic())

    def to_type_hint(self) -> type:
        """``CombinedKey``."""
        return CombinedKey


registry.register_coder(CombinedKey, CombinedKeyCoder)
