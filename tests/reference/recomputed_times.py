"""The event times of a join's changes, computed anew from the text of the documentation.

Nothing here is shared with the code under test.

A result has the time of the rows that it was made of, as of its position; a row that is deleted there counts
with the time of its delete.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from beam_joins import Change

Table = list[Change[Any, Any]]
References = Callable[[Any, Any], Iterable[Any]]
"""What a left row refers to, given its key and value."""


class Rows:
    """A table, asked for the time of a row as of a position."""

    def __init__(self, table: Table) -> None:
        self._at = {(change.key, change.position): change for change in table}
        self._table = sorted(table, key=lambda change: change.position)

    def changed(self, key: Any, position: int) -> Change[Any, Any] | None:
        """The row's change at just this position."""
        return self._at.get((key, position))

    def changes_at(self, position: int) -> Table:
        """All changes at a position."""
        return [change for change in self._table if change.position == position]

    def value(self, key: Any, position: int) -> Any:
        """The row's value as of a position."""
        last = self._last(key, position)
        return None if last is None else last.new

    def time(self, key: Any, position: int) -> list[int]:
        """The row's time as of a position: none if it is absent, unless it goes just there."""
        last = self._last(key, position)
        return [] if last is None or (last.new is None and last.position != position) else [last.timestamp]

    def _last(self, key: Any, position: int) -> Change[Any, Any] | None:
        history = [change for change in self._table if change.key == key and change.position <= position]
        return history[-1] if history else None


def same_key(left: Table, right: Table, change: Change[Any, Any]) -> int:
    """In a join on the same key: the larger time of both rows."""
    return max(Rows(left).time(change.key, change.position) + Rows(right).time(change.key, change.position))


def foreign_key(left: Table, right: Table, change: Change[Any, Any], fk_of: Callable[[Any], Any], how: str) -> int:
    """In an inner or left foreign-key join, keyed by the left key."""
    lefts, rights, at = Rows(left), Rows(right), change.position
    cause = lefts.changed(change.key, at)
    if cause is None:
        moved = rights.changed(fk_of(lefts.value(change.key, at)), at)
        assert moved is not None, f"{change} has no cause"
        return moved.timestamp
    new = None if cause.new is None else fk_of(cause.new)
    if new is not None:
        return max([cause.timestamp, *rights.time(new, at)])
    old = None if cause.old is None else fk_of(cause.old)
    if how == "inner":
        return max([cause.timestamp, *rights.time(old, at)])
    both = rights.changed(old, at) if cause.new is None else None
    return max([cause.timestamp, *([both.timestamp] if both else [])])


class Pair(NamedTuple):
    """The key of a result row where a left key does not name one: the right row and the left row, ``None``
    for an absent one.
    """

    right: Any
    left: Any


def by_reference(left: Table, right: Table, key: Pair, position: int, references: References) -> int:
    """In any other join of left rows with what they refer to: the larger time of both rows, whichever of them
    changed.
    """
    lefts, rights = Rows(left), Rows(right)
    if key.left is not None:
        return max(lefts.time(key.left, position) + rights.time(key.right, position))
    touching = [
        change.timestamp
        for change in lefts.changes_at(position)
        for value in (change.old, change.new)
        if value is not None and key.right in references(change.key, value)
    ]
    return max(rights.time(key.right, position) + touching)


def by_equality(left: Table, right: Table, key: Pair, change: Change[Any, Any], join_key: Callable[[Any], Any]) -> int:
    """In a join by any equality: the larger time of both rows of a pair; of a row without a match its own, or that of changes of
    the other table with its join key at the position, if that is larger.
    """
    lefts, rights, at = Rows(left), Rows(right), change.position
    if key.left is not None and key.right is not None:
        return max(lefts.time(key.left, at) + rights.time(key.right, at))
    rows, others, of_key = (lefts, rights, key.left) if key.right is None else (rights, lefts, key.right)
    value = rows.value(of_key, at)
    if change.new is None:  # the row had no match before
        value = rows.value(of_key, at - 1)
    met = join_key(value)
    touching = [
        other.timestamp
        for other in others.changes_at(at)
        for each in (other.old, other.new)
        if met is not None and each is not None and join_key(each) == met
    ]
    return max(rows.time(of_key, at) + touching)
