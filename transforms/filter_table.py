"""FilterTable: the rows of a table that satisfy a predicate (KAFKA-3902)."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.change import Change
from beam_joins.filter import filter_change, filter_upsert
from beam_joins.transforms.engine.options import function
from beam_joins.transforms.engine.outputs import HandlesExceptions
from beam_joins.transforms.engine.table_type import as_table, table_type
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.transforms.table_to_records import in_records
from beam_joins.user_functions import OfRows


class FilterTable(HandlesExceptions):
    """The rows of a table for which ``predicate(key, value)`` is true; with ``negate=True`` those for which it is not.

    A ``PCollection[Change[K, V]]`` gives a ``PCollection[Change[K, V]]``: a row that comes to satisfy the predicate is inserted, one
    that no longer does is deleted, and nothing is said of rows that never did. A raw changelog ``PCollection[tuple[K, V | None]]``
    gives the like: there a value that fails becomes a tombstone every time, since the row before it is not known.

    A value for which ``predicate`` raises is not in the table, negated or not, under :meth:`with_exception_handling`.

    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", 1, 5, timestamp=0, position=0)])
    ...         | FilterTable(lambda key, value: value < 2)
    ...         | beam.Map(print)
    ...     )
    Change(key='k', old=1, new=None, timestamp=0, position=0)
    """

    def __init__(self, predicate: Callable[[Any, Any], bool], *, negate: bool = False) -> None:
        super().__init__()
        self._predicate = function("predicate", predicate, "of key and value")
        self._negate = negate

    def build(self, pvalue: PCollection[Any]) -> PCollection[Any]:
        """The filtered table."""
        pcoll, handling = in_records(pvalue), self.handling
        predicate, negate = handling.functions.function("predicate", self._predicate), self._negate

        def passes(key: Any, value: Any) -> bool:
            return bool(predicate(key, value)) is not negate

        run = beam.FlatMap(_filtering(handling.functions, handling.functions.of_rows(passes)))
        kept = handling.apply("Filter", run, pcoll)
        if pcoll.element_type is Change or table_type(pcoll).order != "unknown":
            return as_table(kept, table_type(pcoll))
        # A typed pair's coder would not write the None of a tombstone.
        kept.element_type = beam.typehints.KV[Any, Any]
        return kept


def _filtering(functions: StageFunctions, passes: OfRows) -> Callable[[Any], Iterator[Any]]:
    def filtered(element: Any) -> Iterator[Any]:
        if isinstance(element, Change):
            change = filter_change(passes, element)
            if change is not None:
                yield change
            if element.new is not None and passes.report(element, element.timestamp):
                yield from functions.take()
        elif isinstance(element, tuple) and len(element) == 2:
            yield filter_upsert(passes, *element)
            if element[1] is not None and passes.report(element, None):
                yield from functions.take()
        else:
            raise TypeError(
                f"FilterTable takes changes or (key, value) pairs, not {type(element).__name__}: make a table with TableFromChangelog"
            )

    return filtered
