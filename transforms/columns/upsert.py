"""The table that rows by key and position stand for, old values filled in: :class:`beam_joins.table.UpsertTable` on columns."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.coders.block import one_chunk
from beam_joins.coders.change_batch import ChangeBatch
from beam_joins.table import Emit
from beam_joins.transforms.columns.keys import Bools, Ints, codes
from beam_joins.transforms.columns.order import gather, integers, ordered, starts, valid


def upsert(rows: pa.Table, emit: Emit, encode: Callable[[pa.Array], list[bytes]]) -> tuple[ChangeBatch, pa.Table]:
    """The changes that rows (``key``, ``value``, ``timestamp``, ``position``) stand for, and the rows that lost.

    Of several rows with one key and one position the one with the later timestamp wins, then the one that is no delete, then the one that
    ``encode`` gives the larger bytes for. With ``emit="latest"`` only those lost that were at the last position of their key.
    """
    key, value = one_chunk(rows["key"]), one_chunk(rows["value"])
    position, timestamp = integers(rows["position"]), integers(rows["timestamp"])
    (code,) = codes(key)
    by = ordered(code, position)
    tied = _in_company(starts(code[by], position[by]))
    if tied.any():
        by = ordered(code, position, timestamp, _rank(value, by[tied], encode))
    wins = _last(starts(code[by], position[by]))
    lost, by = by[~wins], by[wins]
    if emit == "latest":
        by = by[_last(starts(code[by]))]
        final = np.zeros(int(code.max(initial=0)) + 1, np.int64)
        final[code[by]] = position[by]
        lost, by = lost[position[lost] == final[code[lost]]], by[valid(value)[by]]
    new = value.take(pa.array(by))
    there = valid(new)
    before = np.where(starts(code[by]), -1, np.arange(len(by)) - 1)
    before[(before >= 0) & ~there[before]] = -1
    keep = np.ones(len(by), np.bool_)
    if emit != "records":
        keep = there | (before >= 0)
    if emit == "changes":
        keep &= ~same(new, gather(new, before))
    # an old value that was left out, as it changed nothing, is that of the last change kept before it
    before = np.where(before >= 0, (np.cumsum(keep) - 1)[before], -1)[keep]
    by = by[keep]
    return ChangeBatch(
        key=key.take(pa.array(by)),
        new=new if keep.all() else new.filter(pa.array(keep)),
        before=pa.array(before, mask=before < 0),
        timestamp=pa.array(timestamp[by]),
        position=pa.array(position[by]),
    ), rows.take(pa.array(lost))


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
        return np.array([value == other for value, other in zip(values.to_pylist(), others.to_pylist(), strict=True)], np.bool_)
    equal: Bools = pc.equal(values, others).fill_null(False).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        equal |= pc.and_(pc.is_nan(values), pc.is_nan(others)).fill_null(False).to_numpy(zero_copy_only=False)
    return equal | ~(there | others_there)


def _last(first: Bools) -> Bools:
    """Which rows are the last of those that begin where ``first`` holds."""
    return np.append(first[1:], True) if len(first) else first


def _in_company(first: Bools) -> Bools:
    """Which rows are not alone among those that begin where ``first`` holds."""
    return ~(first & _last(first))


def _rank(value: pa.Array, tied: Ints, encode: Callable[[pa.Array], list[bytes]]) -> Ints:
    among = value.take(pa.array(tied))
    encoded = list(zip(valid(among).tolist(), encode(among), strict=True))
    rank = np.zeros(len(value), np.int64)
    rank[tied[np.array(sorted(range(len(tied)), key=encoded.__getitem__), np.int64)]] = np.arange(len(tied))
    return rank
