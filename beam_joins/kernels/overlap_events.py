"""The events of a join of tables: positions at which versions of left and right rows begin or end, where the
result may change.
"""

from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, integers, ordered, starts, valid
from beam_joins.keys.key_columns import Bools, Ints, factorize
from beam_joins.options.join_types import How, keeps_unmatched
from beam_joins.tables.versions import FOREVER, Versions, require_one_change


class Shape(NamedTuple):
    """The parameters that distinguish the joins of tables.

    * ``times``: with ``"both"`` a result has the larger timestamp of its rows; with ``"foreign_key"`` that of
      the right row alone where only that changed (KIP-213), and the right row counts in the delete of a left
      one of a left join only if it changes at the same position.
    * ``result``: a result has the ``"left_key"``; or the ``"combined_key"`` of the reference and the left key,
      or ``"both_keys"`` of the rows, with a null in the place of an absent side.
    * ``together``: all versions of a left row are given at once, whatever they refer to, so that none has
      moved; with ``"left_key"`` only.
    * ``many``: a left row may meet many right rows (:mod:`beam_joins.kernels.many_to_many`).
    """

    how: How = "inner"
    times: Literal["both", "foreign_key"] = "both"
    result: Literal["left_key", "combined_key", "both_keys"] = "left_key"
    together: bool = False
    many: bool = False

    @property
    def keeps_left(self) -> bool:
        """Whether left rows without a right row have a result."""
        return keeps_unmatched(self.how)[0]

    @property
    def keeps_right(self) -> bool:
        """Whether right rows without a left row have a result."""
        return keeps_unmatched(self.how)[1]

    @property
    def has_pairs(self) -> bool:
        """Whether pairs of a left and a right row are results."""
        return self.how not in ("semi", "anti")

    @property
    def counts_left(self) -> bool:
        """Whether results depend on the number of right rows that a left row meets."""
        return self.keeps_left or self.how == "semi"


class Events(NamedTuple):
    """The events of result rows, sorted by row and position.

    Indices are those of input rows; -1: none.
    """

    row: Ints
    """A number for the result's row."""
    left: Ints
    """The left row that names the key, -1 where the right one does."""
    joined_left: Ints
    right: Ints
    joined_right: Ints
    timestamp: Ints
    position: Ints
    moves: Bools
    arrives: Bools
    leaves: Bools
    """Whether a row that arrives leaves again, at the position ``until``, with the same value."""
    until: Ints


def left_events(left: pa.Table, reference: Ints, rights: Versions, shape: Shape) -> tuple[Events, Ints]:
    """The events of left rows: each version's begin, and the changes of its right row during its life."""
    position, timestamp = integers(left["position"]), integers(left["timestamp"])
    (row,) = factorize(combine_chunks(left["key"]))
    by = ordered(row, position) if shape.together else ordered(reference, row, position)
    if not shape.together:
        row = reference * (1 + int(row.max(initial=0))) + row
    row, position, timestamp, reference = row[by], position[by], timestamp[by], reference[by]
    require_one_change(row, position, left["key"], by)
    exists, moved = valid(combine_chunks(left["value"]))[by], valid_and_true(left["moved"])[by]
    first = starts(row)
    ends = np.append(position[1:] - 1, FOREVER)[: len(row)]
    ends[np.append(first[1:], True)[: len(row)]] = FOREVER
    until = combine_chunks(left["until"]).take(pa.array(by))
    leaves, left_at = valid(until), integers(until.fill_null(FOREVER))
    existed = np.append(False, (exists & ~leaves)[:-1])[: len(row)] & ~first

    now, behind = rights.now(reference, position)
    meets = np.where(exists, rights.until(reference, np.where(leaves, np.minimum(ends, left_at - 1), ends)), behind) - behind
    opens = exists | existed
    # a row that arrives and leaves with the same value is one event
    at_once = leaves & exists & moved & (meets == 0)
    counts = opens + meets + (leaves & ~at_once)
    asking = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(asking)) - np.repeat(np.cumsum(counts) - counts, counts) - opens[asking]
    opening, leaving = nth < 0, (leaves & ~at_once)[asking] & (nth == meets[asking])
    right = np.where(opening | leaving, now[asking], behind[asking] + nth)
    if shape.how in ("semi", "anti"):
        kept = opening | leaving | rights.toggles(right)
        asking, opening, leaving, right = asking[kept], opening[kept], leaving[kept], right[kept]

    met, present = rights.exists[right], exists[asking] & ~leaving
    alone = position[asking[opening & present & ~met]]
    joined = present & (~met if shape.how == "anti" else met | shape.keeps_left)
    moves = leaving | (opening & moved[asking])
    # an event before and after which there is no row is none
    was_joined = np.append(False, joined[:-1])[: len(joined)] & ~starts(row[asking])
    matters = joined | was_joined | (moves & present)
    asking, opening, leaving, right, met, present, joined, moves = (
        column[matters] for column in (asking, opening, leaving, right, met, present, joined, moves)
    )
    changes_too = (right >= 0) & (rights.position[right] == position[asking])
    counts_right = met | changes_too
    if shape.times == "foreign_key" and shape.keeps_left:
        counts_right = np.where(present, counts_right, changes_too)
    asked, answered = timestamp[asking], rights.timestamp[right]
    latest = np.maximum(asked, answered)
    pairs = met & (shape.how not in ("semi", "anti"))
    events = Events(
        row=row[asking],
        left=by[asking],
        joined_left=np.where(joined, by[asking], -1),
        right=np.where(right >= 0, rights.index[right], -1),
        joined_right=np.where(joined & pairs, rights.index[right], -1),
        timestamp=np.where(opening, np.where(counts_right, latest, asked), answered if shape.times == "foreign_key" else latest),
        position=np.where(leaving, left_at[asking], np.where(opening, position[asking], rights.position[right])),
        moves=moves,
        arrives=present,
        leaves=opening & at_once[asking],
        until=left_at[asking],
    )
    return events, alone


def unmatched_rights(left: pa.Table, reference: Ints, rights: Versions) -> Events:
    """The events of right rows that no left row refers to: they become unmatched, change or end; the row is
    the code of the right key.
    """
    position, timestamp = integers(left["position"]), integers(left["timestamp"])
    exists = valid(combine_chunks(left["value"]))
    (key,) = factorize(combine_chunks(left["key"]))
    by = ordered(reference, key, position)
    version = starts(reference[by], key[by])
    grows = exists[by].astype(np.int64) - (np.append(False, exists[by][:-1])[: len(by)] & ~version)
    changes = len(rights.index) - 1
    code = np.concatenate([rights.code[:-1], reference[by]])
    at = np.concatenate([rights.position[:-1], position[by]])
    time = np.concatenate([rights.timestamp[:-1], timestamp[by]])
    of_right = np.concatenate([np.arange(changes), np.full(len(by), -1)])
    order = ordered(code, at)
    code, at, time, of_right = code[order], at[order], time[order], of_right[order]
    grown = np.concatenate([np.zeros(changes, np.int64), grows])[order]
    ends = np.append(starts(code, at)[1:], True)[: len(code)]
    opens = np.flatnonzero(starts(code, at))
    first = np.flatnonzero(starts(code))
    lefts = np.cumsum(grown)
    lefts -= np.repeat((lefts - grown)[first], np.diff(np.append(first, len(code))))
    # the changes of a right row are in order, so the last one up to an event is the largest
    last = np.maximum.accumulate(np.where(of_right >= 0, of_right, -1)) if len(code) else of_right
    last = np.where((last >= 0) & (rights.code[last] == code), last, -1)[ends]
    time = np.maximum.reduceat(time, opens) if len(code) else time
    time = np.where(rights.exists[last], np.maximum(time, rights.timestamp[last]), time)
    code, at, alone = code[ends], at[ends], rights.exists[last] & (lefts[ends] == 0)
    matters = alone | (np.append(False, alone[:-1])[: len(alone)] & ~starts(code))
    index = rights.index[last[matters]]
    none = np.full(len(index), -1)
    no = np.zeros(len(index), np.bool_)
    joined_right = np.where(alone[matters], index, -1)
    return Events(code[matters], none, none, index, joined_right, time[matters], at[matters], no, no, no, none)


def one_after_the_other(events: Events, others: Events) -> Events:
    """Concatenates events that have no row in common."""
    rows = others.row + 1 + int(events.row.max(initial=0))
    columns = [np.concatenate(pair) for pair in zip(events, others._replace(row=rows), strict=True)]
    return Events(*columns)


def valid_and_true(flags: pa.Array) -> Bools:
    """A column of booleans as a mask; null is false."""
    true: Bools = combine_chunks(flags).fill_null(False).to_numpy(zero_copy_only=False)
    return true
