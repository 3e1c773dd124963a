"""Joins two tables by any equality: rows of both sides with one join key are pairs.

Law: at every position the content of the result is the join of the contents of both tables.

Both sides are arranged by join key and key, so that a new row finds the rows that it meets by a prefix. A side whose
unmatched rows matter keeps with each row the number of its matches: new rows change it by the pairs that they make or
end, and no other row is looked at. A step costs as much as the pairs of its rows.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, integers, ordered, starts, valid
from beam_joins.functions.joiner import Join
from beam_joins.functions.pairs import Pairs
from beam_joins.kernels.overlap import Joined, joined_events
from beam_joins.kernels.overlap_events import Events, Shape
from beam_joins.kernels.row_spans import LatestTimestamps, Meeting, RowSpans, Toggles, spans_of
from beam_joins.keys.encoded import combined_bytes, encoded_keys, prefixes
from beam_joins.keys.key_columns import Bools, Ints, factorize
from beam_joins.keys.nested import combined_keys
from beam_joins.tables.arrangement import ROW, Arrangement, with_alive
from beam_joins.tables.versions import FOREVER

PART_PAIRS = 1 << 18
"""The number of pairs that are joined at a time."""

Condition = Callable[[Pairs], Bools]
"""Says of pairs with equal join keys which match."""

MATCHES = "matches"
"""The column of the state with the number of a row's matches."""


class ManyToManyState(NamedTuple):
    """The state of a join between steps: the current rows of both sides, ordered by join key and key, and the frontier."""

    left: Arrangement = Arrangement()
    right: Arrangement = Arrangement()
    frontier: int | None = None


def many_to_many(
    left: pa.Table,
    right: pa.Table,
    join: Join,
    shape: Shape,
    condition: Condition | None = None,
    *,
    most: int = PART_PAIRS,
) -> Iterator[Joined]:
    """Joins two tables: gives the changes of the result, about ``most`` pairs at a time.

    Both have the columns ``key``; ``reference``, the join key, null for none; ``value``, null for a delete;
    ``timestamp``; ``position``; and ``moved``, which says of a row that it has left another join key for this one, or
    this one for another, at its position. Raises ``ValueError`` for two changes of one row at one position.
    """
    codes = _join_keys(left, right)
    sides = [_Side(rows, code) for rows, code in zip((left, right), codes, strict=True)]
    yield from _Join(sides, join, shape, condition, None).parts(most)


def many_to_many_step(
    state: ManyToManyState,
    left: pa.Table,
    right: pa.Table,
    join: Join,
    shape: Shape,
    condition: Condition | None = None,
    *,
    most: int = PART_PAIRS,
) -> Generator[Joined, None, ManyToManyState]:
    """The changes caused by new rows, all of which lie behind the frontier; returns the next state.

    A history that is cut at any positions gives the same changes, step by step, as in one step.
    """
    references = [combine_chunks(rows["reference"]) for rows in (left, right)]
    of_keys = [prefixes(encoded_keys(keys.drop_null())) for keys in references]
    counts = shape.counts_left, shape.keeps_right
    tables = [
        _with_held(rows, held, pc.unique(met), keeps)
        for rows, held, met, keeps in zip((left, right), (state.left, state.right), reversed(of_keys), counts, strict=True)
    ]
    codes = _join_keys(*tables)
    sides = [_Side(table, code, len(table) - len(rows)) for table, code, rows in zip(tables, codes, (left, right), strict=True)]
    yield from _Join(sides, join, shape, condition, state.frontier).parts(most)
    positions = [pc.max(rows["position"]).as_py() for rows in (left, right) if len(rows)]
    frontier = max([*positions, *([] if state.frontier is None else [state.frontier])], default=None)
    held_left, held_right = (held.updated(side.stored()) for held, side in zip((state.left, state.right), sides, strict=True))
    return ManyToManyState(held_left, held_right, frontier)


def _with_held(rows: pa.Table, held: Arrangement, met: pa.Array, keeps_matches: bool) -> pa.Table:
    """New rows behind those of the state with the same keys, and behind those with a join key that rows of the other side
    have, by its prefix.
    """
    reference = combine_chunks(rows["reference"])
    order = combined_bytes(encoded_keys(reference), encoded_keys(combine_chunks(rows["key"])))
    of_key = held.starting_with(met)
    if of_key is not None:
        elsewhere = order.filter(pc.invert(pc.is_in(prefixes(encoded_keys(reference)), value_set=met)))
        of_key = pa.concat_tables([of_key, held.having(pc.unique(elsewhere))])
    columns = [*ROW, "reference"]
    if keeps_matches:
        columns.append(MATCHES)
        rows = pa.table([*(rows[name] for name in rows.schema.names), np.zeros(len(rows), np.int64)], [*rows.schema.names, MATCHES])
    table, moved = with_alive(of_key, rows, order, columns), combine_chunks(rows["moved"])
    return table.append_column("moved", pa.concat_arrays([pa.nulls(len(table) - len(rows), moved.type), moved]))


def _join_keys(left: pa.Table, right: pa.Table) -> list[Ints]:
    """The codes of the join keys, -1 for none."""
    columns = [combine_chunks(rows["reference"]) for rows in (left, right)]
    return [np.where(valid(column), code, -1) for column, code in zip(columns, factorize(*columns), strict=True)]


class _Side:
    """The rows of one side, the first ``alive`` of which are of the state."""

    def __init__(self, rows: pa.Table, join_key: Ints, alive: int = 0) -> None:
        self.rows, self.alive = rows, alive
        self.spans = spans_of(rows, join_key, alive)
        self._join_key = join_key
        self.value = combine_chunks(rows["value"])
        self._had = integers(rows[MATCHES]) if MATCHES in rows.schema.names else np.zeros(len(rows), np.int64)
        self._has = self._had.copy()

    @cached_property
    def changes(self) -> LatestTimestamps:
        """The times of its changes, which unmatched rows of the other side ask for."""
        return LatestTimestamps(self.rows, self._join_key)

    def stored(self) -> pa.Table:
        """The rows that the state has to learn of."""
        rows = self.rows.drop_columns(["moved"])
        if MATCHES not in rows.schema.names:
            return rows.slice(self.alive)
        rows = rows.set_column(rows.schema.get_field_index(MATCHES), MATCHES, pa.array(self._has))
        return rows.filter(pa.array((np.arange(len(rows)) >= self.alive) | (self._has != self._had)))

    def uncounted(self, counted: Ints) -> Ints:
        """Of each span the matches that are not among the rows at hand, which stay; ``counted`` are those alive at hand."""
        return np.where(self.spans.is_touched, 0, self._had[self.spans.at] - counted)

    def remember(self, matches: Ints) -> None:
        """Take note of the matches that the spans have at the end."""
        stays = self.spans.last == FOREVER
        self._has[self.spans.at[stays]] = matches[stays]


_NONE = np.zeros(0, np.int64)
_NO_BOOLS = np.zeros(0, np.bool_)


class _PairCounts:
    """The numbers of matches of a side's spans, counted by their pairs."""

    def __init__(self, side: _Side) -> None:
        self._side = side
        self._alive = np.zeros(len(side.spans.at), np.int64)
        self._ongoing = self._alive.copy()
        self._changes = [(_NONE, _NONE, _NONE)]

    def add(self, index: Ints, begin: Ints, last: Ints, are_alive: Bools) -> None:
        """Count pairs of spans with others, which ``are_alive`` if they are of the state."""
        self._alive += np.bincount(index[are_alive], minlength=len(self._alive))
        self._ongoing += np.bincount(index[last == FOREVER], minlength=len(self._alive))
        # of many pairs of one span the times at which there is any
        any_pair = Toggles(*_changes(index, begin, last), np.zeros_like(self._alive))
        self._changes.append((any_pair.code, any_pair.position, np.where(any_pair.is_zero, -1, 1)))

    def toggles(self) -> Toggles:
        """The positions at which spans get a first match or lose their last one, by the number of the span."""
        uncounted = self._side.uncounted(self._alive)
        self._side.remember(uncounted + self._ongoing)
        code, position, change = map(np.concatenate, zip(*self._changes, strict=True))
        return Toggles(code, position, change, uncounted)


def _changes(code: Ints, begin: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
    """The changes of the numbers of codes at positions, from spans that are there from ``begin`` to ``last``."""
    ended = np.flatnonzero(last != FOREVER)
    change = np.repeat([1, -1], [len(begin), len(ended)])
    return np.concatenate([code, code[ended]]), np.concatenate([begin, last[ended] + 1]), change


def _by_join_key(side: _Side, other: _Side) -> tuple[Toggles, Ints]:
    """The positions at which join keys get a first row of the other side or lose their last one, and the spans' codes:
    those of join keys, or one for all without.
    """
    spans, others = side.spans, other.spans.take(other.spans.join_key >= 0)
    none = 1 + max(int(spans.join_key.max(initial=-1)), int(others.join_key.max(initial=-1)))
    code = np.where(spans.join_key < 0, none, spans.join_key)
    alive = np.bincount(others.join_key[others.at < other.alive], minlength=none + 1)
    ongoing = np.bincount(others.join_key[others.last == FOREVER], minlength=none + 1)
    uncounted = np.zeros(none + 1, np.int64)
    at_hand = ~spans.is_touched
    uncounted[code[at_hand]] = side.uncounted(alive[code])[at_hand]
    side.remember((uncounted + ongoing)[code])
    return Toggles(*_changes(others.join_key, others.begin, others.last), uncounted), code


class _Times(NamedTuple):
    """The times at which rows of a result are there; those of a row, a pair of numbers, follow on each other."""

    row: tuple[Ints, Ints]
    left: Ints
    right: Ints
    begin: Ints
    last: Ints
    timestamp: Ints
    end_timestamp: Ints
    arrives: Bools
    leaves: Bools

    def taken(self, index: Ints | Bools) -> Self:
        """Some of the times."""
        one, other = self.row
        return type(self)._make(((one[index], other[index]), *(column[index] for column in self[1:])))

    def swapped(self) -> Self:
        """The times of left rows as those of right ones."""
        return self._replace(left=self.right, right=self.left)

    def events(self) -> Events:
        """The events at their begins, and at ends on which no other time of the row follows."""
        times = self.taken(ordered(*self.row, self.begin))
        first = starts(*times.row)
        follows = ~first & (times.begin - 1 == np.append(0, times.last)[: len(first)])
        is_ended = (times.last != FOREVER) & ~np.append(follows, False)[1:]
        at = np.repeat(np.arange(len(first)), 1 + is_ended)
        is_end = np.append(False, at[1:] == at[:-1])[: len(at)]
        left, right = times.left[at], times.right[at]
        return Events(
            row=np.cumsum(first, dtype=np.int64)[at],
            left=left,
            joined_left=np.where(is_end, -1, left),
            right=right,
            joined_right=np.where(is_end, -1, right),
            timestamp=np.where(is_end, times.end_timestamp[at], times.timestamp[at]),
            position=np.where(is_end, times.last[at] + 1, times.begin[at]),
            moves=np.where(is_end, times.leaves[at], times.arrives[at]),
            arrives=~is_end,
            leaves=np.zeros(len(at), np.bool_),
            until=np.zeros(len(at), np.int64),
        )


_NO_TIMES = _Times((_NONE, _NONE), _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NO_BOOLS, _NO_BOOLS)


class _Join:
    """The pairs, and the unmatched rows, of two sides."""

    def __init__(self, sides: Sequence[_Side], join: Join, shape: Shape, condition: Condition | None, behind: int | None) -> None:
        self._left, self._right = sides
        self._join, self._shape, self._condition, self._behind = join, shape, condition, behind

    def parts(self, most: int) -> Iterator[Joined]:
        """The changes of the join: those of pairs in parts, then those of unmatched right and left rows."""
        left, right = self._left, self._right
        every = Meeting(right.spans)
        counts = _PairCounts(left), _PairCounts(right)
        unmatched = 0
        if self._condition is None and not self._shape.has_pairs:
            unmatched = self._unmatched(every.count(left.spans.join_key, left.spans.begin, left.spans.begin), slice(None))
        else:
            news = Meeting(right.spans, right.spans.is_touched) if left.alive else every
            for part in _parts(left.spans, every, news, most):
                a, b = self._pairs(part, every, news)
                begin, last = (
                    np.maximum(left.spans.begin[a], right.spans.begin[b]),
                    np.minimum(left.spans.last[a], right.spans.last[b]),
                )
                first = a[begin == left.spans.begin[a]] - part.start
                unmatched += self._unmatched(np.bincount(first, minlength=part.stop - part.start), part)
                if self._condition is not None:
                    alive = left.spans.at[a] < left.alive, right.spans.at[b] < right.alive
                    counts[0].add(a, begin, last, alive[1])
                    counts[1].add(b, begin, last, alive[0])
                if self._shape.has_pairs:
                    yield self._joined(self._pair_times(a, b, begin, last))
        if self._shape.keeps_right:
            yield self._joined(self._times_without(right, left, counts[1]).swapped())
        if self._shape.counts_left:
            yield self._joined(self._times_without(left, right, counts[0]), unmatched)
        elif unmatched:
            yield self._joined(_NO_TIMES, unmatched)

    def _unmatched(self, matches: Ints, part: slice) -> int:
        """The number of new spans without a match where they begin."""
        begin = self._left.spans.begin[part]
        return int(((matches == 0) & (True if self._behind is None else begin > self._behind)).sum())

    def _pairs(self, part: slice, every: Meeting, news: Meeting) -> tuple[Ints, Ints]:
        """The matching pairs of spans of left rows and of all right rows; of pairs without a new row none."""
        left, right = self._left, self._right
        lefts = np.arange(part.start, part.stop)
        touched = left.spans.is_touched[part] | (news is every)
        pairs = [(lefts[is_of], meeting) for is_of, meeting in ((touched, every), (~touched, news)) if is_of.any()]
        met = [(index, meeting.meet(left.spans.take(index))) for index, meeting in pairs]
        a, b = (np.concatenate(of_side) for of_side in zip(*((index[one], other) for index, (one, other) in met), strict=True))
        if self._condition is not None:
            index = left.spans.at[a], right.spans.at[b]
            keys = (
                combine_chunks(side.rows["key"]).take(pa.array(of_side)) for side, of_side in zip((left, right), index, strict=True)
            )
            timestamp = np.maximum(left.spans.timestamp[a], right.spans.timestamp[b])
            matches = self._condition(Pairs(left.value, index[0], right.value, index[1], combined_keys(*keys), timestamp))
            a, b = a[matches], b[matches]
        return a, b

    def _pair_times(self, a: Ints, b: Ints, begin: Ints, last: Ints) -> _Times:
        lefts, rights = self._left.spans, self._right.spans
        timestamps = lefts.timestamp[a], rights.timestamp[b]
        ends = [
            np.where(last == side.last[of], side.end_timestamp[of], timestamp)
            for side, of, timestamp in zip((lefts, rights), (a, b), timestamps, strict=True)
        ]
        # a pair has another join key at one position if both rows have moved there
        arrives = leaves = np.zeros(len(a), np.bool_)
        if lefts.arrives.any() and rights.arrives.any():
            arrives = lefts.arrives[a] & rights.arrives[b] & (lefts.begin[a] == rights.begin[b])
        if lefts.leaves.any() and rights.leaves.any():
            leaves = lefts.leaves[a] & rights.leaves[b] & (lefts.last[a] == rights.last[b])
        return _Times(
            row=(lefts.row[a], rights.row[b]),
            left=lefts.at[a],
            right=rights.at[b],
            begin=begin,
            last=last,
            timestamp=np.maximum(*timestamps),
            end_timestamp=np.maximum(*ends),
            arrives=arrives,
            leaves=leaves,
        )

    def _times_without(self, side: _Side, other: _Side, counts: _PairCounts) -> _Times:
        """The times at which rows of a side have no match; in semi joins those at which they have one."""
        spans = side.spans
        if self._condition is None:
            toggles, code = _by_join_key(side, other)
        else:
            toggles, code = counts.toggles(), np.arange(len(spans.at))
        index, begin, last = toggles.times(code, spans.begin, spans.last, zero=self._shape.how != "semi")
        some = spans.take(index)
        ends = np.where(last == some.last, some.end_timestamp, some.timestamp)
        return _Times(
            row=(some.row, np.zeros_like(index)),
            left=some.at,
            right=np.full(len(index), -1),
            begin=begin,
            last=last,
            timestamp=other.changes.or_larger(some.timestamp, some.join_key, begin),
            end_timestamp=other.changes.or_larger(ends, some.join_key, np.where(last == FOREVER, last, last + 1)),
            arrives=some.arrives & (begin == some.begin),
            leaves=some.leaves & (last == some.last),
        )

    def _joined(self, times: _Times, unmatched: int = 0) -> Joined:
        if self._behind is not None:
            times = times.taken((times.begin > self._behind) | (times.last != FOREVER))
        joined = joined_events(self._left.rows, self._right.rows, times.events(), self._join, self._shape, self._behind)
        return joined._replace(unmatched=unmatched)


def _parts(spans: RowSpans, every: Meeting, news: Meeting, most: int) -> Iterator[slice]:
    """Parts of left spans that have about so many pairs; all spans of a row are in one part."""
    asked = spans.join_key, spans.begin, spans.last
    pairs = every.count(*asked) if news is every else np.where(spans.is_touched, every.count(*asked), news.count(*asked))
    first = np.flatnonzero(starts(spans.row))
    part = (np.cumsum(1 + pairs) - 1 - pairs)[first] // most
    begins = first[starts(part)].tolist()
    for begin, end in zip(begins, [*begins[1:], len(pairs)][: len(begins)], strict=True):
        yield slice(begin, end)
