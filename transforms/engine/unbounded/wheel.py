"""Blocks that wait for the ends of their ticks, in the state of a DoFn, so that a turn reads those that are due.

A bag of state is read whole. So there is a wheel of eight bags for the next ticks, one for each, and a wheel
for those behind them with a bag for eight ticks, and one with a bag for 64: when time reaches a bag of many
ticks, its blocks go to bags of fewer. A block is written again twice at most, unless it waits for more than
512 ticks (Varghese and Lauck, Hashed and Hierarchical Timing Wheels, 1987).
"""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from apache_beam.coders import BytesCoder
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, StateSpec

from beam_joins.stream_time import ALWAYS
from beam_joins.transforms.engine.ticks import Ticks

_WHEELS, _BITS = 3, 3
_BAGS = 1 << _BITS
_NEXT: Final = _WHEELS * _BAGS
"""The bag of blocks that are due whenever there is a turn: those of ticks that have been, and all before the first
turn.
"""
_HEAD = Struct(f">?qI{_NEXT + 1}q")
_BLOCK = Struct(">qq")


class Waiting(NamedTuple):
    """Rows of one tick as a block, the end of the tick, and their least position."""

    due: int
    least: int
    block: bytes

    @classmethod
    def read(cls, written: bytes) -> "Waiting":
        """The opposite of :meth:`written`."""
        due, least = _BLOCK.unpack_from(written)
        return cls(due, least, written[_BLOCK.size :])

    def written(self) -> bytes:
        """It as an element of a bag."""
        return _BLOCK.pack(self.due, self.least) + self.block


def wheel_specs(name: str) -> list[StateSpec]:
    """The states that a :class:`Wheel` of a DoFn with this name takes, in this order."""
    bags = [BagStateSpec(f"blocks {bag} of {name}", BytesCoder()) for bag in range(_NEXT + 1)]
    return [ReadModifyWriteStateSpec(f"wheel of {name}", BytesCoder()), *bags]


class Wheel:
    """The blocks of a partition that wait; :meth:`write` what it has become."""

    def __init__(self, ticks: Ticks, states: Sequence[Any]) -> None:
        self._ticks = ticks
        self._head, *self._bags = states
        self._written = self._head.read() or _HEAD.pack(False, 0, 0, *[ALWAYS] * (_NEXT + 1))
        self._has_turned, self._reached, self._filled, *self._least = _HEAD.unpack(self._written)

    def add(self, waiting: Waiting) -> None:
        """Put a block in."""
        bag = self._bag(self._ticks.number(waiting.due))
        self._bags[bag].add(waiting.written())
        self._filled |= 1 << bag
        self._least[bag] = min(self._least[bag], waiting.least)

    def due(self, tick: int) -> list[Waiting]:
        """Take out the blocks of all ticks up to the one with this end."""
        number, bags = self._ticks.number(tick), {_NEXT}
        if not self._has_turned:
            self._has_turned, self._reached = True, number
        for wheel in range(_WHEELS):
            first, last = (self._reached >> _BITS * wheel) + 1, number >> _BITS * wheel
            bags.update(_at(wheel, place) for place in range(first, min(last + 1, first + _BAGS)))
        self._reached = max(self._reached, number)
        return self._take(bags, lambda waiting: waiting.due <= tick)

    def up_to(self, position: int) -> list[Waiting]:
        """Take out the blocks with a position that is not larger."""
        bags = [bag for bag, least in enumerate(self._least) if least <= position]
        return self._take(bags, lambda waiting: waiting.least <= position)

    def write(self) -> None:
        """Write what has changed, beside the blocks."""
        written = _HEAD.pack(self._has_turned, self._reached, self._filled, *self._least)
        if written != self._written:
            self._head.write(written)
            self._written = written

    def _bag(self, number: int) -> int:
        """The bag of a tick: the wheel is that of the largest digit that differs from the tick reached."""
        if not self._has_turned or number <= self._reached:
            return _NEXT
        wheel = min(((number ^ self._reached).bit_length() - 1) // _BITS, _WHEELS - 1)
        return _at(wheel, number >> _BITS * wheel)

    def _take(self, bags: Iterable[int], is_wanted: Callable[[Waiting], bool]) -> list[Waiting]:
        blocks: list[Waiting] = []
        for bag in bags:
            if self._filled & 1 << bag:
                blocks += map(Waiting.read, self._bags[bag].read())
                self._bags[bag].clear()
                self._filled &= ~(1 << bag)
                self._least[bag] = ALWAYS
        for waiting in blocks:
            if not is_wanted(waiting):
                self.add(waiting)
        return list(filter(is_wanted, blocks))


def _at(wheel: int, place: int) -> int:
    return wheel * _BAGS + place % _BAGS
