"""CountTable: how many rows of a table each group has."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from beam_joins.arrangement import Arrangement
from beam_joins.batch import ChangeBatch
from beam_joins.totals import step
from beam_joins.transforms.engine.grouping import GroupedTable, Grouping, OfRow


class CountTable(GroupedTable):
    """How many rows of a table each group has; groups, drops and exceptions are as in :class:`~beam_joins.AggregateTable`.

    The counts are a typed column, ``int64``. A group keeps its row when its last row has left, with a count of 0.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Change, TableToChanges
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change(1, None, {"city": "Oslo"}, 10, 1), Change(2, None, {"city": "Oslo"}, 20, 1)])
    ...         | CountTable(group_by="city")
    ...         | TableToChanges()
    ...         | beam.Map(print)
    ...     )
    Change(key='Oslo', old=None, new=2, timestamp=20, position=1)
    """

    takes_values = False

    def __init__(self, *, group_by: OfRow) -> None:
        super().__init__(group_by)

    def kernel(self) -> Callable[[pa.Table], ChangeBatch]:
        """In columns."""
        return lambda rows: step(Arrangement(), rows)[0]

    def aggregate_type(self, grouping: Grouping) -> Any:
        """A whole number of 64 bits."""
        return pa.int64()
