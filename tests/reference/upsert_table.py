"""The table of a raw changelog, one row of it: what pipelines compute in columns
(:mod:`beam_joins.tables.changelog`).
"""

from collections.abc import Iterator, Sequence
from typing import get_args

from beam_joins.elements.change import Change, Dropped
from beam_joins.elements.content import Emit
from tests.reference.record import Record


class UpsertTable:
    """One row of the table of a raw changelog: fills in the old value (AUTO CDC's SCD type 1, Kafka's
    KTable).

    Of several records at one position the last one wins: by ``within``, then by timestamp, ``tie`` and
    encoded value. A record that is not the last by ``within`` is an earlier change of the same transaction.
    Of those that ``within`` leaves in no order all but one come out as ``Dropped``, with the reason
    ``"duplicate_position"`` where the next one in this order is the same record again, else
    ``"ambiguous_position"``.

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
        losers = [
            Dropped(reason, loser, loser.timestamp)
            for loser, following in zip(others, (winner, *others), strict=False)
            if (reason := why_lost(loser, following)) is not None
        ]
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


def why_lost(record: Record, following: Record) -> str | None:
    """The reason for which a record is dropped in favour of the following one at its position; ``None`` if
    that is a later change.
    """
    if record.within != following.within:
        return None
    same = (record.timestamp, record.value) == (following.timestamp, following.value)
    return "duplicate_position" if same else "ambiguous_position"


def _precedence(record: Record) -> tuple[bytes, int, bytes, bool, bytes]:
    return record.within, record.timestamp, record.tie, record.value is not None, record.value or b""
