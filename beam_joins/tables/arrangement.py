"""``Arrangement``: the state of an operator, rows sorted by key in Arrow tables.

An arrangement is a few sorted runs of Arrow tables, each less than half as long as the one before (as in a
log-structured merge tree, and in differential dataflow's arrangements, after which it is named). To look rows
up costs a search in each run, to put rows in a merge of runs now and then: rows that a step does not touch
cost nothing but that.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorted_bytes import byte_numbers, bytes_order, search_bytes
from beam_joins.columns.sorting import combine_chunks, ends, integers, ordered, valid
from beam_joins.keys.key_columns import Bools, Ints, factorize

ORDER = "order"
"""The column by whose bytes the rows are ordered; it is unique among them."""
ROW = ["key", "value", "timestamp", "position"]
"""The columns of a table's rows beside it."""
_GONE = "gone"


class Arrangement:
    """Rows sorted by a column ``order`` of bytes, as sorted runs. Immutable: :meth:`replaced` gives a new
    one.

    >>> rows = pa.table({"order": pa.array([b"b1", b"a1"]), "value": [2, 1]})
    >>> Arrangement().replaced(pa.array([], pa.binary()), rows).starting_with(pa.array([b"b"]))["value"].to_pylist()
    [2]
    """

    def __init__(self, runs: tuple[pa.Table, ...] = ()) -> None:
        self.runs = runs
        """Its sorted runs, the oldest first.

        One that a step has not touched is the same object afterwards.
        """

    def __bool__(self) -> bool:
        """Whether there ever was a row."""
        return bool(self.runs)

    def table(self) -> pa.Table | None:
        """All rows, sorted; ``None`` before the first row, as the columns are not known then."""
        if not self.runs:
            return None
        return _newest(self.runs, forget=True).drop_columns([_GONE])

    def rows(self) -> list[dict[str, Any]]:
        """All rows, sorted, as dicts."""
        table = self.table()
        return [] if table is None else table.to_pylist()

    def starting_with(self, prefixes: pa.Array) -> pa.Table | None:
        """The rows whose ``order`` begins with one of the prefixes, in order; no prefix may begin with
        another one.

        The byte 255 stands behind no prefix: keys in their canonical encoding do not begin with it.
        """
        if not self.runs:
            return None
        low = prefixes.take(pa.array(bytes_order(prefixes)))
        behind = pc.binary_join_element_wise(low, pa.scalar(b"\xff"), pa.scalar(b""))
        return _newest([_between(run, low, behind) for run in self.runs], forget=True).drop_columns([_GONE])

    def having(self, order: pa.Array) -> pa.Table | None:
        """The rows whose ``order`` is one of the values passed."""
        if not self.runs:
            return None
        wanted = order.take(pa.array(bytes_order(order)))
        return _newest([_among(run, wanted) for run in self.runs], forget=True).drop_columns([_GONE])

    def split(self, chosen: Callable[[pa.Table], Bools]) -> "tuple[Arrangement, Arrangement]":
        """The arrangement of the rows for which a function of them is true, and that of the others."""
        if (table := self.table()) is None:
            return self, self
        is_chosen = chosen(table)
        one, other = (Arrangement((_with_marks(table.filter(pa.array(those))),)) for those in (is_chosen, ~is_chosen))
        return one, other

    def joined(self, other: "Arrangement") -> "Arrangement":
        """The arrangement of its rows and those of another one with other ``order``s."""
        if not self.runs or not other.runs:
            return self if self.runs else other
        return Arrangement((_newest([_with_marks(each.table()) for each in (self, other)], forget=True),))

    def replaced(self, gone: pa.Array, rows: pa.Table) -> "Arrangement":
        """The arrangement with ``rows`` put in and those whose ``order`` is among ``gone`` removed; a row
        replaces one with the same ``order``.
        """
        removed_by_run = [combine_chunks(_among(run, gone)[ORDER]) for run in self.runs]
        removed = pc.unique(pa.concat_arrays([gone.slice(0, 0), *removed_by_run]))
        removed = removed.filter(pc.invert(pc.is_in(removed, value_set=combine_chunks(rows[ORDER])))) if len(removed) else removed
        if not len(removed) and not len(rows) and self.runs:
            return self
        run = _with_marks(rows)
        if len(removed):
            columns = [removed if name == ORDER else pa.nulls(len(removed), run[name].type) for name in run.column_names[:-1]]
            absent = pa.table([*columns, pa.array(np.ones(len(removed), np.bool_))], names=run.column_names)
            run = pa.concat_tables([run, absent])
        by = bytes_order(combine_chunks(run[ORDER]))
        runs = [*self.runs, run if (by[1:] > by[:-1]).all() else run.take(pa.array(by))]
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            runs[-2:] = [_newest(runs[-2:], forget=len(runs) == 2)]
        return Arrangement(tuple(runs))

    def updated(self, rows: pa.Table) -> "Arrangement":
        """The arrangement after changes with ``order``, ``position`` and ``value`` (null: delete); the last
        change of each row counts.
        """
        if not len(rows):
            return self
        order = combine_chunks(rows[ORDER])
        code = byte_numbers(order)
        if code is None:
            (code,) = factorize(order)
        by = ordered(code, integers(rows["position"]))
        last = rows.take(pa.array(by[ends(code[by])]))
        present = pa.array(valid(combine_chunks(last["value"])))
        return self.replaced(combine_chunks(last[ORDER]).filter(pc.invert(present)), last.filter(present))


def _with_marks(rows: pa.Table) -> pa.Table:
    return rows.append_column(_GONE, pa.array(np.zeros(len(rows), np.bool_)))


def with_alive(alive: pa.Table | None, rows: pa.Table, order: pa.Array, columns: list[str]) -> pa.Table:
    """The existing rows of an arrangement, then new ones with their ``order``, in these columns."""
    new = pa.table([order, *(rows[name] for name in columns)], names=[ORDER, *columns])
    # a table without rows does not know which columns of values are sent
    return new if alive is None else pa.concat_tables([alive, new]) if len(new) else alive


def _newest(runs: Sequence[pa.Table], *, forget: bool) -> pa.Table:
    """Merges sorted runs, oldest first: of rows with one ``order`` the newest stays; ``forget`` removes the
    marks of deleted rows.
    """
    rows = reduce(_merged, reversed(runs))
    gone = combine_chunks(rows[_GONE])
    return rows.filter(pc.invert(gone)) if forget and gone.true_count else rows


def _merged(newer: pa.Table, older: pa.Table) -> pa.Table:
    if not len(newer) or not len(older):
        return newer if len(newer) else older
    older_order, order = combine_chunks(older[ORDER]), combine_chunks(newer[ORDER])
    at = search_bytes(older_order, order)
    kept = np.ones(len(older_order) + 1, np.bool_)
    kept[at[_equal(older_order, at, order)]] = False
    kept[-1] = False
    place = np.append(0, np.cumsum(kept))[at]
    index = np.insert(np.flatnonzero(kept), place, len(older_order) + np.arange(len(order)))
    return pa.concat_tables([older, newer], promote_options="default").take(pa.array(index))


def _equal(orders: pa.Array, at: Ints, order: pa.Array) -> Bools:
    """Which of ``order`` are among the sorted ``orders``; ``at`` is the position at which each would be."""
    candidates = orders.take(pa.array(np.minimum(at, len(orders) - 1)))
    equal: Bools = (at < len(orders)) & pc.equal(candidates, order).to_numpy(zero_copy_only=False)
    return equal


def _among(run: pa.Table, order: pa.Array) -> pa.Table:
    """The rows of a run whose ``order`` is one of these."""
    orders = combine_chunks(run[ORDER])
    at = search_bytes(orders, order)
    return run.take(pa.array(at[_equal(orders, at, order)])) if len(orders) else run


def _between(run: pa.Table, low: pa.Array, high: pa.Array) -> pa.Table:
    """The rows of a run from each of ``low`` up to, and without, each of ``high``."""
    order = combine_chunks(run[ORDER])
    begin, end = search_bytes(order, low), search_bytes(order, high)
    counts = end - begin
    index = np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    return run.take(pa.array(index))
