"""Joins of several relations by one key, as one step."""

from typing import NamedTuple

from beam_joins.options.join_types import How
from beam_joins.views.relations import JoinNode, Relation
from beam_joins.views.row_keys import joined_by


class KeyJoin(NamedTuple):
    """Relations that are joined from the left by their keys: how each but the first is joined, and the columns of the result by the
    number of a relation and the column's name there.
    """

    tables: tuple[Relation, ...]
    hows: tuple[How, ...]
    columns: dict[str, tuple[int, str]]


def key_join(join: JoinNode) -> KeyJoin:
    """The chain of joins by one key that ends with a join by the key."""
    inner = join.left
    if isinstance(inner, JoinNode) and joined_by(inner) == "key":
        before = key_join(inner)
    else:
        before = KeyJoin((inner,), (), {name: (0, name) for name in inner.schema.names})
    columns = dict[str, tuple[int, str]]()
    for name, column in join.columns.items():
        side, _, of_side = column.partition(".")
        columns[name] = before.columns[of_side] if side == "left" else (len(before.tables), of_side)
    return KeyJoin((*before.tables, join.right), (*before.hows, join.how), columns)
