"""Joins two tables by the overlap of the versions of their rows.

A row's **version** lives from its position to the next position of its key. Left versions look up right rows;
a result begins where the later of the two versions begins, and changes or ends where one of them does. All
joins of tables by a reference are this one kernel: they differ in the key that a left row looks up, in the
rows that have a result (:data:`~beam_joins.options.join_types.How`), in the key of a result and in its event time
(:class:`Shape`). Tables with a common key are joined by :mod:`beam_joins.kernels.key_join`.

Law: at every position the content of the result is the join of the contents of both tables.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, gather, starts, valid
from beam_joins.functions.joiner import Join
from beam_joins.functions.pairs import Pairs
from beam_joins.kernels.overlap_events import Events, Shape, left_events, one_after_the_other, unmatched_rights
from beam_joins.keys.encoded import combined_bytes, encoded_keys, prefixes
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import Ints, factorize, joined_keys
from beam_joins.keys.nested import combined_keys
from beam_joins.tables.arrangement import ROW, Arrangement, with_alive
from beam_joins.tables.batch import ChangeBatch
from beam_joins.tables.versions import Versions

PART_ROWS = 1 << 17
"""The number of left rows that are joined at a time: their results, and the memory to find them, are several
times as large.
"""


class Joined(NamedTuple):
    """The changes of a join, and the halves of changes of rows that moved from one reference to another
    (:func:`beam_joins.kernels.references.rejoined`).
    """

    changes: ChangeBatch
    halves: pa.RecordBatch
    """``key``; ``value``, the old one where the row leaves and the new one where it arrives; ``timestamp``,
    ``position``, ``arrives``; and ``until``, the position at which a row that arrives leaves again with the
    same value, null if that is said by a half of its own or does not happen.
    """
    unmatched: int = 0
    """The number of left rows without a right row when they arrived or changed."""


def overlap(left: pa.Table, right: pa.Table, join: Join, shape: Shape, *, behind: int | None = None) -> Joined:
    """Joins two tables: gives the changes of the result.

    ``left`` has the columns ``key``; ``reference``, the right key that the row looks up, null for none;
    ``value``, null for a delete; ``timestamp``; ``position``; ``moved``, which says of a row that it has left
    another reference for this one, or this one for another, at its position; and ``until``, the position at
    which it leaves this reference for another, null if that is said by a row of its own or does not happen.
    ``right`` has ``key``, ``value``, ``timestamp`` and ``position``. ``join`` gives the values of results.

    Changes at or before the position ``behind`` are left out. Raises ``ValueError`` for two changes of one
    row at one position.
    """
    reference, right_code = factorize(combine_chunks(left["reference"]), combine_chunks(right["key"]))
    rights = Versions(right_code, right)
    events, alone = left_events(left, reference, rights, shape)
    if shape.keeps_right:
        events = one_after_the_other(events, unmatched_rights(left, reference, rights))
    return joined_events(left, right, events, join, shape, behind, alone)


def overlap_in_parts(
    left: pa.Table, right: pa.Table, join: Join, shape: Shape, *, behind: int | None = None, most: int = PART_ROWS
) -> Iterator[Joined]:
    """Joins as :func:`overlap` does, one part of the left rows after another.

    All left rows of a key are in one part.

    A part has about ``most`` rows, so that the memory for results does not grow with the number of left rows
    that look up one right row. In right and outer joins the right rows that no left row refers to come behind
    the parts, as they depend on all left rows.
    """
    parts = -(-len(left) // most)
    if parts <= 1:
        yield overlap(left, right, join, shape, behind=behind)
        return
    reference, right_code = factorize(combine_chunks(left["reference"]), combine_chunks(right["key"]))
    rights = Versions(right_code, right)
    # the high bits, for the partition is chosen by the same hash
    part = (hashes(combine_chunks(left["key"])) >> np.uint64(32)) % np.uint64(parts)
    by = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[by], np.arange(parts), side="right").tolist()
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        some = left.take(pa.array(by[begin:end]))
        events, alone = left_events(some, reference[by[begin:end]], rights, shape)
        yield joined_events(some, right, events, join, shape, behind, alone)
    if shape.keeps_right:
        yield joined_events(left, right, unmatched_rights(left, reference, rights), join, shape, behind)


class Rights:
    """The right rows of a join, prepared once for many batches of left rows."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        key = combine_chunks(rows["key"])
        (code,) = factorize(key)
        self._distinct = key.take(pa.array(np.flatnonzero(np.append(True, code[1:] > np.maximum.accumulate(code)[:-1])[: len(code)])))
        self._versions = Versions(code, rows)

    def joined(self, left: pa.Table, join: Join, shape: Shape, *, behind: int | None = None) -> Joined:
        """Joins left rows with these right rows, as :func:`overlap` does; without the results of right rows alone."""
        reference, distinct = factorize(combine_chunks(left["reference"]), self._distinct)
        # references that no right row has differ from each other too
        code = len(distinct) + np.arange(1 + max(int(reference.max(initial=0)), int(distinct.max(initial=0))))
        code[distinct] = np.arange(len(distinct))
        events, alone = left_events(left, code[reference], self._versions, shape)
        return joined_events(left, self._rows, events, join, shape, behind, alone)


def joined_events(
    left: pa.Table, right: pa.Table, events: Events, join: Join, shape: Shape, behind: int | None, alone: Ints | None = None
) -> Joined:
    """The changes at events of a join; ``alone`` are the positions of left rows that have no right row there. Changes at or
    before the position ``behind`` are left out.
    """
    left_reference, right_key = combine_chunks(left["reference"]), combine_chunks(right["key"])
    key = _result_keys(combine_chunks(left["key"]), left_reference, right_key, events, shape)
    left_value, right_value = combine_chunks(left["value"]), combine_chunks(right["value"])
    new = join(Pairs(left_value, events.joined_left, right_value, events.joined_right, key, events.timestamp))
    exists = valid(new)
    before = np.arange(len(new)) - 1
    before[starts(events.row)] = -1
    before = np.where((before >= 0) & (exists & ~events.leaves)[before], before, -1)
    whole = ~events.moves & (exists | (before >= 0))
    half = events.moves & (events.arrives | (before >= 0))
    if behind is not None:
        whole &= events.position > behind
        half &= events.position > behind
        alone = None if alone is None else alone[alone > behind]
    timestamp, position = pa.array(events.timestamp), pa.array(events.position)
    batch = ChangeBatch(key=key, new=new, before=pa.array(before, mask=before < 0), timestamp=timestamp, position=position)
    index = np.flatnonzero(half)
    at = pa.array(index)
    arrives = events.arrives[index]
    columns = [key.take(at), new.take(pa.array(np.where(arrives, index, before[index]))), timestamp.take(at), position.take(at)]
    columns += [pa.array(arrives), pa.array(events.until[index], mask=~(events.leaves & exists)[index])]
    halves = pa.record_batch(columns, names=["key", "value", "timestamp", "position", "arrives", "until"])
    return Joined(batch if whole.all() else batch.filter(pa.array(whole)), halves, 0 if alone is None else len(alone))


class OverlapState(NamedTuple):
    """The state of a join between steps: the current rows of both sides, and the frontier.

    Left rows are ordered by the bytes of the combined key of reference and key, so that the rows that look up
    one right row are found by a prefix (KIP-213); right rows by the bytes of their key.
    """

    left: Arrangement = Arrangement()
    right: Arrangement = Arrangement()
    frontier: int | None = None


def step(
    state: OverlapState, left: pa.Table, right: pa.Table, join: Join, shape: Shape, *, most: int = PART_ROWS
) -> tuple[Iterator[Joined], OverlapState]:
    """The changes caused by new rows, all of which lie behind the frontier, in parts as in
    :func:`overlap_in_parts`; and the next state.

    A history that is cut at any positions gives the same changes, step by step, as in one step. Raises
    ``ValueError`` for a shape of versions that are given ``together``, as those of a row would be in several
    steps.
    """
    if shape.together:
        raise ValueError("the versions of a left row that are joined together are given at once: they have no steps")
    references = encoded_keys(combine_chunks(left["reference"]))
    looked_up = prefixes(references)
    right_keys = encoded_keys(combine_chunks(right["key"]))
    changed = prefixes(right_keys)
    touched = pa.concat_arrays([looked_up, changed])
    if state.left or state.right:
        touched = pc.unique(touched)
    order = combined_bytes(references, encoded_keys(combine_chunks(left["key"])))
    # left rows that refer to the same right row meet only where that has a result of its own without any
    alive_left = state.left.starting_with(touched if shape.keeps_right else pc.unique(changed))
    if alive_left is not None and not shape.keeps_right:
        elsewhere = order.filter(pc.invert(pc.is_in(looked_up, value_set=changed)))
        alive_left = pa.concat_tables([alive_left, state.left.having(pc.unique(elsewhere))])
    alive_right = state.right.starting_with(touched)
    lefts, rights = _lefts_with_alive(alive_left, left, order), with_alive(alive_right, right, changed, ROW)
    joined = overlap_in_parts(lefts, rights, join, shape, behind=state.frontier, most=most)
    positions = [pc.max(rows["position"]).as_py() for rows in (left, right) if len(rows)]
    frontier = max([*positions, *([] if state.frontier is None else [state.frontier])], default=None)
    new_left, new_right = (rows.slice(len(rows) - len(new)) for rows, new in ((lefts, left), (rights, right)))
    return joined, OverlapState(state.left.updated(_until_left(new_left)), state.right.updated(new_right), frontier)


def _lefts_with_alive(alive: pa.Table | None, rows: pa.Table, order: pa.Array) -> pa.Table:
    """The left rows alive, then new ones; none of the former has moved."""
    table = with_alive(alive, rows, order, [*ROW, "reference"])
    for name in ("moved", "until"):
        column = combine_chunks(rows[name])
        table = table.append_column(name, pa.concat_arrays([pa.nulls(len(table) - len(column), column.type), column]))
    return table


def _until_left(rows: pa.Table) -> pa.Table:
    """The rows of a left table, without a value where they have left their reference."""
    value = combine_chunks(rows["value"])
    value_until = gather(value, np.where(valid(combine_chunks(rows["until"])), -1, np.arange(len(rows))))
    return rows.drop_columns(["moved", "until"]).set_column(rows.column_names.index("value"), "value", value_until)


def _result_keys(left_key: pa.Array, reference: pa.Array, right_key: pa.Array, events: Events, shape: Shape) -> pa.Array:
    by_left = events.left >= 0
    left = pa.array(events.left, mask=~by_left)
    if shape.result == "left_key":
        return left_key.take(left)
    if shape.result == "both_keys":
        return combined_keys(left_key.take(left), right_key.take(pa.array(events.right, mask=events.right < 0)))
    looked_up = joined_keys(reference, right_key).take(pa.array(np.where(by_left, events.left, events.right + len(reference))))
    return combined_keys(looked_up, left_key.take(left))
