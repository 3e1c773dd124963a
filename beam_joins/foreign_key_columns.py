"""The foreign-key join as temporal overlap: KIP-213's protocol (:mod:`tests.reference.foreign_key`) on columns.

Each version of a left row is sent once to the partition of its foreign key. There it joins all overlapping versions of the right row: the one at the
position where the left version begins, and every change until it ends. The results return to the partition of the left key, where they become changes.
"""

from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.batch import ChangeBatch
from beam_joins.joiner import Join
from beam_joins.keys.columns import Ints, factorize
from beam_joins.keys.opaque import python_keys
from beam_joins.pairs import Pairs
from beam_joins.sorting import combine_chunks, integers, ordered, starts, valid
from beam_joins.two_changes import TwoChanges
from tests.reference.foreign_key import How

FOREVER = np.iinfo(np.int64).max


class Ask(IntEnum):
    """What a version of a left row wants of the side of its foreign key (:class:`tests.reference.foreign_key.Instruction`)."""

    IF_THERE = 0
    """An answer if there is a right row; and one to every change of it."""
    ALWAYS = 1
    """An answer in any case, as the row had another reference before; and one to every change."""
    END = 2
    """A null answer: the row refers to nothing any more."""
    NOTHING = 3
    """No answer: the version is joined with no right row."""
    GONE = 4
    """A null answer of a left join: the row is deleted, and the right row's time counts only if that changes at the same position."""


def subscriptions(left: ChangeBatch, foreign_key: pa.Array, how: How) -> pa.RecordBatch:
    """What the changes of a left table ask, given what each new row refers to (null: nothing).

    The columns are ``key`` (the left one), ``foreign_key`` (null: any partition will do), ``value``, ``timestamp``, ``position`` and
    ``until``, the position at which the version ends (null: never), and ``ask``.
    """
    (row,) = factorize(left.key)
    position, before = integers(left.position), integers(left.before.fill_null(-1))
    first = starts(row)
    until = pa.array(np.roll(position, -1), mask=np.roll(first, -1))
    refers = valid(foreign_key)
    referred = np.where(before >= 0, refers[before], False)
    (reference,) = factorize(foreign_key)
    moved = referred & (reference != reference[before])
    ask = np.full(len(left), Ask.NOTHING, np.int8)
    ask[refers] = np.where((how == "left") | moved, Ask.ALWAYS, Ask.IF_THERE)[refers]
    if how == "inner":
        ask[~refers & referred] = Ask.END
        asks = refers | referred
    else:
        ask[~valid(left.new) & referred] = Ask.GONE
        asks = valid(left.new) | (before >= 0)
    asked = pa.array(np.where(refers, np.arange(len(left)), before), mask=~(refers | (ask == Ask.END) | (ask == Ask.GONE)))
    columns = {
        "key": left.key,
        "foreign_key": foreign_key.take(asked),
        "value": left.new,
        "timestamp": left.timestamp,
        "position": left.position,
        "until": until,
        "ask": pa.array(ask),
    }
    rows = pa.record_batch(list(columns.values()), names=list(columns))
    return rows if asks.all() else rows.filter(pa.array(asks))


class _Changes:
    """The changes of the right rows of a partition, ordered by key and position; index -1 is the sentinel of a missing row."""

    def __init__(self, code: Ints, codes: int, rights: pa.Table) -> None:
        position = integers(rights["position"])
        by = ordered(code, position)
        alone = starts(code[by], position[by])
        if not alone.all():
            i = int(by[np.argmin(alone)])
            raise TwoChanges(python_keys(combine_chunks(rights["key"]).slice(int(i), 1))[0], int(position[i]))
        self.index = np.append(by, -1)
        self.code = np.append(code[by], -1)
        self.position = np.append(position[by], 0)
        self.timestamp = np.append(integers(rights["timestamp"])[by], 0)
        self.there = np.append(valid(combine_chunks(rights["value"]))[by], False)
        self._low, self._high = (int(position.min()), int(position.max())) if len(by) else (0, 0)
        # (code, position) as one number: of positions themselves if 64 bits have room for them, of their ranks if not
        room = codes * (self._high - self._low + 2) < FOREVER and self._low > -FOREVER
        self._positions = None if room else np.unique(position)
        self._places = self._place(code[by], position[by])

    def until(self, code: Ints, position: Ints) -> Ints:
        """The index behind the last change of a key at or before a position."""
        return np.searchsorted(self._places, self._place(code, position), side="right")

    def _place(self, code: Ints, position: Ints) -> Ints:
        if self._positions is None:
            return code * (self._high - self._low + 2) + (np.clip(position, self._low - 1, self._high) - (self._low - 1))
        return code * (len(self._positions) + 1) + np.searchsorted(self._positions, position, side="right")


def answers(subscribed: pa.Table, rights: pa.Table, join: Join, how: How) -> pa.RecordBatch:
    """The rows (``key``, ``value``, ``timestamp``, ``position``) that the result has in turn; a null value where there is none.

    Raises ``ValueError`` if the right table has two changes of a row at one position.
    """
    left_code, right_code = factorize(combine_chunks(subscribed["foreign_key"]), combine_chunks(rights["key"]))
    changes = _Changes(right_code, 1 + max(int(left_code.max(initial=0)), int(right_code.max(initial=0))), rights)
    position, ask = integers(subscribed["position"]), integers(subscribed["ask"])
    last = integers(pc.subtract(subscribed["until"], 1).fill_null(FOREVER))
    left_time = integers(subscribed["timestamp"])
    left_value = combine_chunks(subscribed["value"])

    begin = changes.until(left_code, position)
    now = np.where((ask != Ask.NOTHING) & (changes.code[begin - 1] == left_code), begin - 1, -1)
    end = np.where(ask <= Ask.ALWAYS, changes.until(left_code, last), begin)
    at_once = (now >= 0) & (changes.position[now] == position)
    opens = (ask != Ask.IF_THERE) | changes.there[now] | at_once

    counts = end - begin + opens
    asking = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(asking)) - np.repeat(np.cumsum(counts) - counts, counts) - opens[asking]
    opening = nth < 0
    right = np.where(opening, now[asking], begin[asking] + nth)
    met = changes.there[right]

    asked_time, right_time = left_time[asking], changes.timestamp[right]
    latest = np.where((met & (ask[asking] != Ask.GONE)) | at_once[asking], np.maximum(asked_time, right_time), asked_time)
    joined = valid(left_value)[asking] & (ask[asking] != Ask.END) & (met | (how == "left"))
    key, timestamp = combine_chunks(subscribed["key"]).take(pa.array(asking)), np.where(opening, latest, right_time)
    value = join(
        Pairs(
            left_value,
            np.where(joined, asking, -1),
            combine_chunks(rights["value"]),
            np.where(joined & met, changes.index[right], -1),
            key,
            timestamp,
        )
    )
    columns = {
        "key": key,
        "value": value,
        "timestamp": pa.array(timestamp),
        "position": pa.array(np.where(opening, position[asking], changes.position[right])),
    }
    return pa.record_batch(list(columns.values()), names=list(columns))
