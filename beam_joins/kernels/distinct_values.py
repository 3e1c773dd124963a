"""The distinct values of groups whose rows come and leave: how many there are, the least and the greatest, at every position.

The state has each value of a group with the number of its rows, ordered by group and value. A running minimum under
retraction is a question about ranges: a value covers the positions at which it is there, and the minimum is the least value that
covers a position.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorted_bytes import bytes_order
from beam_joins.columns.sorting import combine_chunks, integers, starts, valid
from beam_joins.kernels.groups import Groups, group_order
from beam_joins.kernels.row_spans import Toggles
from beam_joins.keys.key_columns import Ints, factorize
from beam_joins.keys.ordering_bytes import ordering_bytes
from beam_joins.tables.arrangement import ORDER, Arrangement

_NONE = np.iinfo(np.int64).max


class DistinctValues:
    """The values that the members of groups bring and take away: ``sign`` is 1, -1 or 0 for each of the ordered rows, and a null
    is no value. ``state`` has the values of before.
    """

    def __init__(self, state: Arrangement, groups: Groups, values: pa.Array, sign: Ints) -> None:
        self._state, self._groups = state, groups
        some = np.flatnonzero(valid(values) & (sign != 0))
        at = pa.array(some)
        self._kind = values.type
        # the byte before it keeps 255, behind which no prefix reaches, out of the first place
        order = pc.binary_join_element_wise(
            group_order(groups.ordered.take(at)), pa.scalar(b"v"), ordering_bytes(values.take(at)), pa.scalar(b"")
        )
        (code,) = factorize(order)
        event = np.cumsum(groups.opens) - 1
        self._events = int(event[-1]) + 1 if len(event) else 0
        first = np.flatnonzero(np.append(True, code[1:] > np.maximum.accumulate(code)[:-1])[: len(code)])
        self._order, self._value, self._group = (
            order.take(pa.array(first)),
            values.take(at).take(pa.array(first)),
            groups.code[some][first],
        )
        self._before = self._counts_before()
        self._after = self._before + np.bincount(code, sign[some], minlength=len(first)).astype(np.int64)
        self._toggles = Toggles(code, event[some], sign[some], self._before)
        begins = np.flatnonzero(groups.first)
        self._first_event, self._last_event = event[begins], np.append(event[begins][1:] - 1, self._events - 1)[: len(begins)]
        of_code = np.full(1 + int(groups.code.max(initial=-1)), -1)
        of_code[groups.code[begins]] = np.arange(len(begins))
        self._number = of_code[self._group]
        """The number of each value's group among those of the rows."""

    def _counts_before(self) -> Ints:
        counts = np.zeros(len(self._order), np.int64)
        held = self._state.having(self._order)
        if held is not None and len(held):
            known, wanted = factorize(combine_chunks(held[ORDER]), self._order)
            place = np.full(1 + max(int(known.max(initial=-1)), int(wanted.max(initial=-1))), -1)
            place[known] = np.arange(len(known))
            at = place[wanted]
            counts = np.where(at >= 0, integers(held["count"])[at], 0)
        return counts

    def changes_of_count(self) -> tuple[Ints, Ints]:
        """The ordered rows at which the number of distinct values changes, and by how much: those that open a position."""
        opens = np.flatnonzero(self._groups.opens)
        return opens[self._toggles.position], np.where(self._toggles.is_zero, -1, 1)

    def extreme(self, held: pa.Array, *, greatest: bool) -> tuple[pa.Array, Ints]:
        """The least or the greatest values, and for each ordered row the index of that of its group behind its position, -1 for
        none. ``held`` are those of the groups before, by the ordered rows that begin them.
        """
        number, begin, last = self._toggles.times(
            np.arange(len(self._order)), self._first_event[self._number], self._last_event[self._number], zero=False
        )
        rest, of_group = self._untouched(held, greatest)
        values = _joined(self._value, combine_chunks(rest["value"]))
        orders = pa.concat_arrays([self._order, combine_chunks(rest[ORDER])])
        rank = np.empty(len(orders), np.int64)
        rank[bytes_order(orders)] = np.arange(len(orders))
        index = np.concatenate([number, len(self._order) + np.arange(len(of_group))])
        begins = np.concatenate([begin, self._first_event[of_group]])
        ends = np.concatenate([last, self._last_event[of_group]]) + 1
        by_rank = np.argsort(rank)
        covering = least(begins, ends, -rank[index] if greatest else rank[index], self._events)
        found = np.where(covering == _NONE, -1, by_rank[np.abs(np.where(covering == _NONE, 0, covering))] if len(rank) else -1)
        return values, found[np.cumsum(self._groups.opens) - 1]

    def _untouched(self, held: pa.Array, greatest: bool) -> tuple[pa.Table, Ints]:
        """The least or the greatest value of each group among those that no row brings or takes away, and the numbers of the
        groups that have one.
        """
        order = pc.binary_join_element_wise(
            group_order(self._groups.ordered.filter(pa.array(self._groups.first))),
            pa.scalar(b"v"),
            ordering_bytes(held),
            pa.scalar(b""),
        )
        is_held, is_touched = valid(held), pc.is_in(order, value_set=self._order).to_numpy(zero_copy_only=False)
        # where the extreme is not touched, it is the one; where it is and stays, no other matters
        gone = np.zeros(len(order), np.bool_)
        gone[self._number[self._toggles.code[self._toggles.is_zero]]] = True
        searched = np.flatnonzero(is_held & is_touched & gone)
        stays = np.flatnonzero(is_held & ~is_touched)
        table = pa.table([order.take(pa.array(stays)), held.take(pa.array(stays))], names=[ORDER, "value"])
        if not len(searched):
            return table, stays
        prefixes = group_order(self._groups.ordered.filter(pa.array(self._groups.first)).take(pa.array(searched)))
        rows = self._state.starting_with(prefixes)
        assert rows is not None  # else nothing would be held
        rows = rows.filter(pc.invert(pc.is_in(rows[ORDER], value_set=self._order)))
        code, of_prefix = factorize(group_order(combine_chunks(rows["group"])), prefixes)
        edge = starts(code) if not greatest else np.append(code[1:] != code[:-1], True)[: len(code)]
        place = np.full(1 + max(int(code.max(initial=-1)), int(of_prefix.max(initial=-1))), -1)
        place[of_prefix] = searched
        found = rows.filter(pa.array(edge))
        more = pa.table([found[ORDER], found["value"]], names=[ORDER, "value"])
        return pa.concat_tables([table, more.cast(table.schema)]), np.concatenate([stays, place[code[edge]]])

    def after(self) -> Arrangement:
        """The values behind the last position."""
        present = self._after > 0
        groups = self._groups
        at = pa.array(np.flatnonzero(groups.first)[self._number])
        rows = pa.table([self._order, groups.ordered.take(at), self._value, self._after], names=[ORDER, "group", "value", "count"])
        return self._state.replaced(self._order.filter(pa.array(~present)), rows.filter(pa.array(present)))


def _joined(one: pa.Array, other: pa.Array) -> pa.Array:
    return pa.concat_arrays([one, other if other.type == one.type else other.cast(one.type)])


def least(begin: Ints, end: Ints, rank: Ints, events: int) -> Ints:
    """For each event the least rank of the ranges from ``begin`` up to, and without, ``end`` that cover it; the largest number for
    none.

    >>> least(np.array([0, 1]), np.array([3, 2]), np.array([5, 2]), 4).tolist()[:3]
    [5, 2, 5]
    """
    length = end - begin
    begin, end, rank, length = (column[length > 0] for column in (begin, end, rank, length))
    # a range is two blocks, as long as a power of two; each hands its least rank down to its halves
    level = np.frexp(length.astype(np.float64))[1] - 1
    found = np.full(events, _NONE)
    for k in range(int(level.max(initial=0)), -1, -1):
        here = level == k
        for first in (begin[here], end[here] - (1 << k)):
            np.minimum.at(found, first, rank[here])
        if k:
            half = 1 << (k - 1)
            right = np.full(events, _NONE)
            right[half:] = found[: events - half]
            found = np.minimum(found, right)
    return found
