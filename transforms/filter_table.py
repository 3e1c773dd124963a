"""FilterTable: the rows of a table that satisfy a predicate (KAFKA-3902)."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.typehints.typehints import TupleConstraint

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.filter import filter_upsert, with_values
from beam_joins.function_failed import FunctionFailed
from beam_joins.functions import by_row, vectorized
from beam_joins.keys.columns import Bools
from beam_joins.sorting import valid
from beam_joins.transforms.engine.door import batch_of, in_batches
from beam_joins.transforms.engine.each_value import each_value
from beam_joins.transforms.engine.options import function
from beam_joins.transforms.engine.outputs import HandlesExceptions
from beam_joins.transforms.engine.table_rows import changes_in_python
from beam_joins.transforms.engine.table_type import TableType, as_table, is_batches, is_changes, table_type
from beam_joins.transforms.engine.user_functions import StageFunctions


class FilterTable(HandlesExceptions):
    """The rows of a table for which ``predicate(key, value)`` is true; with ``negate=True`` those for which it is not.

    A row that begins to satisfy the predicate is inserted, one that no longer satisfies it is deleted, and a row that never does has no changes. A raw changelog, ``PCollection[tuple[K, V | None]]``, gives a raw changelog: every value that fails
    becomes a tombstone, since the value before it is not known.

    ``predicate`` may be :class:`~beam_joins.vectorized` where the values are typed: it gets them as a record batch and gives an array of truth
    values, and is called with no rows when the pipeline is built. A value for which ``predicate`` raises is not in the table, negated or not, under :meth:`with_exception_handling`.

    Raises ``ValueError`` at construction for a ``predicate`` that is not a function; when applied, for a vectorized predicate of opaque values, or
    one that does not give truth values; and in the run for an element that is neither a change nor a pair.

    >>> from beam_joins import TableToChanges
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", 1, 5, timestamp=0, position=0)])
    ...         | FilterTable(lambda key, value: value < 2)
    ...         | TableToChanges()
    ...         | beam.Map(print)
    ...     )
    Change(key='k', old=1, new=None, timestamp=0, position=0)
    """

    def __init__(self, predicate: Callable[..., Any], *, negate: bool = False) -> None:
        super().__init__()
        self._predicate = function("predicate", predicate, "of key and value")
        self._negate = negate

    def build(self, pvalue: PCollection[Any]) -> PCollection[Any]:
        """The filtered table."""
        is_table, known = is_batches(pvalue) or is_changes(pvalue), table_type(pvalue)
        called = self.handling.functions.function("predicate", self._predicate, fresh=is_table)
        if is_table and isinstance(called, vectorized):
            try:
                _truth(called, pa.nulls(0, known.value_column))
            except FunctionFailed as error:
                raise ValueError(f"{error}; it is called with no rows when the pipeline is built, to know what it gives") from error
        passes = (
            _OfColumns(called, self._negate)
            if isinstance(called, vectorized)
            else _OfRecords(called, self._negate, known, self.handling.functions)
        )
        run = beam.FlatMap(_filtering(passes, self.handling.functions))
        kept = self.handling.apply("Filter", run, in_batches(pvalue) if is_table else pvalue)
        if is_table:
            kept.element_type = ChangeBatch
            return as_table(kept, known, checked=known.checked)
        # a typed pair's coder would not write the None of a tombstone
        kept.element_type = beam.typehints.KV[Any, Any] if isinstance(pvalue.element_type, TupleConstraint) else Any
        return kept


class _OfColumns:
    """A vectorized predicate."""

    def __init__(self, predicate: Any, negate: bool) -> None:
        self._predicate = predicate
        self._negate = negate

    def __call__(self, batch: ChangeBatch) -> Bools:
        kept: Bools = (_truth(self._predicate, batch.values) != self._negate) & valid(batch.values)
        return kept

    def of_pair(self, key: Any, value: Any) -> Any:
        raise ValueError("a vectorized predicate is for tables whose values have columns, and this is a collection of pairs")


class _OfRecords:
    """A predicate of key and value."""

    def __init__(self, predicate: Callable[[Any, Any], Any], negate: bool, known: TableType, functions: StageFunctions) -> None:
        self._known = known
        self.of_pair = functions.of_rows(lambda key, value: bool(predicate(key, value)) is not negate)

    def __call__(self, batch: ChangeBatch) -> Bools:
        return np.array([bool(passed) for passed in each_value(batch, self._known, self.of_pair)], np.bool_)


def _truth(predicate: Any, values: pa.Array) -> Bools:
    given = by_row("predicate", predicate, values)
    if not pa.types.is_boolean(given.type):
        raise ValueError(f"predicate gave values of type {given.type}: give true for a row that stays")
    passed: Bools = given.fill_null(False).to_numpy(zero_copy_only=False)
    return passed


def _filtering(passes: Any, functions: StageFunctions) -> Callable[[Any], Iterator[Any]]:
    def of_batch(batch: ChangeBatch) -> ChangeBatch:
        return with_values(batch, batch.values, passes(batch), keeps_nothing=False)

    def filtered(element: Any) -> Iterator[Any]:
        if isinstance(element, ChangeBatch):
            kept = of_batch(element)
            if len(kept):
                yield kept
        elif isinstance(element, Change):
            yield from changes_in_python(of_batch(batch_of([element])), TableType())
        elif isinstance(element, tuple) and len(element) == 2:
            yield filter_upsert(passes.of_pair, *element)
            if element[1] is not None:
                passes.of_pair.report(element, None)
        else:
            raise ValueError(
                f"FilterTable takes changes or (key, value) pairs, not {type(element).__name__}: make a table with TableFromChangelog"
            )
        yield from functions.take()

    return filtered
