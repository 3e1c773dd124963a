"""Groups of a table with several aggregates, or with one that is a count or a sum."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.columns.sorting import combine_chunks, valid
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.functions.aggregate_functions import Aggregate
from beam_joins.kernels import measures
from beam_joins.kernels.filter import with_values
from beam_joins.kernels.measures import Measure, MeasuresState, members_column
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import is_opaque, opaque_encoded, opaque_values, python_values
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.grouping import MEMBERS, AggregatedColumn, Aggregation, Grouping, OfRow
from beam_joins.transforms.engine.stages.replay import Route
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.turns.operator import Turn


class Measured(Aggregation):
    """Several aggregates of groups."""

    is_keyed = False

    def __init__(
        self,
        of_table: TableType,
        functions: StageFunctions,
        group_by: OfRow | None,
        aggregates: Mapping[str, Aggregate],
        *,
        keeps_empty: bool,
        keeps_null: bool,
    ) -> None:
        columns = list(dict.fromkeys((each.of, each.where) for each in aggregates.values() if each != Aggregate("count")))
        number = {column: n for n, column in enumerate(columns)}
        self._measures = {name: Measure(each.function, number.get((each.of, each.where))) for name, each in aggregates.items()}
        summed = {measure.of for measure in self._measures.values() if measure.function in ("sum", "mean")}
        aggregated = [AggregatedColumn(of, where, of_numbers=n in summed) for n, (of, where) in enumerate(columns)]
        grouping = Grouping(of_table, functions, group_by, aggregated, keeps_null=keeps_null, typed_groups=True)
        kinds = grouping.types
        types = {name: self._type(name, measure, kinds) for name, measure in self._measures.items()}
        row = measures.row_type(types)
        members = [(members_column(n), kind) for n, kind in enumerate(kinds)]
        beside = [column for n, kind in enumerate(kinds) for column in measures.columns_beside(n, kind)]
        super().__init__(grouping, row, pa.schema([("group", grouping.group_type), ("aggregate", row), *members, *beside]))
        held = {measure.of for measure in self._measures.values() if measure.is_of_values}
        self.stored |= {
            name: pa.schema([("group", grouping.group_type), ("value", kind)]) for n, (name, kind) in enumerate(members) if n in held
        }
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
            "timestamp": pa.array([NO_TIME]),
            "position": pa.array([NO_TIME]),
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


class Single(Measured):
    """One aggregate of groups, which is the value; a sum of no values is 0."""

    def __init__(
        self,
        of_table: TableType,
        functions: StageFunctions,
        group_by: OfRow | None,
        aggregate: Aggregate,
        *,
        keeps_empty: bool,
        keeps_null: bool,
    ) -> None:
        super().__init__(of_table, functions, group_by, {"": aggregate}, keeps_empty=keeps_empty, keeps_null=keeps_null)
        self.type = self.type if is_opaque(self.type) else self.type.field(0).type

    def operator(self, inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, Any]:
        """The changes of the aggregates."""
        several = super().operator(inputs, writer, turn)
        while True:
            try:
                batch = next(several)
            except StopIteration as done:
                return done.value
            yield with_values(batch, self._single(batch.values), valid(batch.values), keeps_nothing=False)

    def _single(self, rows: pa.Array) -> pa.Array:
        if is_opaque(rows.type):
            return opaque_values([row and (row[""] or 0) for row in python_values(rows)])
        values = rows.field(0)
        return pc.if_else(rows.is_valid(), values.fill_null(pa.scalar(0, pa.int8()).cast(values.type)), pa.scalar(None, values.type))
