"""The join of a stream with a table: each stream record looks up one row, as of its own position (KIP-77,
KIP-99).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Literal

from beam_joins.elements.change import V
from tests.reference.record import Record, require_one_change
from tests.reference.stream_join import Joined

LookupStreamHow = Literal["inner", "left"]


class StreamLookup(Generic[V]):
    """Table rows (input 0) and the stream records (input 1) that look them up, all of one routing key.

    Only stream records give results, one each and at their own time: with the row that the table has after
    all changes up to and including their position. ``lookup(stream record)`` gives the key of that row,
    ``None`` for no row at all. Without a row there is no result, or with ``how="left"`` ``joiner(value,
    None)``. ``joiner`` gets encoded values; a result of ``None`` is a result.

    >>> join = StreamLookup(lambda value, row: (value, row), "left", lambda record: record.key)
    >>> list(join.advance(1, [Record(b"k", b"row", 1, 1), Record(b"k", b"v", 0, 1, input=1)]))
    [Joined(key=b'k', value=(b'v', b'row'), timestamp=0)]
    """

    def __init__(
        self, joiner: Callable[[bytes, bytes | None], V], how: LookupStreamHow, lookup: Callable[[Record], bytes | None]
    ) -> None:
        self._joiner = joiner
        self._keeps_all = how == "left"
        self._lookup = lookup
        self._rows: dict[bytes, bytes] = {}
        self.joining: Record | None = None
        """The stream record that the joiner is being called for."""

    def advance(self, position: int, events: Sequence[Record]) -> Iterator[Joined[V]]:
        """Apply the table's changes of one position, then look up what its stream records ask for.

        Raises ``ValueError`` if the table has two changes of one row at this position.
        """
        if len(events) > 1:
            require_one_change(event for event in events if not event.input)
        for event in events:
            if event.input:
                yield from self._look_up(event)
            elif event.value is None:
                self._rows.pop(event.key, None)
            else:
                self._rows[event.key] = event.value

    def _look_up(self, event: Record) -> Iterator[Joined[V]]:
        assert event.value is not None, "a stream's null values are dropped before its join"
        key = self._lookup(event)
        row = None if key is None else self._rows.get(key)
        if row is not None or self._keeps_all:
            self.joining = event
            yield Joined(event.key, self._joiner(event.value, row), event.timestamp)
