"""The keys of the tables that relations are kept as, and the joins that follow from them."""

from functools import singledispatch
from typing import Literal, NamedTuple

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

JoinedBy = Literal["key", "reference", "referring", "many"]
"""How a join is kept: both sides by their keys; the right side by its key, to which left rows refer; the left side likewise; or
by any columns.
"""


class RowKey(NamedTuple):
    """The key of the table that a relation is kept as: its columns in the relation, in their order, ``None`` where it is hidden.

    ``is_plain``: the key is made as a reference to it is, as it has no nulls.
    """

    columns: tuple[str, ...] | None
    is_plain: bool = True

    def is_of(self, columns: tuple[str, ...]) -> bool:
        """Whether a reference by these columns finds the row."""
        return self.is_plain and self.columns is not None and sorted(self.columns) == sorted(columns)


HIDDEN = RowKey(None, is_plain=False)


@singledispatch
def row_key(relation: Relation) -> RowKey:
    """The key of the table that a relation is kept as.

    >>> import pyarrow as pa
    >>> from beam_joins import views
    >>> shops = views.table("shops", pa.schema({"id": pa.int64(), "city": pa.string()}), key="id")
    >>> row_key(shops.select({"nr": "id"})), row_key(shops.select("city"))
    (RowKey(columns=('nr',), is_plain=True), RowKey(columns=None, is_plain=False))
    """
    raise AssertionError(relation)


@row_key.register
def _(relation: TableNode) -> RowKey:
    return RowKey(relation.key) if relation.key and set(relation.key) <= {*relation.columns} else HIDDEN


@row_key.register
def _(relation: FilterNode) -> RowKey:
    return row_key(relation.of)


@row_key.register
def _(relation: SelectNode) -> RowKey:
    return _renamed(row_key(relation.of), {str(column): name for name, column in relation.columns.items() if isinstance(column, str)})


@row_key.register
def _(relation: JoinNode) -> RowKey:
    named = {column: name for name, column in relation.columns.items()}
    of_left = {column.removeprefix("left."): name for column, name in named.items() if column.startswith("left.")}
    of_right = {column.removeprefix("right."): name for column, name in named.items() if column.startswith("right.")}
    if relation.how == "inner":  # both columns of an equality are the same
        for one, other in zip(relation.left_on, relation.right_on, strict=True):
            if (name := of_left.get(one) or of_right.get(other)) is not None:
                of_left.setdefault(one, name)
                of_right.setdefault(other, name)
    left, right = row_key(relation.left), row_key(relation.right)
    by = _joined_by(relation, left, right)
    if relation.is_of_left or (by in ("key", "reference") and relation.how in ("inner", "left")):
        return _renamed(left, of_left)
    if by == "referring" and relation.how in ("inner", "right"):
        return _renamed(right, of_right)
    return HIDDEN


@row_key.register
def _(relation: AggregateNode) -> RowKey:
    nullable = any(relation.schema.field(name).nullable for name in relation.group_by)
    return RowKey(relation.group_by, is_plain=not nullable) if relation.group_by else HIDDEN


@row_key.register
def _(relation: DistinctNode) -> RowKey:
    return RowKey(tuple(relation.schema.names), is_plain=False)


@row_key.register
def _(relation: UnionNode) -> RowKey:
    return HIDDEN


def _renamed(key: RowKey, names: dict[str, str]) -> RowKey:
    if key.columns is None or not set(key.columns) <= {*names}:
        return HIDDEN
    return key._replace(columns=tuple(names[column] for column in key.columns))


def joined_by(join: JoinNode) -> JoinedBy:
    """How a join is kept: by the keys that its columns are, if it has no condition beside."""
    return _joined_by(join, row_key(join.left), row_key(join.right))


def _joined_by(join: JoinNode, left: RowKey, right: RowKey) -> JoinedBy:
    if join.condition is not None:
        return "many"
    of_left, of_right = left.is_of(join.left_on), right.is_of(join.right_on)
    pairs = dict(zip(join.left_on, join.right_on, strict=True))
    if of_left and of_right and tuple(pairs[column] for column in left.columns or ()) == right.columns:
        return "key"
    if of_right:
        return "reference"
    return "referring" if of_left and not join.is_of_left else "many"
