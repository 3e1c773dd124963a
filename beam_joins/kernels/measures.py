"""Measures: several aggregates of the rows of each group of a table, as the columns of one row, in columns.

Law: at every position the content of the result has the aggregates of the content of the table. Rows that leave take away
exactly what they brought.
"""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, ends, ffill_index, gather, valid
from beam_joins.kernels.distinct_values import DistinctValues
from beam_joins.kernels.groups import Groups
from beam_joins.kernels.totals import latest, running_counts, running_sums_of, sum_type, within_groups
from beam_joins.keys.canonical import encode
from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.keys.opaque import VALUES, is_opaque, opaque_values, python_values
from beam_joins.keys.ordering_bytes import ordering_bytes
from beam_joins.options.aggregate_types import AggregateName
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.batch import ChangeBatch

MEAN_DIGITS: Final = 4
"""The digits behind the point that the mean of decimals has more than they have."""
_DECIMALS: Final = Context(prec=100)
_ROWS: Final = "rows"


class Measure(NamedTuple):
    """An aggregate: its function, and the number of the column of members whose values it takes; ``None``: it counts rows."""

    function: AggregateName
    of: int | None = None

    @property
    def is_of_values(self) -> bool:
        """Whether it depends on which values are there, and not on a total."""
        return self.function in ("min", "max", "count_distinct")

    def type(self, kind: pa.DataType) -> pa.DataType:
        """The type of its results for values of a type; raises ``ValueError`` for values that have none."""
        if self.is_of_values:
            ordering_bytes(pa.nulls(0, kind))
        if self.function in ("count", "count_distinct"):
            return pa.int64()
        if self.function in ("min", "max"):
            return kind
        summed = sum_type(kind)
        if self.function == "sum" or is_opaque(kind):
            return summed
        return pa.decimal128(38, min(kind.scale + MEAN_DIGITS, 38)) if pa.types.is_decimal(kind) else pa.float64()


class MeasuresState(tuple[Any, ...]):
    """The state of measures between steps: the rows of groups, and the values of each column whose values matter."""

    __slots__ = ()

    def __new__(cls, groups: Arrangement | None = None, *values: Arrangement) -> Self:
        """Of these fields."""
        return super().__new__(cls, (Arrangement() if groups is None else groups, *values))


TOTAL: Final = encode(())
"""The group of all rows."""


def row_type(types: Mapping[str, pa.DataType]) -> pa.DataType:
    """The type of the rows of groups: columns, or Python objects if one of the columns has some."""
    return VALUES if any(map(is_opaque, types.values())) else pa.struct(list(types.items()))


def members_column(n: int) -> str:
    """The name of a column of members.

    >>> members_column(0)
    'value 0'
    """
    return f"value {n}"


def columns_beside(n: int, kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """The columns of values that are kept with the rows of groups for a column of members, and their types; a state has some of them.

    >>> columns_beside(0, pa.int8())
    [('least 0', DataType(int8)), ('greatest 0', DataType(int8)), ('sum 0', DataType(int64))]
    """
    try:
        summed = [(f"sum {n}", sum_type(kind))]
    except ValueError:  # values that have no sum
        summed = []
    return [(f"least {n}", kind), (f"greatest {n}", kind), *summed]


def step(
    state: MeasuresState, rows: pa.Table, measures: Mapping[str, Measure], *, keeps_empty: bool
) -> tuple[ChangeBatch, MeasuresState]:
    """The changes of each group's row that members (:func:`beam_joins.kernels.aggregate.members`) make; the values to
    aggregate are in columns named :func:`members_column`.

    A member with a null in ``enters`` says that its group has a row from there on. Without ``keeps_empty`` a group without rows
    has none. Nulls are not aggregated: a ``sum``, a ``min``, a ``max`` and a ``mean`` of none are null.
    """
    enters = combine_chunks(rows["enters"])
    begins = ~valid(enters)
    is_in = enters.fill_null(False).to_numpy(zero_copy_only=False)
    columns = sorted({measure.of for measure in measures.values() if measure.of is not None})
    kinds = {n: rows.schema.field(members_column(n)).type for n in columns}
    types = {name: measure.type(pa.null() if measure.of is None else kinds[measure.of]) for name, measure in measures.items()}
    kind = row_type(types)
    groups = Groups(state[0], rows, kind, is_in.astype(np.int64))
    is_in, begins = is_in[groups.by], begins[groups.by]
    sign = np.where(begins, 0, np.where(is_in, 1, -1))
    if keeps_empty:
        present = (ffill_index(is_in | begins, groups.first) >= 0) | (groups.remembered >= 0)
        sign = np.where(present, sign, 0)
    number = running_counts(sign, groups, groups.before_in(_ROWS, pa.int64()))
    exists = present if keeps_empty else number > 0
    opens = np.flatnonzero(groups.opens)
    of_opens = np.cumsum(groups.opens) - 1
    existed = ((groups.remembered >= 0) if keeps_empty else number - sign > 0)[opens][of_opens]
    if keeps_empty:
        existed |= np.append(False, exists[:-1])[: len(exists)][opens][of_opens] & ~groups.first[opens][of_opens]
    at = np.flatnonzero(groups.last & (exists | existed))
    total = _Totals(state, rows, groups, sign, at, kinds, measures)
    results = {
        name: pa.array(number[at]) if measure.of is None else total.result(measure, types[name]) for name, measure in measures.items()
    }
    new = _rows_of(results, types, kind, exists[at])
    timestamp = latest(groups, exists | existed, at, None if keeps_empty else groups.opens & ~existed)
    is_last = pa.array(ends(groups.code[at]))
    beside = {_ROWS: pa.array(number[at]).filter(is_last), **total.beside(is_last)}
    batch, after = groups.changes(at, new, timestamp, beside)
    return batch, MeasuresState(after, *total.after)


def _rows_of(results: Mapping[str, pa.Array], types: Mapping[str, pa.DataType], kind: pa.DataType, exists: Bools) -> pa.Array:
    if is_opaque(kind):
        columns = [python_values(values) for values in results.values()]
        rows = (dict(zip(results, row, strict=True)) for row in zip(*columns, strict=True))
        return opaque_values([row if there else None for row, there in zip(rows, exists.tolist(), strict=True)])
    return pa.StructArray.from_arrays(list(results.values()), fields=list(kind), mask=pa.array(~exists))


class _Totals:
    """The counts, sums and values of the columns of members, each computed once."""

    def __init__(
        self,
        state: MeasuresState,
        rows: pa.Table,
        groups: Groups,
        sign: Ints,
        at: Ints,
        kinds: Mapping[int, pa.DataType],
        measures: Mapping[str, Measure],
    ) -> None:
        self._groups, self._at = groups, at
        self._counts, self._sums, self._exact = dict[int, Ints](), dict[int, pa.Array](), dict[int, Any]()
        self._distinct, self._extremes = dict[int, Ints](), dict[tuple[int, bool], pa.Array]()
        summed = {measure.of for measure in measures.values() if measure.function in ("sum", "mean")}
        of_values = [n for n in kinds if any(measure.of == n and measure.is_of_values for measure in measures.values())]
        self.after: list[Arrangement] = []
        """The values of the columns whose values matter."""
        for n, kind in kinds.items():
            values = combine_chunks(rows[members_column(n)]).take(pa.array(groups.by))
            counted = np.where(valid(values), sign, 0)
            self._counts[n] = running_counts(counted, groups, groups.before_in(f"count {n}", pa.int64()))
            if n in summed:
                before, exact = groups.before_in(f"sum {n}", sum_type(kind)), groups.before_in(f"exact {n}", pa.binary())
                self._sums[n], self._exact[n] = running_sums_of(values, sum_type(kind), counted, groups, at, before, exact.to_pylist())
            if n in of_values:
                held = state[1 + len(self.after)] if len(state) > 1 else Arrangement()
                distinct = DistinctValues(held, groups, values, counted)
                self._count_distinct(n, distinct)
                for is_greatest in (False, True):
                    name = f"{'greatest' if is_greatest else 'least'} {n}"
                    if any(measure.of == n and measure.function == ("max" if is_greatest else "min") for measure in measures.values()):
                        found, index = distinct.extreme(groups.before_in(name, kind), greatest=is_greatest)
                        self._extremes[n, is_greatest] = gather(found, index[at])
                self.after.append(distinct.after())

    def _count_distinct(self, n: int, distinct: DistinctValues) -> None:
        changes = np.zeros(len(self._groups.by), np.int64)
        np.add.at(changes, *distinct.changes_of_count())
        before = self._groups.before_in(f"distinct {n}", pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        self._distinct[n] = within_groups(changes, before, self._groups.first)[self._at]

    def result(self, measure: Measure, kind: pa.DataType) -> pa.Array:
        """The results of a measure of values."""
        n = measure.of
        assert n is not None
        if measure.function == "count_distinct":
            return pa.array(self._distinct[n])
        count = self._counts[n][self._at]
        if measure.function == "count":
            return pa.array(count)
        if measure.function in ("min", "max"):
            return self._extremes[n, measure.function == "max"]
        if measure.function == "sum":
            return gather(self._sums[n], np.where(count > 0, np.arange(len(count)), -1))
        return _means(self._sums[n], count, kind)

    def beside(self, is_last: pa.Array) -> dict[str, pa.Array]:
        """The columns that are kept with the rows of groups."""
        columns: dict[str, pa.Array] = {}
        for n, counts in self._counts.items():
            columns[f"count {n}"] = pa.array(counts[self._at]).filter(is_last)
        for n, sums in self._sums.items():
            columns[f"sum {n}"] = sums.filter(is_last)
            if self._exact[n] is not None:
                columns[f"exact {n}"] = pa.array(self._exact[n], pa.binary())
        for n, numbers in self._distinct.items():
            columns[f"distinct {n}"] = pa.array(numbers).filter(is_last)
        for (n, is_greatest), values in self._extremes.items():
            columns[f"{'greatest' if is_greatest else 'least'} {n}"] = values.filter(is_last)
        return columns


def _means(sums: pa.Array, count: Ints, kind: pa.DataType) -> pa.Array:
    if is_opaque(kind):
        divided = [total / number if number else None for total, number in zip(python_values(sums), count.tolist(), strict=True)]
        return opaque_values(divided)
    if pa.types.is_decimal(kind):
        last_digit = Decimal(1).scaleb(-kind.scale)
        means = [
            (_DECIMALS.divide(total, Decimal(number))).quantize(last_digit, ROUND_HALF_UP, _DECIMALS) if number else None
            for total, number in zip(sums.to_pylist(), count.tolist(), strict=True)
        ]
        return pa.array(means, kind)
    numbers = sums.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        means_of = numbers / np.maximum(count, 1)
    if pa.types.is_integer(sums.type):
        # a whole number of more than 53 bits is no double: Python rounds the quotient once
        for n in np.flatnonzero(np.abs(numbers.astype(np.float64)) >= 2.0**53).tolist():
            means_of[n] = int(numbers[n]) / max(int(count[n]), 1)
    return pa.array(means_of, mask=count == 0)
