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


def upsert(rows: pa.Table, emit: Emit) -> tuple[ChangeBatch, pa.Table]:
    """The changes that rows (``key``, ``value``, ``timestamp``, ``position``) make, and the rows that were dropped, with their ``reason``.

    Of several rows with one key and one position the last one is kept, in the order of :func:`~beam_joins.sorting.record_order`. A row that is not the
    last by ``within`` is an earlier change of the same transaction. Of rows with the same ``within`` all but the last are dropped, as
    ``"duplicate_position"`` if the next one has the same timestamp and value, else as ``"ambiguous_position"``; with ``emit="latest"`` only at the last
    position of their key.
    """
    key, value = combine_chunks(rows["key"]), combine_chunks(rows["value"])
    position, timestamp = integers(rows["position"]), integers(rows["timestamp"])
    (code,) = factorize(key)
    by = record_order(rows, code)
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
    """The state of a table between steps: its current rows, ordered by the bytes of their keys, and the frontier, the last position processed."""

    rows: Arrangement = Arrangement()
    frontier: int | None = None


def step(state: State, rows: pa.Table, emit: Emit) -> tuple[ChangeBatch, pa.Table, State]:
    """The changes and dropped rows that new rows make, all at positions after the frontier, and the state after them.

    A changelog that is cut at any positions gives the same changes, step by step, as in one step. Raises ``ValueError`` for
    ``emit="latest"``, which has no steps.
    """
    if emit == "latest":
        raise ValueError("emit='latest' gives the last change of a whole changelog: it has no steps")
    order = prefixes(encoded_keys(combine_chunks(rows["key"])))
    alive = state.rows.starting_with(pc.unique(order))
    new = pa.table(rows.columns, names=rows.schema.names).append_column(ORDER, order)
    table = new if alive is None else pa.concat_tables([alive, new], promote_options="default")
    batch, dropped = upsert(table, emit)
    if state.frontier is not None:
        batch = batch.filter(pc.greater(batch.position, state.frontier))
    seen = pc.max(rows["position"]).as_py()
    frontier = max((place for place in (seen, state.frontier) if place is not None), default=None)
    columns = {"key": batch.key, "value": batch.new, "timestamp": batch.timestamp, "position": batch.position}
    last = pa.table({**columns, ORDER: prefixes(encoded_keys(batch.key))})
    return batch, dropped, State(state.rows.updated(last), frontier)


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
