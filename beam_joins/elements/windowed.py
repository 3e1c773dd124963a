"""``Window`` and ``Windowed``: the windows and keys of windowed tables ("Join Semantics": WTable).

It is partitioned by ``key`` alone, so that windows of one key can meet.
"""

from math import gcd
from typing import Any, Generic, NamedTuple

from beam_joins.elements.change import K
from beam_joins.elements.parameters import subscripted
from beam_joins.options.spans import Span, span_micros

_LIMIT = 1 << 63


class Window(NamedTuple):
    """A span of event time, ``start`` inclusive, ``end`` exclusive, in microseconds since the epoch.

    >>> Window(0, 7_000_000).shift(-7)
    Window(start=-7000000, end=0)
    """

    start: int
    end: int

    def shift(self, by: Span) -> "Window":
        """The same span, later by a ``timedelta``, a Beam ``Duration`` or seconds, earlier if negative;
        raises ``ValueError`` beyond 64 bits.
        """
        micros = span_micros("by", by, negative=True)
        shifted = Window(self.start + micros, self.end + micros)
        if shifted.start < -_LIMIT or shifted.end >= _LIMIT:
            raise ValueError(f"{self} shifted by {micros} microseconds does not fit in 64 bits")
        return shifted


class Grid(NamedTuple):
    """The windows of a window function: all have one size, and one begins every ``period`` microseconds;
    ``offset`` is the start of one of them.
    """

    size: int
    period: int
    offset: int

    def has(self, window: Window) -> bool:
        """Whether a window belongs to the grid.

        >>> Grid(7, 7, 0).has(Window(7, 14)), Grid(7, 7, 0).has(Window(0, 5))
        (True, False)
        """
        return window.end - window.start == self.size and (window.start - self.offset) % self.period == 0

    def meets(self, other: "Grid") -> bool:
        """Whether two grids have a window in common.

        >>> Grid(5, 5, 0).meets(Grid(5, 1, 3)), Grid(5, 5, 0).meets(Grid(7, 7, 0)), Grid(6, 6, 0).meets(Grid(6, 6, 1))
        (True, False, False)
        """
        return self.size == other.size and (self.offset - other.offset) % gcd(self.period, other.period) == 0

    def __str__(self) -> str:
        begins = f", one beginning every {self.period / 1e6:g} s" if self.period != self.size else ""
        return f"windows of {self.size / 1e6:g} s{begins}" + (f", offset {self.offset / 1e6:g} s" if self.offset else "")


class Windowed(NamedTuple, Generic[K]):
    """The key of a row of a windowed table: a key and its window.

    >>> Windowed("page", Window(0, 10)).key
    'page'
    """

    key: K
    window: Window

    @classmethod
    def __class_getitem__(cls, subscript: Any) -> type["Windowed[Any]"]:  # type: ignore[override]
        return subscripted(cls, subscript)  # as Change does
