"""Views without the columns that nobody needs."""

from collections.abc import Iterable
from functools import singledispatch
from typing import Any

from beam_joins.functions.expressions import columns_read, of_expression
from beam_joins.views.relations import (
    SIDES,
    AggregateNode,
    DistinctNode,
    FilterNode,
    JoinNode,
    Relation,
    SelectNode,
    TableNode,
    UnionNode,
)


def with_needed_columns(relation: Relation) -> Relation:
    """The same relation, of which no node has a column that no other one needs.

    >>> import pyarrow as pa
    >>> from beam_joins import views
    >>> shops = views.table("shops", pa.schema({"id": pa.int64(), "city": pa.string(), "note": pa.string()}), key="id")
    >>> print(with_needed_columns(shops.aggregate({"shops": "count()"}, group_by="city")))
    aggregate shops = count() by city
      table shops: city
    """
    return _with(relation, relation.schema.names)


def columns_of_tables(relation: Relation) -> dict[str, list[str]]:
    """The columns that somebody needs, by table.

    >>> import pyarrow as pa
    >>> from beam_joins import views
    >>> shops = views.table("shops", pa.schema({"id": pa.int64(), "city": pa.string(), "note": pa.string()}), key="id")
    >>> columns_of_tables(shops.aggregate({"shops": "count()"}, group_by="city"))
    {'shops': ['city']}
    """
    read = dict[str, list[str]]()
    for node in with_needed_columns(relation).tables:
        needed = {*read.get(node.name, ()), *node.columns}
        read[node.name] = [field.name for field in node.of_table if field.name in needed]
    return read


@singledispatch
def _with(relation: Relation, names: Iterable[str]) -> Relation:
    """The relation with these columns; it may have others."""
    raise AssertionError(relation)


@_with.register
def _(relation: TableNode, names: Iterable[str]) -> Relation:
    needed = {*names} or {relation.columns[0]}
    return TableNode(relation.name, relation.of_table, relation.key, tuple(each for each in relation.columns if each in needed))


@_with.register
def _(relation: FilterNode, names: Iterable[str]) -> Relation:
    return FilterNode(_with(relation.of, {*names, *columns_read(relation.predicate, relation.of.schema)}), relation.predicate)


@_with.register
def _(relation: SelectNode, names: Iterable[str]) -> Relation:
    needed = {*names}
    columns = {name: column for name, column in relation.columns.items() if name in needed} or dict([*relation.columns.items()][:1])
    read = [each for column in columns.values() for each in _read(column, relation.of)]
    return SelectNode(_with(relation.of, read), columns)


@_with.register
def _(relation: JoinNode, names: Iterable[str]) -> Relation:
    needed = {*names}
    columns = {name: column for name, column in relation.columns.items() if name in needed} or dict([*relation.columns.items()][:1])
    sides = list[Relation]()
    for side, of, on in zip(SIDES, relation.inputs, (relation.left_on, relation.right_on), strict=True):
        read = {*on, *(column.removeprefix(f"{side}.") for column in columns.values() if column.startswith(f"{side}."))}
        if relation.condition is not None:
            (other,) = (each.schema for name, each in zip(SIDES, relation.inputs, strict=True) if name != side)
            read |= {*columns_read(relation.condition, of.schema, side=side, other=other)}
        sides.append(_with(of, read))
    return JoinNode(sides[0], sides[1], relation.left_on, relation.right_on, relation.how, relation.condition, columns)


@_with.register
def _(relation: AggregateNode, names: Iterable[str]) -> Relation:
    needed = {*names}
    aggregates = {name: each for name, each in relation.aggregates.items() if name in needed}
    aggregates = aggregates or dict([*relation.aggregates.items()][:1])
    specs = [spec for each in aggregates.values() for spec in (each.of, each.where)]
    read = [*relation.group_by, *(name for spec in specs for name in _read(spec, relation.of))]
    return AggregateNode(_with(relation.of, read), relation.group_by, aggregates)


@_with.register
def _(relation: DistinctNode, names: Iterable[str]) -> Relation:
    return DistinctNode(_exactly(relation.of, relation.schema.names))


@_with.register
def _(relation: UnionNode, names: Iterable[str]) -> Relation:
    needed = [name for name in relation.schema.names if name in {*names}] or relation.schema.names[:1]
    return UnionNode(tuple(_exactly(each, needed) for each in relation.inputs))


def _exactly(relation: Relation, names: list[str]) -> Relation:
    made = _with(relation, names)
    return made if made.schema.names == names else SelectNode(made, {name: name for name in names})


def _read(column: Any, of: Relation) -> list[str]:
    """The columns that a column of a select or of an aggregate is made of."""
    if column is None or isinstance(column, str):
        return [] if column is None else [column]
    return columns_read(column.expression if isinstance(column, of_expression) else column, of.schema)
