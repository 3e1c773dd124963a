"""Relations of SQL queries: the nodes of a plan, whose expressions its planner evaluates."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from substrait import algebra_pb2 as algebra

from beam_joins.functions.aggregate_functions import Aggregate
from beam_joins.options.aggregate_types import AggregateName
from beam_joins.options.join_types import How
from beam_joins.views.planned.sql_engine import cast_of_column, is_planned, results_of
from beam_joins.views.planned.sql_expressions import SqlExpression, all_of, field_of, fields_of, messages, sql_expression
from beam_joins.views.planned.sql_plans import SqlPlan, sql_plan
from beam_joins.views.relations import AggregateNode, Column, FilterNode, JoinNode, Relation, SelectNode

_JOINS: Final[dict[str, How]] = {
    "INNER": "inner",
    "LEFT": "left",
    "RIGHT": "right",
    "OUTER": "outer",
    "LEFT_SEMI": "semi",
    "LEFT_ANTI": "anti",
}
_MIRRORED: Final[dict[str, How]] = {"RIGHT_SEMI": "semi", "RIGHT_ANTI": "anti"}
_AGGREGATES: Final[dict[str, AggregateName]] = {"count": "count", "sum": "sum", "min": "min", "max": "max", "avg": "mean"}
_REFUSED: Final = {
    "sort": "ORDER BY is not kept: a view is a table without an order, leave it out",
    "fetch": "LIMIT is not kept: a view is a table without an order; join the min or max of a group",
}
_WHOLE: Final = {"i8", "i16", "i32", "i64"}


class _Pair(NamedTuple):
    """An equality: the expressions of left and of right columns, and whether nulls are equal."""

    left: algebra.Expression
    right: algebra.Expression
    is_safe: bool


class _Rows(NamedTuple):
    """The rows of a node: a relation, and the names of its columns that are those of the node, in their order."""

    relation: Relation
    names: tuple[str, ...]

    @property
    def paths(self) -> list[tuple[str, ...]]:
        return [(name,) for name in self.names]


def relation_of(query: str, relations: Mapping[str, Relation]) -> Relation:
    """The relation that is a query's answer over relations with these names. Raises ``ValueError``, a sentence."""
    kept = {name: pa.schema([each for each in of.schema if is_planned(each.type)]) for name, of in relations.items()}
    try:
        plan = sql_plan(query, kept)
    except ValueError as error:
        for field in (each for name, of in relations.items() for each in of.schema if each.name not in kept[name].names):
            if str(error).startswith(f"there is no column {field.name};") or f".{field.name};" in str(error):
                raise ValueError(f"SQL has no values of type {field.type}: convert the column {field.name!r} with MapTable") from None
        raise
    if doubled := [name for name in plan.names if plan.names.count(name) > 1]:
        raise ValueError(f"the query has two columns {doubled[0]!r}: name one of them with AS")
    made = _Plan(plan, {name: _Rows(of, tuple(kept[name].names)) for name, of in relations.items()}).rows(plan.root)
    return made.relation.select(dict(zip(plan.names, made.names, strict=True)))


class _Plan:
    """The nodes of a plan as relations."""

    def __init__(self, plan: SqlPlan, tables: Mapping[str, _Rows]) -> None:
        self._functions, self._tables = plan.functions, tables
        self._null_aware = iter(plan.null_aware)

    def rows(self, node: algebra.Rel) -> _Rows:
        """The rows of a node."""
        kind = str(node.WhichOneof("rel_type"))
        made: dict[str, Callable[[Any], _Rows]] = {
            "read": self._read,
            "filter": self._filter,
            "project": self._project,
            "join": self._join,
            "cross": self._cross,
            "aggregate": self._aggregate,
            "set": self._set,
        }
        if kind not in made:
            raise ValueError(_REFUSED.get(kind, f"{kind} is not kept: write the query another way"))
        return made[kind](getattr(node, kind))

    def _filter(self, node: algebra.FilterRel) -> _Rows:
        of = self.rows(node.input)
        return of._replace(relation=FilterNode(of.relation, self._expression(node.condition, of)))

    def _cross(self, node: algebra.CrossRel) -> _Rows:
        next(self._null_aware)
        return self._crossed(self.rows(node.left), self.rows(node.right), "inner", None)

    def _set(self, node: algebra.SetRel) -> _Rows:
        if node.op != algebra.SetRel.SET_OP_UNION_ALL:
            raise ValueError(f"{algebra.SetRel.SetOp.Name(node.op)} is not kept: write the query another way")
        return self._union([self.rows(each) for each in node.inputs])

    def _expression(self, expression: algebra.Expression, of: _Rows) -> SqlExpression:
        return sql_expression(expression, self._functions, of.paths)

    def _read(self, read: algebra.ReadRel) -> _Rows:
        if read.WhichOneof("read_type") == "virtual_table":
            return self._constants([*read.virtual_table.expressions])
        if read.HasField("filter") or read.HasField("best_effort_filter"):
            raise ValueError("the planner moved a filter into a table: write the query another way")
        table = self._tables[read.named_table.names[-1]]
        if not read.HasField("projection"):
            return table
        return table._replace(names=tuple(table.names[item.field] for item in read.projection.select.struct_items))

    def _constants(self, rows: Sequence[Any]) -> _Rows:
        """A row of constants, which is beside a total: there is one row in each of both."""
        if len(rows) != 1 or not self._tables:
            raise ValueError("VALUES of several rows are not kept: put them into a table")
        total = next(iter(self._tables.values())).relation.aggregate({"rows": "count()"})
        of, names = self._with(_Rows(total, ()), rows[0].fields, "constant")
        return of._replace(names=tuple(names))

    def _project(self, project: algebra.ProjectRel) -> _Rows:
        of = self.rows(project.input)
        of, computed = self._with(of, project.expressions)
        names = (*of.names, *computed)
        if project.common.HasField("emit"):
            names = tuple(names[n] for n in project.common.emit.output_mapping)
        return of._replace(names=names)

    def _with(self, of: _Rows, expressions: Sequence[algebra.Expression], name: str = "column") -> tuple[_Rows, list[str]]:
        """The rows with columns for expressions beside their own, and the names of these."""
        columns = dict[str, Column]()
        names = list[str]()
        for expression in expressions:
            if (field := field_of(expression)) is not None:
                names.append(of.names[field])
                continue
            made = self._expression(expression, of)
            same = next((each for each, column in columns.items() if column == made), None)
            names.append(same or _free(name, [*of.relation.schema.names, *columns]))
            columns[names[-1]] = made
        return _with_columns(of, columns), names

    def _union(self, rows: Sequence[_Rows]) -> _Rows:
        if not rows[0].names:  # they are counted
            made = [_beside(each, "row", pc.scalar(True)) for each in rows]
            return self._union([each._replace(names=(name,)) for each, name in made])._replace(names=())
        names = tuple(f"column_{n}" for n, _ in enumerate(rows[0].names))
        if len({*rows[0].names}) == len(rows[0].names):
            names = rows[0].names
        selected = [each.relation.select(dict(zip(names, each.names, strict=True))) for each in rows]
        return _Rows(selected[0].union(*selected[1:]), names)

    def _aggregate(self, node: algebra.AggregateRel) -> _Rows:
        if len(node.groupings) > 1:
            raise ValueError("ROLLUP, CUBE and GROUPING SETS are not kept: write one GROUP BY for each, and UNION ALL")
        of = self.rows(node.input)
        by = [node.grouping_expressions[n] for grouping in node.groupings for n in grouping.expression_references]
        constants = [each for each in by if _is_constant(each)]  # they are put beside the groups: a key has none
        grouped = [each for each in by if not _is_constant(each)]
        if not grouped:
            grouped, constants = constants, []
        of, groups = self._with(of, grouped, "group")
        made = self._measured(of, groups, node.measures)
        made, beside = self._with(made, constants, "constant")
        of_groups, of_constants = iter(groups), iter(beside)
        names = [next(of_constants if constants and _is_constant(each) else of_groups) for each in by]
        return made._replace(names=(*names, *made.names[len(groups) :]))

    def _measured(self, of: _Rows, groups: Sequence[str], node: Sequence[algebra.AggregateRel.Measure]) -> _Rows:
        """Groups with their aggregates, or the different groups where there are none."""
        by = tuple(dict.fromkeys(groups))
        if not node:
            return _Rows(of.relation.select(by).distinct(), tuple(groups))
        measures = [self._measure(of, each) for each in node]
        of, read = self._with(of, [expression for _, options in measures for expression in options.values()])
        columns = iter(read)
        aggregates = dict[str, Aggregate]()
        for function, options in measures:
            aggregates[_free(function, [*groups, *aggregates])] = Aggregate(function, **{option: next(columns) for option in options})
        made = AggregateNode(of.relation, by, aggregates)
        planned = zip(aggregates, self._types(of, node), strict=True)
        casts = {name: _cast(name, kind) for name, kind in planned if kind != made.schema.field(name).type}
        return _Rows(made.select({name: casts.get(name, name) for name in made.schema.names}), (*groups, *aggregates))

    def _types(self, of: _Rows, node: Sequence[algebra.AggregateRel.Measure]) -> list[pa.DataType]:
        """The types of aggregates as the plan has them: expressions above expect these."""
        whole = algebra.Rel()
        whole.aggregate.input.SetInParent()
        whole.aggregate.measures.extend(node)
        read = pa.table([of.relation.schema.empty_table()[name] for name in of.names], names=[f"c{n}" for n, _ in enumerate(of.names)])
        return [each.type for each in results_of(whole, read, {name: n for n, name in self._functions.items()})]

    def _measure(self, of: _Rows, each: algebra.AggregateRel.Measure) -> tuple[AggregateName, dict[str, algebra.Expression]]:
        """The function of an aggregate, and the expressions of its options."""
        measure = each.measure
        name = self._functions[measure.function_reference]
        function = _AGGREGATES.get(name)
        is_distinct = measure.invocation == algebra.AggregateFunction.AGGREGATION_INVOCATION_DISTINCT
        if function is None or measure.sorts or len(measure.arguments) > 1:
            raise ValueError(f"{name}(...) is not kept: there are count, sum, min, max and avg")
        if is_distinct and function in ("sum", "mean"):
            raise ValueError(f"{name}(DISTINCT ...) is not kept: aggregate the rows of a SELECT DISTINCT")
        read = {"of": measure.arguments[0].value} if measure.arguments else {}
        if function == "count" and is_distinct:
            function = "count_distinct"
        elif function == "count" and read and _is_constant(read["of"]):
            read = {}
        elif function in ("sum", "mean"):
            read["of"] = _without_widening(read["of"], of, {*_WHOLE, "fp64"} if function == "mean" else _WHOLE)
        return function, read | ({"where": each.filter} if each.HasField("filter") else {})

    def _join(self, node: algebra.JoinRel) -> _Rows:
        null_aware = next(self._null_aware)
        kind = algebra.JoinRel.JoinType.Name(node.type).removeprefix("JOIN_TYPE_")
        left, right = self.rows(node.left), self.rows(node.right)
        if node.HasField("post_join_filter") or kind not in {*_JOINS, *_MIRRORED, "LEFT_MARK"}:
            raise ValueError(f"a {kind.replace('_', ' ').lower()} join is not kept: write the query another way")
        parts = [*self._conjuncts(node.expression)] if node.HasField("expression") else []
        pairs, rest = list[_Pair](), list[algebra.Expression]()
        for part in parts:
            pair = self._equality(part, len(left.names))
            if pair is None:
                rest.append(part)
            else:
                pairs.append(pair)
        if null_aware and (rest or len(pairs) != 1 or kind != "LEFT_ANTI"):
            raise ValueError("NOT IN is not kept with a subquery that refers to rows outside of it: write NOT EXISTS")
        if null_aware:
            return self._not_in(left, right, pairs)
        condition = self._condition(rest, [*_sided(left, "left"), *_sided(right, "right")])
        if kind == "LEFT_MARK":
            return self._marked(left, right, pairs, condition)
        if kind in _MIRRORED:
            condition = self._condition(rest, [*_sided(left, "right"), *_sided(right, "left")])
            return self._joined(right, left, _MIRRORED[kind], [_Pair(other, one, safe) for one, other, safe in pairs], condition)
        return self._joined(left, right, _JOINS[kind], pairs, condition)

    def _joined(self, left: _Rows, right: _Rows, how: How, pairs: Sequence[_Pair], condition: SqlExpression | None) -> _Rows:
        if not pairs and how in ("semi", "anti") and condition is None:  # whether there are rows, or none
            total = right.relation.aggregate({"rows": "count()"})
            crossed = self._crossed(left, _Rows(total, ("rows",)), "inner", None)
            count = pc.field(crossed.names[-1])
            return _Rows(crossed.relation.filter(count > 0 if how == "semi" else count == 0), crossed.names[:-1])
        if not pairs:
            return self._crossed(left, right, how, condition)
        left, left_on = self._with(left, [_without_widening(one, left) for one, _, _ in pairs], "joined")
        right, right_on = self._with(right, [_without_widening(other, right) for _, other, _ in pairs], "joined")
        is_safe = [safe for *_, safe in pairs]
        left, left_on = _null_safe(left, left_on, is_safe)
        right, right_on = _null_safe(right, right_on, is_safe)
        equal = [*dict.fromkeys(zip(left_on, right_on, strict=True))]
        return _paired(left, right, ([one for one, _ in equal], [other for _, other in equal]), how, condition)

    def _condition(self, rest: Sequence[algebra.Expression], names: Sequence[tuple[str, ...]]) -> SqlExpression | None:
        if not rest:
            return None
        functions = dict(self._functions)
        number = next((n for n, name in functions.items() if name == "and"), max(functions, default=0) + 1)
        return sql_expression(all_of(rest, number), {**functions, number: "and"}, names)

    def _crossed(self, left: _Rows, right: _Rows, how: How, condition: SqlExpression | None) -> _Rows:
        """All rows with all: one side has one row at most, since all meet in one partition."""
        if not _is_one_row(left.relation) and not _is_one_row(right.relation):
            raise ValueError("a join without an equality of columns of both sides is not kept: all rows would meet; add an equality")
        left, of_left = _beside(left, "all_rows", pc.scalar(True))
        right, of_right = _beside(right, "all_rows", pc.scalar(True))
        return _paired(left, right, ([of_left], [of_right]), how, condition)

    def _marked(self, left: _Rows, right: _Rows, pairs: Sequence[_Pair], condition: SqlExpression | None) -> _Rows:
        """Left rows with whether they have a match."""
        sides = list[_Rows]()
        marks: dict[How, bool] = {"semi": True, "anti": False}
        for how, mark in marks.items():
            of, name = _beside(self._joined(left, right, how, pairs, condition), "mark", pc.scalar(mark))
            sides.append(of._replace(names=(*of.names, name)))
        return _Rows(sides[0].relation.union(sides[1].relation), sides[0].names)

    def _not_in(self, left: _Rows, right: _Rows, pairs: Sequence[_Pair]) -> _Rows:
        """``NOT IN``: the rows without a match whose value is not null, if no other is null; all rows where there are no others."""
        without = self._joined(left, right, "anti", pairs, None)
        left, (value,) = self._with(left, [pairs[0][0]], "joined")
        right, (of_right,) = self._with(right, [pairs[0][1]], "joined")
        if not left.relation.schema.field(value).nullable and not right.relation.schema.field(of_right).nullable:
            return without
        right, is_null = _beside(right, "is_null", pc.field(of_right).is_null())
        total = right.relation.aggregate({"rows": "count()", "nulls": Aggregate("count", where=is_null)})
        without, (value,) = self._with(without, [pairs[0][0]], "joined")
        crossed = self._crossed(without, _Rows(total, ("rows", "nulls")), "inner", None)
        *names, rows, nulls = crossed.names
        kept = (pc.field(rows) == 0) | ((pc.field(nulls) == 0) & pc.field(value).is_valid())
        return _Rows(crossed.relation.filter(kept), tuple(names))

    def _conjuncts(self, expression: algebra.Expression) -> Iterator[algebra.Expression]:
        if self._called(expression) == "and":
            for argument in expression.scalar_function.arguments:
                yield from self._conjuncts(argument.value)
        elif expression.literal.WhichOneof("literal_type") != "boolean" or not expression.literal.boolean:
            yield expression

    def _called(self, expression: algebra.Expression) -> str | None:
        if expression.WhichOneof("rex_type") != "scalar_function":
            return None
        return self._functions[expression.scalar_function.function_reference]

    def _equality(self, part: algebra.Expression, width: int) -> _Pair | None:
        """The equality that a condition is, of left columns and right ones."""
        called = self._called(part)
        if called not in ("equal", "is_not_distinct_from"):
            return None
        arguments = [each.value for each in part.scalar_function.arguments]
        for left, right in (arguments, arguments[::-1]):
            of_left, of_right = fields_of(left), fields_of(right)
            if of_left and of_right and max(of_left) < width <= min(of_right):
                return _Pair(left, _shifted(right, -width), called != "equal")
        return None


def _free(name: str, taken: Sequence[str]) -> str:
    """A name that no other column has."""
    made, n = name, 1
    while made in taken:
        n += 1
        made = f"{name}_{n}"
    return made


def _with_columns(of: _Rows, columns: Mapping[str, Column]) -> _Rows:
    """The rows of a relation that has these columns, too."""
    if not columns:
        return of
    return of._replace(relation=SelectNode(of.relation, {**{name: name for name in of.relation.schema.names}, **columns}))


def _beside(of: _Rows, name: str, column: pc.Expression) -> tuple[_Rows, str]:
    """The rows with a column beside their own, and its name."""
    free = _free(name, of.relation.schema.names)
    return _with_columns(of, {free: column}), free


def _null_safe(of: _Rows, on: Sequence[str], is_safe: Sequence[bool]) -> tuple[_Rows, list[str]]:
    """The rows with columns to join on, of which those where nulls are equal are in structs, which are not null."""
    made = list[str]()
    for name, safe in zip(on, is_safe, strict=True):
        of, column = _beside(of, f"{name}_or_null", pc.make_struct(pc.field(name), field_names=["value"])) if safe else (of, name)
        made.append(column)
    return of, made


def _different(of: _Rows, on: Sequence[str]) -> tuple[_Rows, list[str]]:
    """The rows with different columns to join on."""
    made = list[str]()
    for name in on:
        of, column = _beside(of, name, pc.field(name)) if name in made else (of, name)
        made.append(column)
    return of, made


def _paired(left: _Rows, right: _Rows, on: tuple[Sequence[str], Sequence[str]], how: How, condition: SqlExpression | None) -> _Rows:
    left, left_on = _different(left, on[0])
    right, right_on = _different(right, on[1])
    joined = left.relation.join(right.relation, left_on=left_on, right_on=right_on, how=how, condition=condition)
    if not isinstance(joined, JoinNode):
        raise AssertionError(joined)
    named = {column: name for name, column in joined.columns.items()}
    sides = _sided(left, "left") + ([] if joined.is_of_left else _sided(right, "right"))
    return _Rows(joined, tuple(named[".".join(path)] for path in sides))


def _sided(of: _Rows, side: str) -> list[tuple[str, ...]]:
    """The columns of one side of pairs."""
    return [(side, name) for name in of.names]


def _is_one_row(relation: Relation) -> bool:
    """Whether a relation has one row at most."""
    if isinstance(relation, AggregateNode):
        return not relation.group_by
    return isinstance(relation, SelectNode | FilterNode | JoinNode) and all(map(_is_one_row, relation.inputs))


def _cast(name: str, kind: pa.DataType) -> SqlExpression:
    """A column in another type."""
    return sql_expression(cast_of_column(kind), {}, [(name,)])


def _is_constant(expression: algebra.Expression) -> bool:
    return bool(expression.WhichOneof("rex_type") == "literal" and expression.literal.WhichOneof("literal_type") != "null")


def _without_widening(expression: algebra.Expression, of: _Rows, kinds: Collection[str] = _WHOLE) -> algebra.Expression:
    """A column of whole numbers in place of its cast to one of wider types: aggregates and joins widen by themselves."""
    if expression.WhichOneof("rex_type") != "cast" or expression.cast.type.WhichOneof("kind") not in kinds:
        return expression
    field = field_of(expression.cast.input)
    is_whole = field is not None and pa.types.is_signed_integer(of.relation.schema.field(of.names[field]).type)
    return expression.cast.input if is_whole else expression


def _shifted(expression: algebra.Expression, by: int) -> algebra.Expression:
    made = algebra.Expression()
    made.CopyFrom(expression)
    for each in messages(made):
        if isinstance(each, algebra.Expression.FieldReference):
            each.direct_reference.struct_field.field += by
    return made
