"""Rows in the order of their keys: what an operator remembers from one step to the next.

An arrangement is a few sorted runs of Arrow tables, each less than half as long as the one before (as in a log-structured merge tree, and in
differential dataflow's arrangements, after which it is named). To look rows up costs a search in each run, to put rows in a merge of runs now and then:
rows that a step does not touch cost nothing but that.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.columns import Ints, factorize
from beam_joins.sorting import combine_chunks, integers, ordered, starts, valid

ORDER = "order"
"""The column by whose bytes the rows are ordered; it is unique among them."""
_GONE = "gone"


class Arrangement:
    """Rows sorted by a column ``order`` of bytes. Immutable: :meth:`replaced` gives another one.

    >>> rows = pa.table({"order": pa.array([b"b1", b"a1"]), "value": [2, 1]})
    >>> Arrangement().replaced(pa.array([], pa.binary()), rows).starting_with(pa.array([b"b"]))["value"].to_pylist()
    [2]
    """

    def __init__(self, runs: tuple[pa.Table, ...] = ()) -> None:
        self.runs = runs
        """Its sorted runs, the oldest first. One that a step has not touched is the same object afterwards."""

    def __bool__(self) -> bool:
        """Whether there ever was a row."""
        return bool(self.runs)

    def table(self) -> pa.Table | None:
        """All rows in order; ``None`` if there never was a row, as the columns are not known then."""
        if not self.runs:
            return None
        return _newest(self.runs, forget=True).drop_columns([_GONE])

    def rows(self) -> list[dict[str, Any]]:
        """All rows in order, as dicts."""
        table = self.table()
        return [] if table is None else table.to_pylist()

    def starting_with(self, prefixes: pa.Array) -> pa.Table | None:
        """The rows whose ``order`` begins with one of the prefixes, in order; no prefix may begin with another one."""
        behind = pa.array([_behind(prefix) for prefix in prefixes.to_pylist()], pa.binary())
        found = [_between(run, prefixes, behind) for run in self.runs]
        return _newest(found, forget=True).drop_columns([_GONE]) if found else None

    def replaced(self, gone: pa.Array, rows: pa.Table) -> "Arrangement":
        """The arrangement with ``rows`` put in and those whose ``order`` is among ``gone`` removed; a row replaces one with the same ``order``."""
        if not len(gone) and not len(rows):
            return self
        removed = gone.filter(pc.invert(pc.is_in(gone, value_set=combine_chunks(rows[ORDER]))))
        run = rows.append_column(_GONE, pa.array(np.zeros(len(rows), np.bool_)))
        if len(removed):
            columns = [removed if name == ORDER else pa.nulls(len(removed), run[name].type) for name in run.column_names[:-1]]
            absent = pa.table([*columns, pa.array(np.ones(len(removed), np.bool_))], names=run.column_names)
            run = pa.concat_tables([run, absent])
        runs = [*self.runs, run.sort_by(ORDER)]
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            runs[-2:] = [_newest(runs[-2:], forget=len(runs) == 2)]
        return Arrangement(tuple(runs))

    def updated(self, rows: pa.Table) -> "Arrangement":
        """The arrangement after changes with ``order``, ``position`` and ``value`` (null: delete); the last change of each row counts."""
        if not len(rows):
            return self
        (code,) = factorize(combine_chunks(rows[ORDER]))
        by = ordered(code, integers(rows["position"]))
        last = rows.take(pa.array(by[np.append(starts(code[by])[1:], True)]))
        there = pa.array(valid(combine_chunks(last["value"])))
        return self.replaced(combine_chunks(last[ORDER]).filter(pc.invert(there)), last.filter(there))


def _newest(runs: Sequence[pa.Table], *, forget: bool) -> pa.Table:
    """Merge runs, given oldest first: of rows with one ``order`` the newest stays; ``forget`` removes the marks of deleted rows."""
    rows = pa.concat_tables(runs)
    age = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    order = combine_chunks(rows[ORDER])
    code = pc.rank(order, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64) if len(order) else np.zeros(0, np.int64)
    by = np.lexsort((age, code))
    kept = by[np.append(code[by][1:] != code[by][:-1], True)[: len(by)]]
    if forget:
        kept = kept[~combine_chunks(rows[_GONE]).to_numpy(zero_copy_only=False)[kept]]
    return rows.take(pa.array(kept))


def _between(run: pa.Table, low: pa.Array, high: pa.Array) -> pa.Table:
    """The rows of a run from each of ``low`` up to, and without, each of ``high``."""
    order = combine_chunks(run[ORDER])
    begin, end = _search(order, low), _search(order, high)
    counts = end - begin
    index = np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    return run.take(pa.array(index))


def _search(ordered: pa.Array, wanted: pa.Array) -> Ints:
    """For each of ``wanted`` the index of the first of the ordered bytes that is not smaller. A null is larger than all."""
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(ordered), np.int64)
    while (low < high).any():
        middle = np.minimum((low + high) // 2, len(ordered) - 1)
        smaller = pc.less(ordered.take(pa.array(middle)), wanted).fill_null(True).to_numpy(zero_copy_only=False)
        open_ = low < high
        low, high = np.where(open_ & smaller, middle + 1, low), np.where(open_ & ~smaller, middle, high)
    return low


def _behind(prefix: bytes) -> bytes | None:
    """The upper bound of a prefix: the smallest bytes larger than all that begin with it; ``None`` if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
