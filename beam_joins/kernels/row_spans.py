"""RowSpans: the versions of a table's rows with their join keys, each from the position at which it begins to its last.

Rows meet where their join keys are equal and their spans overlap. RowSpans that overlap are looked up as ranges of sorted
positions, so that the cost is that of the pairs and not of all pairs of rows.
"""

from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, ends, integers, ordered, starts, valid
from beam_joins.kernels.overlap_events import valid_and_true
from beam_joins.keys.key_columns import Bools, Ints, factorize
from beam_joins.tables.versions import FOREVER, Places, require_one_change


class RowSpans(NamedTuple):
    """RowSpans, sorted by join key, row and position."""

    at: Ints
    """The index of the version among the rows."""
    join_key: Ints
    """The code of the join key, -1 for none."""
    row: Ints
    """The number of the row with this join key."""
    begin: Ints
    last: Ints
    """The last position; ``FOREVER`` for a version without an end."""
    timestamp: Ints
    end_timestamp: Ints
    """The timestamp of the change that ends it."""
    arrives: Bools
    """Whether the row has left another join key for this one where it begins."""
    leaves: Bools
    """Whether the row leaves this join key for another one where it ends."""
    is_touched: Bools
    """Whether a row with this key and join key is new."""

    def take(self, index: Ints | Bools | slice) -> Self:
        """Some of the spans, in their order."""
        return type(self)._make(column[index] for column in self)


def spans_of(rows: pa.Table, join_key: Ints, alive: int = 0) -> RowSpans:
    """The spans of rows with ``key``, ``value``, ``timestamp``, ``position`` and ``moved``; the first ``alive`` of them are
    not new. Raises ``ValueError`` for two changes of a row at one position.
    """
    position, timestamp = integers(rows["position"]), integers(rows["timestamp"])
    (row,) = factorize(combine_chunks(rows["key"]))
    by = ordered(join_key, row, position)
    join_key, row, position, timestamp = join_key[by], row[by], position[by], timestamp[by]
    first = starts(join_key, row)
    row = np.cumsum(first) - 1
    require_one_change(row, position, rows["key"], by)
    exists, moved = valid(combine_chunks(rows["value"]))[by], valid_and_true(rows["moved"])[by]
    is_followed = ~ends(row)
    is_touched = np.zeros(len(by), np.bool_)
    is_touched[row[by >= alive]] = True
    spans = RowSpans(
        at=by,
        join_key=join_key,
        row=row,
        begin=position,
        last=np.where(is_followed, np.append(position[1:], 0)[: len(by)] - 1, FOREVER),
        timestamp=timestamp,
        end_timestamp=np.append(timestamp[1:], 0)[: len(by)],
        arrives=moved,
        leaves=is_followed & np.append(moved & ~exists, False)[1:],
        is_touched=is_touched[row],
    )
    return spans if exists.all() else spans.take(exists)


class Meeting:
    """RowSpans prepared to be looked up by those that meet them; all of them, or those chosen."""

    def __init__(self, spans: RowSpans, chosen: Bools | None = None) -> None:
        has_key = spans.join_key >= 0
        self._index = np.flatnonzero(has_key if chosen is None else has_key & chosen)
        self._spans = spans.take(self._index)
        self._begun = ordered(self._spans.join_key, self._spans.begin)
        self._begins = Places(self._spans.join_key[self._begun], self._spans.begin[self._begun])

    @cached_property
    def _lasts(self) -> tuple[Places, int]:
        """The last positions, and the one that stands for none."""
        last = self._spans.last
        # behind all that end: numbers that are near each other are sorted and found faster
        never = int(last[last != FOREVER].max(initial=0)) + 1
        last = np.where(last == FOREVER, never, last)
        by = ordered(self._spans.join_key, last)
        return Places(self._spans.join_key[by], last[by]), never

    def count(self, join_key: Ints, begin: Ints, last: Ints) -> Ints:
        """The number of spans that overlap each of these."""
        lasts, never = self._lasts
        return self._begins.until(join_key, last) - lasts.before(join_key, np.minimum(begin, never))

    def meet(self, others: RowSpans) -> tuple[Ints, Ints]:
        """The pairs of overlapping spans: the indices of the others, and of these."""
        # either one of these begins within another, or another begins within one of these, behind its first position
        which, at = _members(self._begins.before(others.join_key, others.begin), self._begins.until(others.join_key, others.last))
        if not len(others.join_key):
            return which, at
        low, high = np.searchsorted(self._spans.join_key, [max(int(others.join_key[0]), 0), int(others.join_key[-1]) + 1])
        these = self._spans.take(slice(low, high))
        met = Meeting(others)
        within, begins = _members(met._begins.until(these.join_key, these.begin), met._begins.until(these.join_key, these.last))
        return np.concatenate([which, met._index[met._begun[begins]]]), self._index[np.concatenate([self._begun[at], low + within])]


def _members(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """The number of each range, and its members."""
    counts = np.maximum(high - low, 0)
    which = np.repeat(np.arange(len(low)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + low[which]


class Toggles:
    """The positions at which a number goes from zero or to zero, for each code."""

    def __init__(self, code: Ints, position: Ints, change: Ints, before: Ints) -> None:
        """``change`` is that of the number of a code at a position; ``before`` is the number of each code before all."""
        by = ordered(code, position)
        code, position, number = code[by], position[by], np.cumsum(change[by])
        first, last = starts(code), ends(code, position)
        number += before[code] - np.repeat(
            np.append(0, number)[np.flatnonzero(first)], np.diff(np.append(np.flatnonzero(first), len(by)))
        )
        first = starts(code[last])
        code, position, number = code[last], position[last], number[last]
        was = np.where(first, before[code], np.append(0, number)[: len(number)])
        toggles = (number == 0) != (was == 0)
        self.code, self.position, self.is_zero = code[toggles], position[toggles], number[toggles] == 0
        self._before, self._places = before, Places(self.code, self.position)

    def times(self, code: Ints, begin: Ints, last: Ints, *, zero: bool) -> tuple[Ints, Ints, Ints]:
        """The times within spans at which the number is zero, or is not: the index of the span, the first and the last
        position.
        """
        low, high = self._places.until(code, begin), self._places.until(code, last)
        codes, zeros = np.append(self.code, -1), np.append(self.is_zero, False)
        holds = np.where(codes[low - 1] == code, zeros[low - 1], self._before[code] == 0) == zero
        which, at = _members(low, high)
        turns = self.is_zero[at] == zero
        which, at = which[turns], at[turns]
        index, until = np.concatenate([np.flatnonzero(holds), which]), np.concatenate([low[holds], at + 1])
        ended = until < high[index]
        behind = np.append(self.position, 0)[np.where(ended, until, -1)]
        return index, np.concatenate([begin[holds], self.position[at]]), np.where(ended, behind - 1, last[index])


class LatestTimestamps:
    """The largest timestamp of the changes with a join key at a position."""

    def __init__(self, rows: pa.Table, join_key: Ints) -> None:
        some = np.flatnonzero(join_key >= 0)
        join_key, position, timestamp = join_key[some], integers(rows["position"])[some], integers(rows["timestamp"])[some]
        by = ordered(join_key, position)
        join_key, position, timestamp = join_key[by], position[by], timestamp[by]
        first = np.flatnonzero(starts(join_key, position))
        self._join_key, self._position = np.append(join_key[first], -1), np.append(position[first], 0)
        self._timestamp = np.append(np.maximum.reduceat(timestamp, first) if len(first) else timestamp, 0)
        self._places = Places(join_key[first], position[first])

    def or_larger(self, timestamp: Ints, join_key: Ints, position: Ints) -> Ints:
        """The timestamps, or those of changes with the join keys at the positions where these are larger."""
        at = self._places.until(join_key, position) - 1
        is_there = (join_key >= 0) & (self._join_key[at] == join_key) & (self._position[at] == position)
        return np.where(is_there, np.maximum(timestamp, self._timestamp[at]), timestamp)
