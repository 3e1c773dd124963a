"""Tables that are grouped by something that is not their key: their rows by group, and the aggregates of
groups.
"""

from collections.abc import Callable, Generator, Sequence
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.coders.key import KeyCoder, encode_key
from beam_joins.columns.sorting import valid
from beam_joins.function_failed import called_with_no_rows
from beam_joins.functions.fields import of_row
from beam_joins.functions.marked_functions import by_row, keys_of, vectorized
from beam_joins.kernels import aggregate, totals
from beam_joins.kernels.fold import Fold
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import Bools
from beam_joins.keys.opaque import KEYS, VALUES, is_opaque, opaque_encoded, opaque_values
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.construction.input_checks import require_global, require_tables
from beam_joins.transforms.engine.construction.output_types import TableInput
from beam_joins.transforms.engine.construction.table_type import WHOLE, TableType, as_table, physical_of, table_type
from beam_joins.transforms.engine.stages.each_value import each_value
from beam_joins.transforms.engine.stages.replay import Replay, Route
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.stages.table_rows import changes_in_python
from beam_joins.transforms.engine.transform_outputs import MakesTable
from beam_joins.transforms.engine.turns.operator import Turn
from beam_joins.values.schema_evolution import narrowing

MEMBERS = "members"

OfRow: TypeAlias = str | Sequence[str] | vectorized[Any] | Callable[[Any, Any], Any]
"""An expression over a row: fields of the value by name, a vectorized function, or a function of key and
value.
"""


class Grouping:
    """The group of each of a batch's values, and with ``of`` the number of each that is summed; raises
    ``ValueError`` for columns that do not exist.
    """

    def __init__(self, of_table: TableType, functions: StageFunctions, group_by: OfRow, of: OfRow | None) -> None:
        self._of_table = of_table
        typed = not is_opaque(of_table.value_column)
        sum_in_columns = isinstance(of, vectorized) or (typed and not callable(of))
        in_columns = isinstance(group_by, vectorized) or (typed and not callable(group_by) and (of is None or sum_in_columns))
        self._group_by: Any = functions.function("group_by", group_by) if in_columns else None
        self._of: Any = functions.function("of", of) if of is not None and sum_in_columns else None
        by_record = [
            None if is_column or spec is None else functions.function(option, spec, of_row(option, spec))
            for option, spec, is_column in (("group_by", group_by, in_columns), ("of", of, self._of is not None))
        ]
        self._by_record = _group_and_number(*by_record) if any(by_record) else None
        self._functions = functions
        nothing = pa.nulls(0, of_table.value_column)
        with called_with_no_rows():
            self.group_type: pa.DataType = self._groups(nothing).type if in_columns else KEYS
            numbers = pa.int64() if of is None else VALUES if self._of is None else self._numbers(nothing).type
        self.sum_type = totals.sum_type(numbers)
        self.stored_type = numbers if narrowing(numbers, self.sum_type) is not None else self.sum_type
        """The type of the numbers as they are added, which the sums in the state have too."""
        self._is_count = of is None

    def __call__(self, batch: ChangeBatch) -> tuple[pa.Array, pa.Array | None, Bools]:
        """The groups, the numbers, and for which of the new values a function has raised."""
        failed: list[int] = []
        groups: list[bytes | None] = []
        numbers: list[Any] = []
        if self._by_record is not None:
            coder = KeyCoder()
            for pair in each_value(batch, self._of_table, self._functions, self._by_record, failed=failed):
                group, number = pair or (None, None)
                groups.append(group if group is None or self._group_by else encode_key(coder, group, "the group"))
                numbers.append(number)
        of_group = self._groups(batch.values) if self._group_by else opaque_encoded(groups)
        of_sum = None if self._is_count else self._numbers(batch.values) if self._of else opaque_values(numbers)
        has_failed = np.zeros(len(batch), np.bool_)
        has_failed[failed] = True
        return of_group, of_sum, has_failed

    def _groups(self, values: pa.Array) -> pa.Array:
        return keys_of("group_by", self._group_by, values)

    def _numbers(self, values: pa.Array) -> pa.Array:
        return by_row("of", self._of, values)


class GroupedTable(MakesTable[TableInput]):
    """The count of the rows of each group of a table, or the sum ``of`` something; a subclass may aggregate
    them otherwise.
    """

    def __init__(self, group_by: OfRow, of: OfRow | None = None) -> None:
        super().__init__()
        of_row("group_by", group_by)
        self._group_by, self._of = group_by, of

    def fold(self) -> Fold | None:
        """The functions that make the aggregates, if they are neither counts nor sums."""
        return None

    def build(self, pvalue: PCollection[Any]) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The aggregates and the dropped records."""
        require_global(type(self).__name__, pvalue)
        require_tables(type(self).__name__, pvalue)
        table, handling, fold = prepared(pvalue, needs="checked"), self.handling, self.fold()
        of_table, functions = table_type(table), handling.functions
        if isinstance(self._group_by, str | list | tuple):
            for column in filter(None, of_table.compared.columns(self._group_by)):
                column.compared_alone()
        grouping = Grouping(of_table, functions, self._group_by, self._of)

        def rows(batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
            groups, numbers, failed = grouping(batch)
            lost = valid(batch.new) & ~valid(groups)[: len(batch)] & ~failed
            changes = batch.filter(pa.array(lost))
            writer.drop_rows("null_group", len(changes), lambda: ((c, c.timestamp) for c in changes_in_python(changes, of_table)))
            functions.give(writer)
            sent = aggregate.members(batch, groups, numbers if fold is None else batch.values)
            writer.send(MEMBERS, hashes(sent["group"]), sent)

        def aggregated(
            inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn
        ) -> Generator[ChangeBatch, None, aggregate.AggregateState]:
            rows, before = inputs[MEMBERS], turn.state or aggregate.AggregateState()
            if fold is None:
                batch, groups = totals.step(before.groups, rows)
                state = aggregate.AggregateState(groups)
            else:
                batch, state = aggregate.step(before, rows, fold)
            if len(batch):
                yield batch
            return state

        sums = [("value", grouping.stored_type)] if fold is None else []
        stored = pa.schema([("group", grouping.group_type), ("key", of_table.key_column), *sums])
        size = physical_of(table).bytes
        routed = table | "Group" >> Route(rows, to=(MEMBERS, *self.dropping, *handling.tags), size=size)
        replayed = (routed[MEMBERS],) | "Aggregate" >> Replay(
            functions.replay(aggregated),
            to=(MAIN, *handling.tags),
            main_type=ChangeBatch,
            tables=(MEMBERS,),
            stored={MEMBERS: stored},
        )
        handling.collect(routed, replayed)
        group, value = (
            Any if is_opaque(kind) else kind for kind in (grouping.group_type, grouping.sum_type if fold is None else VALUES)
        )
        made = TableType(group, value, of_table.order)
        return as_table(replayed[MAIN], made, WHOLE), self.all_dropped(routed)


def _group_and_number(
    group_by: Callable[[Any, Any], Any] | None, of: Callable[[Any, Any], Any] | None
) -> Callable[[Any, Any], tuple[Any, Any] | None]:
    """Group and number of a key and a value; ``None`` for a value in no group."""

    def call(key: Any, value: Any) -> tuple[Any, Any] | None:
        group = None if group_by is None else group_by(key, value)
        if group_by is not None and group is None:
            return None
        number = None if of is None else of(key, value)
        if number is not None and not isinstance(number, Number):
            raise ValueError(f"of gave {number!r} of type {type(number).__name__}: give a number, or None for nothing to add")
        return group, number

    return call
