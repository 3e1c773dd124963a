"""Conditions of SQL queries: the parts of WHERE and ON, and the equalities among them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from substrait import algebra_pb2 as algebra

from beam_joins.views.planned.sql_expressions import fields_of


class Condition(NamedTuple):
    """A condition over the columns of a node. Those of one ``clause``, a WHERE or ON, are evaluated together: a clause guards the
    next one.
    """

    expression: algebra.Expression
    clause: int


class Equality(NamedTuple):
    """Expressions of left and of right columns that are equal, and whether nulls are."""

    left: algebra.Expression
    right: algebra.Expression
    is_null_safe: bool

    @property
    def mirrored(self) -> "Equality":
        """The same with the sides exchanged."""
        return Equality(self.right, self.left, self.is_null_safe)


def conjuncts(expression: algebra.Expression, functions: Mapping[int, str]) -> Iterator[algebra.Expression]:
    """The parts of a condition that hold each; those that all branches of an OR have in common are beside it."""
    called = function_of(expression, functions)
    if called == "and":
        for argument in expression.scalar_function.arguments:
            yield from conjuncts(argument.value, functions)
        return
    if called == "or":
        branches = [[*conjuncts(each.value, functions)] for each in expression.scalar_function.arguments]
        yield from (part for part in branches[0] if all(part in branch for branch in branches[1:]))
    if expression.literal.WhichOneof("literal_type") != "boolean" or not expression.literal.boolean:
        yield expression


def equality(
    condition: algebra.Expression, functions: Mapping[int, str], is_left: Callable[[int], bool], is_right: Callable[[int], bool]
) -> Equality | None:
    """The equality that a condition is, of columns of which some are left ones and others right ones."""
    called = function_of(condition, functions)
    if called not in ("equal", "is_not_distinct_from"):
        return None
    arguments = [each.value for each in condition.scalar_function.arguments]
    for left, right in (arguments, arguments[::-1]):
        of_left, of_right = fields_of(left), fields_of(right)
        if of_left and of_right and all(map(is_left, of_left)) and all(map(is_right, of_right)):
            return Equality(left, right, called != "equal")
    return None


def function_of(expression: algebra.Expression, functions: Mapping[int, str]) -> str | None:
    """The name of the function that an expression calls."""
    if expression.WhichOneof("rex_type") != "scalar_function":
        return None
    return functions[expression.scalar_function.function_reference]


def group_expressions(node: algebra.AggregateRel) -> list[algebra.Expression]:
    """The expressions of the groups of an aggregate, each once: the columns of an aggregate are so, and its message is not."""
    made = list[algebra.Expression]()
    for grouping in node.groupings:
        for n in grouping.expression_references:
            if node.grouping_expressions[n] not in made:
                made.append(node.grouping_expressions[n])
    return made


def width(node: algebra.Rel) -> int:
    """The number of columns of a node."""
    kind = str(node.WhichOneof("rel_type"))
    of = getattr(node, kind)
    if kind == "read":
        return len(of.projection.select.struct_items) if of.HasField("projection") else len(of.base_schema.struct.types)
    if kind == "project":
        return len(of.common.emit.output_mapping) if of.common.HasField("emit") else width(of.input) + len(of.expressions)
    if kind == "aggregate":
        return len(group_expressions(of)) + len(of.measures)
    if kind in ("join", "cross"):
        join = algebra.JoinRel.JoinType.Name(of.type) if kind == "join" else ""
        left, right = ("LEFT" in join or not _is_one_sided(join)), ("RIGHT" in join or not _is_one_sided(join))
        return width(of.left) * left + width(of.right) * right + ("MARK" in join)
    return width(of.inputs[0] if kind == "set" else of.input)


def _is_one_sided(join: str) -> bool:
    return join.endswith(("SEMI", "ANTI", "MARK"))


def in_clauses(conditions: Sequence[Condition]) -> Iterator[list[algebra.Expression]]:
    """The conditions of each clause, in the order of clauses."""
    for clause in dict.fromkeys(each.clause for each in conditions):
        yield [each.expression for each in conditions if each.clause == clause]
