"""Grouped rows: new rows in order, the current aggregates of their groups, and the changes that follow."""

import numpy as np
import pyarrow as pa

from beam_joins.batch import ChangeBatch
from beam_joins.keys.columns import Bools, Ints, as_opaque, factorize, key_order
from beam_joins.sorting import combine_chunks, integers, ordered, starts, valid


def no_groups(group: pa.DataType, aggregate: pa.DataType) -> pa.Table:
    """The aggregates of no groups: ``group``, ``aggregate`` and ``timestamp``, ordered by group."""
    return pa.table({"group": pa.nulls(0, group), "aggregate": pa.nulls(0, aggregate), "timestamp": pa.array([], pa.int64())})


class Groups:
    """Rows (``group``, ``timestamp``, ``position``) ordered by group, position and what is given beyond, beside the aggregates of groups.

    All arrays are of the ordered rows; ``by`` are their indices. ``first`` and ``last`` say where the rows of a group begin, and where those of
    a group and a position end. ``remembered`` is the group's index among the aggregates, -1 without one.
    """

    def __init__(self, aggregates: pa.Table, rows: pa.Table, *then: Ints) -> None:
        self._aggregates = aggregates
        self._group = combine_chunks(rows["group"])
        code, known = factorize(self._group, combine_chunks(aggregates["group"]))
        position = integers(rows["position"])
        self.by = ordered(code, position, *then)
        self.code, self.position, self.timestamp = code[self.by], position[self.by], integers(rows["timestamp"])[self.by]
        self.first = starts(self.code)
        self.opens = starts(self.code, self.position)
        self.last = np.append(self.opens[1:], True)[: len(self.by)]
        place = np.full(1 + max(int(code.max(initial=-1)), int(known.max(initial=-1))), -1)
        place[known] = np.arange(len(known))
        self.remembered = place[self.code]

    def aggregate(self) -> pa.Array:
        """The current aggregates."""
        return combine_chunks(self._aggregates["aggregate"])

    def time(self) -> Ints:
        """The timestamps of the current aggregates."""
        return integers(self._aggregates["timestamp"])

    def changes(self, at: Ints, new: pa.Array, timestamp: Ints) -> tuple[ChangeBatch, pa.Table]:
        """The changes to ``new`` aggregates (null: no row) at some of the ordered rows, at most one for a group and position; and the aggregates after them."""
        code, remembered = self.code[at], self.remembered[at]
        first = starts(code)
        there = valid(new)
        index = np.arange(len(at))
        before = np.where(first | ~np.append(False, there[:-1])[: len(at)], -1, index - 1)
        old = np.flatnonzero(first & (remembered >= 0))
        before[old] = len(at) + np.arange(len(old))
        batch = ChangeBatch(
            key=self._group.take(pa.array(self.by[at])),
            new=new,
            before=pa.array(before, mask=before < 0),
            timestamp=pa.array(timestamp),
            position=pa.array(self.position[at]),
            earlier=self.aggregate().take(pa.array(remembered[old])),
        )
        stays = np.ones(len(self._aggregates), np.bool_)
        stays[remembered[remembered >= 0]] = False
        last = pa.array(np.append(first[1:], True)[: len(at)] & there)
        names = self._aggregates.column_names
        changed = pa.table([batch.key.filter(last), new.filter(last), batch.timestamp.filter(last)], names=names)
        return batch, by_key(pa.concat_tables([self._aggregates.filter(pa.array(stays)), changed]), "group")


def by_key(rows: pa.Table, name: str) -> pa.Table:
    """Rows ordered by a column of keys."""
    return rows.take(pa.array(key_order(combine_chunks(rows[name]))))


def by_row_key(rows: pa.Table) -> Ints:
    """The order of members of one group and position by their rows' keys, as far as it decides anything."""
    (code,) = factorize(combine_chunks(rows["group"]))
    tied = np.flatnonzero(tied_rows(code, integers(rows["position"])))
    rank = np.zeros(len(rows), np.int64)
    # encoded, so that the order is the same whatever types the keys are of
    rank[tied[key_order(as_opaque(combine_chunks(rows["key"]).take(pa.array(tied))))]] = np.arange(len(tied))
    return rank


def tied_rows(*columns: Ints) -> Bools:
    """Which rows are equal to another one in all of the columns.

    >>> tied_rows(np.array([1, 2, 1]), np.array([5, 5, 5])).tolist()
    [True, False, True]
    """
    by = ordered(columns[0], *columns[1:])
    opens = starts(*(column[by] for column in columns))
    tied = np.empty(len(by), np.bool_)
    tied[by] = ~(opens & np.append(opens[1:], True)[: len(by)])
    return tied
