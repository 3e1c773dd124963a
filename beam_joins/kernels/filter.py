"""Filters and maps tables (KAFKA-3902).

Law: ``content(filter(T), p)`` is the rows of ``content(T, p)`` that satisfy the predicate, for every position
p; likewise for map.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import integers, valid
from beam_joins.elements.change import K, V
from beam_joins.keys.key_columns import Bools
from beam_joins.tables.batch import ChangeBatch


def with_values(batch: ChangeBatch, values: pa.Array, passes: Bools, *, keeps_nothing: bool) -> ChangeBatch:
    """The batch with other values, kept where ``passes`` is true; a change from no value to none is left out.

    With ``keeps_nothing`` a change stays that was from no value to none already.
    """
    count = len(batch)
    before = integers(batch.before.fill_null(-1))
    absent = (before < 0) | ~passes[before]
    new = values.slice(0, count)
    passes = passes[:count]
    kept = passes | ~absent
    if keeps_nothing:
        kept |= (before < 0) & ~valid(batch.new)
    changed = ChangeBatch(
        key=batch.key,
        new=new if passes.all() else new.take(pa.array(np.arange(count), mask=~passes)),
        before=pa.array(before, mask=absent),
        timestamp=batch.timestamp,
        position=batch.position,
        earlier=values.slice(count),
    )
    return changed if kept.all() else changed.filter(pa.array(kept))


def filter_upsert(predicate: Callable[[K, V], bool], key: K, value: V | None) -> tuple[K, V | None]:
    """The record of the filtered raw changelog that follows from a record, old values being unknown.

    A value that fails must become a tombstone every time, for the row before may have passed (KAFKA-3902,
    case 2).

    >>> filter_upsert(lambda key, value: value < 2, "k", 5)
    ('k', None)
    """
    return key, value if value is not None and predicate(key, value) else None
