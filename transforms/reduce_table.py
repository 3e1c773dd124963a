"""ReduceTable: reduces the values of each group of a table to one value."""

from collections.abc import Callable
from typing import Any

from beam_joins.transforms.aggregate_table import AggregateTable
from beam_joins.transforms.engine.construction.option_checks import OF_AGGREGATE, function
from beam_joins.transforms.engine.grouping import OfRow


class ReduceTable(AggregateTable):
    """Reduces the values of each group of a table to one value: an :class:`AggregateTable` whose first value
    is the initial aggregate.

    >>> import apache_beam as beam
    >>> from beam_joins import Change, TableToChanges
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("a", None, "x", 10, 1), Change("b", None, "y", 20, 2)])
    ...         | ReduceTable(
    ...             group_by=lambda key, value: "all",
    ...             add=lambda one, other: one + other,
    ...             subtract=lambda one, other: one.replace(other, ""),
    ...         )
    ...         | TableToChanges()
    ...         | beam.Map(print)
    ...     )
    Change(key='all', old=None, new='x', timestamp=10, position=1)
    Change(key='all', old='x', new='xy', timestamp=20, position=2)
    """

    def __init__(self, *, group_by: OfRow, add: Callable[[Any, Any], Any], subtract: Callable[[Any, Any], Any]) -> None:
        combine = function("add", add, OF_AGGREGATE)
        super().__init__(
            group_by=group_by,
            initial=None,
            add=lambda reduced, value: value if reduced is None else combine(reduced, value),
            subtract=subtract,
        )
