"""Moves late changes of tables to positions behind the frontier.

A table gives the changes of each row in their order. Where two tables meet, one of them may have come further
than the other: a change at or before the largest position that had its turn is late there. It is applied all
the same, right behind the frontier, and nothing overtakes anything: all positions of the rows that have their
turn together move in one order-preserving way, most of them not at all.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, search
from beam_joins.kernels.stream_time import ALWAYS
from beam_joins.keys.key_columns import Ints

_PLACES = ("position", "until")


class Placed(NamedTuple):
    """Tables moved behind the frontier, their largest position, and a function that gives the original
    positions (``None``: not moved).
    """

    tables: list[pa.Table]
    last: int | None
    came_at: Callable[[Ints], Ints] | None = None


def behind(frontier: int | None, tables: Iterable[pa.Table]) -> Placed:
    """Moves the positions of tables (``position``, and ``until`` where there is one) behind the frontier.

    >>> rows = pa.table({"key": ["a", "b", "c", "d"], "position": [3, 8, 5, 20]})
    >>> placed = behind(7, [rows])
    >>> placed.tables[0]["position"].to_pylist(), placed.last
    ([8, 10, 9, 20], 20)
    >>> placed.came_at(np.array([8, 10])).tolist()
    [3, 8]
    """
    all_tables = list(tables)
    numbers = [_numbers(rows[name]) for rows in all_tables for name in _PLACES if name in rows.column_names]
    came = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
    largest = max((int(pc.max(rows["position"]).as_py()) for rows in all_tables if len(rows)), default=None)
    if frontier is None or not len(came) or came[0] > frontier:
        return Placed(all_tables, largest)
    steps = np.arange(len(came))
    # each at its own place, or one behind the one before it
    places = np.maximum.accumulate(np.maximum(came - steps, min(frontier, ALWAYS - len(came)) + 1)) + steps
    moved = [_moved(rows, came, places) for rows in all_tables]
    last = None if largest is None else int(places[search(came, np.array([largest]))[0]])
    return Placed(moved, last, lambda position: came[np.minimum(search(places, position), len(came) - 1)])


def _numbers(column: pa.ChunkedArray) -> Ints:
    present = combine_chunks(column).drop_null()
    numbers: Ints = present.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _moved(rows: pa.Table, came: Ints, places: Ints) -> pa.Table:
    for name in _PLACES:
        if name in rows.column_names:
            column = combine_chunks(rows[name])
            index = search(came, column.fill_null(0).to_numpy(zero_copy_only=False))
            moved = pa.array(places[np.minimum(index, len(places) - 1)], mask=column.is_null().to_numpy(zero_copy_only=False))
            rows = rows.set_column(rows.column_names.index(name), name, moved)
    return rows
