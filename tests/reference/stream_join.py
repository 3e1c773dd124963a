"""The windowed stream-stream join: records of one key whose timestamps lie close to each other (KIP-77,
KIP-633).
"""

from bisect import bisect_left, bisect_right, insort_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, Literal, NamedTuple

from beam_joins.elements.change import V
from tests.reference.record import Record

StreamHow = Literal["inner", "left", "outer"]


class Joined(NamedTuple, Generic[V]):
    """A result of a stream's join: its encoded key, its value, its event time in microseconds."""

    key: bytes
    value: V
    timestamp: int


class Late(NamedTuple):
    """A record that came when its window and grace had closed."""

    record: Record


class StreamJoin(Generic[V]):
    """Both streams' records of one key: left ones are input 0, right ones input 1.

    A left and a right record match if ``left time - before <= right time <= left time + after``; all
    durations are in microseconds, and one of these two may be negative if their sum is not. Every matching
    pair gives one result, at the larger of both times. With ``how="left"`` or ``"outer"`` a record without a
    match gives one result, at its own time, when every record that could still match it would be late.

    It defines the operator and is what the tests compare with; pipelines run :mod:`beam_joins.kernels.interval`.

    **Stream time** of the key, at a position, is the largest timestamp of its records, of both sides, at
    earlier positions. A record is late if it lies more than ``grace`` behind the stream time, and has no part
    in the join: so no record gives a result without a match and one with a match later. The records of one
    position see each other, whatever their order.

    ``joiner(left value, right value)`` gets encoded values, ``None`` for an absent side; a result of ``None``
    is a result.

    >>> join = StreamJoin(lambda left, right: (left, right), "left", before=5, after=5, grace=0)
    >>> list(join.advance(10, [Record(b"k", b"l", 10, 10)]))
    []
    >>> list(join.advance(15, [Record(b"k", b"r", 15, 15, input=1)]))
    [Joined(key=b'k', value=(b'l', b'r'), timestamp=15)]
    """

    def __init__(
        self, joiner: Callable[[bytes | None, bytes | None], V], how: StreamHow, *, before: int, after: int, grace: int
    ) -> None:
        self._joiner = joiner
        self._keeps_left = how in ("left", "outer")
        self._keeps_right = how == "outer"
        self._before = before
        self._after = after
        self._grace = grace
        self._left = _Side()
        self._right = _Side()
        self._stream_time: int | None = None

    def advance(self, position: int, events: Sequence[Record]) -> Iterator[Joined[V] | Late]:
        """Join the records of one position with those before and with each other; then give what has found no
        match.
        """
        stream_time = self._stream_time
        for event in events:
            if stream_time is not None and event.timestamp + self._grace < stream_time:
                yield Late(event)
            elif event.input:
                yield from self._right_record(event)
            else:
                yield from self._left_record(event)
        newest = max(event.timestamp for event in events)
        if stream_time is None or newest > stream_time:
            self._stream_time = newest
            yield from self._close(newest - self._grace)

    def finish(self) -> Iterator[Joined[V]]:
        """What has found no match when no more records come."""
        yield from self._close(None)

    def _left_record(self, left: Record) -> Iterator[Joined[V]]:
        row = _Row(left.timestamp, left)
        for match in self._right.between(left.timestamp - self._before, left.timestamp + self._after):
            yield self._pair(row, match)
        self._left.add(row)

    def _right_record(self, right: Record) -> Iterator[Joined[V]]:
        row = _Row(right.timestamp, right)
        for match in self._left.between(right.timestamp - self._after, right.timestamp + self._before):
            yield self._pair(match, row)
        self._right.add(row)

    def _pair(self, left: "_Row", right: "_Row") -> Joined[V]:
        left.matched = right.matched = True
        return Joined(left.record.key, self._joiner(left.record.value, right.record.value), max(left.time, right.time))

    def _close(self, time: int | None) -> Iterator[Joined[V]]:
        """Forget the rows that match nothing from ``time`` on (``None``: all rows)."""
        for row in self._left.take(None if time is None else time - self._after):
            if self._keeps_left and not row.matched:
                yield Joined(row.record.key, self._joiner(row.record.value, None), row.time)
        for row in self._right.take(None if time is None else time - self._before):
            if self._keeps_right and not row.matched:
                yield Joined(row.record.key, self._joiner(None, row.record.value), row.time)


@dataclass(slots=True)
class _Row:
    time: int
    record: Record
    matched: bool = False


_time = attrgetter("time")


class _Side:
    """The rows of one side that may still match, by time."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._taken = 0  # rows at the front that are gone: to shift the list at every step would cost more than the join

    def add(self, row: _Row) -> None:
        insort_right(self._rows, row, lo=self._taken, key=_time)

    def between(self, first: int, last: int) -> list[_Row]:
        start = bisect_left(self._rows, first, lo=self._taken, key=_time)
        return self._rows[start : bisect_right(self._rows, last, lo=start, key=_time)]

    def take(self, before: int | None) -> list[_Row]:
        """Remove and return the rows of times before this one, or all."""
        end = len(self._rows) if before is None else bisect_left(self._rows, before, lo=self._taken, key=_time)
        taken, self._taken = self._rows[self._taken : end], end
        if self._taken > len(self._rows) // 2:
            del self._rows[: self._taken]
            self._taken = 0
        return taken
