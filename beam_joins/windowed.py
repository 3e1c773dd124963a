"""The key of a windowed table ("Join Semantics": WTable). It is partitioned by ``key`` alone, so that windows of one key can meet."""

from typing import Any, Generic, NamedTuple

from beam_joins.change import K
from beam_joins.parameters import subscripted

_LIMIT = 1 << 63


class Window(NamedTuple):
    """A span of event time, ``start`` inclusive, ``end`` exclusive, in microseconds since the epoch.

    >>> Window(0, 10).shift(-10)
    Window(start=-10, end=0)
    """

    start: int
    end: int

    def shift(self, by: int) -> "Window":
        """The same span, ``by`` microseconds later (earlier if negative); raises ``ValueError`` if that is beyond 64 bits."""
        shifted = Window(self.start + by, self.end + by)
        if shifted.start < -_LIMIT or shifted.end >= _LIMIT:
            raise ValueError(f"{self} shifted by {by} microseconds does not fit in 64 bits")
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
