"""A table grouped by something that is not its key, and aggregated.

Law: for every position p the content of the result is the aggregate of the content of the table at p,
provided that subtracting undoes adding and that neither depends on the order.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from beam_joins.elements.change import Change
from tests.reference.record import LeftOut, Record

A = TypeVar("A")

SUBTRACT, ADD = 0, 1
"""The inputs of :class:`GroupAggregate`: values that leave the group, and values that enter it."""


class GroupAggregate(Generic[A]):
    """The aggregate of one group, from the values that leave it (input 0) and those that enter it (input 1).

    At one position all that leave are subtracted first, then all that enter are added, each in order of their
    rows' keys. A group has no row before its first addition, and keeps it when its last value has left; it
    loses it only if ``add`` or ``subtract`` gives ``None``, and the next addition then begins with
    ``initial()`` again. Nothing is subtracted from a group without a row. A value for which one of them
    raises ``LeftOut`` has no part in the aggregate.

    A result has the largest timestamp of the row and of what changed it, and the key of one of the records:
    the group is part of it.

    >>> group = GroupAggregate(int, lambda count, value: count + 1, lambda count, value: count - 1)
    >>> [change.new for change in group.advance(1, [Record(b"k", b"v", 10, 1, ADD), Record(b"l", b"v", 12, 1, ADD)])]
    [2]
    >>> list(group.advance(2, [Record(b"k", b"v", 11, 2, SUBTRACT)]))
    [Change(key=b'k', old=2, new=1, timestamp=12, position=2)]
    """

    def __init__(
        self, initial: Callable[[], A | None], add: Callable[[Any, bytes], A | None], subtract: Callable[[A, bytes], A | None]
    ) -> None:
        self._initial = initial
        self._add = add
        self._subtract = subtract
        self._row: A | None = None
        self._time = 0
        self.applying: Record | None = None
        """The record that ``add`` or ``subtract`` is being called for."""

    def advance(self, position: int, events: Sequence[Record]) -> Iterator[Change[bytes, A]]:
        """Apply what leaves and enters at one position; at most one change follows."""
        old = row = self._row
        times = []
        for event in sorted(events, key=_order) if len(events) > 1 else events:
            self.applying = event
            assert event.value is not None
            try:
                if event.input == ADD:
                    row = added(self._add, self._initial() if row is None else row, event.value)
                elif row is not None:
                    row = changed(self._subtract, "subtract", row, event.value)
            except LeftOut:
                continue
            times.append(event.timestamp)
        if not times or (old is None and row is None):
            return
        timestamp = max(times) if old is None else max(self._time, *times)
        self._row, self._time = row, timestamp
        yield Change(events[0].key, old, row, timestamp, position)


def added(add: Callable[[Any, Any], A | None], aggregate: Any, value: Any) -> A | None:
    """``add(aggregate, value)``; raises ``ValueError`` as :func:`changed` does."""
    return changed(add, "add", aggregate, value)


def changed(function: Callable[[Any, Any], A | None], name: str, aggregate: Any, value: Any) -> A | None:
    """``function(aggregate, value)``; raises ``ValueError`` if that changed a container in place, since the
    old aggregate is needed too.

    >>> changed(lambda words, word: [*words, word], "add", ["a"], "b")
    ['a', 'b']
    >>> changed(lambda words, word: words.append(word) or words, "add", ["a"], "b")
    Traceback (most recent call last):
    ValueError: add() must return a new list, not the one that it was given, which is the old value of the change
    """
    result = function(aggregate, value)
    if result is aggregate and isinstance(result, list | dict | set | bytearray):
        raise ValueError(
            f"{name}() must return a new {type(result).__name__}, not the one that it was given, which is the old value of the change"
        )
    return result


def _order(record: Record) -> tuple[int, bytes]:
    return record.input, record.key
