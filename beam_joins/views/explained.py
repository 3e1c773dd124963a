"""The plan of a view as text: the key of each relation, the transform that keeps it, its state and what a change costs."""

from collections.abc import Iterator
from functools import singledispatch
from typing import Final

from beam_joins.views.columns_needed import with_needed_columns
from beam_joins.views.key_joins import key_join
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
from beam_joins.views.row_keys import JoinedBy, joined_by, row_key

_JOINS: Final[dict[JoinedBy, str]] = {
    "key": "TableTableJoin: state of all rows; a change touches the rows of its key",
    "reference": "ForeignKeyJoin: state of all rows; a change on the right touches the left rows that refer to it",
    "referring": "ForeignKeyJoin: state of all rows; a change on the left touches the right rows that refer to it",
    "many": "ManyToManyJoin: state of all rows; a change touches its pairs",
}


def explained(relation: Relation) -> str:
    """The plan of a relation, a line for each node, inputs below it.

    >>> import pyarrow as pa
    >>> from beam_joins import views
    >>> shops = views.table("shops", pa.schema({"id": pa.int64(), "city": pa.string(), "note": pa.string()}), key="id")
    >>> print(explained(shops.aggregate({"shops": "count()"}, group_by="city")))
    aggregate shops = count() by city | key: city | AggregateTable: state of a row for each group
      table shops: city | key: id
    """
    return "\n".join(_lines(with_needed_columns(relation), ""))


def _lines(relation: Relation, indent: str) -> Iterator[str]:
    columns = relation.key if isinstance(relation, TableNode) else row_key(relation).columns
    keeps = _kept(relation)
    yield f"{indent}{relation.described()} | key: {', '.join(columns) if columns else 'hidden'}{f' | {keeps}' if keeps else ''}"
    inputs = relation.inputs
    if isinstance(relation, JoinNode) and joined_by(relation) == "key":
        inputs = key_join(relation).tables  # they are one step
    for each in inputs:
        yield from _lines(each, f"{indent}  ")


@singledispatch
def _kept(relation: Relation) -> str:
    """The transform that keeps a relation, its state and what a change costs."""
    raise AssertionError(relation)


@_kept.register
def _(relation: TableNode) -> str:
    return ""


@_kept.register
def _(relation: FilterNode) -> str:
    return "FilterTable"


@_kept.register
def _(relation: SelectNode) -> str:
    return "MapTable"


@_kept.register
def _(relation: UnionNode) -> str:
    return "UnionTables"


@_kept.register
def _(relation: DistinctNode) -> str:
    return "DistinctTable: state of a row for each different one"


@_kept.register
def _(relation: AggregateNode) -> str:
    of_values = [name for name, each in relation.aggregates.items() if each.function in ("min", "max", "count_distinct")]
    values = f" and the different values of {', '.join(of_values)}" if of_values else ""
    one = "" if relation.group_by else ", in one partition"
    return f"AggregateTable: state of {'a row for each group' if relation.group_by else 'one row'}{values}{one}"


@_kept.register
def _(relation: JoinNode) -> str:
    return _JOINS[joined_by(relation)]
