"""Joins two streams by key within an interval: two records match if ``left time - before <= right time <=
left time + after``.

**Stream time** of a key, at a position, is the largest timestamp of its records, of both sides, at earlier
positions. A record more than ``grace`` behind it is late, and has no part in the join. A record is **closed**
when every record that could still match it would be late: a record without a match by then has a result
without a match, and never another one later.

Law: a history that is cut at any positions into any number of steps gives the same matches, late records and,
with those of a last step after which no record comes, records without a match.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, integers, ordered, search, valid
from beam_joins.kernels.stream_time import ALWAYS, EARLIEST, is_held, shifted, stream_times, times_of_keys
from beam_joins.keys.key_columns import Ints, factorize, joined_keys
from beam_joins.options.join_types import WindowedHow, keeps_unmatched


class Spans(NamedTuple):
    """The limits of the join in microseconds: the right record's greatest distance before and after the left
    one, of which one may be negative if their sum is not, and the greatest lateness of a record.
    """

    before: int
    after: int
    grace: int


class IntervalState(NamedTuple):
    """The state of the join: the rows of each side that may still match, with a column ``matched``, and the
    stream ``time`` of each ``key``.
    """

    left: pa.Table
    right: pa.Table
    times: pa.Table


class Matches(NamedTuple):
    """The joined rows as indices into ``left`` and ``right`` (-1: no match), the timestamps of the results,
    and the late rows of each side.
    """

    left: pa.Table
    right: pa.Table
    left_index: Ints
    right_index: Ints
    timestamp: Ints
    late: tuple[pa.Table, pa.Table]


def step(
    state: IntervalState | None, left: pa.Table, right: pa.Table, how: WindowedHow, spans: Spans, until: int | None = None
) -> tuple[Matches, IntervalState]:
    """Matches new rows (``key``, ``timestamp``, ``position`` and any others) with those of the state: gives
    the matches and the state after them.

    The rows have larger positions than those of earlier steps; ``state`` is ``None`` before the first one. A
    row with a null key matches nothing and is never late. All rows of later steps have timestamps after
    ``until``; :data:`~beam_joins.kernels.stream_time.ALWAYS` says that there are no later rows.
    """
    before = state or _nothing(left, right)
    rows = _with_new(before.left, left), _with_new(before.right, right)
    keys = [combine_chunks(side["key"]) for side in (*rows, before.times)]
    *codes, times_code = factorize(*keys)
    new = [np.arange(len(side)) >= len(old) for side, old in zip(rows, before, strict=False)]
    time = [integers(side["timestamp"]) for side in rows]
    new_code, new_time = (np.concatenate([of[0][new[0]], of[1][new[1]]]) for of in (codes, time))
    position = np.append(integers(left["position"]), integers(right["position"]))
    seen = times_code, integers(before.times["time"])
    number = 1 + max(int(code.max(initial=-1)) for code in (*codes, times_code))
    earlier, latest = stream_times(seen, new_code, new_time, position, number)
    late_rows = shifted(new_time, spans.grace) < earlier
    keyed = [valid(key) for key in keys[:2]]
    late = [np.zeros(len(side), np.bool_) for side in rows]
    for side, of_side in enumerate(np.split(late_rows, [len(left)])):
        late[side][new[side]] = of_side & keyed[side][new[side]]
    kept = [here & ~behind for here, behind in zip(keyed, late, strict=True)]

    pairs = [_pairs(codes, time, np.flatnonzero(kept[0] & new[0]), np.flatnonzero(kept[1]), spans)]
    if len(before.left):
        pairs.append(_pairs(codes, time, np.flatnonzero(kept[0] & ~new[0]), np.flatnonzero(kept[1] & new[1]), spans))
    index = [np.concatenate(of_side) for of_side in zip(*pairs, strict=True)]
    timestamp = [np.maximum(time[0][index[0]], time[1][index[1]])]
    clock = np.maximum(latest, EARLIEST if until is None else until)
    left_behind = []
    for side, span in enumerate((spans.after, spans.before)):
        matched = combine_chunks(rows[side]["matched"]).to_numpy(zero_copy_only=False).copy()
        matched[index[side][: len(timestamp[0])]] = True
        closes = shifted(shifted(time[side], span), spans.grace)
        closed = ~keyed[side] | (closes < clock[codes[side]]) | (until == ALWAYS)
        still_open = rows[side].set_column(len(rows[side].columns) - 1, "matched", pa.array(matched))
        left_behind.append(still_open.filter(pa.array(kept[side] & ~closed)))
        alone = np.flatnonzero(closed & ~late[side] & ~matched) if keeps_unmatched(how)[side] else np.array([], np.int64)
        index[side] = np.append(index[side], alone)
        index[1 - side] = np.append(index[1 - side], np.full(len(alone), -1))
        timestamp.append(time[side][alone])
    times = times_of_keys(joined_keys(keys[2], joined_keys(*keys[:2])), np.concatenate([times_code, *codes]), latest, until)
    behind = rows[0].filter(pa.array(late[0])), rows[1].filter(pa.array(late[1]))
    return Matches(*rows, index[0], index[1], np.concatenate(timestamp), behind), IntervalState(left_behind[0], left_behind[1], times)


def _nothing(left: pa.Table, right: pa.Table) -> IntervalState:
    sides = [side.slice(0, 0).append_column("matched", pa.array([], pa.bool_())) for side in (left, right)]
    key = joined_keys(*(combine_chunks(side["key"]) for side in sides))
    return IntervalState(sides[0], sides[1], pa.table([key, pa.array([], pa.int64())], names=["key", "time"]))


def _with_new(old: pa.Table, new: pa.Table) -> pa.Table:
    return pa.concat_tables([old, new.append_column("matched", pa.array(np.zeros(len(new), np.bool_)))], promote_options="default")


def _pairs(codes: list[Ints], time: list[Ints], left: Ints, right: Ints, spans: Spans) -> tuple[Ints, Ints]:
    """The pairs of some left and some right rows."""
    right = right[ordered(codes[1][right], time[1][right])]
    right_time = np.sort(time[1][right])
    width = len(right_time) + 1
    places = codes[1][right] * width + search(right_time, time[1][right])
    code, at = codes[0][left] * width, time[0][left]
    begin = search(places, code + search(right_time, shifted(at, -spans.before)))
    counts = search(places, code + search(right_time, shifted(at, spans.after), side="right")) - begin
    # an interval that lies wholly beyond 64 bits has none of the times at their end
    beyond = (is_held(at, spans.after) & (spans.after < 0)) | (is_held(at, -spans.before) & (spans.before < 0))
    counts[beyond] = 0
    asking = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(asking)) - np.repeat(np.cumsum(counts) - counts, counts)
    return left[asking], right[begin[asking] + nth]
