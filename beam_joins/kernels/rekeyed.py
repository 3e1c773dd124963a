"""Gives the rows of a table other keys, each of which one row may have at a position.

Law: at every position the content of the result is that of the table under the new keys.
"""

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, ends, ffill_index, gather
from beam_joins.errors import InputError
from beam_joins.kernels.groups import Groups
from beam_joins.kernels.totals import running_counts
from beam_joins.keys.key_columns import Bools
from beam_joins.keys.opaque import python_keys
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.batch import ChangeBatch

_SOURCE = "source"


def step(state: Arrangement, rows: pa.Table) -> tuple[ChangeBatch, Arrangement]:
    """The changes under the new keys, the ``group``, of members (:func:`beam_joins.kernels.aggregate.members`), whose ``value`` is
    that of their row; and the rows after them. Raises ``InputError``, which names both, for two rows with one key at one position.
    """
    enters = combine_chunks(rows["enters"]).to_numpy(zero_copy_only=False)
    value = combine_chunks(rows["value"])
    groups = Groups(state, rows, value.type, enters.astype(np.int64))
    by = pa.array(groups.by)
    enters, value, source = enters[groups.by], value.take(by), combine_chunks(rows["key"]).take(by)
    change = np.where(enters, 1, -1)
    number = running_counts(change, groups, pa.array((groups.remembered[groups.first] >= 0).astype(np.int64)))
    opens = np.flatnonzero(groups.opens)[np.cumsum(groups.opens) - 1]
    existed, entered = (number - change)[opens] > 0, ffill_index(enters, groups.first)
    if (groups.last & (number > 1)).any():
        raise _two_rows(groups, source, enters, int(np.argmax(groups.last & (number > 1))))
    at = np.flatnonzero(groups.last & (existed | (number > 0)))
    row = np.where(number[at] > 0, entered[at], -1)
    holders = gather(source, row).filter(pa.array(ends(groups.code[at])))
    return groups.changes(at, gather(value, row), groups.timestamp[at], {_SOURCE: holders})


def _two_rows(groups: Groups, source: pa.Array, enters: Bools, at: int) -> InputError:
    """The error of two rows that have one key behind an ordered row."""
    first = int(np.flatnonzero(groups.first[: at + 1])[-1])
    held = groups.before_in(_SOURCE, source.type)
    holders = [key for key in python_keys(held.slice(int(np.cumsum(groups.first)[at]) - 1, 1)) if key is not None]
    for key, enters_it in zip(python_keys(source.slice(first, at + 1 - first)), enters[first : at + 1].tolist(), strict=True):
        if enters_it:
            holders.append(key)
        elif key in holders:
            holders.remove(key)
    group = python_keys(groups.ordered.slice(at, 1))[0]
    rows = " and ".join(map(repr, sorted(holders, key=repr)[:2]))
    place = int(groups.position[at])
    return InputError(f"the rows with the keys {rows} both have the key {group!r} at position {place}: give a key that is unique")
