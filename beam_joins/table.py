"""The content of a table, and the table that a raw changelog stands for.

The law of every operator here is stated on contents: for every position p,
``content(join(T1, T2), p) == join(content(T1, p), content(T2, p))``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from beam_joins.change import Change, Dropped, K, V
from beam_joins.record import Record
from beam_joins.two_changes import TwoChanges

Emit = Literal["updates", "changes", "records", "latest"]
"""Which records of a changelog become changes.

``"updates"``: all but the tombstones of absent rows, as a database's log means it. ``"changes"``: only those that change the value.
``"records"``: all, tombstones of absent rows too, as Kafka Streams forwards them. ``"latest"``: only the last change of each row that is
there in the end, for a bounded changelog of which only the final content counts.
"""


def content(changes: Iterable[Change[K, V]], position: int | None = None) -> dict[K, V]:
    """The rows of a table after all changes up to and including ``position`` (``None``: after all).

    Raises ``ValueError`` if the changes are not a table: two at one (key, position), or an old value that is not the value before.

    >>> content([Change("k", None, 1, 0, position=1), Change("k", 1, None, 0, position=2)], position=1)
    {'k': 1}
    """
    rows: dict[K, V] = {}
    last: dict[K, int] = {}
    for change in sorted(changes, key=lambda c: c.position):
        if position is not None and change.position > position:
            break
        if last.get(change.key) == change.position:
            raise TwoChanges(change.key, change.position).of_key(change.key)
        if rows.get(change.key) != change.old:
            raise ValueError(f"{change} says that the row was {change.old!r}, but it was {rows.get(change.key)!r}")
        last[change.key] = change.position
        if change.new is None:
            rows.pop(change.key, None)
        else:
            rows[change.key] = change.new
    return rows


class UpsertTable:
    """One row of the table that a raw changelog stands for: fills in the old value (AUTO CDC's SCD type 1, Kafka's KTable).

    Of several records at one position the one with the later timestamp wins, then the larger encoded value; the others come out as
    ``Dropped("duplicate_position", record, timestamp)``.

    >>> row = UpsertTable(emit="updates")
    >>> list(row.advance(1, [Record(b"k", b"v", 10, 1)]))
    [Change(key=b'k', old=None, new=b'v', timestamp=10, position=1)]
    """

    def __init__(self, emit: Emit = "updates") -> None:
        if emit not in get_args(Emit):
            raise ValueError(f"emit={emit!r}: choose one of {', '.join(map(repr, get_args(Emit)))}")
        self._emit = emit
        self._row: bytes | None = None
        self._last: Change[bytes, bytes] | None = None
        self._losers: list[Dropped] = []

    def advance(self, position: int, events: Sequence[Record]) -> Iterator[Change[bytes, bytes] | Dropped]:
        """Apply the records of one position."""
        winner, *others = sorted(events, key=_precedence, reverse=True) if len(events) > 1 else events
        losers = [Dropped("duplicate_position", loser, loser.timestamp) for loser in others]
        if self._emit == "latest":
            self._last, self._losers = Change(winner.key, None, winner.value, winner.timestamp, position), losers
            return
        yield from losers
        old, new = self._row, winner.value
        self._row = new
        if old is None and new is None and self._emit != "records":
            return
        if old == new and self._emit == "changes":
            return
        yield Change(winner.key, old, new, winner.timestamp, position)

    def finish(self) -> Iterator[Change[bytes, bytes] | Dropped]:
        """With ``emit="latest"`` the last change, and who lost against it, when no more records come."""
        yield from self._losers
        if self._last is not None and self._last.new is not None:
            yield self._last


def _precedence(record: Record) -> tuple[int, bool, bytes]:
    return record.timestamp, record.value is not None, record.value or b""
