"""Sorts rows by routing key and position; running values within the rows of a key."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorted_bytes import bytes_order, sorted_by
from beam_joins.keys.encoded import encoded_values
from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.keys.nested import is_combined, is_windowed
from beam_joins.keys.opaque import KEYS, is_opaque


def ordered(code: Ints, position: Ints, *then: Ints, ties: Callable[[Ints], Ints] | None = None) -> Ints:
    """The indices that order rows by code, position and the columns after them, each more significant than
    the next.

    ``ties`` orders the rows that are equal in all columns: it is given their indices, and returns the indices
    that sort those.

    >>> ordered(np.array([1, 0, 1]), np.array([5, 9, 2])).tolist()
    [1, 2, 0]
    >>> names = np.array(["b", "a", "c"])
    >>> ordered(np.array([1, 1, 0]), np.array([5, 5, 5]), ties=lambda tied: np.argsort(names[tied])).tolist()
    [2, 1, 0]
    """
    by = _sorted_by([code, position, *then])
    if ties is None:
        return by
    columns = [column[by] for column in (code, position, *then)]
    first = starts(*columns)
    tied = ~(first & ends(*columns))
    if tied.any():
        rows = by[tied]
        rank = np.empty(len(rows), np.int64)
        rank[ties(rows)] = np.arange(len(rows))
        by[tied] = rows[np.lexsort([rank, np.cumsum(first)[tied]])]
    return by


def record_order(rows: pa.Table, code: Ints) -> Ints:
    """The indices that order records by code, ``position``, ``within``, ``timestamp``, ``tie`` and the
    encoded ``value``, nulls first.

    ``within`` and ``tie`` need not be there. Values are encoded only where nothing else decides.
    """
    position = integers(rows["position"])

    def tied_order(tied: Ints) -> Ints:
        some = rows.take(pa.array(tied))
        within, tie = (_rank(some[name]) if name in some.column_names else np.zeros(len(tied), np.int64) for name in ("within", "tie"))
        values = combine_chunks(some["value"])
        columns = code[tied], position[tied], within, integers(some["timestamp"]), tie
        return ordered(*columns, ties=lambda alike: bytes_order(encoded_values(values.take(pa.array(alike)))))

    return ordered(code, position, ties=tied_order)


def _rank(column: pa.ChunkedArray) -> Ints:
    rank: Ints = pc.rank(column.fill_null(b""), tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return rank


def _sorted_by(columns: Sequence[Ints]) -> Ints:
    """The indices that sort rows by columns, rows that are equal in all of them in the order in which they
    are.
    """
    by = None
    for number in _numbers(columns) if len(columns[0]) else ():
        by = sorted_by(number) if by is None else by[sorted_by(number[by])]
    return np.arange(len(columns[0])) if by is None else by


def _numbers(columns: Sequence[Ints]) -> Iterator[Ints]:
    """Numbers that are ordered as rows are by one or more of the columns, from the last column to the first: as many columns
    in a number as leave room for the places of rows, with which they are sorted.
    """
    room = 1 << (63 - len(columns[0]).bit_length())
    number, span = columns[-1], _span(columns[-1])
    for column in reversed(columns[:-1]):
        if (more := span * _span(column)) > room:
            yield number
            number, span = column, _span(column)
        else:
            number, span = (column - column.min()) * span + (number - number.min()), more
    yield number


_FAR: Final = 16
"""How far numbers that are compared with each other are from each other, to see whether all are about in order."""


def search(ordered: Ints, wanted: Ints, *, side: Literal["left", "right"] = "left") -> Ints:
    """As ``numpy.searchsorted``, several times as fast for numbers in no order.

    >>> search(np.array([1, 3, 3]), np.array([9, 3, 0]), side="right").tolist()
    [3, 3, 0]
    """
    some = wanted[::_FAR]
    if np.count_nonzero(some[1:] < some[:-1]) * _FAR < len(some):
        return np.searchsorted(ordered, wanted, side=side)
    by = sorted_by(wanted)  # neighbours are found where the one before was
    index = np.empty(len(wanted), np.int64)
    index[by] = np.searchsorted(ordered, wanted[by], side=side)
    return index


def _span(numbers: Ints) -> int:
    return int(numbers.max()) - int(numbers.min()) + 1


def starts(*ordered_columns: Ints) -> Bools:
    """Which ordered rows differ from the row before them in one of the columns."""
    first = np.ones(len(ordered_columns[0]), np.bool_)
    if len(first) > 1:
        first[1:] = False
        for column in ordered_columns:
            first[1:] |= column[1:] != column[:-1]
    return first


def ends(*ordered_columns: Ints) -> Bools:
    """Which ordered rows differ from the row after them in one of the columns."""
    return starts(*(column[::-1] for column in ordered_columns))[::-1]


def ffill_index(seen: Bools, first: Bools) -> Ints:
    """For every row the index of the last row up to it, within its key, for which ``seen`` holds; -1 if there
    is none.

    >>> ffill_index(np.array([True, False, False, False]), np.array([True, False, True, False])).tolist()
    [0, 0, -1, -1]
    """
    index = np.arange(len(seen))
    last = np.maximum.accumulate(np.where(seen, index, -1)) if len(seen) else index
    begin = np.maximum.accumulate(np.where(first, index, 0)) if len(seen) else index
    return np.where(last >= begin, last, -1)


def running_max(first: Bools, numbers: Ints) -> Ints:
    """For every row the largest number up to it, within its key; ``first`` says where the rows of a key
    begin.

    >>> running_max(np.array([True, False, True]), np.array([5, 3, 4])).tolist()
    [5, 5, 4]
    """
    if not len(numbers):
        return numbers
    distinct, rank = np.unique(numbers, return_inverse=True)
    begin = (np.cumsum(first) - 1) * len(distinct)
    largest: Ints = distinct[np.maximum.accumulate(begin + rank) - begin]
    return largest


def valid(values: pa.Array) -> Bools:
    """Which values are not null."""
    is_valid: Bools = values.is_valid().to_numpy(zero_copy_only=False)
    return is_valid


def gather(values: pa.Array, indices: Ints) -> pa.Array:
    """The values at the indices, null where one is negative; the same array if those are all values in their
    order.
    """
    if len(indices) == len(values) and np.array_equal(indices, np.arange(len(values))):
        return values
    return values.take(pa.array(indices, mask=indices < 0))


def same(values: pa.Array, others: pa.Array) -> Bools:
    """Where two columns of one type have equal values; two nulls are equal.

    >>> same(pa.array([{"a": 1}, None]), pa.array([{"a": 2}, None])).tolist()
    [False, True]
    """
    present, others_present = valid(values), valid(others)
    equal: Bools
    if values.type == KEYS or is_windowed(values.type) or is_combined(values.type):
        return same(values.storage, others.storage)
    if is_opaque(values.type):
        equal = same(values.storage, others.storage)
        # two encodings of one value may differ
        at = np.flatnonzero(~equal & present & others_present)
        equal[at] = same(encoded_values(values.take(pa.array(at))), encoded_values(others.take(pa.array(at))))
        return equal
    if pa.types.is_struct(values.type):
        equal = present == others_present
        for part, other in zip(values.flatten(), others.flatten(), strict=True):
            equal &= same(part, other)
        return equal
    if pa.types.is_null(values.type):
        return np.ones(len(values), np.bool_)
    try:
        equal = pc.equal(values, others).fill_null(False).to_numpy(zero_copy_only=False)
    except pa.ArrowNotImplementedError:  # lists, maps, intervals
        return same(encoded_values(values), encoded_values(others))
    if pa.types.is_floating(values.type):
        equal |= pc.and_(pc.is_nan(values), pc.is_nan(others)).fill_null(False).to_numpy(zero_copy_only=False)
    return equal | ~(present | others_present)


def integers(column: pa.ChunkedArray | pa.Array) -> Ints:
    """A column of whole numbers without nulls."""
    numbers: Ints = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return numbers


def combine_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array; raises ``ValueError`` if its texts are more than one array can hold."""
    if isinstance(column, pa.Array):
        return column
    if not column.num_chunks:  # Arrow puts no chunks together for columns of UUIDs or opaque ones
        return pa.nulls(0, column.type)
    if column.num_chunks == 1:  # Arrow copies it
        return column.chunk(0)
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        if whole.num_chunks != 1:
            raise ValueError("a partition's column is larger than 2 GB: take more with --beam_joins_partitions")
        whole = whole.chunk(0)
    return whole
