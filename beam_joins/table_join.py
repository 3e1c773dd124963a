"""Two tables on the same key: :class:`tests.reference.lookup_join.LookupJoin` with shared keys, on columns."""

import numpy as np
import pyarrow as pa

from beam_joins.joiner import Join
from beam_joins.keys.columns import factorize, joined_keys
from beam_joins.keys.opaque import python_keys
from beam_joins.pairs import Pairs
from beam_joins.sorting import combine_chunks, ffill_index, integers, ordered, starts, valid
from beam_joins.two_changes import TwoChanges
from tests.reference.lookup_join import LookupHow


def joined_rows(left: pa.Table, right: pa.Table, join: Join, how: LookupHow) -> pa.RecordBatch:
    """The rows (``key``, ``value``, ``timestamp``, ``position``) that the result has in turn; a null value where there is none.

    Raises ``ValueError`` if a table has two changes of a row at one position.
    """
    left_key, right_key = combine_chunks(left["key"]), combine_chunks(right["key"])
    code = np.concatenate(factorize(left_key, right_key))
    position = np.concatenate([integers(left["position"]), integers(right["position"])])
    timestamp = np.concatenate([integers(left["timestamp"]), integers(right["timestamp"])])
    there = np.concatenate([valid(combine_chunks(left["value"])), valid(combine_chunks(right["value"]))])
    side = np.repeat(np.array([0, 1]), [len(left), len(right)])
    by = ordered(code, position, side)
    code, position, timestamp, side, there = code[by], position[by], timestamp[by], side[by], there[by]
    alone = starts(code, position, side)
    if not alone.all():
        again = int(np.argmin(alone))
        i = int(by[again])
        key = left_key.slice(i, 1) if i < len(left) else right_key.slice(i - len(left), 1)
        raise TwoChanges(python_keys(key)[0], int(position[again]))

    first = starts(code)
    opens = starts(code, position)
    ends = np.flatnonzero(np.append(opens[1:], True)) if len(by) else np.flatnonzero(opens)
    time = np.maximum.reduceat(timestamp, np.flatnonzero(opens)) if len(by) else timestamp
    sides = []
    for of_side in (0, 1):
        last = ffill_index(side == of_side, first)[ends]
        last = np.where((last >= 0) & there[last], last, -1)
        time = np.where(last >= 0, np.maximum(time, timestamp[last]), time)
        sides.append(last)
    left_row, right_row = sides
    met_left, met_right = left_row >= 0, right_row >= 0
    joined = (met_left & met_right) | (met_left & (how in ("left", "outer"))) | (met_right & (how in ("right", "outer")))
    key = joined_keys(left_key, right_key).take(pa.array(by[ends]))
    value = join(
        Pairs(
            combine_chunks(left["value"]),
            np.where(joined & met_left, by[left_row], -1),
            combine_chunks(right["value"]),
            np.where(joined & met_right, by[right_row] - len(left), -1),
            key,
            time,
        )
    )
    columns = {"key": key, "value": value, "timestamp": pa.array(time), "position": pa.array(position[ends])}
    return pa.record_batch(list(columns.values()), names=list(columns))
