"""Stream time by key: the largest timestamp of a key's records at earlier positions.

A record too far before it is late.
"""

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import ordered, running_max, starts, valid
from beam_joins.keys.key_columns import Bools, Ints

EARLIEST = np.iinfo(np.int64).min
ALWAYS = np.iinfo(np.int64).max
"""The ``until`` of the last step: no record comes after it."""


def shifted(time: Ints, span: int) -> Ints:
    """Times, later by a span; held within 64 bits, to whose ends Beam's earliest and latest times lie close.

    >>> int(shifted(np.array([ALWAYS - 1]), 5)[0]) == ALWAYS
    True
    """
    return np.maximum(time, EARLIEST - span) + span if span < 0 else np.minimum(time, ALWAYS - span) + span


def is_held(time: Ints, span: int) -> Bools:
    """Which times, later by a span, lie beyond 64 bits and are held at their end.

    >>> is_held(np.array([EARLIEST, EARLIEST + 1]), -1).tolist()
    [True, False]
    """
    beyond: Bools = time < EARLIEST - span if span < 0 else time > ALWAYS - span
    return beyond


def stream_times(seen: tuple[Ints, Ints], code: Ints, time: Ints, position: Ints, codes: int) -> tuple[Ints, Ints]:
    """The stream time of each row's key at the row's position (:data:`EARLIEST`: no earlier record), and that
    of each of ``codes`` keys after all rows.

    ``code`` numbers the rows' keys; ``seen`` are the codes of keys with earlier records, and their stream
    times.
    """
    seen_code, seen_time = seen
    code, time = np.concatenate([seen_code, code]), np.concatenate([seen_time, time])
    latest = np.full(codes, EARLIEST)
    if not len(code):
        return time, latest
    is_new = np.arange(len(code)) >= len(seen_code)
    at = np.append(np.zeros(len(seen_code), np.int64), position)
    by = ordered(code, is_new.astype(np.int64), at)
    code, reached = code[by], running_max(starts(code[by]), time[by])
    opens = starts(code, is_new[by].astype(np.int64), at[by])
    behind = np.maximum.accumulate(np.where(opens, np.arange(len(by)), 0)) - 1
    earlier = np.empty(len(by), np.int64)
    earlier[by] = np.where((behind >= 0) & (code[behind] == code), reached[behind], EARLIEST)
    # of those of a code the last one is the largest
    latest[code] = reached
    return earlier[len(seen_code) :], latest


def times_of_keys(keys: pa.Array, code: Ints, latest: Ints, until: int | None) -> pa.Table:
    """The stream ``time`` of each ``key`` that is not null, without keys for which no row after ``until`` can
    be late.
    """
    first = np.full(len(latest), -1)
    first[code[::-1]] = np.arange(len(code))[::-1]
    first = first[(first >= 0) & (latest > (EARLIEST if until is None else until))]
    first = first[valid(keys)[first]]
    return pa.table([keys.take(pa.array(first)), pa.array(latest[code[first]])], names=["key", "time"])
