"""Aggregates a stream by key and window ("Join Semantics": windowed table).

Law: for every position p the content of the result is the aggregate, for every key and window, of the records
up to and including p that fall into it (without those that came too late). A history may be cut at any
positions into any number of steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, integers, record_order
from beam_joins.kernels.fold import Fold, Folding
from beam_joins.kernels.groups import Groups
from beam_joins.kernels.stream_time import EARLIEST, shifted, stream_times, times_of_keys
from beam_joins.keys.key_columns import Ints, factorize, joined_keys
from beam_joins.keys.nested import parts_of, windowed_keys
from beam_joins.keys.opaque import VALUES, python_keys
from beam_joins.tables.arrangement import ORDER, Arrangement
from beam_joins.tables.batch import ChangeBatch

Assign = Callable[[Ints], tuple[Ints, Ints, Ints]]
"""The windows that times fall into: for each the index of its time, its start and its end."""


class WindowedAggregateState(NamedTuple):
    """The windows that can still change: ``group``, a :class:`~beam_joins.Windowed` key, ``aggregate`` and
    ``timestamp``; and the stream ``time`` of each ``key``.
    """

    windows: Arrangement = Arrangement()
    times: pa.Table | None = None


class Aggregated(NamedTuple):
    """The changes, and the rows that are late for a window: ``group``, ``value``, ``timestamp``."""

    changes: ChangeBatch
    late: pa.Table


def step(
    state: WindowedAggregateState, rows: pa.Table, windows: Assign, fold: Fold, grace: int | None = None, until: int | None = None
) -> tuple[Aggregated, WindowedAggregateState]:
    """The changes that new rows (``key``, ``value``, ``timestamp``, ``position`` and perhaps ``within``)
    make, and the state after them.

    The rows have larger positions than those of earlier steps. The rows of one key and position are all
    added, in the order of :func:`~beam_joins.columns.sorting.record_order`; this makes one change for each window,
    with the largest timestamp of the rows added to it.

    A row is late for a window that ended ``grace`` or longer before the latest timestamp of its key; with
    ``None`` no row is late. All rows of later steps have timestamps after ``until``;
    :data:`~beam_joins.kernels.stream_time.ALWAYS` says that there are no later rows.
    """
    key, value, time, position = (combine_chunks(rows[name]) for name in ("key", "value", "timestamp", "position"))
    times = state.times or pa.table([key.slice(0, 0), pa.array([], pa.int64())], names=["key", "time"])
    remembered = combine_chunks(times["key"])
    remembered_code, code = factorize(remembered, key)
    codes = 1 + max(int(of.max(initial=-1)) for of in (remembered_code, code))
    earlier, latest = stream_times((remembered_code, integers(times["time"])), code, integers(time), integers(position), codes)

    index, start, end = windows(integers(time))
    # records of one position are there at once: none is late for another
    clock = np.maximum(earlier, integers(time))
    late = np.zeros(len(index), np.bool_) if grace is None else end <= shifted(clock, -grace)[index]
    at = pa.array(index)
    group = windowed_keys(key.take(at), pa.array(start), pa.array(end))
    columns = {"group": group, "value": value.take(at), "timestamp": time.take(at), "position": position.take(at)}
    each = pa.table(columns)
    added = each.filter(pa.array(~late))
    rank = np.empty(len(rows), np.int64)
    rank[record_order(rows, code)] = np.arange(len(rows))
    groups = Groups(state.windows, added, VALUES, rank[index[~late]])
    by = pa.array(groups.by)
    values, names = combine_chunks(added["value"]).take(by), combine_chunks(added["group"]).take(by)
    folding = Folding(fold, groups, values, lambda n: (python_keys(names.slice(n, 1))[0],), restarts=True)
    changes, after = folding.run(folding.add)
    all_codes = np.concatenate([remembered_code, code])
    seen = times_of_keys(joined_keys(remembered, key), all_codes, latest, until)
    return Aggregated(changes, each.filter(pa.array(late)).drop_columns("position")), WindowedAggregateState(
        _open(after, seen, grace, until), seen
    )


def _open(windows: Arrangement, times: pa.Table, grace: int | None, until: int | None) -> Arrangement:
    """The windows that a later row may fall into."""
    table = None if grace is None and until is None else windows.table()
    if table is None:
        return windows
    source, _, end = parts_of(combine_chunks(table["group"]))
    closes = integers(end)
    is_closed = closes <= (EARLIEST if until is None else until)
    if grace is not None:
        code, remembered = factorize(source, combine_chunks(times["key"]))
        latest = np.full(1 + max(int(code.max(initial=-1)), int(remembered.max(initial=-1))), EARLIEST)
        latest[remembered] = integers(times["time"])
        is_closed |= closes <= shifted(latest[code], -grace)
    return windows.replaced(combine_chunks(table[ORDER]).filter(pa.array(is_closed)), table.slice(0, 0))
