"""A stream aggregated by key and window: the windowed table of "Join Semantics".

Law: for every position p the content of the result is the aggregate, for every key and window, of the records
up to and including p that fall into it (without those that came too late).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from beam_joins.elements.change import Change, Dropped
from beam_joins.elements.windowed import Window, Windowed
from tests.reference.aggregate import added
from tests.reference.record import LeftOut, Record

A = TypeVar("A")


class WindowedAggregate(Generic[A]):
    """All windows of one source key.

    ``windows(timestamp)`` gives those that a time falls into, ``add(aggregate, value)`` the aggregate with
    one more value (``None``: no row). The records of one position are all added, in order of ``within``, time
    and encoded value, ``None`` first; one change follows for each window, with the largest timestamp of the
    records that it has counted. A record for which ``add`` raises ``LeftOut`` has no part in the window.

    With a ``grace``, a record is ``Dropped("late", (window, record), timestamp)`` where its window ended that
    long or longer before the latest time that the key has seen; ``None`` waits for ever.

    >>> counts = WindowedAggregate(lambda time: [Window(time // 10 * 10, time // 10 * 10 + 10)], int, lambda count, value: count + 1)
    >>> list(counts.advance(1, [Record(b"k", b"a", 13, 1), Record(b"k", None, 12, 1)]))
    [Change(key=Windowed(key=b'k', window=Window(start=10, end=20)), old=None, new=2, timestamp=13, position=1)]
    """

    def __init__(
        self,
        windows: Callable[[int], Iterable[Window]],
        initial: Callable[[], A | None],
        add: Callable[[Any, bytes | None], A | None],
        grace: int | None = None,
    ) -> None:
        self._windows = windows
        self._initial = initial
        self._add = add
        self._grace = grace
        self._latest: int | None = None
        self._rows: dict[Window, tuple[A, int]] = {}
        self.adding: tuple[Record, Window] | None = None
        """The record that ``add`` is being called for, and the window."""

    def advance(self, position: int, events: Sequence[Record]) -> Iterator[Change[Windowed[bytes], A] | Dropped]:
        """Add the records of one position."""
        touched: dict[Window, tuple[A | None, int]] = {}
        before = self._latest
        # records of one position are there at once: none is late for another
        newest = max(record.timestamp for record in events)
        self._latest = newest if before is None else max(before, newest)
        for record in sorted(events, key=_order) if len(events) > 1 else events:
            time = record.timestamp
            clock = time if before is None else max(before, time)
            for window in self._windows(time):
                if self._grace is not None and window.end <= clock - self._grace:
                    yield Dropped("late", (window, record), time)
                    continue
                row, row_time = touched.get(window) or self._rows.get(window) or (None, time)
                self.adding = record, window
                try:
                    aggregate = added(self._add, self._initial() if row is None else row, record.value)
                except LeftOut:
                    continue
                touched[window] = aggregate, time if row is None else max(row_time, time)
        for window in sorted(touched) if len(touched) > 1 else touched:
            new, time = touched[window]
            old, _ = self._rows.pop(window, (None, 0))
            if new is not None:
                self._rows[window] = new, time
            if old is not None or new is not None:
                yield Change(Windowed(events[0].key, window), old, new, time, position)


def _order(record: Record) -> tuple[bytes, int, bool, bytes]:
    return record.within, record.timestamp, record.value is not None, record.value or b""
