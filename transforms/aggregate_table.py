"""AggregateTable: groups the rows of a table and aggregates each group."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.aggregates import Aggregate, aggregates_of
from beam_joins.columns.sorting import combine_chunks
from beam_joins.kernels import measures
from beam_joins.kernels.fold import Fold
from beam_joins.kernels.measures import Measure, MeasuresState, members_column
from beam_joins.kernels.stream_time import EARLIEST
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import opaque_encoded
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.construction.option_checks import OF_AGGREGATE, choice, function, initial_of
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.grouping import MEMBERS, Aggregated, Aggregation, Folded, GroupedTable, Grouping, OfRow
from beam_joins.transforms.engine.stages.replay import Route
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.turns.operator import Turn

Kept = Literal["drop", "keep"]
"""What becomes of groups."""


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
            if null_groups == "keep" and (group_by is None or callable(group_by)):
                raise ValueError("null_groups='keep' is of columns: name them in group_by")
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
        return _Measures(
            of_table, functions, self._group_by, self._aggregates, self._empty_groups == "keep", self._null_groups == "keep"
        )


class _Measures(Aggregation):
    """Several aggregates of groups."""

    is_keyed = False

    def __init__(
        self,
        of_table: TableType,
        functions: StageFunctions,
        group_by: OfRow | None,
        aggregates: Mapping[str, Aggregate],
        keeps_empty: bool,
        keeps_null: bool,
    ) -> None:
        columns = list(dict.fromkeys((each.of, each.where) for each in aggregates.values() if each != Aggregate("count")))
        number = {column: n for n, column in enumerate(columns)}
        self._measures = {name: Measure(each.function, number.get((each.of, each.where))) for name, each in aggregates.items()}
        summed = {measure.of for measure in self._measures.values() if measure.function in ("sum", "mean")}
        aggregated = [Aggregated(of, where, of_numbers=n in summed) for n, (of, where) in enumerate(columns)]
        grouping = Grouping(of_table, functions, group_by, aggregated, keeps_null=keeps_null)
        kinds = grouping.types
        types = {name: self._type(name, measure, kinds) for name, measure in self._measures.items()}
        stored = pa.schema([("group", grouping.group_type)])
        super().__init__(grouping, measures.row_type(types), stored)
        self._keeps_empty, self._is_total, self._kinds = keeps_empty or group_by is None, group_by is None, kinds

    @staticmethod
    def _type(name: str, measure: Measure, kinds: Sequence[pa.DataType]) -> pa.DataType:
        try:
            return measure.type(pa.null() if measure.of is None else kinds[measure.of])
        except ValueError as error:
            raise ValueError(f"aggregates: {name}: {error}") from None

    def columns_sent(self, batch: ChangeBatch, columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """The columns whose values are aggregated."""
        return {members_column(n): column for n, column in enumerate(columns)}

    def begun(self, table: PCollection[Any]) -> tuple[PCollection[Any], ...]:
        """The mark with which the group of all rows begins."""
        if not self._is_total:
            return ()
        start = table.pipeline | "Begin" >> beam.Create([0])
        return ((start | "Mark" >> Route(self._mark, to=(MEMBERS,)))[MEMBERS],)

    def _mark(self, element: Any, arrival: int, writer: BlockWriter) -> None:
        group = opaque_encoded([measures.TOTAL])
        columns = {
            "group": group,
            "timestamp": pa.array([EARLIEST]),
            "position": pa.array([EARLIEST]),
            "enters": pa.nulls(1, pa.bool_()),
        }
        columns |= {members_column(n): pa.nulls(1, kind) for n, kind in enumerate(self._kinds)}
        writer.send(MEMBERS, hashes(group), pa.record_batch(list(columns.values()), names=list(columns)))

    def operator(self, inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, Any]:
        """The changes of the groups' rows."""
        before, rows = turn.state or MeasuresState(), inputs[MEMBERS]
        if before[0]:  # the group has begun in an earlier turn
            rows = rows.filter(combine_chunks(rows["enters"]).is_valid())
        batch, state = measures.step(before, rows, self._measures, keeps_empty=self._keeps_empty)
        if len(batch):
            yield batch
        return state
