"""The lookup join: each left row looks up one right row in the same partition.

That is the join of windowed tables (a row looks up its window, a shifted one, the one that it names, or the
row of its source key), Jan Filipiak's one-to-many join and the foreign-key join with right rows or lists (the
row that it refers to); with ``shared_keys`` the table-table join. Pipelines run :mod:`beam_joins.kernels.overlap`.

Law: for every position p the content of the result is the join of the contents of both tables at p.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Literal, NamedTuple

from beam_joins.elements.change import Change, V
from tests.reference.record import Record, require_one_change

LookupHow = Literal["inner", "left", "right", "outer"]


class ResultKey(NamedTuple):
    """The key of a result row: an encoded left key, or the key of a right row that no left row looks up."""

    key: bytes
    right_alone: bool


class LookupJoin(Generic[V]):
    """All left and right rows of one routing key; left rows are input 0, right rows input 1.

    ``lookup(left record)`` gives the right key that a left row looks up, or ``None``. ``joiner(left value,
    right value)`` gets encoded values, ``None`` for an absent side, and gives the result (``None``: no row).
    With ``how="right"`` or ``"outer"`` a right row that no left row looks up has a row of its own; with
    ``shared_keys`` it is the row of the same key on the left, as in a table-table join.

    A result has the larger timestamp of both sides: of a row that goes, the time of its delete, and of the
    right row that it looked up.

    >>> join = LookupJoin(lambda left, right: left + b"-" + right, "inner", lambda left: left.key, shared_keys=True)
    >>> list(join.advance(1, [Record(b"k", b"l", 3, 1), Record(b"k", b"r", 2, 1, input=1)]))
    [Change(key=ResultKey(key=b'k', right_alone=False), old=None, new=b'l-r', timestamp=3, position=1)]
    """

    def __init__(
        self,
        joiner: Callable[[bytes | None, bytes | None], V | None],
        how: LookupHow,
        lookup: Callable[[Record], bytes | None],
        *,
        shared_keys: bool,
    ) -> None:
        self._joiner = joiner
        self._keeps_left = how in ("left", "outer")
        self._keeps_right = how in ("right", "outer")
        self._lookup = lookup
        self._shared_keys = shared_keys
        self._left: dict[bytes, tuple[Record, bytes | None]] = {}
        self._right: dict[bytes, Record] = {}
        self._lookers: dict[bytes, set[bytes]] = {}
        self._results: dict[ResultKey, V] = {}
        self.joining: tuple[ResultKey, int] | None = None
        """The result row that the joiner is being called for, and the time of what touched it."""

    def advance(self, position: int, events: Sequence[Record]) -> Iterator[Change[ResultKey, V]]:
        """Apply the rows of one position; at most one change follows for every result row.

        Raises ``ValueError`` if a table has two changes of one row at this position.
        """
        if len(events) > 1:
            require_one_change(events)
        leaving = {
            event.key: looked_up for event in events if event.value is None and (looked_up := self._looked_up(event)) is not None
        }
        touched: dict[ResultKey, int] = {}
        for event in events:
            for key in self._apply_right(event) if event.input else self._apply_left(event):
                touched[key] = max(touched.get(key, event.timestamp), event.timestamp)
        if leaving:
            times = {event.key: event.timestamp for event in events if event.input}
            for left_key, right_key in leaving.items():
                right = self._right.get(right_key)
                time = right.timestamp if right else times.get(right_key)
                if time is not None:
                    key = ResultKey(left_key, False)
                    touched[key] = max(touched[key], time)
        for key, timestamp in touched.items():
            self.joining = key, timestamp
            new, time = self._row(key, timestamp)
            old = self._results.pop(key, None)
            if new is not None:
                self._results[key] = new
            if old is not None or new is not None:
                yield Change(key, old, new, time, position)

    def _looked_up(self, event: Record) -> bytes | None:
        """What a left row that changes looked up before."""
        return None if event.input else self._left.get(event.key, (event, None))[1]

    def _apply_left(self, event: Record) -> Iterator[ResultKey]:
        _, before = self._left.pop(event.key, (event, None))
        if before is not None:
            self._lookers[before].discard(event.key)
            yield from self._alone(before)
        if event.value is not None:
            after = self._lookup(event)
            self._left[event.key] = event, after
            if after is not None:
                self._lookers.setdefault(after, set()).add(event.key)
                yield from self._alone(after)
        yield ResultKey(event.key, False)

    def _apply_right(self, event: Record) -> Iterator[ResultKey]:
        if event.value is None:
            self._right.pop(event.key, None)
        else:
            self._right[event.key] = event
        if self._shared_keys:
            yield ResultKey(event.key, False)
        for key in sorted(self._lookers.get(event.key, ())):
            yield ResultKey(key, False)
        yield from self._alone(event.key)

    def _alone(self, right_key: bytes) -> Iterator[ResultKey]:
        if self._keeps_right:
            yield ResultKey(right_key, not self._shared_keys)

    def _row(self, result_key: ResultKey, timestamp: int) -> tuple[V | None, int]:
        """The value of a result row, and its time given that of what touched it."""
        left, looked_up = self._left.get(result_key.key, (None, None)) if not result_key.right_alone else (None, None)
        if left is None and (result_key.right_alone or self._shared_keys):
            right = self._right.get(result_key.key)
            if right is None or not self._keeps_right or self._lookers.get(result_key.key):
                return None, timestamp if right is None else max(timestamp, right.timestamp)
            return self._joiner(None, right.value), max(timestamp, right.timestamp)
        if left is None:
            return None, timestamp
        right = self._right.get(looked_up) if looked_up is not None else None
        timestamp = max(timestamp, left.timestamp)
        if right is None:
            return (self._joiner(left.value, None) if self._keeps_left else None), timestamp
        return self._joiner(left.value, right.value), max(timestamp, right.timestamp)
