"""Blocks that wait for the ends of their ticks, in the state of a DoFn, so that a turn reads only the blocks
that are due.

A bag of state is read whole. Blocks arrive in a bag that each turn reads. Where many of them have to wait, they go
to a wheel of eight bags for the next ticks, one for each; to one for those behind them, with a bag for eight
ticks; or to one with a bag for 64. When time reaches a bag of many ticks, its blocks go to bags of fewer. So a
block is written again three times at most, unless it waits for more than 512 ticks (Varghese and Lauck, Hashed
and Hierarchical Timing Wheels, 1987).
"""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, NamedTuple

from apache_beam.coders import BytesCoder
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, StateSpec

from beam_joins.kernels.stream_time import ALWAYS
from beam_joins.transforms.engine.turns.ticks import Ticks

_WHEELS, _BITS = 3, 3
_PLACES = 1 << _BITS
_BAGS = _WHEELS * _PLACES
_FEW_BYTES = 1 << 20
"""The most bytes that stay with the blocks that arrive: it is cheaper to read them than to note where they
are.
"""
_HEAD = Struct(f">qI{_BAGS}q")
_BLOCK = Struct(">qq")


class WaitingBlock(NamedTuple):
    """Rows of one tick as a block, the end of the tick, and their least position."""

    due: int
    least: int
    block: bytes

    @classmethod
    def read(cls, written: bytes) -> "WaitingBlock":
        """The opposite of :meth:`written`."""
        due, least = _BLOCK.unpack_from(written)
        return cls(due, least, written[_BLOCK.size :])

    def written(self) -> bytes:
        """It as an element of a bag."""
        return _BLOCK.pack(self.due, self.least) + self.block


def wheel_specs(name: str) -> list[StateSpec]:
    """The states of a :class:`Wheel`, beside the bag of arrived blocks."""
    bags = [BagStateSpec(f"blocks {bag} of {name}", BytesCoder()) for bag in range(_BAGS)]
    return [ReadModifyWriteStateSpec(f"wheel of {name}", BytesCoder()), *bags]


class Wheel:
    """The blocks of a partition that wait, when time has come to the end of a tick. ``due``, the blocks of
    ticks up to this one, are taken out, and so are the blocks that :meth:`up_to` gives; :meth:`write` writes
    the rest.

    ``arrived`` is the bag of blocks that have arrived, ``states`` are those of :func:`wheel_specs`.
    """

    due: list[WaitingBlock]

    def __init__(self, ticks: Ticks, tick: int, arrived: Any, states: Sequence[Any]) -> None:
        self._ticks, self._arrived = ticks, arrived
        self._head, *self._bags = states
        self._written = self._head.read() or _HEAD.pack(0, 0, *[ALWAYS] * _BAGS)
        self._reached, self._filled, *self._least = _HEAD.unpack(self._written)
        number = ticks.number(tick)
        self._came = [WaitingBlock.read(each) for each in arrived.read()]
        self._out = [*self._came]
        if not self._filled:
            self._reached = number
        for wheel in range(_WHEELS):
            first, last = (self._reached >> _BITS * wheel) + 1, number >> _BITS * wheel
            self._empty(_bag(wheel, place) for place in range(first, min(last + 1, first + _PLACES)))
        self._reached = max(self._reached, number)
        self.due = self._take(lambda waiting: waiting.due <= tick)

    def up_to(self, position: int) -> list[WaitingBlock]:
        """The blocks with a position that is not larger."""
        self._empty(bag for bag, least in enumerate(self._least) if least <= position)
        return self._take(lambda waiting: waiting.least <= position)

    def add(self, waiting: WaitingBlock) -> None:
        """Put a block in."""
        self._out.append(waiting)

    def write(self) -> None:
        """Write the changes."""
        stays = sum(len(each.block) for each in self._out) <= _FEW_BYTES
        if not stays or self._out != self._came:
            if self._came:
                self._arrived.clear()
            for waiting in self._out:
                number = self._ticks.number(waiting.due)
                (self._arrived if stays or number <= self._reached else self._of(number, waiting.least)).add(waiting.written())
        written = _HEAD.pack(self._reached if self._filled else 0, self._filled, *self._least)
        if written != self._written:
            self._head.write(written)

    def _of(self, number: int, least: int) -> Any:
        """The bag of a tick to come: its wheel is that of the largest digit that differs from the tick reached."""
        wheel = min(((number ^ self._reached).bit_length() - 1) // _BITS, _WHEELS - 1)
        bag = _bag(wheel, number >> _BITS * wheel)
        self._filled |= 1 << bag
        self._least[bag] = min(self._least[bag], least)
        return self._bags[bag]

    def _empty(self, bags: Iterable[int]) -> None:
        for bag in bags:
            if self._filled & 1 << bag:
                self._out += map(WaitingBlock.read, self._bags[bag].read())
                self._bags[bag].clear()
                self._filled &= ~(1 << bag)
                self._least[bag] = ALWAYS

    def _take(self, is_wanted: Callable[[WaitingBlock], bool]) -> list[WaitingBlock]:
        wanted = list(filter(is_wanted, self._out))
        self._out = [waiting for waiting in self._out if not is_wanted(waiting)]
        return wanted


def _bag(wheel: int, place: int) -> int:
    return wheel * _PLACES + place % _PLACES
