"""What rows become, one at a time: plain Python that the contestants in plain Beam call for each key."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

Row = dict[str, Any]
Event = tuple[int, Row | None]
"""A position and the result's columns from there on, or None for no result."""

END: Final = 2**62


class OrderLife(NamedTuple):
    """An order between two of its changes: positions from ``begins`` up to ``ends``, not included."""

    id: int
    begins: int
    ends: int
    amount: int


def order_lives(changes: Iterable[Row]) -> Iterator[tuple[Row, int]]:
    """The changes of one order, each with the position at which the next one comes."""
    ordered = sorted(changes, key=lambda row: row["seq"])
    for number, row in enumerate(ordered):
        yield row, ordered[number + 1]["seq"] if number + 1 < len(ordered) else END


def order_events(lives: Iterable[OrderLife], customer: Iterable[tuple[int, str | None]]) -> Iterator[tuple[int, Event]]:
    """What comes of one customer's orders: at each order's begin, and at each change of the customer within
    its life.

    ``customer`` are the customer's changes, position and name, without a name for a delete.
    """
    changes = sorted(customer)
    positions = [position for position, _ in changes]
    for life in lives:
        first = bisect_right(positions, life.begins)
        yield life.id, _event(life.begins, life.amount, changes[first - 1][1] if first else None)
        for position, name in changes[first:]:
            if position >= life.ends:
                break
            yield life.id, _event(position, life.amount, name)


def result_rows(key: int, events: Iterable[Event]) -> Iterator[Row]:
    """The changelog of one key of a foreign-key join, without deletes of what is not there."""
    exists = False
    for position, result in sorted(events, key=lambda event: event[0]):
        if result is not None or exists:
            yield {"id": key, "position": position, "deleted": result is None, **(result or {"amount": None, "name": None})}
        exists = result is not None


def table_rows(key: int, changes: Iterable[tuple[int, str, bool, int | None]]) -> Iterator[Row]:
    """The changelog of one key of the outer join; a change is position, column (``a`` or ``b``), deleted,
    value.
    """
    now: dict[str, int | None] = {}
    for position, column, deleted, value in sorted(changes):
        exists = bool(now)
        if deleted:
            now.pop(column, None)
        else:
            now[column] = value
        if exists or now:
            yield {"id": key, "position": position, "deleted": not now, "a": now.get("a"), "b": now.get("b")}


def old_and_new(key: int, changes: Iterable[tuple[int, str, bool, int | None]]) -> Iterator[Row]:
    """The old and the new value at each change of one key; a delete of what is not there is left out."""
    old: int | None = None
    for position, _, deleted, value in sorted(changes):
        new = None if deleted else value
        if old is not None or new is not None:
            yield {"id": key, "position": position, "old": old, "new": new}
        old = new


def pairs(key: int, views: Iterable[tuple[int, int]], clicks: Iterable[tuple[int, int]], window: int) -> Iterator[Row]:
    """The views and clicks of one key whose times differ by at most ``window``; each is its time and its
    number.
    """
    clicked = sorted(clicks)
    for ts, view in views:
        first = bisect_right(clicked, (ts - window - 1, END))
        for at, click in clicked[first:]:
            if at > ts + window:
                break
            yield {"key": key, "view": view, "click": click, "ts": max(ts, at)}


def _event(position: int, amount: int, name: str | None) -> Event:
    return position, None if name is None else {"amount": amount, "name": name}
