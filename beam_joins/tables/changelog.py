"""Makes a table of a raw changelog (AUTO CDC's SCD type 1, Kafka's KTable), with old values filled in."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, ends, gather, integers, record_order, same, starts, valid
from beam_joins.elements.content import Emit
from beam_joins.keys.encoded import encoded_keys, prefixes
from beam_joins.keys.key_columns import Bools, Ints, factorize
from beam_joins.tables.arrangement import ORDER, Arrangement
from beam_joins.tables.batch import ChangeBatch
from beam_joins.tables.key_handover import ARRIVES, of_open_transaction, settled
from beam_joins.tables.truncates import before_truncate, last_truncate, not_emptied, places_of, with_deletes
from beam_joins.tables.unchanged import UNCHANGED, Complete, completed
from beam_joins.tables.versions import FOREVER

ABSENT_DELETE: Final = "absent_delete"
SUPERSEDED: Final = "superseded"


def upsert(
    rows: pa.Table, emit: Emit, complete: Complete | None = None, *, truncates: pa.Table | None = None
) -> tuple[ChangeBatch, pa.Table]:
    """Applies a bounded changelog (``key``, ``value``, ``timestamp``, ``position``) and its ``truncates``: gives the
    changes, and the dropped rows with their ``reason``.

    Of several rows with one key and one position the last one is kept, in :func:`~beam_joins.columns.sorting.record_order`.
    One that is not the last by ``within`` is an earlier change of the transaction, :data:`SUPERSEDED`. Of rows with the
    same ``within`` all but the last are dropped, as ``"duplicate_position"`` if the next one has the same timestamp and
    value, else as ``"ambiguous_position"``; with ``emit="latest"`` only at the last position of their key. A delete that
    makes no change, as its row is not there, is an :data:`ABSENT_DELETE`. With ``emit="updates"`` or ``"records"`` each row
    is a change or among these.

    With a column ``arrives`` some deletes are of the row before, as :func:`~beam_joins.tables.key_handover.settled` says.
    A row with names in the column ``unchanged`` has these columns from the row before it, as
    :func:`~beam_joins.tables.unchanged.completed` says; where there is none, it is dropped as ``"no_earlier_row"``.
    """
    rows, _ = _settled([], rows, truncates, ChangelogState())
    rows, lost = _whole([], rows, complete)
    batch, dropped = _upserted(rows, *_in_order(rows), emit)
    return batch, pa.concat_tables([dropped, *lost], promote_options="default")


def _settled(
    remembered: list[pa.Table], new: pa.Table, truncates: pa.Table | None, state: "ChangelogState", several: pa.Table | None = None
) -> tuple[pa.Table, pa.Table | None]:
    """New rows with the deletes of truncates, which see the row that stays behind a delete; and the rows of keys that
    have several.
    """
    new, several = settled(remembered, new, places_of(truncates), several, state.frontier)
    return new if truncates is None else with_deletes(remembered, new, truncates, state.emptied), several


def _whole(remembered: list[pa.Table], new: pa.Table, complete: Complete | None) -> tuple[pa.Table, list[pa.Table]]:
    """Completes new rows that leave columns out; also gives the rows that cannot be completed, with their
    reason.
    """
    if UNCHANGED not in new.column_names:
        return new, []
    rows = pa.concat_tables([*remembered, new], promote_options="default").combine_chunks()
    code, by = _in_order(rows)
    whole, lacking = completed(rows, code, by, complete)
    first = len(rows) - len(new)
    at = np.flatnonzero(lacking)
    newer = at[_newer(rows, code, by, at, first)]
    stale = rows.take(pa.array(np.setdiff1d(at, newer)))
    lost = rows.take(pa.array(newer))
    return whole.slice(first).filter(pa.array(~lacking[first:])), [
        _with_reason(lost, "no_earlier_row").append_column(UNCHANGED, lost[UNCHANGED]),
        _with_reason(stale, "late_stale"),
    ]


def _newer(rows: pa.Table, code: Ints, by: Ints, at: Ints, known_rows: int) -> Bools:
    """Which rows are newer than the remembered row of their key, which comes first; ``by`` sorts all rows."""
    place = np.full(1 + int(code.max(initial=-1)), -1)
    place[code[:known_rows]] = np.arange(known_rows)
    rank = np.empty(len(rows), np.int64)
    rank[by] = np.arange(len(by))
    before = place[code[at]]
    behind = rank[at] > rank[np.maximum(before, 0)]
    newer: Bools = (before < 0) | (behind & _later(rows, at, np.maximum(before, 0)))
    return newer


def _in_order(rows: pa.Table) -> tuple[Ints, Ints]:
    """Codes of the rows' keys, and the indices that sort rows by key and :func:`record_order`."""
    (code,) = factorize(combine_chunks(rows["key"]))
    return code, record_order(rows, code)


def _upserted(rows: pa.Table, code: Ints, by: Ints, emit: Emit, first: int = 0) -> tuple[ChangeBatch, pa.Table]:
    """The changes and the dropped rows; those before ``first`` are remembered."""
    key, value = combine_chunks(rows["key"]), combine_chunks(rows["value"])
    position, timestamp = integers(rows["position"]), integers(rows["timestamp"])
    wins = ends(code[by], position[by])
    at = np.flatnonzero(~wins)
    lost, following, by = by[at], by[at + 1], by[wins]
    earlier = _ordered_within(rows, lost, following)
    superseded = lost[earlier & (lost >= first)] if emit != "latest" else lost[:0]
    lost, following = lost[~earlier], following[~earlier]
    if emit == "latest":
        by = by[ends(code[by])]
        final = np.zeros(int(code.max(initial=0)) + 1, np.int64)
        final[code[by]] = position[by]
        at_last = position[lost] == final[code[lost]]
        lost, following, by = lost[at_last], following[at_last], by[valid(value)[by]]
    present = valid(value)[by]
    before = np.where(starts(code[by]), -1, np.arange(len(by)) - 1)
    before[(before >= 0) & ~present[before]] = -1
    keep = np.ones(len(by), np.bool_) if emit == "records" else present | (before >= 0)
    absent = by[~keep & (by >= first)]
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
    ), pa.concat_tables(
        [
            _dropped(rows, lost, following),
            *(_with_reason(rows.take(pa.array(some)), why) for some, why in ((absent, ABSENT_DELETE), (superseded, SUPERSEDED))),
        ]
    )


def _ordered_within(rows: pa.Table, lost: Ints, following: Ints) -> Bools:
    """Which rows the next row of their key supersedes by its ``within``."""
    if "within" not in rows.column_names:
        return np.zeros(len(lost), np.bool_)
    within = combine_chunks(rows["within"]).fill_null(b"")
    return ~same(within.take(pa.array(lost)), within.take(pa.array(following)))


def _dropped(rows: pa.Table, lost: Ints, following: Ints) -> pa.Table:
    """The rows that the next row of their key supersedes by nothing but its time or value."""
    dropped, kept = (rows.select(list(_KNOWN)).take(pa.array(index)) for index in (lost, following))
    again = same(combine_chunks(dropped["value"]), combine_chunks(kept["value"]))
    again &= integers(dropped["timestamp"]) == integers(kept["timestamp"])
    return dropped.append_column("reason", pa.array(np.where(again, "duplicate_position", "ambiguous_position"), pa.string()))


class ChangelogState(NamedTuple):
    """The state of a table between steps: the last record of each row and each delete, sorted by key."""

    rows: Arrangement = Arrangement()
    deletes: Arrangement = Arrangement()
    frontier: int | None = None
    """The last position processed."""
    emptied: pa.Table | None = None
    """The place of the last truncate: one row of ``position`` and ``within``. Records before it are stale."""
    several: Arrangement = Arrangement()
    """The rows of keys that have several in a transaction that is not whole."""
    forgotten: int | None = None
    """The largest position of a delete that is not remembered any more."""

    @property
    def arrangements(self) -> tuple[Arrangement, Arrangement, Arrangement]:
        """The parts of the state that are kept by key: rows, deletes, and keys with several rows."""
        return self.rows, self.deletes, self.several

    def truncated(self, truncates: pa.Table | None) -> "ChangelogState":
        """The state behind truncates. It keeps the last one, so that an earlier row that arrives later is stale.

        >>> state = ChangelogState().truncated(pa.table({"timestamp": [3], "position": [3]}))
        >>> state.frontier, state.emptied.to_pylist()
        (3, [{'position': 3, 'within': b''}])
        """
        reached = [position for position, _ in places_of(truncates)] + ([] if self.frontier is None else [self.frontier])
        return self._replace(frontier=max(reached, default=None), emptied=last_truncate(self.emptied, truncates))


def step(
    state: ChangelogState,
    rows: pa.Table,
    emit: Emit,
    complete: Complete | None = None,
    *,
    horizon: int | None = None,
    truncates: pa.Table | None = None,
) -> tuple[ChangeBatch, pa.Table, ChangelogState]:
    """Applies new rows and truncates to the state: gives changes, dropped rows and the next state.

    A changelog that is cut at any positions gives the same changes, step by step, as in one step.

    A row at or before the frontier is late, and among the dropped rows. The last one of a key that is newer
    than the last record of its key is applied too, as a change right behind the frontier, and dropped as
    ``"late_applied"``; others, those before the last truncate, and those of absent rows that a forgotten delete can be behind,
    as ``"late_stale"``. Deletes with timestamps before the ``horizon`` are forgotten. A late delete that is applied and makes no
    change is an :data:`ABSENT_DELETE` too.

    Raises ``ValueError`` for ``emit="latest"``, which has no steps.
    """
    if emit == "latest":
        raise ValueError("emit='latest' gives the last change of a whole changelog: it has no steps")
    new = rows.append_column(ORDER, prefixes(encoded_keys(combine_chunks(rows["key"]))))
    if truncates is None:
        touched = pc.unique(new[ORDER]) if any(state.arrangements) else combine_chunks(new[ORDER])
        rows_known, deletes_known, several = (each.starting_with(touched) for each in state.arrangements)
    else:  # every key is touched
        rows_known, deletes_known, several = (each.table() for each in state.arrangements)
    expired = None
    if deletes_known is not None and horizon is not None:
        is_early = pc.less(deletes_known["timestamp"], horizon)
        expired, deletes_known = deletes_known.filter(is_early), deletes_known.filter(pc.invert(is_early))
    remembered = [each for each in (rows_known, deletes_known) if each is not None]
    older = [not_emptied(each, state.emptied) for each in remembered]
    new, late = _able(state, new, horizon, rows_known, expired)
    new, now_several = _settled(older, new, truncates, state, several)
    new, lost = _whole(older, new, complete)
    tables = [*remembered, new]
    if state.frontier is not None and pc.any(pc.less_equal(new["position"], state.frontier)).as_py():
        in_time = new.filter(pc.greater(new["position"], state.frontier))
        applied, told = _applied(older, in_time, new.filter(pc.less_equal(new["position"], state.frontier)), state.frontier)
        tables, late = [*remembered, applied, in_time], [*late, told]
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    code, by = _in_order(table)
    batch, dropped = _upserted(table, code, by, emit, sum(map(len, remembered)))
    if state.frontier is not None:
        batch = batch.filter(pc.greater(batch.position, state.frontier))
    last = by[ends(code[by])]
    is_new = last >= sum(map(len, remembered))
    frontier = max((place for place in (pc.max(table["position"]).as_py(), state.frontier) if place is not None), default=None)
    after = _remembered(state, of_open_transaction(table.take(pa.array(last[is_new])), frontier), horizon)
    after = after._replace(frontier=frontier, emptied=state.emptied, several=_several(state.several, several, now_several))
    return batch, pa.concat_tables([dropped, *lost, *late], promote_options="default"), after.truncated(truncates)


_PLACED = "placed"
"""The position that a row that is applied late has by itself."""
_KNOWN = ("key", "value", "timestamp", "position")


def _remembered(state: ChangelogState, last: pa.Table, horizon: int | None) -> ChangelogState:
    """The state after the last records of some keys."""
    if _PLACED in last.column_names:
        place = last.schema.get_field_index("position")
        last = last.set_column(place, "position", pc.coalesce(last[_PLACED], last["position"]))
    last = last.select([ORDER, *_KNOWN, *(name for name in ("within", ARRIVES) if name in last.column_names)])
    existing = pa.array(valid(combine_chunks(last["value"])))
    present, deleted = last.filter(existing), last.filter(pc.invert(existing))
    rows = state.rows.replaced(combine_chunks(deleted[ORDER]), present)
    deletes = state.deletes.replaced(combine_chunks(present[ORDER]), deleted)
    forgotten = state.forgotten
    if horizon is not None:
        early = [combine_chunks(run[ORDER].filter(pc.less(run["timestamp"], horizon))) for run in deletes.runs]
        # a newer run may have a later delete of the same key
        expired = deletes.starting_with(pc.unique(pa.concat_arrays(early))) if early else None
        if expired is not None:
            expired = expired.filter(pc.less(expired["timestamp"], horizon))
            deletes = deletes.replaced(combine_chunks(expired[ORDER]), last.slice(0, 0))
            forgotten = max((place for place in (pc.max(expired["position"]).as_py(), forgotten) if place is not None), default=None)
    return ChangelogState(rows, deletes, forgotten=forgotten)


def _several(known: Arrangement, touched: pa.Table | None, now: pa.Table | None) -> Arrangement:
    """The rows of keys with several; the touched rows are replaced by the rows of keys that have several now."""
    some = touched if now is None else now
    if some is None:
        return known
    gone = some.slice(0, 0) if touched is None else touched
    return known.replaced(combine_chunks(gone[ORDER]), some.slice(0, 0) if now is None else now)


def _able(
    state: ChangelogState, rows: pa.Table, horizon: int | None, present: pa.Table | None, expired: pa.Table | None
) -> tuple[pa.Table, list[pa.Table]]:
    """The rows without late ones that cannot be applied, as a later delete of their keys can have been forgotten, or as
    a truncate is behind them; and those, with their reason. No delete is behind the ``present`` rows of the state;
    the ``expired`` deletes are forgotten in this step.
    """
    if state.frontier is None:
        return rows, []
    stale = before_truncate(rows, state.emptied)
    if horizon is not None:
        early = (integers(rows["timestamp"]) < horizon) & (integers(rows["position"]) <= _forgotten(state, rows, expired))
        if present is not None:
            early &= ~pc.is_in(rows[ORDER], value_set=combine_chunks(present[ORDER])).to_numpy()
        stale |= early
    stale &= integers(rows["position"]) <= state.frontier
    return (rows.filter(pa.array(~stale)), [_with_reason(rows.filter(pa.array(stale)), "late_stale")]) if stale.any() else (rows, [])


def _forgotten(state: ChangelogState, rows: pa.Table, expired: pa.Table | None) -> Ints:
    """The position up to which a forgotten delete can be behind each of the rows."""
    least = int(np.iinfo(np.int64).min)
    forgotten = np.full(len(rows), least if state.forgotten is None else state.forgotten)
    if expired is not None and len(expired):
        last = expired.group_by(ORDER).aggregate([("position", "max")])
        of_key = pc.index_in(rows[ORDER], value_set=combine_chunks(last[ORDER]))
        forgotten = np.maximum(forgotten, integers(pc.fill_null(last["position_max"].take(of_key), least)))
    return forgotten


def _with_reason(rows: pa.Table, reason: str) -> pa.Table:
    return rows.select(list(_KNOWN)).append_column("reason", pa.array([reason] * len(rows), pa.string()))


def _applied(remembered: list[pa.Table], in_time: pa.Table, late: pa.Table, frontier: int) -> tuple[pa.Table, pa.Table]:
    """The late rows that are applied, moved right behind the frontier; and all late rows with their reason."""
    after = min(frontier, FOREVER - 1) + 1
    # a record in time at the same position is newer
    able = ~pc.is_in(late[ORDER], value_set=combine_chunks(in_time.filter(pc.equal(in_time["position"], after))[ORDER])).to_numpy()
    candidates = late.filter(pa.array(able))
    rows = pa.concat_tables([*remembered, candidates], promote_options="default").combine_chunks()
    code, by = _in_order(rows)
    known_rows = len(rows) - len(candidates)
    last = by[ends(code[by])]
    last = last[last >= known_rows]
    last = last[_newer(rows, code, by, last, known_rows)]
    applied = rows.take(pa.array(last))
    at = applied.schema.get_field_index("position")
    applied = applied.append_column(_PLACED, applied["position"]).set_column(at, "position", pa.array(np.full(len(applied), after)))
    is_applied = np.zeros(len(late), np.bool_)
    is_applied[np.flatnonzero(able)[last - known_rows]] = True
    reason = pa.array(np.where(is_applied, "late_applied", "late_stale"), pa.string())
    return applied, late.select(list(_KNOWN)).append_column("reason", reason)


def _later(rows: pa.Table, one: Ints, other: Ints) -> Bools:
    """Whether rows have a later place in the sequence than others, which are not behind them."""
    differs = np.zeros(len(one), np.bool_)
    for name in ["position", *({"within"} & {*rows.column_names})]:
        column = combine_chunks(rows[name])
        column = column.fill_null(b"") if name == "within" else column
        differs |= ~same(column.take(pa.array(one)), column.take(pa.array(other)))
    return differs
