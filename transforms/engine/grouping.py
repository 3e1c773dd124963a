"""Tables that are grouped by something that is not their key: their rows by group, and the aggregates of
groups.
"""

from collections.abc import Callable, Generator, Sequence
from numbers import Number
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.coders.key import KeyCoder, encode_key
from beam_joins.columns.sorting import gather, valid
from beam_joins.function_failed import called_with_no_rows
from beam_joins.functions.fields import field, of_row
from beam_joins.functions.marked_functions import by_row, keys_of, keys_with_nulls, vectorized
from beam_joins.kernels import aggregate, totals
from beam_joins.kernels.fold import Fold
from beam_joins.kernels.measures import TOTAL
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import Bools
from beam_joins.keys.opaque import KEYS, VALUES, is_opaque, opaque_encoded, opaque_values
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.construction.input_checks import require_global, require_tables
from beam_joins.transforms.engine.construction.output_types import TableInput
from beam_joins.transforms.engine.construction.table_type import (
    TOTAL_KEY,
    WHOLE,
    TableType,
    as_table,
    key_names_of,
    physical_of,
    table_type,
)
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


class AggregatedColumn(NamedTuple):
    """The values of rows that are aggregated: ``of``, ``None`` for the rows themselves, of the rows for which ``where`` is true;
    ``of_numbers`` says that a function of one row has to give numbers.
    """

    of: Any
    where: Any = None
    of_numbers: bool = True


class Grouping:
    """The group of each of a batch's values, and the values that are aggregated; raises ``ValueError`` for columns that do not exist.

    All rows are in one group, ``()``, where ``group_by`` is ``None``. With ``keeps_null`` groups are tuples of columns, which may be
    null. Groups by columns are opaque beside values by functions of one row, unless they are ``typed_groups``.
    """

    def __init__(
        self,
        of_table: TableType,
        functions: StageFunctions,
        group_by: OfRow | None,
        columns: Sequence[AggregatedColumn],
        *,
        keeps_null: bool = False,
        typed_groups: bool = False,
    ) -> None:
        self._of_table, self._functions, self._columns, self._keeps_null = of_table, functions, columns, keeps_null
        self.is_total = group_by is None
        typed = not is_opaque(of_table.value_column)

        def in_columns(spec: Any) -> bool:
            return spec is None or isinstance(spec, vectorized) or (typed and not callable(spec))

        self._in_columns = [in_columns(column.of) and in_columns(column.where) for column in columns]
        groups_in_columns = (
            self.is_total or isinstance(group_by, vectorized) or (in_columns(group_by) and (typed_groups or all(self._in_columns)))
        )
        self._group_by: Any = functions.function("group_by", group_by) if groups_in_columns and not self.is_total else None
        self._specs = [
            (functions.function("of", column.of), functions.function("where", column.where)) if is_so else (None, None)
            for column, is_so in zip(columns, self._in_columns, strict=True)
        ]
        self._by_record = None
        if not (groups_in_columns and all(self._in_columns)):
            group_of = (
                None if groups_in_columns else functions.function("group_by", group_by, _row_group(group_by, keeps_null=keeps_null))
            )
            self._by_record = _of_record(
                group_of, [self._row_function(column) for column, is_so in zip(columns, self._in_columns, strict=True) if not is_so]
            )
        nothing = pa.nulls(0, of_table.value_column)
        with called_with_no_rows():
            self.group_type: pa.DataType = self._groups(nothing).type if groups_in_columns else KEYS
            self.types = [
                self._column(n, nothing).type if is_so else pa.bool_() if column.of is None else VALUES
                for n, (column, is_so) in enumerate(zip(columns, self._in_columns, strict=True))
            ]

    def __call__(self, batch: ChangeBatch) -> tuple[pa.Array, list[pa.Array], Bools]:
        """The groups, the values that are aggregated, and for which of the new values a function has raised."""
        failed: list[int] = []
        groups: list[bytes | None] = []
        records: list[Sequence[Any]] = []
        count = len(batch.values)
        has_result = np.zeros(count, np.bool_)
        if self._by_record is not None:
            coder = KeyCoder()
            none = None, [None] * (len(self._columns) - sum(self._in_columns))
            for n, result in enumerate(each_value(batch, self._of_table, self._functions, self._by_record, failed=failed)):
                has_result[n] = result is not None
                group, values = result or none
                groups.append(group if group is None or self._has_groups_in_columns else encode_key(coder, group, "the group"))
                records.append(values)
        of_group = self._groups(batch.values) if self._has_groups_in_columns else opaque_encoded(groups)
        if self._by_record is not None and self._has_groups_in_columns:  # a row for which a function raised is in no group
            of_group = gather(of_group, np.where(has_result, np.arange(count), -1))
        by_record = iter(zip(*records, strict=True)) if records else iter([[]] * len(self._columns))
        columns = []
        for n, is_so in enumerate(self._in_columns):
            if is_so:
                columns.append(self._column(n, batch.values))
            else:
                values = list(next(by_record)) if count else []
                columns.append(pa.array(values, pa.bool_()) if self._columns[n].of is None else opaque_values(values))
        has_failed = np.zeros(len(batch), np.bool_)
        has_failed[failed] = True
        return of_group, columns, has_failed

    @property
    def _has_groups_in_columns(self) -> bool:
        return self.is_total or self._group_by is not None

    def _groups(self, values: pa.Array) -> pa.Array:
        if self.is_total:
            groups = opaque_encoded([TOTAL] * len(values))
            return gather(groups, np.where(valid(values), np.arange(len(values)), -1))
        return keys_with_nulls("group_by", self._group_by, values) if self._keeps_null else keys_of("group_by", self._group_by, values)

    def _column(self, n: int, values: pa.Array) -> pa.Array:
        of, where = self._specs[n]
        column = pa.array(np.ones(len(values), np.bool_)) if of is None else by_row("of", of, values)
        if where is None:
            return column
        counts = by_row("where", where, values)
        if not pa.types.is_boolean(counts.type):
            raise ValueError(f"where gave values of type {counts.type}: give true for a row that counts")
        return gather(column, np.where(counts.fill_null(False).to_numpy(zero_copy_only=False), np.arange(len(column)), -1))

    def _row_function(self, column: AggregatedColumn) -> Callable[[Any, Any], Any]:
        of, where = (
            None if spec is None else self._functions.function(option, spec, of_row(option, spec))
            for option, spec in (("of", column.of), ("where", column.where))
        )

        def value_of(key: Any, value: Any) -> Any:
            if where is not None:
                counts = where(key, value)
                if not isinstance(counts, bool | np.bool_ | None):
                    raise ValueError(
                        f"where gave {counts!r} of type {type(counts).__name__}: give True for a row that counts, or False"
                    )
                if not counts:
                    return None
            aggregated = True if of is None else of(key, value)
            if column.of_numbers and aggregated is not None and not isinstance(aggregated, Number):
                kind = type(aggregated).__name__
                raise ValueError(f"of gave {aggregated!r} of type {kind}: give a number, or None for nothing to add")
            return aggregated

        return value_of


def require_columns_kept(null_groups: str, group_by: OfRow | None) -> str:
    """The option ``null_groups``; raises ``ValueError`` where rows with null groups are kept and the groups are no columns."""
    if null_groups == "keep" and (group_by is None or callable(group_by)):
        raise ValueError("null_groups='keep' is of columns: name them in group_by")
    return null_groups


class GroupedTable(MakesTable[TableInput]):
    """A table whose rows are grouped, and the groups aggregated."""

    def __init__(self, group_by: OfRow | None) -> None:
        super().__init__()
        if group_by is not None:
            of_row("group_by", group_by)
        self._group_by = group_by

    def aggregation(self, of_table: TableType, functions: StageFunctions) -> "Aggregation":
        """How the members of groups are aggregated."""
        raise NotImplementedError

    def build(self, pvalue: PCollection[Any]) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The aggregates and the dropped records."""
        require_global(type(self).__name__, pvalue)
        require_tables(type(self).__name__, pvalue)
        table, handling = prepared(pvalue, needs="checked"), self.handling
        of_table, functions = table_type(table), handling.functions
        if isinstance(self._group_by, str | list | tuple):
            for column in filter(None, of_table.compared.columns(self._group_by)):
                column.compared_alone()
        made = self.aggregation(of_table, functions)
        grouping = made.grouping

        def rows(batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
            groups, columns, failed = grouping(batch)
            lost = valid(batch.new) & ~valid(groups)[: len(batch)] & ~failed
            changes = batch.filter(pa.array(lost))
            writer.drop_rows("null_group", len(changes), lambda: ((c, c.timestamp) for c in changes_in_python(changes, of_table)))
            functions.give(writer)
            sent = aggregate.members(batch, groups, made.columns_sent(batch, columns), keyed=made.is_keyed)
            writer.send(MEMBERS, hashes(sent["group"]), sent)

        size = physical_of(table).bytes
        routed = table | "Group" >> Route(rows, to=(MEMBERS, *self.dropping, *handling.tags), size=size)
        begun = made.begun(table)
        replayed = (routed[MEMBERS], *begun) | "Aggregate" >> Replay(
            functions.replay(made.operator),
            to=(MAIN, *handling.tags),
            main_type=ChangeBatch,
            tables=(MEMBERS,),
            stored=made.stored,
        )
        handling.collect(routed, replayed)
        return as_table(replayed[MAIN], self._type_of(made, of_table), WHOLE), self.all_dropped(routed)

    def result_type(self, of_table: TableType) -> TableType:
        """The type of the result for a table of this type. Raises ``ValueError``."""
        return self._type_of(self.aggregation(of_table, StageFunctions(type(self).__name__, None)), of_table)

    def _type_of(self, made: "Aggregation", of_table: TableType) -> TableType:
        group, value = (Any if is_opaque(kind) else kind for kind in (made.grouping.group_type, made.type))
        names = key_names_of(self._group_by)
        is_other = pa.types.is_struct(made.type) and any(made.type.get_field_index(name) >= 0 for name in names)
        return TableType(TOTAL_KEY if made.grouping.is_total else group, value, of_table.order, key_names=() if is_other else names)


class Aggregation:
    """How the members of groups are aggregated: their columns, the kernel, and the types of results and of the state."""

    is_keyed = True
    """Whether the kernel needs the keys of rows."""

    def __init__(self, grouping: Grouping, kind: pa.DataType, stored: pa.Schema) -> None:
        self.grouping, self.type, self.stored = grouping, kind, {MEMBERS: stored}

    def columns_sent(self, batch: ChangeBatch, columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """The columns of members by their names, of all values of a batch."""
        raise NotImplementedError

    def begun(self, table: PCollection[Any]) -> tuple[PCollection[Any], ...]:
        """Members that are there without any row."""
        return ()

    def operator(self, inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, Any]:
        """The changes of groups that members make."""
        raise NotImplementedError


class Total(Aggregation):
    """The number of rows, or the sum of one column."""

    def __init__(self, grouping: Grouping, of_table: TableType) -> None:
        kinds = grouping.types
        self.is_keyed = bool(kinds)
        kind = totals.sum_type(kinds[0]) if kinds else pa.int64()
        summed = [] if not kinds else [("value", kinds[0] if narrowing(kinds[0], kind) is not None else kind)]
        super().__init__(grouping, kind, pa.schema([("group", grouping.group_type), ("key", of_table.key_column), *summed]))

    def columns_sent(self, batch: ChangeBatch, columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """The numbers that are summed."""
        return {"value": columns[0]} if columns else {}

    def operator(self, inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, Any]:
        """The changes of the counts or sums."""
        batch, groups = totals.step((turn.state or aggregate.AggregateState()).groups, inputs[MEMBERS])
        if len(batch):
            yield batch
        return aggregate.AggregateState(groups)


class Folded(Aggregation):
    """An aggregate that functions of the user make, record by record."""

    def __init__(self, of_table: TableType, functions: StageFunctions, group_by: OfRow | None, fold: Fold) -> None:
        grouping = Grouping(of_table, functions, group_by, [])
        super().__init__(grouping, VALUES, pa.schema([("group", grouping.group_type), ("key", of_table.key_column)]))
        self._fold = fold

    def columns_sent(self, batch: ChangeBatch, columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """The values of the rows."""
        return {"value": batch.values}

    def operator(self, inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, Any]:
        """The changes of the aggregates."""
        batch, state = aggregate.step(turn.state or aggregate.AggregateState(), inputs[MEMBERS], self._fold)
        if len(batch):
            yield batch
        return state


def _row_group(group_by: Any, *, keeps_null: bool) -> Callable[[Any, Any], Any]:
    """The function of key and value for a group; with ``keeps_null`` of the names of columns, whose values may be null."""
    if not keeps_null:
        return of_row("group_by", group_by)
    names = [group_by] if isinstance(group_by, str) else list(group_by)
    return lambda key, value: tuple(field(value, name) for name in names)


def _of_record(
    group_by: Callable[[Any, Any], Any] | None, columns: Sequence[Callable[[Any, Any], Any]]
) -> Callable[[Any, Any], tuple[Any, list[Any]] | None]:
    """The group of a key and a value, and the values that are aggregated; ``None`` for a value in no group."""

    def call(key: Any, value: Any) -> tuple[Any, list[Any]] | None:
        group = None if group_by is None else group_by(key, value)
        if group_by is not None and group is None:
            return None
        return group, [column(key, value) for column in columns]

    return call
