"""Rows of the nodes of a plan: relations whose columns are known by their numbers."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from substrait import algebra_pb2 as algebra

from beam_joins.views.planned.sql_engine import cast_of_column
from beam_joins.views.planned.sql_expressions import SqlExpression, all_of, field_of, sql_expression
from beam_joins.views.relations import AggregateNode, Column, FilterNode, JoinNode, Relation, SelectNode

WHOLE: Final = frozenset({"i8", "i16", "i32", "i64"})
"""The kinds of whole numbers with a sign."""


class Rows(NamedTuple):
    """The rows of a node: a relation, and the names of its columns that are those of the node, in their order."""

    relation: Relation
    names: tuple[str, ...]

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """The columns, as expressions read them."""
        return [(name,) for name in self.names]

    @property
    def is_one(self) -> bool:
        """Whether there is one row at most."""
        return _is_one_row(self.relation)

    def beside(self, name: str, column: pc.Expression) -> tuple["Rows", str]:
        """The rows of a relation with another column, and its name."""
        free = free_name(name, self.relation.schema.names)
        return self._with({free: column}), free

    def computed(
        self, expressions: Sequence[algebra.Expression], functions: Mapping[int, str], name: str = "column"
    ) -> tuple["Rows", list[str]]:
        """The rows of a relation with columns for expressions, and their names."""
        columns, names = dict[str, Column](), list[str]()
        for expression in expressions:
            if (field := field_of(expression)) is not None:
                names.append(self.names[field])
                continue
            made = sql_expression(expression, functions, self.paths)
            same = next((each for each, column in columns.items() if column == made), None)
            names.append(same or free_name(name, [*self.relation.schema.names, *columns]))
            columns[names[-1]] = made
        return self._with(columns), names

    def filtered(self, conditions: Sequence[algebra.Expression], functions: Mapping[int, str]) -> "Rows":
        """The rows for which conditions hold."""
        return self._replace(relation=FilterNode(self.relation, conjunction(conditions, functions, self.paths)))

    def without_widening(self, expression: algebra.Expression, kinds: Collection[str] = WHOLE) -> algebra.Expression:
        """A column of whole numbers in place of its cast to a wider type: aggregates and joins widen by themselves."""
        if expression.WhichOneof("rex_type") != "cast" or expression.cast.type.WhichOneof("kind") not in kinds:
            return expression
        field = field_of(expression.cast.input)
        is_whole = field is not None and pa.types.is_signed_integer(self.relation.schema.field(self.names[field]).type)
        return expression.cast.input if is_whole else expression

    def _with(self, columns: Mapping[str, Column]) -> "Rows":
        if not columns:
            return self
        return self._replace(relation=SelectNode(self.relation, {**{name: name for name in self.relation.schema.names}, **columns}))


def conjunction(
    conditions: Sequence[algebra.Expression], functions: Mapping[int, str], names: Sequence[tuple[str, ...]]
) -> SqlExpression:
    """The expression that holds where all conditions over columns with these names do."""
    number = next((n for n, name in functions.items() if name == "and"), max(functions, default=0) + 1)
    return sql_expression(all_of(conditions, number), {**functions, number: "and"}, names)


def in_type(name: str, kind: pa.DataType) -> SqlExpression:
    """The column of a name in another type."""
    return sql_expression(cast_of_column(kind), {}, [(name,)])


def free_name(name: str, taken: Sequence[str]) -> str:
    """A name that no other column has.

    >>> free_name("count", ["count"])
    'count_2'
    """
    made, n = name, 1
    while made in taken:
        n += 1
        made = f"{name}_{n}"
    return made


def _is_one_row(relation: Relation) -> bool:
    if isinstance(relation, AggregateNode):
        return not relation.group_by
    return isinstance(relation, SelectNode | FilterNode | JoinNode) and all(map(_is_one_row, relation.inputs))
