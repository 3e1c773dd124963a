"""New rows sorted by group, the current aggregates of their groups, and the changes of these."""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorted_bytes import bytes_order
from beam_joins.columns.sorting import combine_chunks, ends, gather, integers, ordered, starts, valid
from beam_joins.keys.encoded import encoded_keys, prefixes
from beam_joins.keys.key_columns import Ints, factorize
from beam_joins.keys.nested import is_windowed, parts_of
from beam_joins.tables.arrangement import ORDER, Arrangement
from beam_joins.tables.batch import ChangeBatch

EXACT = "exact"
"""The column of an arrangement with the state beside an aggregate."""


def group_order(groups: pa.Array) -> pa.Array:
    """The bytes by which groups are ordered; for windowed keys they begin with the source key."""
    if not is_windowed(groups.type):
        return prefixes(encoded_keys(groups))
    source, start, end = parts_of(groups)
    return pc.binary_join_element_wise(prefixes(encoded_keys(source)), encoded_keys(start), encoded_keys(end), pa.scalar(b""))


class Groups:
    """Rows (``group``, ``timestamp``, ``position``) ordered by group, position, ``then`` and ``ties``, with
    the current aggregates, of type ``kind``, of their groups.

    All arrays have one entry for each ordered row; ``by`` are the rows' indices. ``first`` marks the first
    row of each group, ``opens`` and ``last`` the first and the last row of each group and position.
    ``remembered`` is the group's index in ``aggregates``, whose timestamps are ``time``; -1 for a group
    without one.
    """

    def __init__(
        self, state: Arrangement, rows: pa.Table, kind: pa.DataType, *then: Ints, ties: Callable[[Ints], Ints] | None = None
    ) -> None:
        self._state = state
        self._group = combine_chunks(rows["group"])
        touched = state.starting_with(pc.unique(group_order(self._group))) if state else None
        if touched is None:
            touched = pa.table(
                {"group": self._group.slice(0, 0), "aggregate": pa.nulls(0, kind), "timestamp": pa.array([], pa.int64())}
            )
        self._held = touched
        self.aggregates, self.time = combine_chunks(touched["aggregate"]), integers(touched["timestamp"])
        code, of_known = factorize(self._group, combine_chunks(touched["group"]))
        position = integers(rows["position"])
        self.by = ordered(code, position, *then, ties=ties)
        self.code, self.position, self.timestamp = code[self.by], position[self.by], integers(rows["timestamp"])[self.by]
        self.first = starts(self.code)
        self.opens = starts(self.code, self.position)
        self.last = ends(self.code, self.position)
        place = np.full(1 + max(int(code.max(initial=-1)), int(of_known.max(initial=-1))), -1)
        place[of_known] = np.arange(len(of_known))
        self.remembered = place[self.code]

    @property
    def ordered(self) -> pa.Array:
        """The group of each ordered row."""
        return self._group.take(pa.array(self.by))

    def before(self, of_held: pa.Array) -> pa.Array:
        """What each group had before its first row, null for a group without an aggregate; ``of_held`` belongs to ``aggregates``."""
        return gather(of_held, self.remembered[self.first])

    def before_in(self, column: str, kind: pa.DataType) -> pa.Array:
        """The same of a column that was kept beside the aggregates, of a type that may have got wider."""
        held = combine_chunks(self._held[column]) if column in self._held.column_names else pa.nulls(len(self._held), kind)
        return self.before(held if held.type == kind else held.cast(kind))

    def before_exact(self) -> list[bytes | None]:
        """The exact states of the groups before their first rows."""
        exact: list[bytes | None] = self.before_in(EXACT, pa.binary()).to_pylist()
        return exact

    def changes(
        self, at: Ints, new: pa.Array, timestamp: Ints, beside: Mapping[str, pa.Array] | None = None
    ) -> tuple[ChangeBatch, Arrangement]:
        """The changes to ``new`` aggregates (null: no row) at some of the ordered rows, at most one for a
        group and position; and the aggregates after them.

        ``beside`` are columns to be kept with the aggregate of each group as of its last change.
        """
        code, remembered = self.code[at], self.remembered[at]
        first = starts(code)
        present = valid(new)
        index = np.arange(len(at))
        before = np.where(first | ~np.append(False, present[:-1])[: len(at)], -1, index - 1)
        old = np.flatnonzero(first & (remembered >= 0))
        before[old] = len(at) + np.arange(len(old))
        batch = ChangeBatch(
            key=self._group.take(pa.array(self.by[at])),
            new=new,
            before=pa.array(before, mask=before < 0),
            timestamp=pa.array(timestamp),
            position=pa.array(self.position[at]),
            earlier=self.aggregates.take(pa.array(remembered[old])),
        )
        last = pa.array(ends(code))
        group, aggregate = batch.key.filter(last), new.filter(last)
        order, stays = group_order(group), aggregate.is_valid()
        after = pa.table({ORDER: order, "group": group, "aggregate": aggregate, "timestamp": batch.timestamp.filter(last)})
        for name, column in (beside or {}).items():
            after = after.append_column(name, column)
        return batch, self._state.replaced(order.filter(pc.invert(stays)), after.filter(stays))


def by_row_key(rows: pa.Table) -> Callable[[Ints], Ints]:
    """Orders members of one group and position by their encoded row keys, so that the order does not depend
    on the Arrow type of the keys.
    """
    return lambda tied: bytes_order(encoded_keys(combine_chunks(rows["key"].take(pa.array(tied)))))
