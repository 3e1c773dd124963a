"""Counts and sums the rows of each group of a table, in columns.

Law: at every position the content of the result is the count, or the sum, of the content of the table. Sums
are exact; those of floating-point numbers are rounded once (:mod:`beam_joins.kernels.exact_sums`).
"""

from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, localcontext
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, ends, ffill_index, running_max
from beam_joins.kernels.exact_sums import Exact, running_sums
from beam_joins.kernels.groups import EXACT, Groups, by_row_key
from beam_joins.kernels.stream_time import EARLIEST
from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.keys.opaque import is_opaque, opaque_values, python_values
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.batch import ChangeBatch

_HALF, _LOW = 32, (1 << 32) - 1
_EXACT = Context(prec=1000, Emax=MAX_EMAX, Emin=MIN_EMIN)


def sum_type(kind: pa.DataType) -> pa.DataType:
    """The type of the sum of values of a type; raises ``ValueError`` for a type that is not numeric.

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
    """The changes of each group's count that members (:func:`beam_joins.kernels.aggregate.members`) make; or of its
    sum, of members with a ``value``.

    A group has a row from the first member on that enters it. A null value adds nothing. Raises
    ``ValueError`` for a sum that its type cannot hold.
    """
    summed = "value" in rows.column_names
    kind = sum_type(rows.schema.field("value").type) if summed else pa.int64()
    enters = combine_chunks(rows["enters"]).to_numpy(zero_copy_only=False)
    # complex numbers alone have a sum that depends on the order
    groups = Groups(state, rows, kind, enters.astype(np.int64), ties=by_row_key(rows) if is_opaque(kind) else None)
    enters = enters[groups.by]
    present = (ffill_index(enters, groups.first) >= 0) | (groups.remembered >= 0)
    # values that leave before any has entered are not counted
    sign = np.where(present, np.where(enters, 1, -1), 0)
    at = np.flatnonzero(groups.last & present)
    before, exact = groups.before(groups.aggregates), None
    if summed:
        values = combine_chunks(rows["value"]).take(pa.array(groups.by))
        new, exact = running_sums_of(values, kind, sign, groups, at, before, groups.before_exact())
    else:
        new = pa.array(running_counts(sign, groups, before)[at])
    return groups.changes(at, new, latest(groups, present, at), {} if exact is None else {EXACT: pa.array(exact, pa.binary())})


def running_counts(sign: Ints, groups: Groups, before: pa.Array) -> Ints:
    """The number of rows of each group behind every ordered row, of those ``before`` its first."""
    return _whole_sums(np.ones(len(sign), np.int64), sign, groups, before)


def latest(groups: Groups, present: Bools, at: Ints, begins: Bools | None = None) -> Ints:
    """The largest timestamp of a group up to each of ``at``, from the position on at which it has a row; ``begins`` are the rows
    at which a group without rows has one again.
    """
    begun = np.repeat(present[groups.last], np.diff(np.append(np.flatnonzero(groups.opens), len(present))))
    time = np.where(begun, groups.timestamp, EARLIEST)
    continued = groups.first & (groups.remembered >= 0)
    time[continued] = np.maximum(time[continued], groups.time[groups.remembered[continued]])
    return running_max(groups.first if begins is None else groups.first | begins, time)[at]


def running_sums_of(
    values: pa.Array, kind: pa.DataType, sign: Ints, groups: Groups, at: Ints, before: pa.Array, exact_before: Sequence[bytes | None]
) -> tuple[pa.Array, list[bytes | None] | None]:
    """The sums at some of the ordered rows, with those ``before`` the first row of each group; and for floats and Python objects
    the state of each group beside its last sum.
    """
    if pa.types.is_int64(kind):
        try:
            numbers = values.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise ValueError(f"a value does not fit in 64 bits: {error}") from None
        return pa.array(_whole_sums(numbers, sign, groups, before)[at]), None
    if pa.types.is_floating(kind):
        numbers = values.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
        sums, exact = running_sums(numbers, sign, groups.first, at, list(map(_exact, exact_before)), ends(groups.code[at]))
        return pa.array(sums), [each.encoded() for each in exact]
    with localcontext(_EXACT):
        try:
            totals, remembered = _sums_in_turn(python_values(values), sign, groups, at, python_values(before), exact_before)
        except TypeError as error:
            raise ValueError(f"the values of a group cannot be added: {error}") from None
    if is_opaque(kind):
        return opaque_values(totals), remembered
    try:
        return pa.array(totals, kind), None
    except pa.ArrowInvalid as error:
        raise ValueError(f"a sum does not fit in {kind}: {error}") from None


def _exact(encoded: bytes | None) -> Exact:
    return Exact() if encoded is None else Exact.decoded(encoded)


def _sums_in_turn(
    numbers: list[Any], sign: Ints, groups: Groups, at: Ints, before: Sequence[Any], exact_before: Sequence[bytes | None]
) -> tuple[list[Any], list[bytes | None]]:
    """The sum so far at some of the rows, whole numbers and floats exactly, all others by their own ``+`` and
    ``-``.
    """
    total, of_groups = _Total(), zip(before, exact_before, strict=True)
    wanted, last = np.zeros(len(sign), np.bool_), np.zeros(len(sign), np.bool_)
    wanted[at] = True
    last[at[ends(groups.code[at])]] = True
    sums, exact = list[Any](), list[bytes | None]()
    flags = zip(groups.first.tolist(), sign.tolist(), wanted.tolist(), last.tolist(), strict=True)
    for number, (first, way, is_wanted, is_last) in zip(numbers, flags, strict=True):
        if first:
            value, encoded = next(of_groups)
            total = _Total() if value is None else _Total.of(value, _exact(encoded))
        if way and number is not None:
            total.add(number, way)
        if is_wanted:
            sums.append(total.value())
        if is_last:
            exact.append(total.exact.encoded())
    return sums, exact


class _Total:
    """A sum of Python's numbers: ``exact`` of whole numbers and floats, and ``rest`` of the others."""

    def __init__(self) -> None:
        self.exact, self.rest = Exact(), None

    @classmethod
    def of(cls, value: Any, exact: Exact) -> "_Total":
        """A sum that has this value."""
        total = cls()
        total.exact = exact
        if not isinstance(value, int | float):
            total.rest = value - exact.value()
        return total

    def add(self, number: Any, sign: int) -> None:
        if isinstance(number, float) or (isinstance(number, Real) and hasattr(number, "dtype") and not isinstance(number, Integral)):
            self.exact = self.exact.plus(float(number), sign)
        elif isinstance(number, Integral):
            self.exact = self.exact.plus(int(number), sign)
        else:
            number = number if sign > 0 else -number
            self.rest = number if self.rest is None else self.rest + number
        if self.rest is not None and self.exact.floats:
            raise TypeError(f"floats and numbers of type {type(self.rest).__name__}")

    def value(self) -> Any:
        value = self.exact.value()
        return value if self.rest is None else self.rest + value


def _whole_sums(numbers: npt.NDArray[np.int64], sign: Ints, groups: Groups, before: pa.Array) -> Ints:
    """The sum so far of each group at every row; raises ``ValueError`` for a sum that does not fit in 64 bits.

    All rows are summed in one go, and the sum before a group is subtracted; in two halves, which cannot
    overflow.
    """
    if not len(numbers):
        return numbers
    earlier = before.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    high, low = (within_groups(half(numbers) * sign, half(earlier), groups.first) for half in (_high, _low))
    high += low >> _HALF
    if ((high != high.astype(np.int32)) & groups.last).any():
        raise ValueError("a sum of whole numbers does not fit in 64 bits: make the values decimals or fractions")
    return (high << _HALF) | (low & _LOW)


def within_groups(numbers: Ints, before: Ints, first: Bools) -> Ints:
    """The running sums of numbers within each group, from what it had ``before`` on; the numbers are changed."""
    begins = np.flatnonzero(first)
    numbers[begins] += before
    sums = np.cumsum(numbers)
    return sums - np.repeat((sums - numbers)[begins], np.diff(np.append(begins, len(sums))))


def _high(numbers: Ints) -> Ints:
    return numbers >> _HALF


def _low(numbers: Ints) -> Ints:
    return numbers & _LOW
