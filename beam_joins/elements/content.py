"""``content``: the rows of a table at a position.

The law of every operator here is stated on contents: for every position p,
``content(join(T1, T2), p) == join(content(T1, p), content(T2, p))``.
"""

from collections.abc import Iterable
from typing import Literal

from beam_joins.elements.change import Change, K, V, two_changes

Emit = Literal["updates", "changes", "records", "latest"]
"""Which records of a changelog become changes.

``"updates"``: all but the tombstones of absent rows, as a database's log means it. ``"changes"``: only those
that change the value. ``"records"``: all, tombstones of absent rows too, as Kafka Streams forwards them.
``"latest"``: only the last change of each row that is there in the end, for a bounded
changelog whose final content alone counts.
"""


def content(changes: Iterable[Change[K, V]], position: int | None = None) -> dict[K, V]:
    """The rows of a table after all changes up to and including ``position`` (``None``: after all).

    Raises ``ValueError`` if the changes are not a table: two at one (key, position), or an old value that is
    not the value before.

    >>> content([Change("k", None, 1, 0, position=1), Change("k", 1, None, 0, position=2)], position=1)
    {'k': 1}
    """
    rows: dict[K, V] = {}
    last: dict[K, int] = {}
    for change in sorted(changes, key=lambda c: c.position):
        if position is not None and change.position > position:
            break
        if last.get(change.key) == change.position:
            raise two_changes(change.key, change.position)
        if rows.get(change.key) != change.old:
            raise ValueError(f"{change} says that the row was {change.old!r}, but it was {rows.get(change.key)!r}")
        last[change.key] = change.position
        if change.new is None:
            rows.pop(change.key, None)
        else:
            rows[change.key] = change.new
    return rows
