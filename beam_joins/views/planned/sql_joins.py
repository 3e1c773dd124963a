"""Joins of the rows of a plan: by equalities, by none where one side is a total, with marks, and as NOT IN."""

from collections.abc import Mapping, Sequence

import pyarrow.compute as pc
from substrait import algebra_pb2 as algebra

from beam_joins.functions.aggregate_functions import Aggregate
from beam_joins.options.join_types import How
from beam_joins.views.planned.sql_conditions import Equality
from beam_joins.views.planned.sql_expressions import SqlExpression
from beam_joins.views.planned.sql_rows import Rows, conjunction
from beam_joins.views.relations import JoinNode
from beam_joins.views.row_keys import joined_by

Functions = Mapping[int, str]


def joined(
    left: Rows,
    right: Rows,
    how: How,
    equalities: Sequence[Equality],
    conditions: Sequence[algebra.Expression],
    functions: Functions,
) -> Rows:
    """The pairs of rows, or the left rows, by equalities of left and of right columns and conditions of the columns of both.

    Raises ``ValueError`` where all rows would meet all.
    """
    condition = conjunction(conditions, functions, [*_sided(left, "left"), *_sided(right, "right")]) if conditions else None
    if not equalities:
        return _crossed(left, right, how, condition)
    left, left_on = _columns(left, [each.left for each in equalities], equalities, functions)
    right, right_on = _columns(right, [each.right for each in equalities], equalities, functions)
    equal = [*dict.fromkeys(zip(left_on, right_on, strict=True))]
    left, left_on = _different(left, [one for one, _ in equal])
    right, right_on = _different(right, [other for _, other in equal])
    made = _paired(left, right, left_on, right_on, how, None)
    if condition is None:
        return made
    if how == "inner" and isinstance(made.relation, JoinNode) and joined_by(made.relation) != "many":
        return made.filtered(conditions, functions)  # a join by a key has no condition
    return _paired(left, right, left_on, right_on, how, condition)


def marked(
    left: Rows, right: Rows, equalities: Sequence[Equality], conditions: Sequence[algebra.Expression], functions: Functions
) -> Rows:
    """Left rows with whether they have a match."""
    sides = list[Rows]()
    marks: dict[How, bool] = {"semi": True, "anti": False}
    for how, mark in marks.items():
        of, name = joined(left, right, how, equalities, conditions, functions).beside("mark", pc.scalar(mark))
        sides.append(of._replace(names=(*of.names, name)))
    return Rows(sides[0].relation.union(sides[1].relation), sides[0].names)


def not_in(left: Rows, right: Rows, equal: Equality, functions: Functions) -> Rows:
    """``NOT IN``: the rows without a match whose value is not null, if no other is null; all rows where there are no others."""
    without = joined(left, right, "anti", [equal], [], functions)
    without, (value,) = without.computed([equal.left], functions, "joined")
    right, (of_right,) = right.computed([equal.right], functions, "joined")
    if not without.relation.schema.field(value).nullable and not right.relation.schema.field(of_right).nullable:
        return without
    right, is_null = right.beside("is_null", pc.field(of_right).is_null())
    total = right.relation.aggregate({"rows": "count()", "nulls": Aggregate("count", where=is_null)})
    crossed = _crossed(without, Rows(total, ("rows", "nulls")), "inner", None)
    *names, rows, nulls = crossed.names
    kept = (pc.field(rows) == 0) | ((pc.field(nulls) == 0) & pc.field(value).is_valid())
    return Rows(crossed.relation.filter(kept), tuple(names))


def _crossed(left: Rows, right: Rows, how: How, condition: SqlExpression | None) -> Rows:
    """All rows with all: one side has one row at most, since all meet in one partition."""
    if how in ("semi", "anti") and condition is None:  # whether there are rows, or none
        total = right.relation.aggregate({"rows": "count()"})
        crossed = _crossed(left, Rows(total, ("rows",)), "inner", None)
        count = pc.field(crossed.names[-1])
        return Rows(crossed.relation.filter(count > 0 if how == "semi" else count == 0), crossed.names[:-1])
    if not left.is_one and not right.is_one:
        raise ValueError("a join without an equality of columns of both sides is not kept: all rows would meet; add an equality")
    left, of_left = left.beside("all_rows", pc.scalar(True))
    right, of_right = right.beside("all_rows", pc.scalar(True))
    return _paired(left, right, [of_left], [of_right], how, condition)


def _columns(
    of: Rows, expressions: Sequence[algebra.Expression], equalities: Sequence[Equality], functions: Functions
) -> tuple[Rows, list[str]]:
    """The rows with columns to join on; where nulls are equal these are structs, which are not null."""
    of, names = of.computed([*map(of.without_widening, expressions)], functions, "joined")
    for n, each in enumerate(equalities):
        if each.is_null_safe:
            of, names[n] = of.beside(f"{names[n]}_or_null", pc.make_struct(pc.field(names[n]), field_names=["value"]))
    return of, names


def _different(of: Rows, on: Sequence[str]) -> tuple[Rows, list[str]]:
    """The rows with different columns to join on."""
    made = list[str]()
    for name in on:
        of, column = of.beside(name, pc.field(name)) if name in made else (of, name)
        made.append(column)
    return of, made


def _paired(
    left: Rows, right: Rows, left_on: Sequence[str], right_on: Sequence[str], how: How, condition: SqlExpression | None
) -> Rows:
    made = left.relation.join(right.relation, left_on=left_on, right_on=right_on, how=how, condition=condition)
    if not isinstance(made, JoinNode):
        raise AssertionError(made)
    named = {column: name for name, column in made.columns.items()}
    sides = _sided(left, "left") + ([] if made.is_of_left else _sided(right, "right"))
    return Rows(made, tuple(named[".".join(path)] for path in sides))


def _sided(of: Rows, side: str) -> list[tuple[str, ...]]:
    """The columns of one side of pairs."""
    return [(side, name) for name in of.names]
