"""Aggregates a table by groups, record by record, with a user's functions.

Law: for every position p the content of the result is the aggregate of the content of the table at p,
provided that subtracting undoes adding and that neither depends on the order. A history may be cut at any
positions into any number of steps.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, integers, valid
from beam_joins.kernels.fold import Fold, Folding
from beam_joins.kernels.groups import Groups, by_row_key
from beam_joins.keys.key_columns import factorize
from beam_joins.keys.opaque import VALUES, python_keys
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.batch import ChangeBatch


class AggregateState(NamedTuple):
    """The state of an aggregation: the aggregates of groups that have a row, and the members (``group``,
    ``key``) whose value was not added because ``add`` raised.
    """

    groups: Arrangement = Arrangement()
    not_added: pa.Table | None = None


def members(batch: ChangeBatch, groups: pa.Array, values: Mapping[str, pa.Array], *, keyed: bool = True) -> pa.RecordBatch:
    """The members that enter or leave groups with the changes of a table; ``groups`` and ``values``, columns by their names,
    belong to ``batch.values``.

    The columns are ``group``, ``timestamp``, ``position`` and ``enters``, the values, and where members are ``keyed``
    the ``key`` of their rows. A row whose group is null is in no group.
    """
    present = valid(groups) & valid(batch.values)
    old = integers(batch.before.fill_null(-1))
    enters, leaves = np.flatnonzero(present[: len(batch)]), np.flatnonzero((old >= 0) & present[old])
    at, of = pa.array(np.append(leaves, enters)), pa.array(np.append(old[leaves], enters))
    columns = {
        "group": groups.take(of),
        "timestamp": batch.timestamp.take(at),
        "position": batch.position.take(at),
        "enters": pa.array(np.arange(len(at)) >= len(leaves)),
    }
    if keyed:
        columns["key"] = batch.key.take(at)
    columns |= {name: column.take(of) for name, column in values.items()}
    return pa.record_batch(list(columns.values()), names=list(columns))


def step(state: AggregateState, rows: pa.Table, fold: Fold) -> tuple[ChangeBatch, AggregateState]:
    """Applies members to the aggregates: gives the changes of the groups, and the state after them.

    Aggregates are opaque.

    At one position all that leave are subtracted first, then all that enter are added, each in the order of
    their rows' keys. A group has no row before its first addition, and keeps it when its last value has left;
    it loses it only if ``add`` or ``subtract`` gives ``None``, and the next addition then begins with
    ``initial()`` again. Nothing is subtracted from a group without a row. The timestamp of a
    result is the largest of its row and of the members that changed it.
    """
    enters = combine_chunks(rows["enters"]).to_numpy(zero_copy_only=False)
    groups = Groups(state.groups, rows, VALUES, enters.astype(np.int64), ties=by_row_key(rows))
    group, key, value = (combine_chunks(rows[name]).take(pa.array(groups.by)) for name in ("group", "key", "value"))
    members_of_rows = pa.table([group, key], names=["group", "key"])
    not_added = _NotAdded(members_of_rows.slice(0, 0) if state.not_added is None else state.not_added, members_of_rows)
    entering = enters[groups.by].tolist()
    folding = Folding(fold, groups, value, lambda n: tuple(python_keys(column.slice(n, 1))[0] for column in (group, key)))

    def apply(n: int) -> bool:
        if entering[n]:
            added = folding.add(n)
            not_added.put(n, member=not added)
            return added
        if not_added.take(n):
            return False
        folding.subtract(n)
        return True

    batch, after = folding.run(apply)
    return batch, AggregateState(after, not_added.table())


class _NotAdded:
    """Tracks the members whose current value was not added because ``add`` raised."""

    def __init__(self, remembered: pa.Table, rows: pa.Table) -> None:
        self._all = pa.concat_tables([rows, remembered])
        codes = [np.concatenate(factorize(combine_chunks(self._all[name]))) for name in ("group", "key")]
        self._members = list(zip(*(code.tolist() for code in codes), strict=True))
        self._out = dict(zip(self._members[len(rows) :], range(len(rows), len(self._all)), strict=True))

    def take(self, n: int) -> bool:
        """Remove the row from these members; whether it was one."""
        return self._out.pop(self._members[n], None) is not None

    def put(self, n: int, *, member: bool) -> None:
        """Add the row to these members, or remove it."""
        if member:
            self._out[self._members[n]] = n
        elif self._out:
            self.take(n)

    def table(self) -> pa.Table:
        """All such members."""
        return self._all.take(pa.array(sorted(self._out.values()), pa.int64()))
