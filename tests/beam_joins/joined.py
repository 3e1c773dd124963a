"""Whole joins of small tables, put together from the kernels as the engine does it."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from beam_joins import Change
from beam_joins.batch import ChangeBatch
from beam_joins.joiner import Join
from beam_joins.matching import How, Shape
from beam_joins.overlap import Joined, State, overlap, step
from beam_joins.pairs import Pairs
from beam_joins.references import listed_subscriptions, looking_up, rejoined, subscriptions
from beam_joins.versions import FOREVER

Table = list[Change[Any, Any]]
Joiner = Callable[[Any, Any], Any]


def batch(table: Iterable[Change[Any, Any]]) -> ChangeBatch:
    """Changes with binary keys and values as a batch; an old value is an earlier one if no change of the table gave it."""
    rows = sorted(table, key=lambda change: (change.key, change.position))
    given = [n > 0 and rows[n - 1].key == change.key for n, change in enumerate(rows)]
    before = [None if change.old is None else n - 1 if given[n] else len(rows) + n for n, change in enumerate(rows)]
    return ChangeBatch(
        key=pa.array([change.key for change in rows], pa.binary()),
        new=pa.array([change.new for change in rows], pa.binary()),
        before=pa.array(before, pa.int64()),
        timestamp=pa.array([change.timestamp for change in rows], pa.int64()),
        position=pa.array([change.position for change in rows], pa.int64()),
        earlier=pa.array([change.old for change in rows], pa.binary()),
    )


def rows(changes: ChangeBatch) -> pa.Table:
    """The right rows of a join."""
    columns = {"key": changes.key, "value": changes.new, "timestamp": changes.timestamp, "position": changes.position}
    return pa.table(columns)


def keyed_rows(changes: ChangeBatch) -> pa.Table:
    """The left rows of a join on the same key."""
    return looking_up(rows(changes), changes.key)


def of_pairs(joiner: Joiner) -> Join:
    """A joiner of bytes, ``None`` for an absent side, as a kernel calls it."""

    def join(pairs: Pairs) -> pa.Array:
        left, right = [*pairs.left.to_pylist(), None], [*pairs.right.to_pylist(), None]
        indices = zip(pairs.left_index.tolist(), pairs.right_index.tolist(), strict=True)
        return pa.array([None if i < 0 and j < 0 else joiner(left[i], right[j]) for i, j in indices], pa.string())

    return join


def left_rows(left: Table, shape: Shape, references: Callable[[bytes], Any] | None, *, lists: bool = False) -> pa.RecordBatch:
    """The left rows of a join: under their own keys without ``references``, else under what those give for a value."""
    changes = batch(left)
    if references is None:
        return keyed_rows(changes)
    given = [None if value is None else references(value) for value in changes.values.to_pylist()]
    if lists:
        return listed_subscriptions(changes, given, keep_unmatched=shape.keeps_left)
    return subscriptions(changes, pa.array(given, pa.binary()), shape)


def changes_of(joined: Joined) -> Table:
    """All changes of a join, by key and position."""
    return sorted([*joined.changes, *rejoined(joined.halves)], key=lambda change: (repr(change.key), change.position))


def join(left: Table, right: Table, joiner: Joiner, shape: Shape, references: Any = None, *, lists: bool = False) -> Table:
    """The changes of a join."""
    return changes_of(overlap(left_rows(left, shape, references, lists=lists), rows(batch(right)), of_pairs(joiner), shape))


def join_in_steps(
    left: Table, right: Table, joiner: Joiner, shape: Shape, references: Any, cuts: list[int], *, lists: bool = False
) -> tuple[Table, State]:
    """The changes of a join whose history is cut behind each position of ``cuts``, and what is remembered at the end."""
    changes, state = [], State()
    for low, high in zip([-FOREVER, *cuts], [*cuts, FOREVER], strict=True):
        joined, state = step(
            state,
            left_rows(_between(left, low, high), shape, references, lists=lists),
            rows(batch(_between(right, low, high))),
            of_pairs(joiner),
            shape,
        )
        found = changes_of(joined)
        assert all(low < change.position <= high for change in found)
        changes += found
    return sorted(changes, key=lambda change: (repr(change.key), change.position)), state


def _between(table: Table, low: int, high: int) -> Table:
    return [change for change in table if low < change.position <= high]


HOWS: tuple[How, ...] = ("inner", "left", "right", "outer", "semi", "anti")
