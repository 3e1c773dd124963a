"""Aggregates computed record by record with a user's functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from beam_joins.functions.user_functions import Functions
from beam_joins.kernels.groups import Groups
from beam_joins.keys.opaque import opaque_values, python_values
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.batch import ChangeBatch
from beam_joins.values.copying import copied


class Fold(NamedTuple):
    """The functions of an aggregate: ``initial()``, ``add(aggregate, value)`` and ``subtract(aggregate,
    value)``; ``None`` is no row.

    They may write into their arguments. ``functions`` handles an exception of ``add``; one of ``subtract``
    always fails the run, as the aggregate would be wrong.
    """

    functions: Functions
    initial: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    subtract: Callable[[Any, Any], Any] | None = None


class Folding:
    """Adds and subtracts the rows of groups one after the other, in their order.

    ``values`` are those of the ordered rows; ``record_of(n)`` is the record of a row in error messages, its
    group first. A result has the largest timestamp of the previous aggregate and of the rows added or
    subtracted; with ``restarts`` an aggregate that became ``None`` does not count.
    """

    def __init__(
        self, fold: Fold, groups: Groups, values: pa.Array, record_of: Callable[[int], tuple[Any, ...]], *, restarts: bool = False
    ) -> None:
        self._fold = fold
        self._groups = groups
        self._values = values
        self._members = python_values(values)
        self._record_of = record_of
        self._restarts = restarts
        self._timestamps = groups.timestamp.tolist()
        self._flags = list(zip(groups.first.tolist(), groups.opens.tolist(), groups.last.tolist(), strict=True))
        self._row: Any = None
        self._time = 0
        self._at: list[int] = []
        self._new: list[Any] = []
        self._times: list[int] = []

    def run(self, apply: Callable[[int], bool]) -> tuple[ChangeBatch, Arrangement]:
        """The changes, and the aggregates after them; ``apply(n)`` adds or subtracts a row, or leaves it out
        and gives false.
        """
        for n, (first, opens, last) in enumerate(self._flags):
            if first:
                self._row, self._time = self._remembered(n)
            if opens:
                old, self._fresh, touched = self._row, self._row is None, False
            if self._restarts and self._row is None:
                self._fresh = True
            if apply(n):
                time = self._timestamps[n]
                self._time = time if self._fresh else max(self._time, time)
                self._fresh, touched = False, True
            if last and touched and not (old is None and self._row is None):
                self._at.append(n)
                self._new.append(self._row)
                self._times.append(self._time)
        groups = self._groups
        at, times = (pa.array(numbers, pa.int64()).to_numpy() for numbers in (self._at, self._times))
        return groups.changes(at, opaque_values(self._new), times)

    def add(self, n: int) -> bool:
        """Add a row; false if ``add`` raised an exception that is handled."""
        aggregate = self._fold.initial() if self._row is None else self._row
        try:
            self._row = copied(self._fold.add(copied(aggregate), self._members[n]))
        except Exception as error:
            record = (*self._record_of(n), self._value(n))
            self._fold.functions.failed("add", error, (aggregate, record[-1]), self._timestamps[n], key=record[0], record=record)
            return False
        return True

    def subtract(self, n: int) -> None:
        """Subtract a row from its group, if that has one."""
        if self._row is not None and self._fold.subtract is not None:
            try:
                self._row = copied(self._fold.subtract(copied(self._row), self._members[n]))
            except Exception as error:
                arguments = self._row, self._value(n)
                raise self._fold.functions.failure("subtract", error, arguments, self._record_of(n)[0]) from error

    def _value(self, n: int) -> Any:
        # read again: the function may have written into it
        return python_values(self._values.slice(n, 1))[0]

    def _remembered(self, n: int) -> tuple[Any, int]:
        index = int(self._groups.remembered[n])
        if index < 0:
            return None, 0
        return python_values(self._groups.aggregates.slice(index, 1))[0], int(self._groups.time[index])
