"""AggregateTable: groups the rows of a table and aggregates each group."""

from collections.abc import Callable, Mapping
from typing import Any

from beam_joins.functions.aggregate_functions import Aggregate, aggregates_of
from beam_joins.kernels.fold import Fold
from beam_joins.options.aggregate_types import Kept
from beam_joins.transforms.engine.construction.option_checks import OF_AGGREGATE, choice, function, initial_of
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.grouping import Aggregation, Folded, GroupedTable, OfRow, require_columns_kept
from beam_joins.transforms.engine.measured_groups import Measured
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions


class AggregateTable(GroupedTable):
    """Groups the rows of a table and aggregates each group. The result is a table keyed by the group, with
    the aggregates as values.

    * ``aggregates``: the columns of the result and their :mod:`beam_joins.aggregates`, ``{"orders": agg.count(), "total":
      agg.sum("amount")}``, or their texts, ``"sum(amount)"``. Typed columns give typed columns.
    * ``group_by``: the field of the value with the group, or a list of fields; or a function of key and value, ``None`` for no group;
      or a :class:`~beam_joins.vectorized` function of the values. Without it all rows are one group, whose key is ``()``: it has
      a row from the start.
    * ``empty_groups``: ``"drop"``: a group without rows has no row, as in SQL; ``"keep"``: it keeps its row, with counts of 0.
    * ``null_groups``: ``"drop"`` drops rows whose group is null as ``"null_group"``: counted, and an output of
      :meth:`with_outputs`; ``"keep"`` keeps them, as SQL does. The keys are tuples of the columns of ``group_by`` then, also of one.

    Or, in place of ``aggregates``, functions of your own:

    * ``initial``: the aggregate of no rows, or a function without arguments that returns it.
    * ``add``: ``add(aggregate, value)`` returns the aggregate with one row more, ``None`` for no row. It may change the aggregate
      in place and return it.
    * ``subtract``: ``subtract(aggregate, value)``, with one row less. A group keeps its row when its last row has left.

    A change of a row takes its old value from the old value's group and adds the new value to the new
    value's group. A group changes once at a position. The timestamp of a result is the largest of all changes of its
    group since it has a row. Groups that are equal in Python are one group: 7 and 7.0, but not "7".

    Sums are exact, also where rows leave, and ``min`` and ``max`` follow when the extreme leaves. The state has each
    different value of the columns of ``min``, ``max`` and ``count_distinct``.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed input, for a column
    that the table does not have or that has no order; and in the run for a group that cannot be a key.

    >>> import apache_beam as beam
    >>> from beam_joins import Change, TableToChanges
    >>> from beam_joins import aggregates as agg
    >>> orders = [Change(1, None, {"by": "ann", "amount": 5}, timestamp=10, position=1)]
    >>> orders += [Change(1, {"by": "ann", "amount": 5}, {"by": "ann", "amount": 7}, timestamp=20, position=2)]
    >>> with beam.Pipeline() as pipeline:
    ...     table = pipeline | beam.Create(orders)
    ...     by_customer = table | AggregateTable({"orders": agg.count(), "most": "max(amount)"}, group_by="by")
    ...     _ = by_customer | TableToChanges() | beam.Map(lambda change: print(change.key, change.old, change.new))
    ann None {'orders': 1, 'most': 5}
    ann {'orders': 1, 'most': 5} {'orders': 1, 'most': 7}
    """

    def __init__(
        self,
        aggregates: Mapping[str, Aggregate | str] | None = None,
        *,
        group_by: OfRow | None = None,
        empty_groups: Kept = "drop",
        null_groups: Kept = "drop",
        initial: Any = None,
        add: Callable[[Any, Any], Any] | None = None,
        subtract: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__(group_by)
        if (aggregates is None) == (add is None and subtract is None):
            raise ValueError("give aggregates, the columns of the result, or initial, add and subtract, functions of your own")
        self._empty_groups, self._null_groups = choice("empty_groups", empty_groups, Kept), choice("null_groups", null_groups, Kept)
        if aggregates is not None:
            if initial is not None:
                raise ValueError("initial goes with add and subtract: leave it out beside aggregates")
            require_columns_kept(null_groups, group_by)
            self._aggregates = aggregates_of("aggregates", aggregates)
            return
        if group_by is None:
            raise ValueError("group_by=None: add and subtract aggregate groups: give the group")
        if "keep" in (empty_groups, null_groups):
            raise ValueError("empty_groups and null_groups go with aggregates: add and subtract say what becomes of a group")
        self._initial = initial_of(initial)
        self._add = function("add", add, OF_AGGREGATE)
        self._subtract = function("subtract", subtract, OF_AGGREGATE)

    def aggregation(self, of_table: TableType, functions: StageFunctions) -> Aggregation:
        """The aggregates, or the functions of the user."""
        if hasattr(self, "_add"):
            fold = Fold(functions, functions.function("initial", self._initial), self._add, self._subtract)
            return Folded(of_table, functions, self._group_by, fold)
        return Measured(
            of_table,
            functions,
            self._group_by,
            self._aggregates,
            keeps_empty=self._empty_groups == "keep",
            keeps_null=self._null_groups == "keep",
        )
