"""The table of a raw changelog (AUTO CDC's SCD type 1, Kafka's KTable): its changes, old values filled in."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.arrangement import ORDER, Arrangement
from beam_joins.batch import ChangeBatch
from beam_joins.content import Emit
from beam_joins.keys.columns import Bools, Ints, factorize
from beam_joins.keys.encoded import encoded_keys, encoded_values, prefixes
from beam_joins.keys.opaque import is_opaque
from beam_joins.sorting import combine_chunks, ends, gather, integers, record_order, starts, valid
from beam_joins.versions import FOREVER


def upsert(rows: pa.Table, emit: Emit) -> tuple[ChangeBatch, pa.Table]:
    """The changes that rows (``key``, ``value``, ``timestamp``, ``position``) make, and the rows that were dropped, with their ``reason``.

    Of several rows with one key and one position the last one is kept, in the order of :func:`~beam_joins.sorting.record_order`. A row that is not the
    last by ``within`` is an earlier change of the same transaction. Of rows with the same ``within`` all but the last are dropped, as
    ``"duplicate_position"`` if the next one has the same timestamp and value, else as ``"ambiguous_position"``; with ``emit="latest"`` only at the last
    position of their key.
    """
    return _upserted(rows, *_in_order(rows), emit)


def _in_order(rows: pa.Table) -> tuple[Ints, Ints]:
    """Numbers for the rows' keys, and the indices that order rows by key and :func:`~beam_joins.sorting.record_order`."""
    (code,) = factorize(combine_chunks(rows["key"]))
    return code, record_order(rows, code)


def _upserted(rows: pa.Table, code: Ints, by: Ints, emit: Emit) -> tuple[ChangeBatch, pa.Table]:
    key, value = combine_chunks(rows["key"]), combine_chunks(rows["value"])
    position, timestamp = integers(rows["position"]), integers(rows["timestamp"])
    wins = ends(code[by], position[by])
    at = np.flatnonzero(~wins)
    lost, following, by = by[at], by[at + 1], by[wins]
    if emit == "latest":
        by = by[ends(code[by])]
        final = np.zeros(int(code.max(initial=0)) + 1, np.int64)
        final[code[by]] = position[by]
        at_last = position[lost] == final[code[lost]]
        lost, following, by = lost[at_last], following[at_last], by[valid(value)[by]]
    there = valid(value)[by]
    before = np.where(starts(code[by]), -1, np.arange(len(by)) - 1)
    before[(before >= 0) & ~there[before]] = -1
    keep = np.ones(len(by), np.bool_)
    if emit != "records":
        keep = there | (before >= 0)
    if emit == "changes":
        keep &= ~same(value.take(pa.array(by)), gather(value, np.where(before >= 0, by[before], -1)))
    # skip filtered changes: the old value is that of the last change kept before
    before = np.where(before >= 0, (np.cumsum(keep) - 1)[before], -1)[keep]
    by = by[keep]
    return ChangeBatch(
        key=key.take(pa.array(by)),
        new=value.take(pa.array(by)),
        before=pa.array(before, mask=before < 0),
        timestamp=pa.array(timestamp[by]),
        position=pa.array(position[by]),
    ), _dropped(rows, lost, following)


def _dropped(rows: pa.Table, lost: Ints, following: Ints) -> pa.Table:
    """The rows that are dropped in favour of the one that follows in their order, without those that ``within`` orders."""
    if "within" in rows.column_names:
        within = combine_chunks(rows["within"]).fill_null(b"")
        alike = same(within.take(pa.array(lost)), within.take(pa.array(following)))
        lost, following = lost[alike], following[alike]
    columns = ["key", "value", "timestamp", "position"]
    dropped, kept = (rows.select(columns).take(pa.array(index)) for index in (lost, following))
    again = same(combine_chunks(dropped["value"]), combine_chunks(kept["value"]))
    again &= integers(dropped["timestamp"]) == integers(kept["timestamp"])
    return dropped.append_column("reason", pa.array(np.where(again, "duplicate_position", "ambiguous_position"), pa.string()))


class State(NamedTuple):
    """What a table remembers between steps: its rows and its deletes, each as of its last record, ordered by the bytes of keys; the frontier and the last truncate."""

    rows: Arrangement = Arrangement()
    deletes: Arrangement = Arrangement()
    frontier: int | None = None
    """The last position processed."""
    emptied: pa.Table | None = None
    """The place of the last truncate: one row of ``position`` and ``within``. Records before it are stale."""


def step(state: State, rows: pa.Table, emit: Emit, *, horizon: int | None = None) -> tuple[ChangeBatch, pa.Table, State]:
    """The changes and dropped rows that new rows make, and the state after them.

    A changelog that is cut at any positions gives the same changes, step by step, as in one step.

    A row at or before the frontier is late, and among the dropped rows. The last one of a key that is newer than the last record of its key is applied too, as a change
    right behind the frontier, and dropped as ``"late_applied"``; others, and those with timestamps before the ``horizon``, up to which deletes are forgotten,
    and those before the last truncate, as ``"late_stale"``.

    Raises ``ValueError`` for ``emit="latest"``, which has no steps.
    """
    if emit == "latest":
        raise ValueError("emit='latest' gives the last change of a whole changelog: it has no steps")
    new = rows.append_column(ORDER, prefixes(encoded_keys(combine_chunks(rows["key"]))))
    touched = pc.unique(new[ORDER]) if state.rows or state.deletes else combine_chunks(new[ORDER])
    rows_known, deletes_known = (each.starting_with(touched) for each in (state.rows, state.deletes))
    if deletes_known is not None and horizon is not None:  # forgotten ones may still be there
        deletes_known = deletes_known.filter(pc.greater_equal(deletes_known["timestamp"], horizon))
    known = [found for found in (rows_known, deletes_known) if found is not None]
    tables, late = [*known, new], list[pa.Table]()
    if state.frontier is not None and pc.any(is_late := pc.less_equal(new["position"], state.frontier)).as_py():
        in_time = new.filter(pc.invert(is_late))
        too_late = new.filter(is_late)
        applied, late = _applied(known, in_time, too_late, _able(state, too_late, horizon), state.frontier)
        tables = [*known, applied, in_time]
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    code, by = _in_order(table)
    batch, dropped = _upserted(table, code, by, emit)
    if state.frontier is not None:
        batch = batch.filter(pc.greater(batch.position, state.frontier))
    last = by[ends(code[by])]
    is_new = last >= sum(map(len, known))
    frontier = max((place for place in (pc.max(table["position"]).as_py(), state.frontier) if place is not None), default=None)
    after = _remembered(state, table.take(pa.array(last[is_new])), horizon)
    return batch, pa.concat_tables([dropped, *late]), after._replace(frontier=frontier, emptied=state.emptied)


_PLACED = "placed"
"""The position that a row that is applied late has by itself."""
_KNOWN = ("key", "value", "timestamp", "position")


def _remembered(state: State, last: pa.Table, horizon: int | None) -> State:
    """The state after the last records of some keys."""
    if _PLACED in last.column_names:
        place = last.schema.get_field_index("position")
        last = last.set_column(place, "position", pc.coalesce(last[_PLACED], last["position"]))
    last = last.select([ORDER, *_KNOWN, *({"within"} & {*last.column_names})])
    there = pa.array(valid(combine_chunks(last["value"])))
    present, deleted = last.filter(there), last.filter(pc.invert(there))
    rows = state.rows.replaced(combine_chunks(deleted[ORDER]), present)
    deletes = state.deletes.replaced(combine_chunks(present[ORDER]), deleted)
    if horizon is not None:
        early = [combine_chunks(run[ORDER].filter(pc.less(run["timestamp"], horizon))) for run in deletes.runs]
        # a newer run may have a later delete of the same key
        found = deletes.starting_with(pc.unique(pa.concat_arrays(early))) if early else None
        if found is not None:
            forgotten = found.filter(pc.less(found["timestamp"], horizon))
            deletes = deletes.replaced(combine_chunks(forgotten[ORDER]), last.slice(0, 0))
    return State(rows, deletes)


def _able(state: State, late: pa.Table, horizon: int | None) -> Bools:
    """Which late rows may be applied, for all that is known of later ones that are forgotten."""
    able: Bools = np.ones(len(late), np.bool_) if horizon is None else integers(late["timestamp"]) >= horizon
    return able if state.emptied is None else able & ~earlier(late, **state.emptied.to_pylist()[0])


def earlier(rows: pa.Table, position: int, within: bytes | None) -> Bools:
    """Which rows are before a place: at an earlier position, or earlier ``within`` the same one."""
    found: Bools = integers(rows["position"]) < position
    if "within" in rows.column_names and within:
        first = pc.less(rows["within"].fill_null(b""), within).to_numpy(zero_copy_only=False)
        found |= (integers(rows["position"]) == position) & first
    return found


def _applied(known: list[pa.Table], in_time: pa.Table, late: pa.Table, able: Bools, frontier: int) -> tuple[pa.Table, list[pa.Table]]:
    """The late rows that are applied, with positions right behind the frontier; and all of them with the reason for which they are dropped."""
    after = min(frontier, FOREVER - 1) + 1
    # a record in time at the same position is newer
    able = (
        able & ~pc.is_in(late[ORDER], value_set=combine_chunks(in_time.filter(pc.equal(in_time["position"], after))[ORDER])).to_numpy()
    )
    candidates = late.filter(pa.array(able))
    rows = pa.concat_tables([*known, candidates], promote_options="default").combine_chunks()
    code, by = _in_order(rows)
    known_rows = len(rows) - len(candidates)
    last = by[ends(code[by])]
    last = last[last >= known_rows]
    place = np.full(1 + int(code.max(initial=-1)), -1)
    place[code[:known_rows]] = np.arange(known_rows)
    before = place[code[last]]
    last = last[(before < 0) | _later(rows, last, np.maximum(before, 0))]
    applied = rows.take(pa.array(last))
    at = applied.schema.get_field_index("position")
    applied = applied.append_column(_PLACED, applied["position"]).set_column(at, "position", pa.array(np.full(len(applied), after)))
    is_applied = np.zeros(len(late), np.bool_)
    is_applied[np.flatnonzero(able)[last - known_rows]] = True
    reason = pa.array(np.where(is_applied, "late_applied", "late_stale"), pa.string())
    return applied, [late.select(list(_KNOWN)).append_column("reason", reason)]


def _later(rows: pa.Table, one: Ints, other: Ints) -> Bools:
    """Whether rows have a later place in the sequence than others, which are not behind them."""
    names = ["position", *({"within"} & {*rows.column_names})]
    differs = np.zeros(len(one), np.bool_)
    for name in names:
        column = combine_chunks(rows[name])
        column = column.fill_null(b"") if name == "within" else column
        differs |= ~same(column.take(pa.array(one)), column.take(pa.array(other)))
    return differs


def same(values: pa.Array, others: pa.Array) -> Bools:
    """Where two columns of one type have the same value, null among them.

    >>> same(pa.array([{"a": 1}, None]), pa.array([{"a": 2}, None])).tolist()
    [False, True]
    """
    there, others_there = valid(values), valid(others)
    equal: Bools
    if is_opaque(values.type):
        equal = same(values.storage, others.storage)
        # two encodings of one value may differ
        at = np.flatnonzero(~equal & there & others_there)
        equal[at] = same(encoded_values(values.take(pa.array(at))), encoded_values(others.take(pa.array(at))))
        return equal
    if pa.types.is_struct(values.type):
        equal = there == others_there
        for part, other in zip(values.flatten(), others.flatten(), strict=True):
            equal &= same(part, other)
        return equal
    if pa.types.is_null(values.type):
        return np.ones(len(values), np.bool_)
    try:
        equal = pc.equal(values, others).fill_null(False).to_numpy(zero_copy_only=False)
    except pa.ArrowNotImplementedError:  # lists, maps, intervals
        return same(encoded_values(values), encoded_values(others))
    if pa.types.is_floating(values.type):
        equal |= pc.and_(pc.is_nan(values), pc.is_nan(others)).fill_null(False).to_numpy(zero_copy_only=False)
    return equal | ~(there | others_there)
