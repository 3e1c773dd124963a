"""Re-keys left rows by the row that they refer to, and joined rows back by their own key: the two ends of a
foreign-key join (KIP-213).

A left row **subscribes** to the row that it refers to. One that moves from reference f to g is a delete with
f and an insert with g at one position; so is its result: the two halves are made where f and g are, and are
put together again by the left key. All other changes of the result are whole where they are made.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, gather, integers, ordered, same, starts, valid
from beam_joins.kernels.overlap_events import Shape
from beam_joins.keys.key_columns import Bools, Ints, factorize
from beam_joins.keys.opaque import opaque_keys
from beam_joins.tables.batch import ChangeBatch

COLUMNS = ("key", "reference", "value", "timestamp", "position", "moved", "until")


def looking_up(rows: pa.Table, references: pa.Array) -> pa.Table:
    """Rows of a table as the left rows of a join, each with the key that it looks up: such rows never move."""
    absent = {"reference": references, "moved": pa.nulls(len(rows), pa.bool_()), "until": pa.nulls(len(rows), pa.int64())}
    return pa.table({**{name: rows[name] for name in rows.schema.names}, **absent})


def subscriptions(batch: ChangeBatch, references: pa.Array, shape: Shape) -> pa.RecordBatch:
    """The left rows of a join that the changes of a table stand for; ``references`` has the key that each of
    ``batch.values`` refers to (null: nothing).

    A row that refers to nothing is left out unless the join keeps left rows: then it has a null reference.
    One that ends has the reference that it had. The columns are those of :func:`beam_joins.kernels.overlap.overlap`.
    """
    exists, refers = valid(batch.values), valid(references)
    counts = exists if shape.keeps_left else refers & exists
    new = np.arange(len(batch))
    old = integers(batch.before.fill_null(-1))
    enters = counts[: len(batch)]
    was = (old >= 0) & counts[old]
    if shape.together:
        index = np.flatnonzero(enters | was)
        left, none = ~enters[index], np.zeros(len(index), np.bool_)
        return _rows(batch, references, index, np.where(left, old[index], index), left, none, pa.nulls(len(index), pa.int64()))
    stays = was & enters
    stays[stays] = same(references.take(pa.array(old[stays])), references.take(pa.array(new[stays])))
    leaves = was & ~stays
    moved = leaves & enters & (shape.many | (shape.result == "left_key"))
    # a version that begins in this batch says itself where it is left
    told = moved & (old < len(batch)) & (not shape.many)
    until, ends = np.zeros(len(batch), np.int64), np.zeros(len(batch), np.bool_)
    until[old[told]], ends[old[told]] = integers(batch.position)[told], True
    leaves &= ~told
    index = np.concatenate([new[enters], new[leaves]])
    left = np.repeat([False, True], [int(enters.sum()), int(leaves.sum())])
    told_until = pa.array(until[index], mask=left | ~ends[index])
    return _rows(batch, references, index, np.where(left, old[index], index), left, moved[index], told_until)


def listed_subscriptions(
    batch: ChangeBatch,
    references: Sequence[Iterable[Any] | None],
    keys: Callable[[Iterable[Any]], pa.Array] = opaque_keys,
    *,
    keep_unmatched: bool,
) -> pa.RecordBatch:
    """As :func:`subscriptions`, where each of ``batch.values`` refers to several keys: one row for each of
    them. ``keys`` makes a column of keys.

    A reference that is ``None`` is none. Rows of a list do not move: a reference comes or goes by itself.
    """
    lists = [[key for key in listed or () if key is not None] for listed in references]
    exists = valid(batch.values)
    distinct = keys([key for listed in lists for key in listed])
    (codes,) = factorize(distinct)
    ends = np.cumsum([len(listed) for listed in lists], dtype=np.int64)
    # keys of one list may be equal: 7 and 7.0
    of = [dict.fromkeys(codes[end - len(listed) : end].tolist()) for listed, end in zip(lists, ends.tolist(), strict=True)]
    if keep_unmatched:
        of = [listed or {-1: None} for listed in of]
    index, looked_up, left = [], [], []
    for n, before in enumerate(batch.before.to_pylist()):
        after = of[n] if exists[n] else {}
        for key in after:
            index.append(n)
            looked_up.append(key)
            left.append(False)
        for key in of[before] if before is not None else ():
            if key not in after:
                index.append(n)
                looked_up.append(key)
                left.append(True)
    first = np.zeros(int(codes.max(initial=-1)) + 2, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    where = np.array(looked_up, np.int64)
    reference = gather(distinct, np.where(where < 0, -1, first[where]))
    rows = np.array(index, np.int64)
    return _rows(
        batch,
        reference,
        rows,
        np.arange(len(rows)),
        np.array(left, np.bool_),
        np.zeros(len(rows), np.bool_),
        pa.nulls(len(rows), pa.int64()),
    )


def rejoined(halves: pa.Table) -> ChangeBatch:
    """The changes of the rows that moved, of their halves (:class:`beam_joins.kernels.overlap.Joined`): at most two
    for a key and a position.

    Where the halves of a late move were moved behind different frontiers, the columns ``came_at`` and
    ``came_until`` say by which positions they belong together; the change has the larger position then.
    """
    (code,) = factorize(combine_chunks(halves["key"]))
    value, until = combine_chunks(halves["value"]), combine_chunks(halves["until"])
    leaves = np.flatnonzero(valid(until))
    half = np.concatenate([np.arange(len(code)), leaves])
    position = np.concatenate([integers(halves["position"]), integers(until.fill_null(0))[leaves]])
    came_at = position
    if "came_at" in halves.schema.names:
        came, left = (pc.coalesce(halves[name], halves[by]) for name, by in (("came_at", "position"), ("came_until", "until")))
        came_at = np.concatenate([integers(came), integers(combine_chunks(left).fill_null(0))[leaves]])
    arrives = np.concatenate([combine_chunks(halves["arrives"]).to_numpy(zero_copy_only=False), np.zeros(len(leaves), np.bool_)])
    by = ordered(code[half], came_at, arrives.astype(np.int64))
    pairs = arrives[by] & ~starts(code[half][by], came_at[by])
    half, arrives, position = half[by], arrives[by], position[by]
    position = np.where(pairs, np.maximum(position, np.append(0, position[:-1])[: len(position)]), position)
    # where many rows meet, a pair may leave one join key and arrive at none
    leaves_alone = ~arrives & valid(value)[half] & ~np.append(pairs, False)[1:]
    kept = (arrives & (valid(value)[half] | pairs)) | leaves_alone
    new, old = half[kept], np.where(pairs, np.append(-1, half[:-1])[: len(half)], np.where(leaves_alone, half, -1))[kept]
    arrived = ~leaves_alone[kept]
    place = np.full(len(code) + 1, -1)
    place[new[arrived]] = np.flatnonzero(arrived)
    earlier = (old >= 0) & (place[old] < 0)
    before = np.where(earlier, len(new) + np.cumsum(earlier) - 1, place[old])
    at = pa.array(new)
    return ChangeBatch(
        key=combine_chunks(halves["key"]).take(at),
        new=gather(value, np.where(arrived, new, -1)),
        before=pa.array(before, mask=before < 0),
        timestamp=combine_chunks(halves["timestamp"]).take(at),
        position=pa.array(position[kept]),
        earlier=value.take(pa.array(old[earlier])),
    )


def _rows(
    batch: ChangeBatch, references: pa.Array, index: Ints, reference: Ints, left: Bools, moved: Bools, until: pa.Array
) -> pa.RecordBatch:
    at = pa.array(index)
    columns = [
        batch.key.take(at),
        references.take(pa.array(reference)),
        gather(batch.new, np.where(left & valid(batch.new)[index], -1, index)),
        batch.timestamp.take(at),
        batch.position.take(at),
        pa.array(moved),
        until,
    ]
    return pa.record_batch(columns, names=list(COLUMNS))
