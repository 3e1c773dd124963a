"""The key of a windowed table: ``{4-byte big-endian length of the key}{key}{start}{end}``, laid out like a combined key.

The bounds are 8 bytes each, big-endian with the sign bit turned, so that the windows of a key sort by time.
"""

import struct
from typing import Any

from apache_beam.coders import Coder, FastPrimitivesCoder

from beam_joins.windowed import Window, Windowed
from coders.combined_key import combine, split
from coders.corrupt import StrictCoder

_BOUNDS = struct.Struct(">QQ")
_SIGN = 1 << 63


class WindowedCoder(StrictCoder):
    """Coder of ``Windowed[K]`` from the coder of its key; deterministic if that is.

    >>> from apache_beam.coders import StrUtf8Coder
    >>> coder = WindowedCoder(StrUtf8Coder())
    >>> coder.decode(coder.encode(Windowed("page", Window(-5, 5)))).window
    Window(start=-5, end=5)
    """

    def __init__(self, key_coder: Coder | None = None) -> None:
        self._key_coder = key_coder or FastPrimitivesCoder()

    def encode(self, value: Windowed[Any]) -> bytes:
        """The key, then its window."""
        start, end = value.window
        return combine(self._key_coder.encode(value.key), _BOUNDS.pack(start + _SIGN, end + _SIGN))

    def read(self, encoded: bytes) -> Windowed[Any]:
        """The key and its window."""
        key, bounds = split(encoded)
        start, end = _BOUNDS.unpack(bounds)
        return Windowed(self._key_coder.decode(key), Window(start - _SIGN, end - _SIGN))

    def is_deterministic(self) -> bool:
        """True if the key's coder is."""
        return bool(self._key_coder.is_deterministic())
