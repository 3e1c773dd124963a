"""Joins tables by their common key: at each position of a key, the rows that all tables have there.

The tables are joined one after the other, from the left, as in a chain of joins of two tables: each
:data:`~beam_joins.options.join_types.How` says how a table is joined with those before it. But no rows are made between: a
position at which a row of one of the tables begins, changes or ends is one event.

Law: at every position the content of the result is the join of the contents of all tables.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, ordered, starts, valid
from beam_joins.functions.joiner import Join
from beam_joins.functions.pairs import Pairs
from beam_joins.keys.encoded import encoded_keys, prefixes
from beam_joins.keys.key_columns import Bools, Ints, factorize, joined_keys
from beam_joins.options.join_types import How
from beam_joins.tables.arrangement import ROW, Arrangement, with_alive
from beam_joins.tables.batch import ChangeBatch
from beam_joins.tables.versions import Versions

_EARLIEST = np.iinfo(np.int64).min


class KeyJoined(NamedTuple):
    """The changes of a join, and how many rows of the first table there was no row for in another one when they
    arrived or changed.
    """

    changes: ChangeBatch
    unmatched: int


class _Events(NamedTuple):
    """Positions of keys at which the result may change, sorted by key and position."""

    code: Ints
    position: Ints
    now: list[Ints]
    """The last version of each table at or before the position, -1 for none."""


class _Contents(NamedTuple):
    """The contents at events: whether the result changes, and for each table the row that is joined, -1 for
    none.
    """

    changes: Bools
    joined: list[Ints]


def key_join(tables: Sequence[pa.Table], join: Join, hows: Sequence[How], *, behind: int | None = None) -> KeyJoined:
    """Joins tables with the columns ``key``, ``value``, null for a delete, ``timestamp`` and ``position``.

    ``hows`` says how each table but the first is joined, and ``join`` gets the values of all tables but those
    of semi and anti joins. The timestamp of a result is the largest of the rows that meet and the rows that
    change. Changes at or before the position ``behind`` are left out.

    Raises ``ValueError`` for two changes of one row at one position.
    """
    keys = [combine_chunks(table["key"]) for table in tables]
    versions = [Versions(code, table) for code, table in zip(factorize(*keys), tables, strict=True)]
    events = _events(versions, hows)
    unmatched = _unmatched(versions, events) & (behind is None or events.position > behind)
    matters, joined = _contents(versions, events, hows)
    events = _Events(events.code[matters], events.position[matters], [now[matters] for now in events.now])
    key, timestamp = _keys(keys, versions, events), _timestamps(versions, events)
    values = [
        (combine_chunks(table["value"]), index[matters])
        for table, index, how in zip(tables, joined, ("inner", *hows), strict=True)
        if how not in ("semi", "anti")
    ]
    new = join(_rows(values, key, timestamp))
    exists = valid(new)
    before = np.arange(len(new)) - 1
    before[starts(events.code)] = -1
    before = np.where((before >= 0) & exists[before], before, -1)
    kept = (exists | (before >= 0)) & (behind is None or events.position > behind)
    batch = ChangeBatch(
        key=key,
        new=new,
        before=pa.array(before, mask=before < 0),
        timestamp=pa.array(timestamp),
        position=pa.array(events.position),
    )
    return KeyJoined(batch if kept.all() else batch.filter(pa.array(kept)), int(unmatched.sum()))


def _events(versions: Sequence[Versions], hows: Sequence[How]) -> _Events:
    """All positions at which a table changes; of those joined by semi and anti joins where rows come or go."""
    codes, positions = list[Ints](), list[Ints]()
    for each, how in zip(versions, ("inner", *hows), strict=True):
        chosen = slice(-1) if how not in ("semi", "anti") else np.flatnonzero(each.toggles(np.arange(len(each.code) - 1)))
        codes.append(each.code[chosen])
        positions.append(each.position[chosen])
    code, position = np.concatenate(codes), np.concatenate(positions)
    by = ordered(code, position)
    code, position = code[by], position[by]
    first = starts(code, position)
    code, position = code[first], position[first]
    return _Events(code, position, [each.now(code, position)[0] for each in versions])


def _unmatched(versions: Sequence[Versions], events: _Events) -> Bools:
    """The events at which a row of the first table arrives or changes, and another table has none."""
    first, *others = [each.exists[now] for each, now in zip(versions, events.now, strict=True)]
    unmatched: Bools = _changes(versions[0], events, events.now[0]) & first & ~np.logical_and.reduce(others)
    return unmatched


def _changes(versions: Versions, events: _Events, now: Ints) -> Bools:
    """The events at which a table changes."""
    changes: Bools = (now >= 0) & (versions.position[now] == events.position)
    return changes


def _contents(versions: Sequence[Versions], events: _Events, hows: Sequence[How]) -> _Contents:
    """The contents of the chain of joins."""
    begins = starts(events.code)
    changed, *others_changed = [_changes(each, events, now) for each, now in zip(versions, events.now, strict=True)]
    present, *others = [each.exists[now] for each, now in zip(versions, events.now, strict=True)]
    visible = [present]
    for exists, changes, how, each, now in zip(others, others_changed, hows, versions[1:], events.now[1:], strict=True):
        visible = [*(shown & present for shown in visible), exists]
        match how:
            case "inner" | "semi":
                present = present & exists
            case "anti":
                present = present & ~exists
            case "right":
                present = exists
            case "outer":
                present = present | exists
            case "left":
                pass
        # what is not there before and after is no change of what is joined so far
        was_present = np.append(False, present[:-1])[: len(present)] & ~begins
        counts = changes & each.toggles(now) if how in ("semi", "anti") else changes
        changed = (changed | counts) & (present | was_present)
    rows = [np.where(shown & present, each.index[now], -1) for shown, each, now in zip(visible, versions, events.now, strict=True)]
    return _Contents(changed, rows)


def _timestamps(versions: Sequence[Versions], events: _Events) -> Ints:
    latest = np.full(len(events.code), _EARLIEST)
    for each, now in zip(versions, events.now, strict=True):
        counts = each.exists[now] | _changes(each, events, now)
        latest = np.maximum(latest, np.where(counts, each.timestamp[now], _EARLIEST))
    return latest


def _keys(keys: Sequence[pa.Array], versions: Sequence[Versions], events: _Events) -> pa.Array:
    """The keys of events as the first table has them that has a version then."""
    chosen, begin = np.full(len(events.code), -1), 0
    for key, each, now in zip(keys, versions, events.now, strict=True):
        chosen = np.where((chosen < 0) & (now >= 0), begin + each.index[now], chosen)
        begin += len(key)
    return reduce(joined_keys, keys).take(pa.array(chosen))


def _rows(values: Sequence[tuple[pa.Array, Ints]], key: pa.Array, timestamp: Ints) -> Pairs:
    nothing = pa.nulls(0), np.full(len(timestamp), -1)
    (left, left_index), (right, right_index), *others = [*values, nothing] if len(values) == 1 else values
    return Pairs(left, left_index, right, right_index, key, timestamp, others=others)


class KeyState(tuple[Any, ...]):
    """The state of a join between steps: the frontier, and the current rows of each table by the bytes of their
    keys.
    """

    __slots__ = ()

    def __new__(cls, frontier: int | None, *tables: Arrangement) -> Self:
        """Of these fields."""
        return super().__new__(cls, (frontier, *tables))

    @property
    def frontier(self) -> int | None:
        """Up to which position all changes were given."""
        frontier: int | None = self[0]
        return frontier

    @property
    def tables(self) -> tuple[Arrangement, ...]:
        """The rows of each table."""
        return self[1:]


def key_step(state: KeyState, tables: Sequence[pa.Table], join: Join, hows: Sequence[How]) -> tuple[KeyJoined, KeyState]:
    """The changes caused by new rows, all of which lie behind the frontier, and the next state; the first
    state has no tables.

    A history that is cut at any positions gives the same changes, step by step, as in one step.
    """
    arrangements = state.tables or (Arrangement(),) * len(tables)
    orders = [prefixes(encoded_keys(combine_chunks(table["key"]))) for table in tables]
    touched = pc.unique(pa.concat_arrays(orders))
    merged = [
        with_alive(alive.starting_with(touched), table, order, ROW)
        for alive, table, order in zip(arrangements, tables, orders, strict=True)
    ]
    joined = key_join(merged, join, hows, behind=state.frontier)
    positions = [pc.max(table["position"]).as_py() for table in tables if len(table)]
    frontier = max([*positions, *([] if state.frontier is None else [state.frontier])], default=None)
    news = [rows.slice(len(rows) - len(table)) for rows, table in zip(merged, tables, strict=True)]
    return joined, KeyState(frontier, *(alive.updated(new) for alive, new in zip(arrangements, news, strict=True)))
