"""MapTable: a table with other values."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.change import Change
from beam_joins.copied import copied
from beam_joins.filter import map_change
from beam_joins.transforms.engine.options import function
from beam_joins.transforms.engine.outputs import HandlesExceptions
from beam_joins.transforms.engine.table_type import as_table, not_a_change, table_type
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.transforms.table_to_records import in_records
from beam_joins.user_functions import OfRows


class MapTable(HandlesExceptions):
    """The table whose values are ``fn(key, value)``: ``PCollection[Change[K, V]]`` to ``PCollection[Change[K, W]]``.

    Keys, timestamps and positions stay. If ``fn`` gives ``None``, or raises under :meth:`with_exception_handling`, there is no row. It must give
    the same value for the same arguments, for it maps old values again. It may write into the value that it is given, a copy.

    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", None, 5, timestamp=0, position=0)])
    ...         | MapTable(lambda key, value: value * 10)
    ...         | beam.Map(print)
    ...     )
    Change(key='k', old=None, new=50, timestamp=0, position=0)
    """

    def __init__(self, fn: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._fn = function("fn", fn, "of key and value")

    def build(self, pvalue: PCollection[Any]) -> PCollection[Any]:
        """The mapped table."""
        pcoll, handling = in_records(pvalue), self.handling
        fn = handling.functions.of_rows(handling.functions.function("fn", self._fn))
        mapped = handling.apply("Map", beam.FlatMap(_mapping(handling.functions, fn)), pcoll)
        mapped.element_type = Change
        return as_table(mapped, table_type(pcoll)._replace(value=Any))


def _mapping(functions: StageFunctions, fn: OfRows) -> Callable[[Any], Iterator[Any]]:
    def mapped(change: Any) -> Iterator[Any]:
        if type(change) is not Change:
            raise not_a_change(change)
        result = map_change(lambda key, value: copied(fn(key, value)), change)
        if result is not None:
            yield result
        if change.new is not None and fn.report(change, change.timestamp):
            yield from functions.take()

    return mapped
