"""FilterTable: keeps the rows of a table that satisfy a predicate (KAFKA-3902)."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection
from apache_beam.typehints.typehints import TupleConstraint

from beam_joins.columns.sorting import valid
from beam_joins.elements.change import Change
from beam_joins.function_failed import FunctionFailed, called_with_no_rows
from beam_joins.functions.expressions import in_columns
from beam_joins.functions.marked_functions import by_row, vectorized
from beam_joins.kernels.filter import filter_upsert, with_values
from beam_joins.keys.key_columns import Bools
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.element_types import is_of_others
from beam_joins.transforms.engine.construction.input_checks import MAKE_A_TABLE, elements_of, require_collections
from beam_joins.transforms.engine.construction.kept_signatures import ForEach
from beam_joins.transforms.engine.construction.option_checks import flag, function
from beam_joins.transforms.engine.construction.output_types import Handled
from beam_joins.transforms.engine.construction.pipeline_changes import OF_RECORDS, Rules
from beam_joins.transforms.engine.construction.table_type import TableType, as_table, is_table, physical_of, table_type
from beam_joins.transforms.engine.stages.each_value import each_value
from beam_joins.transforms.engine.stages.incoming_tables import batch_of, in_batches
from beam_joins.transforms.engine.stages.table_rows import changes_in_python
from beam_joins.transforms.engine.transform_outputs import HandlesExceptions


class FilterTable(HandlesExceptions[PCollection[Any], PCollection[Any], Handled[PCollection[Any]]]):
    """Keeps the rows of a table that satisfy a predicate.

    * ``predicate``: a function of key and value that is true for a row that stays. For typed values it may be an Arrow
      expression of their columns, ``pc.field("amount") > 5``, or :class:`~beam_joins.vectorized`: it gets the values as a
      record batch and returns an array of booleans, and is called with no rows when the pipeline is built. A null is false.
    * ``negate``: ``True`` keeps the rows for which it is false.

    A row is inserted when it begins to satisfy the predicate, and deleted when it no longer does; a row that
    never satisfies it has no changes. A raw changelog, ``PCollection[tuple[K, V | None]]``, stays a raw
    changelog: every value that fails becomes a tombstone, since its old value is unknown.

    Under :meth:`with_exception_handling` a value for which ``predicate`` raises is not in the table, negated
    or not.

    Raises ``ValueError`` at construction for a ``predicate`` that is not a function; when applied, for a
    vectorized predicate of opaque values, or of another result than booleans; and in the run for an element
    that is neither a change nor a pair, and for a predicate that does not return a bool.

    >>> from beam_joins import TableToChanges
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", 1, 5, timestamp=0, position=0)])
    ...         | FilterTable(lambda key, value: value < 2)
    ...         | TableToChanges()
    ...         | beam.Map(print)
    ...     )
    Change(key='k', old=1, new=None, timestamp=0, position=0)
    """

    def __init__(self, predicate: Callable[..., Any] | pc.Expression, *, negate: bool = False) -> None:
        super().__init__()
        self._predicate = function("predicate", in_columns("predicate", predicate), "of key and value")
        self._negate = flag("negate", negate)

    def rules_for(self, inputs: list[PCollection[Any]]) -> Rules:
        """Pairs that were filtered out are not stored."""
        return self.rules if all(map(is_table, inputs)) else OF_RECORDS

    def build(self, pvalue: PCollection[Any]) -> PCollection[Any]:
        """The filtered table."""
        require_collections("FilterTable", pvalue)
        if is_of_others(pvalue.element_type, Change, ChangeBatch, tuple):
            raise ValueError(f"FilterTable takes changes or (key, value) pairs, not {elements_of(pvalue)}: {MAKE_A_TABLE}")
        of_changes, of_table = is_table(pvalue), table_type(pvalue)
        functions, negate = self.handling.functions, self._negate
        called = functions.function("predicate", self._predicate, fresh=of_changes)
        if of_changes and isinstance(called, vectorized):
            with called_with_no_rows():
                _truth(called, pa.nulls(0, of_table.value_column))

        def passes(key: Any, value: Any) -> bool:
            if isinstance(called, vectorized):
                raise ValueError("a vectorized predicate is for tables whose values have columns, and this is a collection of pairs")
            passed = called(key, value)
            if not isinstance(passed, bool | np.bool_):
                raise ValueError(
                    f"predicate gave {passed!r} of type {type(passed).__name__}: give True for a row that stays, or False"
                )
            return bool(passed) is not negate

        def of_batch(batch: ChangeBatch) -> ChangeBatch:
            if isinstance(called, vectorized):
                passed = (_truth(called, batch.values) != negate) & valid(batch.values)
            else:
                passed = np.array([bool(passed) for passed in each_value(batch, of_table, functions, passes)], np.bool_)
            return with_values(batch, batch.values, passed, keeps_nothing=False)

        def of_pair(element: tuple[Any, Any]) -> tuple[Any, Any]:
            try:
                return filter_upsert(passes, *element)
            except FunctionFailed as failed:
                functions.caught(element, failed, None)
                return element[0], None

        def filtered(element: Any) -> Iterator[Any]:
            if isinstance(element, ChangeBatch):
                kept = of_batch(element)
                if len(kept):
                    yield kept
            elif isinstance(element, Change):
                yield from changes_in_python(of_batch(batch_of([element])), TableType())
            elif isinstance(element, tuple) and len(element) == 2:
                yield of_pair(element)
            else:
                raise ValueError(f"FilterTable takes changes or (key, value) pairs, not {type(element).__name__}: {MAKE_A_TABLE}")
            yield from functions.take()

        kept = self.handling.apply("Filter", beam.ParDo(ForEach(filtered)), in_batches(pvalue) if of_changes else pvalue)
        if of_changes:
            kept.element_type = ChangeBatch
            return as_table(kept, of_table, physical_of(pvalue))
        # a typed pair's coder would not write the None of a tombstone
        kept.element_type = beam.typehints.KV[Any, Any] if isinstance(pvalue.element_type, TupleConstraint) else Any
        return kept


def _truth(predicate: Any, values: pa.Array) -> Bools:
    truths = by_row("predicate", predicate, values)
    if not pa.types.is_boolean(truths.type):
        raise ValueError(f"predicate gave values of type {truths.type}: give true for a row that stays")
    passed: Bools = truths.fill_null(False).to_numpy(zero_copy_only=False)
    return passed
