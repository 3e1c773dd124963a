"""View: keeps a query over tables, a tree of relations, as transforms of this library."""

from collections.abc import Mapping, Sequence
from functools import reduce, singledispatchmethod
from operator import and_
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.columns.sorting import valid
from beam_joins.functions.expressions import of_columns
from beam_joins.functions.marked_functions import keys_of
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import is_opaque
from beam_joins.options.join_types import How
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.aggregate_table import AggregateTable
from beam_joins.transforms.distinct_table import DistinctTable
from beam_joins.transforms.engine.construction.input_checks import require_tables
from beam_joins.transforms.engine.construction.option_checks import columns
from beam_joins.transforms.engine.construction.output_types import Tables
from beam_joins.transforms.engine.construction.table_type import TableType, as_table, physical_of, table_type
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.filter_table import FilterTable
from beam_joins.transforms.foreign_key_join import ForeignKeyJoin
from beam_joins.transforms.many_to_many_join import ManyToManyJoin
from beam_joins.transforms.map_table import MapTable
from beam_joins.transforms.table_table_join import TableTableJoin
from beam_joins.transforms.union_tables import UnionTables
from beam_joins.views.columns_needed import columns_of_tables, with_needed_columns
from beam_joins.views.explained import explained
from beam_joins.views.key_joins import KeyJoin, key_join
from beam_joins.views.relations import (
    AggregateNode,
    DistinctNode,
    FilterNode,
    JoinNode,
    Relation,
    SelectNode,
    TableNode,
    UnionNode,
)
from beam_joins.views.relations import table as table_relation
from beam_joins.views.row_keys import joined_by, row_key
from beam_joins.views.sql_query import IbisTable, require_select, sql, text_of_query

_UNPLANNED: Final = "the plan of SQL depends on the tables: apply the view first, or give View(views.sql(query, tables))"
_MIRRORED: Final[dict[How, How]] = {"inner": "inner", "left": "right", "right": "left", "outer": "outer"}


class View(beam.PTransform[Tables, PCollection[Any]]):
    """Keeps a query over tables: at every position the content of the result is the query's answer for the contents of the tables.

    * ``query``: a relation of :mod:`beam_joins.views`, SQL as in :func:`beam_joins.views.sql`, or an expression of ibis over tables
      with these names (``ibis.table(schema, name="orders")``), which ibis writes as SQL.
    * ``key``: the columns that are the key of the result: one, or several, which are never null; two rows with one key at one
      position fail the run. Without it the key follows from the query: that of the table whose rows are filtered or joined to
      the rows that they refer to, or the columns of groups; else it is one that the result does not have as a column.

    The input is a dict of tables by the names that they have in the query; a single table is enough where a relation has one.
    The tables have typed columns, those of the query among them. SQL takes their columns and keys from the tables: from
    :class:`~beam_joins.TableFromChangelog`, readers, filters, aggregates and other views. A join by a key whose columns are not known
    is a many-to-many join.

    The query becomes transforms of this library: columns that nobody needs are left out where a table comes in, joins by one key
    are one step, and a join by a key of one side is a foreign-key join. Relations that occur twice are kept once.

    Raises ``ValueError`` at construction for a wrong option; when applied, for a table that is not there, and for columns or a
    key that a table does not have or has in other types; and in the run for a row whose key is another than the query says.

    >>> from beam_joins import TableFromChangelog, TableToChanges, views
    >>> log = pa.table({"id": [1, 2, 1], "city": ["Oslo", "Oslo", "Rome"], "lsn": [1, 2, 3]})
    >>> people = views.table("people", log.schema, key="id")
    >>> with beam.Pipeline() as pipeline:
    ...     table = pipeline | beam.Create([log]) | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
    ...     cities = table | View(people.aggregate({"people": "count()"}, group_by="city"))
    ...     latest = cities | TableToChanges() | beam.Filter(lambda change: change.position == 2)
    ...     _ = latest | beam.Map(lambda change: print(change.new))
    {'city': 'Oslo', 'people': 2}
    """

    def __init__(self, query: Relation | str | IbisTable, *, key: str | Sequence[str] | None = None) -> None:
        query = text_of_query(query)
        if not isinstance(query, Relation | str):
            raise ValueError(f"query={query!r}: give SQL, or a relation of beam_joins.views, which begins with views.table(...)")
        if isinstance(query, str):
            require_select(query)
        self._key = None if key is None else columns("key", key)
        if isinstance(query, Relation):
            query.require("key", self._key or ())
        self._query = query
        self._planned = query if isinstance(query, Relation) else None

    def explain(self) -> str:
        """The plan, a line for each relation: its key, the transform that keeps it, its state, and what a change costs. Of SQL it is
        known when the view has been applied to tables; raises ``ValueError`` before.
        """
        if self._planned is None:
            raise ValueError(_UNPLANNED)
        return explained(self._planned)

    def columns_read(self) -> dict[str, list[str]]:
        """The columns that the query reads, by table. Of SQL they are known when the view has been applied to tables; raises
        ``ValueError`` before.
        """
        if self._planned is None:
            raise ValueError(_UNPLANNED)
        return columns_of_tables(self._planned)

    def display_data(self) -> dict[str, Any]:
        """The query."""
        return {"query": str(self._query)}

    def expand(self, pvalue: Any) -> PCollection[Any]:
        """Apply the transform."""
        self._planned = _of_sql(self._query, pvalue) if isinstance(self._query, str) else self._query
        self._planned.require("key", self._key or ())
        query = with_needed_columns(self._planned)
        tables = {node.name: node for node in query.tables}
        given = pvalue if isinstance(pvalue, Mapping) else {next(iter(tables)): pvalue}
        if absent := [name for name in tables if name not in given]:
            raise ValueError(f"View: the query reads the table {absent[0]!r}: apply it to a dict with {', '.join(tables)}")
        for name in tables:
            require_tables("View", given[name])
        given = {name: _with_key(given[name], node) for name, node in tables.items()}
        made = _Kept(given).of(query)
        if self._key is None:
            key = row_key(query)
            names = key.columns if key.columns is not None and key.is_plain else ()
            return as_table(made, table_type(made)._replace(key_names=names), physical_of(made))
        keyed: PCollection[Any] = made | "Key" >> MapTable(key=self._key[0] if len(self._key) == 1 else self._key)
        return keyed


def _of_sql(query: str, pvalue: Any) -> Relation:
    """The relation of a query over tables of a pipeline. Raises ``ValueError``."""
    if not isinstance(pvalue, Mapping) or not all(isinstance(name, str) for name in pvalue):
        raise ValueError("View: SQL reads tables by their names: apply it to a dict of tables")
    relations = dict[str, Relation]()
    for name, collection in pvalue.items():
        require_tables("View", collection)
        of_table = table_type(collection)
        if pa.types.is_struct(of_table.value_column):
            relations[name] = _relation_of(name, of_table)
    try:
        return sql(query, relations)
    except ValueError as error:
        if (name := str(error).removeprefix("there is no table ")) in pvalue:
            raise ValueError(f"View: {_untyped(name)}") from None
        raise ValueError(f"View: {error}") from None


def _untyped(name: str) -> str:
    return f"the table {name!r} has no typed columns: give schema= where it is made"


def _relation_of(name: str, of_table: TableType) -> Relation:
    """A table of a pipeline as a relation: the columns of its values, and those of its key that these have not. The key is hidden
    where its columns are not known.
    """
    kind, fields = of_table.key_column, {field.name: field for field in of_table.value_column}
    types = [field.type for field in kind] if len(of_table.key_names) > 1 else [kind]
    if not of_table.key_names or is_opaque(kind):
        return table_relation(name, pa.schema([*fields.values()]), key=None)
    for part, of_part in zip(of_table.key_names, types, strict=True):
        fields.setdefault(part, pa.field(part, of_part))
    return table_relation(name, pa.schema([*fields.values()]), key=of_table.key_names)


def _parts_of_key(key: pa.DataType, names: Sequence[str]) -> dict[str, pc.Expression]:
    """The columns of a key with these names."""
    if pa.types.is_struct(key):
        return {name: pc.field("key", name) for name in names}
    return {name: pc.field("key", "value") for name in names}


def _with_key(table: PCollection[Any], node: TableNode) -> PCollection[Any]:
    """The table, whose rows are known to have the key that the query says: joins by it would find no rows in silence. Raises
    ``ValueError`` for a table without typed columns, or with keys of another type.
    """
    of_table = table_type(table)
    value = of_table.value_column
    if not pa.types.is_struct(value):
        raise ValueError(f"View: {_untyped(node.name)}")
    if not node.key:
        return table
    names = list(node.key) if len(node.key) > 1 else node.key[0]
    said = f"the query says that the key of {node.name!r} is {', '.join(node.key)}"
    kind = keys_of("key", names, pa.nulls(0, pa.struct(list(node.of_table)))).type
    if of_table.key_column != kind:
        raise ValueError(f"View: {said} ({kind}), and the keys of the table are {of_table.key_column}: MapTable(key=) gives others")
    if not {*node.key} <= {field.name for field in value}:
        return table

    def checked(batch: ChangeBatch) -> ChangeBatch:
        new = batch.new
        if (valid(new) & (hashes(keys_of("key", names, new)) != hashes(batch.key))).any():
            raise ValueError(f"View: {said}, and it has a row whose key is another: MapTable(key=) gives others")
        return batch

    batches = in_batches(table)
    known = batches | f"Key of {node.name}" >> beam.Map(checked).with_output_types(batches.element_type)
    return as_table(known, of_table, physical_of(batches))


class _Kept:
    """The relations of a query as tables of a pipeline, each of them once."""

    def __init__(self, given: Mapping[str, PCollection[Any]]) -> None:
        self._given, self._made, self._labels = given, dict[Relation, PCollection[Any]](), dict[str, int]()

    def of(self, relation: Relation) -> PCollection[Any]:
        """The table of a relation, whose values have its columns."""
        if relation not in self._made:
            self._made[relation] = self._table(relation)
        return self._made[relation]

    def _label(self, relation: Relation, what: str = "") -> str:
        """A label that changes elsewhere in the query leave as it is: the node, the tables in it, and a number for others alike."""
        tables = dict.fromkeys(node.name for node in relation.tables)
        name = f"{what or type(relation).__name__.removesuffix('Node')} of {', '.join(tables)}"
        self._labels[name] = number = self._labels.get(name, 0) + 1
        return name if number == 1 else f"{name} {number}"

    @singledispatchmethod
    def _table(self, relation: Relation) -> PCollection[Any]:
        raise AssertionError(relation)

    @_table.register
    def _(self, relation: TableNode) -> PCollection[Any]:
        table = self._given[relation.name]
        of_table = table_type(table)
        have = {field.name: field.type for field in of_table.value_column}
        of_key = _parts_of_key(of_table.key_column, relation.key)
        named = dict[str, str | pc.Expression]()
        for field in relation.schema:
            if field.name not in have and field.name not in of_key:
                raise ValueError(f"View: the table {relation.name!r} has no column {field.name!r}; it has {', '.join(have)}")
            if (kind := have.get(field.name, field.type)) != field.type:
                raise ValueError(f"View: the column {field.name!r} of {relation.name!r} is {kind}, and {field.type} in the query")
            named[field.name] = f"value.{field.name}" if field.name in have else of_key[field.name].cast(field.type)
        if [*named] == [*have]:
            return table
        selected: PCollection[Any] = table | self._label(relation, "Columns") >> MapTable(named)
        return selected

    @_table.register
    def _(self, relation: FilterNode) -> PCollection[Any]:
        kept: PCollection[Any] = self.of(relation.of) | self._label(relation) >> FilterTable(relation.predicate)
        return kept

    @_table.register
    def _(self, relation: SelectNode) -> PCollection[Any]:
        if len(relation.plain) == len(relation.columns):
            fn: Any = {name: f"value.{column}" for name, column in relation.columns.items()}
        else:
            fn = of_columns("select", relation.columns)
        selected: PCollection[Any] = self.of(relation.of) | self._label(relation) >> MapTable(fn)
        return selected

    @_table.register
    def _(self, relation: AggregateNode) -> PCollection[Any]:
        nullable = any(relation.schema.field(name).nullable for name in relation.group_by)
        one = len(relation.group_by) == 1
        grouped: PCollection[Any] = self.of(relation.of) | self._label(relation) >> AggregateTable(
            relation.aggregates,
            group_by=(relation.group_by[0] if one else list(relation.group_by)) if relation.group_by else None,
            null_groups="keep" if nullable else "drop",
        )
        if not relation.group_by:
            return grouped
        named = dict[str, str | pc.Expression]()
        for name, column in _parts_of_key(table_type(grouped).key_column, relation.group_by).items():
            named[name] = column.cast(relation.schema.field(name).type)  # whole numbers of a key are of 64 bits
        named |= {name: f"value.{name}" for name in relation.aggregates}
        groups: PCollection[Any] = grouped | self._label(relation, "Groups") >> MapTable(named)
        return groups

    @_table.register
    def _(self, relation: DistinctNode) -> PCollection[Any]:
        rows: PCollection[Any] = self.of(relation.of) | self._label(relation) >> DistinctTable(columns=relation.schema.names)
        return rows

    @_table.register
    def _(self, relation: UnionNode) -> PCollection[Any]:
        names = [f"{number}" for number, _ in enumerate(relation.inputs)]
        tables = {name: self.of(each) for name, each in zip(names, relation.inputs, strict=True)}
        rows: PCollection[Any] = tables | self._label(relation) >> UnionTables(tables=names)
        return rows

    @_table.register
    def _(self, relation: JoinNode) -> PCollection[Any]:
        by, how, named = joined_by(relation), relation.how, dict(relation.columns)
        if by == "key":
            return self._by_key(key_join(relation), self._label(relation))
        left = self._without_nulls(relation.left, relation.left_on, is_kept=how in ("left", "outer", "anti"))
        right = self._without_nulls(relation.right, relation.right_on, is_kept=how in ("right", "outer"))
        left_on, right_on = relation.left_on, relation.right_on
        if by == "many":
            join: Any = ManyToManyJoin(
                named, left_on=list(left_on), right_on=list(right_on), how=relation.how, condition=relation.condition
            )
        else:
            if by == "referring":
                left, right, left_on, right_on = right, left, right_on, left_on
                how, named = _MIRRORED[how], {name: _of_other_side(column) for name, column in named.items()}
            refers = dict(zip(right_on, left_on, strict=True))
            of_key = row_key(relation.right if by == "reference" else relation.left).columns or ()
            foreign_key = [refers[column] for column in of_key]
            join = ForeignKeyJoin(named, foreign_key=foreign_key[0] if len(foreign_key) == 1 else foreign_key, how=how)
        joined: PCollection[Any] = (left, right) | self._label(relation) >> join
        return joined

    def _without_nulls(self, relation: Relation, on: Sequence[str], *, is_kept: bool) -> PCollection[Any]:
        """The rows of a side of a join, but for those that meet nothing where these are not kept: they are none that a join drops."""
        nullable = [pc.field(name).is_valid() for name in on if relation.schema.field(name).nullable]
        if is_kept or not nullable:
            return self.of(relation)
        rows: PCollection[Any] = self.of(relation) | self._label(relation, "Joined rows") >> FilterTable(reduce(and_, nullable))
        return rows

    def _by_key(self, join: KeyJoin, label: str) -> PCollection[Any]:
        names = [f"table {number}" for number, _ in enumerate(join.tables)]
        tables = {name: self.of(each) for name, each in zip(names, join.tables, strict=True)}
        joiner = {name: f"{names[number]}.{column}" for name, (number, column) in join.columns.items()}
        joined: PCollection[Any] = tables | label >> TableTableJoin(joiner, tables=names, how=list(join.hows))
        return joined


def _of_other_side(column: str) -> str:
    side, _, name = column.partition(".")
    return f"{'left' if side == 'right' else 'right'}.{name}"
