"""Streams by key and closeness in time: :class:`tests.reference.stream_join.StreamJoin` on columns."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.keys.columns import Bools, Ints, factorize
from beam_joins.sorting import combine_chunks, integers, ordered, starts, valid
from tests.reference.stream_join import StreamHow

_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Spans(NamedTuple):
    """How far before and after a left row the right one may be, and how late a row may come; microseconds."""

    before: int
    after: int
    grace: int


class Matches(NamedTuple):
    """The pairs of rows that are joined, by index (-1: without a match), their times, and which rows of each side come too late."""

    left_index: Ints
    right_index: Ints
    timestamp: Ints
    late: tuple[Bools, Bools]


def matches(left: pa.Table, right: pa.Table, how: StreamHow, spans: Spans) -> Matches:
    """Which rows (``key``, ``timestamp``, ``position``) match: ``left time - before <= right time <= left time + after``.

    A row with a null key matches nothing.
    """
    code = factorize(combine_chunks(left["key"]), combine_chunks(right["key"]))
    time = integers(left["timestamp"]), integers(right["timestamp"])
    position = integers(left["position"]), integers(right["position"])
    behind = _late(np.concatenate(code), np.concatenate(time), np.concatenate(position), spans.grace)
    keyed = valid(combine_chunks(left["key"])), valid(combine_chunks(right["key"]))
    late = behind[: len(left)] & keyed[0], behind[len(left) :] & keyed[1]

    kept = [np.flatnonzero(keyed[side] & ~late[side]) for side in (0, 1)]
    right_by = kept[1][ordered(code[1][kept[1]], time[1][kept[1]])]
    right_time = np.sort(time[1][kept[1]])
    step = len(right_time) + 1
    places = code[1][right_by] * step + np.searchsorted(right_time, time[1][right_by], side="left")
    left_code, left_time = code[0][kept[0]] * step, time[0][kept[0]]
    begin = np.searchsorted(places, left_code + np.searchsorted(right_time, _plus(left_time, -spans.before), side="left"))
    counts = np.searchsorted(places, left_code + np.searchsorted(right_time, _plus(left_time, spans.after), side="right")) - begin

    asking = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(asking)) - np.repeat(np.cumsum(counts) - counts, counts)
    left_index, right_index = kept[0][asking], right_by[begin[asking] + nth]
    timestamp = np.maximum(time[0][left_index], time[1][right_index])
    if how != "inner":
        alone = np.append(kept[0][counts == 0], np.flatnonzero(~keyed[0]))
        left_index, right_index = np.append(left_index, alone), np.append(right_index, np.full(len(alone), -1))
        timestamp = np.append(timestamp, time[0][alone])
    if how == "outer":
        matched = np.zeros(len(right), np.bool_)
        matched[right_index[right_index >= 0]] = True
        alone = np.append(kept[1][~matched[kept[1]]], np.flatnonzero(~keyed[1]))
        left_index, right_index = np.append(left_index, np.full(len(alone), -1)), np.append(right_index, alone)
        timestamp = np.append(timestamp, time[1][alone])
    return Matches(left_index, right_index, timestamp, late)


def _plus(time: Ints, span: int) -> Ints:
    # Beam's earliest and latest times lie close to what 64 bits can hold
    return np.maximum(time, _EARLIEST - span) + span if span < 0 else np.minimum(time, _LATEST - span) + span


def _late(code: Ints, time: Ints, position: Ints, grace: int) -> Bools:
    """Which rows lie more than ``grace`` behind the largest time of their key at earlier positions."""
    by = ordered(code, position)
    code, ordered_time = code[by], time[by]
    times = np.sort(time)
    reached = np.maximum.accumulate(code * len(times) + np.searchsorted(times, ordered_time)) if len(by) else by
    opening = np.maximum.accumulate(np.where(starts(code, position[by]), np.arange(len(by)), 0)) if len(by) else by
    earlier = opening - 1
    same_key = (earlier >= 0) & (code[earlier] == code)
    stream_time = times[reached[earlier] - code[earlier] * len(times)]
    late = np.zeros(len(by), np.bool_)
    late[by] = same_key & (_plus(ordered_time, grace) < stream_time)
    return late
