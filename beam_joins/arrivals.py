"""Tells which deletes of a transaction are of a row that another one has replaced.

Where a database checks a key at the end (``DEFERRABLE``), a row may come to a key before the row that was there
leaves it.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from beam_joins.keys.columns import Ints, factorize
from beam_joins.sorting import combine_chunks, integers, record_order, starts, valid
from beam_joins.unchanged import UNCHANGED

ARRIVES: Final = "arrives"
"""The column that says whether a row comes to its key: by an insert, or an update that has changed the key."""


def settled(remembered: list[pa.Table], new: pa.Table) -> pa.Table:
    """The new rows without ``arrives``; a delete of a row that another one has replaced is that other one, at
    the place of the delete.
    """
    if ARRIVES not in new.column_names:
        return new
    rows = pa.concat_tables([*remembered, new], promote_options="default")
    left, new = rows_left(rows), new.drop_columns([ARRIVES])
    if (left < 0).all():
        return new
    index = np.where(left < 0, np.arange(len(rows)), left)[len(rows) - len(new) :]
    for name in {"value", UNCHANGED} & {*new.column_names}:
        new = new.set_column(new.schema.get_field_index(name), name, combine_chunks(rows[name]).take(pa.array(index)))
    return new


def rows_left(rows: pa.Table) -> Ints:
    """For each delete behind which a row stays that came to the key earlier in the transaction, the index of
    that row; -1 for all others.

    A key has no row or one before a position, one more with each row that arrives, and one less with each
    delete. A delete that leaves one is of the row before. Of rows with one ``within`` the last one counts.

    >>> rows = pa.table({
    ...     "key": [2, 2, 2], "value": ["Ben", "Ada", None], "position": [1, 5, 5], "within": [b"", b"a", b"b"],
    ...     "timestamp": [0, 0, 0], "arrives": [True, True, False],
    ... })
    >>> rows_left(rows).tolist(), rows_left(rows.slice(1)).tolist()
    ([-1, -1, 1], [-1, -1])
    """
    left = np.full(len(rows), -1)
    code, at = _of_keys_in_question(rows)
    if not len(at):
        return left
    some = rows.take(pa.array(at))
    by = record_order(some, code)
    place, present = integers(some["position"])[by], valid(combine_chunks(some["value"]))[by]
    arrives = combine_chunks(some[ARRIVES]).fill_null(False).to_numpy(zero_copy_only=False)[by]
    within = some["within"].to_pylist() if "within" in some.column_names else [None] * len(some)
    first, count, came = starts(code[by]), 0, -1
    for n, row in enumerate(by.tolist()):
        count = 0 if first[n] else count
        goes_on = n + 1 < len(by) and not first[n + 1] and place[n + 1] == place[n]
        if goes_on and within[by[n + 1]] == within[row]:
            continue  # the same change again, or one that nothing orders
        if present[n]:
            count, came = count + 1 if arrives[n] else max(count, 1), at[row]
        else:
            count = max(count - 1, 0)
            left[at[row]] = came if count else -1
        if not goes_on:
            count = min(count, 1)
    return left


def _of_keys_in_question(rows: pa.Table) -> tuple[Ints, Ints]:
    """The rows of keys with an arrival and a delete at one position: codes of their keys, and their indices."""
    nothing = np.zeros(0, np.int64)
    arrives = combine_chunks(rows[ARRIVES]).fill_null(False).to_numpy(zero_copy_only=False)
    deleted, position = ~valid(combine_chunks(rows["value"])), integers(rows["position"])
    shared = np.isin(position, np.intersect1d(position[arrives], position[deleted]))
    if not shared.any():
        return nothing, nothing
    (code,) = factorize(combine_chunks(rows["key"]))
    arrived, gone = ({*zip(code[which], position[which], strict=True)} for which in (arrives & shared, deleted & shared))
    at = np.flatnonzero(np.isin(code, [key for key, _ in arrived & gone]))
    return code[at], at
