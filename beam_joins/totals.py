"""Counts and sums of the rows of a table by group, in columns.

Law: at every position the content of the result is the count, or the sum, of the content of the table. Sums of whole numbers and decimals are exact;
fractions are added one after the other in the order of positions, so that a sum is the same however a history is cut.
"""

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_joins.arrangement import Arrangement
from beam_joins.batch import ChangeBatch
from beam_joins.groups import Groups, by_row_key
from beam_joins.keys.columns import Bools, Ints
from beam_joins.keys.opaque import is_opaque, opaque_values, python_values
from beam_joins.sorting import combine_chunks, ffill_index, running_max
from beam_joins.stream_time import EARLIEST

_HALF, _LOW = 32, (1 << 32) - 1
_EXACT = Context(prec=1000, Emax=MAX_EMAX, Emin=MIN_EMIN)


def sum_type(kind: pa.DataType) -> pa.DataType:
    """The type of the sum of values of a type; raises ``ValueError`` for what is no number.

    >>> sum_type(pa.int16()), sum_type(pa.decimal128(7, 2))
    (DataType(int64), Decimal128Type(decimal128(38, 2)))
    """
    if is_opaque(kind):
        return kind
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind):
        return pa.decimal256(76, kind.scale) if pa.types.is_decimal256(kind) else pa.decimal128(38, kind.scale)
    raise ValueError(f"values of type {kind} cannot be added: give a column of numbers")


def step(state: Arrangement, rows: pa.Table) -> tuple[ChangeBatch, Arrangement]:
    """The changes of each group's count that members (:func:`beam_joins.aggregate.members`) make; or of its sum, of members with a ``value``.

    A group has a row from the first member on that enters it. A null value adds nothing. Raises ``ValueError`` for a sum that its type cannot hold.
    """
    summed = "value" in rows.column_names
    kind = sum_type(rows.schema.field("value").type) if summed else pa.int64()
    enters = combine_chunks(rows["enters"]).to_numpy(zero_copy_only=False)
    # whole numbers have the same sum in any order
    groups = Groups(state, rows, kind, enters.astype(np.int64), ties=None if pa.types.is_int64(kind) else by_row_key(rows))
    enters = enters[groups.by]
    there = (ffill_index(enters, groups.first) >= 0) | (groups.remembered >= 0)
    # what leaves before anything has entered is not counted
    sign = np.where(there, np.where(enters, 1, -1), 0)
    at = np.flatnonzero(groups.last & there)
    if summed:
        values = combine_chunks(rows["value"]).take(pa.array(groups.by))
        new = _sums(values, kind, sign, groups, at)
    else:
        new = pa.array(_whole_sums(np.ones(len(sign), np.int64), sign, groups)[at])
    return groups.changes(at, new, _latest(groups, there, at))


def _latest(groups: Groups, there: Bools, at: Ints) -> Ints:
    """The largest timestamp of a group up to each of ``at``, from the position on at which it has a row."""
    begun = np.repeat(there[groups.last], np.diff(np.append(np.flatnonzero(groups.opens), len(there))))
    time = np.where(begun, groups.timestamp, EARLIEST)
    known = groups.first & (groups.remembered >= 0)
    time[known] = np.maximum(time[known], groups.time[groups.remembered[known]])
    return running_max(groups.first, time)[at]


def _sums(values: pa.Array, kind: pa.DataType, sign: Ints, groups: Groups, at: Ints) -> pa.Array:
    if pa.types.is_int64(kind):
        try:
            numbers = values.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise ValueError(f"a value does not fit in 64 bits: {error}") from None
        return pa.array(_whole_sums(numbers, sign, groups)[at])
    if pa.types.is_floating(kind):
        numbers = values.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
        return pa.array(_sums_in_turn(numbers, sign, groups, lambda sums: sums.to_numpy(zero_copy_only=False))[at])
    with localcontext(_EXACT):
        of_objects = np.array([0 if value is None else value for value in python_values(values)], object)
        try:
            sums = _sums_in_turn(of_objects, sign, groups, lambda sums: np.array(python_values(sums), object))[at].tolist()
        except TypeError as error:
            raise ValueError(f"the values of a group cannot be added: {error}") from None
    if is_opaque(kind):
        return opaque_values(sums)
    try:
        return pa.array(sums, kind)
    except pa.ArrowInvalid as error:
        raise ValueError(f"a sum does not fit in {kind}: {error}") from None


def _sums_in_turn(numbers: Any, sign: Ints, groups: Groups, read: Callable[[pa.Array], Any]) -> Any:
    """The sum so far of each group at every row, one addition after the other."""
    signed = np.where(sign < 0, -numbers, numbers)
    signed[sign == 0] = 0
    remembered = read(groups.aggregates)
    begins = np.flatnonzero(groups.first)
    sums = np.empty_like(signed)
    for begin, end, known in zip(begins, np.append(begins, len(signed))[1:], groups.remembered[begins], strict=True):
        before = remembered[known : known + 1] if known >= 0 else np.zeros(1, signed.dtype)
        sums[begin:end] = np.add.accumulate(np.concatenate([before, signed[begin:end]]))[1:]
    return sums


def _whole_sums(numbers: npt.NDArray[np.int64], sign: Ints, groups: Groups) -> Ints:
    """The sum so far of each group at every row; raises ``ValueError`` for one that does not fit in 64 bits.

    All rows are summed in one go, and what was before a group is taken off; in two halves, which cannot overflow.
    """
    if not len(numbers):
        return numbers
    known = groups.first & (groups.remembered >= 0)
    before = groups.aggregates.to_numpy(zero_copy_only=False)[groups.remembered[known]]
    high, low = (_from_zero(half(numbers) * sign, known, half(before), groups.first) for half in (_high, _low))
    high += low >> _HALF
    if ((high != high.astype(np.int32)) & groups.last).any():
        raise ValueError("a sum of whole numbers does not fit in 64 bits: make the values decimals or fractions")
    return (high << _HALF) | (low & _LOW)


def _from_zero(numbers: Ints, known: Bools, before: Ints, first: Bools) -> Ints:
    numbers[known] += before
    sums = np.cumsum(numbers)
    begins = np.flatnonzero(first)
    return sums - np.repeat((sums - numbers)[begins], np.diff(np.append(begins, len(sums))))


def _high(numbers: Ints) -> Ints:
    return numbers >> _HALF


def _low(numbers: Ints) -> Ints:
    return numbers & _LOW
