"""Coder of the keys of windowed tables, ``{4-byte big-endian length of the key}{key}{start}{end}``, laid out
like a combined key.

The bounds are 8 bytes each, big-endian with the sign bit turned, so that the windows of a key sort by time.
"""

import struct
from typing import Any

from apache_beam.coders import Coder, registry

from beam_joins.coders.combined_key import combine, split
from beam_joins.coders.key import KeyCoder
from beam_joins.coders.strict import StrictCoder
from beam_joins.elements.parameters import Parameterised, when_made
from beam_joins.elements.windowed import Window, Windowed

_BOUNDS = struct.Struct(">QQ")
_SIGN = 1 << 63


class WindowedCoder(StrictCoder):
    """Coder of ``Windowed[K]`` from the coder of its key; deterministic if that is.

    It is registered for :class:`Windowed`.

    >>> from apache_beam.coders import StrUtf8Coder
    >>> coder = WindowedCoder(StrUtf8Coder())
    >>> coder.decode(coder.encode(Windowed("page", Window(-5, 5)))).window
    Window(start=-5, end=5)
    """

    def __init__(self, key_coder: Coder | None = None) -> None:
        self.source_coder = key_coder or KeyCoder()

    def encode(self, value: Windowed[Any]) -> bytes:
        """The key, then its window."""
        if not isinstance(value, Windowed):
            raise ValueError(f"a windowed table has changes keyed by Windowed, not by {value!r}")
        try:
            start, end = value.window
            bounds = _BOUNDS.pack(start + _SIGN, end + _SIGN)
        except (TypeError, ValueError, struct.error):
            raise ValueError(f"{value.window!r} is not a Window(start, end) in microseconds") from None
        return combine(self.source_coder.encode(value.key), bounds)

    def read(self, encoded: bytes) -> Windowed[Any]:
        """The key and its window."""
        key, bounds = split(encoded)
        start, end = _BOUNDS.unpack(bounds)
        return Windowed(self.source_coder.decode(key), Window(start - _SIGN, end - _SIGN))

    def is_deterministic(self) -> bool:
        """True if the key's coder is."""
        return bool(self.source_coder.is_deterministic())

    @classmethod
    def from_type_hint(cls, hint: Any, registry: Any) -> Any:
        """The coder of ``Windowed[K]``, deterministic for any K: encoding a key without a canonical encoding
        raises.
        """
        return cls(KeyCoder(*hint.parameters)) if isinstance(hint, Parameterised) else cls()

    def to_type_hint(self) -> type:
        """``Windowed``."""
        return Windowed


registry.register_coder(Windowed, WindowedCoder)
when_made(Windowed, lambda made: registry.register_coder(made, WindowedCoder))
