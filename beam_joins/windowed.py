"""The key of a windowed table ("Join Semantics": WTable). It is partitioned by ``key`` alone, so that windows of one key can meet."""

from typing import Any, Generic, NamedTuple

from beam_joins.change import K
from beam_joins.parameters import subscripted
from beam_joins.spans import Span, span_micros

_LIMIT = 1 << 63


class Window(NamedTuple):
    """A span of event time, ``start`` inclusive, ``end`` exclusive, in microseconds since the epoch.

    >>> Window(0, 7_000_000).shift(-7)
    Window(start=-7000000, end=0)
    """

    start: int
    end: int

    def shift(self, by: Span) -> "Window":
        """The same span, later by a ``timedelta``, a Beam ``Duration`` or seconds, earlier if negative; raises ``ValueError`` beyond 64 bits."""
        micros = span_micros("by", by, negative=True)
        shifted = Window(self.start + micros, self.end + micros)
        if shifted.start < -_LIMIT or shifted.end >= _LIMIT:
            raise ValueError(f"{self} shifted by {micros} microseconds does not fit in 64 bits")
        return shifted


class Windowed(NamedTuple, Generic[K]):
    """A key in a window.

    >>> Windowed("page", Window(0, 10)).key
    'page'
    """

    key: K
    window: Window

    @classmethod
    def __class_getitem__(cls, subscript: Any) -> type["Windowed[Any]"]:  # type: ignore[override]
        return subscripted(cls, subscript)  # as Change does
