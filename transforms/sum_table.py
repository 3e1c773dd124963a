"""SumTable: sums a number over the rows of each group of a table."""

from collections.abc import Callable
from typing import Any

from beam_joins.functions.aggregate_functions import Aggregate
from beam_joins.functions.fields import of_row
from beam_joins.functions.marked_functions import vectorized
from beam_joins.options.aggregate_types import Kept
from beam_joins.transforms.engine.construction.option_checks import choice
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.grouping import (
    AggregatedColumn,
    Aggregation,
    GroupedTable,
    Grouping,
    OfRow,
    Total,
    require_columns_kept,
)
from beam_joins.transforms.engine.measured_groups import Single
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions


class SumTable(GroupedTable):
    """Sums a number over the rows of each group of a table; groups, dropped records and exceptions are as in
    :class:`~beam_joins.AggregateTable`.

    * ``group_by``: the field of the value with the group, or several fields; or a function of key and value.
    * ``of``: the field of the value with the number; or a function of key and value, or a
      :class:`~beam_joins.vectorized` function of the values. A null number adds nothing: a group of such rows
      has the sum 0.
    * ``empty_groups``: ``"keep"``: a group whose last row has left keeps a sum of 0; ``"drop"``: it has no row.
    * ``null_groups``: as in :class:`~beam_joins.AggregateTable`.

    A column of integers has sums of ``int64``, of floating-point numbers ``double``, of decimals a decimal of
    the same scale. A sum covers the current rows: it depends neither on their order nor on rows that have
    left, even ``nan``, infinite or much larger values. Integers and decimals are summed exactly, and the run
    raises ``ValueError`` for a sum that does not fit; floating-point numbers are summed exactly and rounded
    once, as by ``math.fsum``. Sums of Python objects are Python objects: an ``int`` if all numbers are ints,
    a ``float`` if one is a float.

    Also raises ``ValueError`` for a column of another type than numbers, and in the run for a value that is
    not a number, or for decimals and floats in one group.

    >>> import apache_beam as beam
    >>> from beam_joins import Change, TableToChanges
    >>> orders = [
    ...     Change(1, None, {"by": "ann", "amount": 5}, timestamp=10, position=1),
    ...     Change(2, None, {"by": "ann", "amount": 7}, timestamp=20, position=2),
    ... ]
    >>> with beam.Pipeline() as pipeline:
    ...     _ = pipeline | beam.Create(orders) | SumTable(group_by="by", of="amount") | TableToChanges() | beam.Map(print)
    Change(key='ann', old=None, new=5, timestamp=10, position=1)
    Change(key='ann', old=5, new=12, timestamp=20, position=2)
    """

    def __init__(
        self,
        *,
        group_by: OfRow,
        of: str | vectorized[Any] | Callable[[Any, Any], Any],
        empty_groups: Kept = "keep",
        null_groups: Kept = "drop",
    ) -> None:
        super().__init__(group_by)
        of_row("group_by", group_by)
        of_row("of", of, one=True)
        self._of, self._empty_groups = of, choice("empty_groups", empty_groups, Kept)
        self._null_groups = require_columns_kept(choice("null_groups", null_groups, Kept), group_by)

    def aggregation(self, of_table: TableType, functions: StageFunctions) -> Aggregation:
        """The sums."""
        keeps_null = self._null_groups == "keep"
        if self._empty_groups == "keep":
            return Total(Grouping(of_table, functions, self._group_by, [AggregatedColumn(self._of)], keeps_null=keeps_null), of_table)
        return Single(of_table, functions, self._group_by, Aggregate("sum", self._of), keeps_empty=False, keeps_null=keeps_null)
