"""The table of a raw changelog (AUTO CDC's SCD type 1, Kafka's KTable): its changes, old values filled in."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.arrangement import ORDER, Arrangement
from beam_joins.batch import ChangeBatch
from beam_joins.content import Emit
from beam_joins.keys.canonical import canonical_value
from beam_joins.keys.columns import Bools, Ints, factorize
from beam_joins.keys.encoded import encoded_keys, prefixes
from beam_joins.keys.opaque import is_opaque
from beam_joins.sorting import combine_chunks, gather, integers, ordered, starts, valid


def upsert(rows: pa.Table, emit: Emit, encode: Callable[[pa.Array], list[bytes]]) -> tuple[ChangeBatch, pa.Table]:
    """The changes that rows (``key``, ``value``, ``timestamp``, ``position``) make, and the rows that were dropped, with their ``reason``.

    Of several rows with one key and one position the last one wins: by ``within`` (if there is such a column), timestamp, ``tie`` (likewise), then
    by the bytes that ``encode`` gives for the values, deletes first. One that is not the last by ``within`` is an earlier change of the same transaction.
    Of those that ``within`` leaves in no order all but one are dropped: as ``"duplicate_position"`` where the next one in this order is the same again, else as
    ``"ambiguous_position"``. With ``emit="latest"`` only those at the last position of their key are.
    """
    key, value = combine_chunks(rows["key"]), combine_chunks(rows["value"])
    position, timestamp = integers(rows["position"]), integers(rows["timestamp"])
    (code,) = factorize(key)
    by = ordered(code, position)
    tied = by[_is_tied(starts(code[by], position[by]))]
    ranked = _Ranked(rows, code, position, timestamp, tied, encode) if len(tied) else None
    if ranked is not None:
        by = ordered(code, position, ranked.rank)
    wins = _last(starts(code[by], position[by]))
    at = np.flatnonzero(~wins)
    reason = ranked.reasons(by[at], by[at + 1]) if ranked is not None else np.array([], object)
    lost, by = by[at], by[wins]
    if emit == "latest":
        by = by[_last(starts(code[by]))]
        final = np.zeros(int(code.max(initial=0)) + 1, np.int64)
        final[code[by]] = position[by]
        at_last = position[lost] == final[code[lost]]
        lost, reason, by = lost[at_last], reason[at_last], by[valid(value)[by]]
    new = value.take(pa.array(by))
    there = valid(new)
    before = np.where(starts(code[by]), -1, np.arange(len(by)) - 1)
    before[(before >= 0) & ~there[before]] = -1
    keep = np.ones(len(by), np.bool_)
    if emit != "records":
        keep = there | (before >= 0)
    if emit == "changes":
        keep &= ~_unchanged(new, gather(new, before), encode)
    # skip filtered changes: the old value is that of the last change kept before
    before = np.where(before >= 0, (np.cumsum(keep) - 1)[before], -1)[keep]
    by = by[keep]
    return ChangeBatch(
        key=key.take(pa.array(by)),
        new=new if keep.all() else new.filter(pa.array(keep)),
        before=pa.array(before, mask=before < 0),
        timestamp=pa.array(timestamp[by]),
        position=pa.array(position[by]),
    ), _dropped(rows, lost, reason)


class State(NamedTuple):
    """What a table remembers: the rows that are there, ordered by the bytes of their keys, and the frontier."""

    rows: Arrangement = Arrangement()
    frontier: int | None = None


def step(state: State, rows: pa.Table, emit: Emit, encode: Callable[[pa.Array], list[bytes]]) -> tuple[ChangeBatch, pa.Table, State]:
    """The changes and dropped rows that follow from new rows, all of which lie behind the frontier, and what is to be remembered then.

    A changelog that is cut at any positions gives the same changes, step by step, as in one step. Raises ``ValueError`` for
    ``emit="latest"``, which has no steps.
    """
    if emit == "latest":
        raise ValueError("emit='latest' gives the last change of a whole changelog: it has no steps")
    order = prefixes(encoded_keys(combine_chunks(rows["key"])))
    alive = state.rows.starting_with(pc.unique(order))
    new = pa.table(rows.columns, names=rows.schema.names).append_column(ORDER, order)
    table = new if alive is None else pa.concat_tables([alive, new], promote_options="default")
    batch, dropped = upsert(table, emit, encode)
    if state.frontier is not None:
        batch = batch.filter(pc.greater(batch.position, state.frontier))
    positions = [pc.max(column).as_py() for column in (rows["position"],) if len(column)]
    frontier = max([*positions, *([] if state.frontier is None else [state.frontier])], default=None)
    columns = {"key": batch.key, "value": batch.new, "timestamp": batch.timestamp, "position": batch.position}
    last = pa.table({**columns, ORDER: prefixes(encoded_keys(batch.key))})
    return batch, dropped, State(state.rows.updated(last), frontier)


def same(values: pa.Array, others: pa.Array) -> Bools:
    """Where two columns have the same value, null among them.

    >>> same(pa.array([{"a": 1}, None]), pa.array([{"a": 2}, None])).tolist()
    [False, True]
    """
    there, others_there = valid(values), valid(others)
    if pa.types.is_struct(values.type):
        together: Bools = there == others_there
        for part, other in zip(values.flatten(), others.flatten(), strict=True):
            together &= same(part, other)
        return together
    if pa.types.is_null(values.type):
        return np.ones(len(values), np.bool_)
    if pa.types.is_nested(values.type):
        one, other = ([canonical_value(value, repr(value).encode()) for value in column.to_pylist()] for column in (values, others))
        equal_values: Bools = np.array(one, object) == np.array(other, object)
        return equal_values
    equal: Bools = pc.equal(values, others).fill_null(False).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        equal |= pc.and_(pc.is_nan(values), pc.is_nan(others)).fill_null(False).to_numpy(zero_copy_only=False)
    return equal | ~(there | others_there)


def _unchanged(new: pa.Array, old: pa.Array, encode: Callable[[pa.Array], list[bytes]]) -> Bools:
    """Where two columns have the same value; two encodings of one value may differ."""
    opaque = is_opaque(new.type)
    unchanged = same(new.storage, old.storage) if opaque else same(new, old)
    if opaque:
        differ = np.flatnonzero(~unchanged & valid(new) & valid(old))
        at = pa.array(differ)
        unchanged[differ] = [one == other for one, other in zip(encode(new.take(at)), encode(old.take(at)), strict=True)]
    return unchanged


def _last(first: Bools) -> Bools:
    """Which rows are the last of those that begin where ``first`` holds."""
    return np.append(first[1:], True) if len(first) else first


def _is_tied(first: Bools) -> Bools:
    """Which rows share what ``first`` tells apart with another row."""
    return ~(first & _last(first))


def _dropped(rows: pa.Table, lost: Ints, reason: Any) -> pa.Table:
    dropped = np.array([why is not None for why in reason], np.bool_)
    chosen = rows.select(["key", "value", "timestamp", "position"]).take(pa.array(lost[dropped]))
    return chosen.append_column("reason", pa.array(reason[dropped].tolist(), pa.string()))


class _Ranked:
    """The order of the rows that share key and position."""

    def __init__(
        self, rows: pa.Table, code: Ints, position: Ints, timestamp: Ints, tied: Ints, encode: Callable[[pa.Array], list[bytes]]
    ) -> None:
        value = combine_chunks(rows["value"])
        within, tie = (
            combine_chunks(rows[name]).take(pa.array(tied)).fill_null(b"").to_pylist()
            if name in rows.column_names
            else [b""] * len(tied)
            for name in ("within", "tie")
        )
        places = list(zip(code[tied].tolist(), position[tied].tolist(), within, timestamp[tied].tolist(), strict=True))
        # only values that nothing else tells apart need to be compared
        shared = Counter(places)
        alike = [i for i, place in enumerate(places) if shared[place] > 1]
        compared = value.take(pa.array(tied[alike]))
        encoded = dict(zip(alike, zip(valid(compared).tolist(), encode(compared), strict=True), strict=True))
        self._place_of = dict(zip(tied.tolist(), places, strict=True))
        self._value_of = {int(tied[i]): encoded[i] for i in alike}
        order = sorted(range(len(tied)), key=lambda i: (places[i], tie[i], encoded.get(i)))
        self.rank = np.zeros(len(value), np.int64)
        self.rank[tied[np.array(order, np.int64)]] = np.arange(len(tied))

    def reasons(self, lost: Ints, following: Ints) -> Any:
        """Why each row is dropped in favour of the following one; ``None`` if that is a later change of the same position."""
        reasons = np.full(len(lost), None, object)
        for i, (row, winner) in enumerate(zip(lost.tolist(), following.tolist(), strict=True)):
            (*_, within, time), (*_, winners, winners_time) = self._place_of[row], self._place_of[winner]
            if within == winners:
                same = time == winners_time and self._value_of[row] == self._value_of[winner]
                reasons[i] = "duplicate_position" if same else "ambiguous_position"
        return reasons
