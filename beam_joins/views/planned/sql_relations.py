"""Relations of SQL queries: the nodes of a plan, whose expressions its planner evaluates."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from substrait import algebra_pb2 as algebra

from beam_joins.options.join_types import How
from beam_joins.views.planned.sql_aggregates import grouped
from beam_joins.views.planned.sql_conditions import Condition, Equality, conjuncts, equality, in_clauses, width
from beam_joins.views.planned.sql_engine import is_planned
from beam_joins.views.planned.sql_expressions import field_of, fields_of, moved
from beam_joins.views.planned.sql_joins import joined, marked, not_in
from beam_joins.views.planned.sql_plans import SqlPlan, is_not_in, is_value, sql_plan, tables_read, takes_all_columns
from beam_joins.views.planned.sql_rows import Rows
from beam_joins.views.relations import Relation
from beam_joins.views.row_keys import row_key

_JOINS: Final[dict[str, How]] = {
    "LEFT": "left",
    "RIGHT": "right",
    "OUTER": "outer",
    "LEFT_SEMI": "semi",
    "LEFT_ANTI": "anti",
}
_MIRRORED: Final[dict[str, How]] = {"RIGHT_SEMI": "semi", "RIGHT_ANTI": "anti"}
_MARK: Final = "LEFT_MARK"


class _Input(NamedTuple):
    """One of the nodes of an inner join: the numbers of its columns among all begin with ``begin``."""

    node: algebra.Rel
    begin: int

    @property
    def fields(self) -> range:
        return range(self.begin, self.begin + width(self.node))


def relation_of(query: str, relations: Mapping[str, Relation]) -> Relation:
    """The relation that is a query's answer over relations with these names. Raises ``ValueError``, a sentence."""
    kept = {name: pa.schema([each for each in of.schema if is_planned(each.type)]) for name, of in relations.items()}
    for name in tables_read(query) if takes_all_columns(query) else ():
        lost = [each for each in relations[name].schema if each.name not in kept[name].names] if name in kept else []
        if lost:
            said = f"SQL has no values of type {lost[0].type}, as {name}.{lost[0].name} has"
            raise ValueError(f"{said}: name the other columns in place of *")
    try:
        plan = sql_plan(query, kept)
    except ValueError as error:
        for field in (each for name, of in relations.items() for each in of.schema if each.name not in kept[name].names):
            if any(f"{before}{name};" in str(error) for before in ("no column ", ".") for name in (field.name, f'"{field.name}"')):
                raise ValueError(f"SQL has no values of type {field.type}: convert the column {field.name!r} with MapTable") from None
        raise
    if doubled := [name for name in plan.names if plan.names.count(name) > 1]:
        raise ValueError(f"the query has two columns {doubled[0]!r}: name one of them with AS")
    made = _Plan(plan, {name: Rows(of, tuple(kept[name].names)) for name, of in relations.items()}).rows(plan.root)
    return made.relation.select(dict(zip(plan.names, made.names, strict=True)))


class _Plan:
    """The nodes of a plan as relations. Conditions move down to the rows that they are of, and make joins of crossed tables."""

    def __init__(self, plan: SqlPlan, tables: Mapping[str, Rows]) -> None:
        self._functions, self._tables, self._clauses = plan.functions, tables, count()

    def rows(self, node: algebra.Rel, conditions: Sequence[Condition] = ()) -> Rows:
        """The rows of a node for which conditions over its columns hold. Raises ``ValueError``."""
        made: dict[str, Callable[[Any, Sequence[Condition]], Rows]] = {
            "read": self._read,
            "filter": self._filter,
            "project": self._project,
            "join": self._join,
            "aggregate": self._aggregate,
            "set": self._set,
        }
        kind = str(node.WhichOneof("rel_type"))
        if _is_inner(node):
            return self._inner(node, conditions)
        if kind not in made:
            raise ValueError(f"{kind} is not kept: write the query another way")
        return made[kind](getattr(node, kind), conditions)

    def _filter(self, node: algebra.FilterRel, conditions: Sequence[Condition]) -> Rows:
        return self.rows(node.input, [*self._conditions(node.condition), *conditions])

    def _set(self, node: algebra.SetRel, conditions: Sequence[Condition]) -> Rows:
        if node.op != algebra.SetRel.SET_OP_UNION_ALL:
            raise ValueError(f"{algebra.SetRel.SetOp.Name(node.op)} is not kept: write the query another way")
        return self._union([self.rows(each, conditions) for each in node.inputs])

    def _conditions(self, expression: algebra.Expression) -> list[Condition]:
        clause = next(self._clauses)
        return [Condition(part, clause) for part in conjuncts(expression, self._functions)]

    def _filtered(self, of: Rows, conditions: Sequence[Condition]) -> Rows:
        for clause in in_clauses(conditions):
            of = of.filtered(clause, self._functions)
        return of

    def _read(self, read: algebra.ReadRel, conditions: Sequence[Condition]) -> Rows:
        if read.WhichOneof("read_type") == "virtual_table":
            return self._filtered(self._constants([*read.virtual_table.expressions]), conditions)
        if read.HasField("filter") or read.HasField("best_effort_filter"):
            raise ValueError("the planner moved a filter into a table: write the query another way")
        names = [*read.named_table.names]
        if len(names) != 1 or names[0] not in self._tables:
            raise ValueError(f"there is no table {'.'.join(names)}")
        table = self._tables[names[0]]
        if read.HasField("projection"):
            table = table._replace(names=tuple(table.names[item.field] for item in read.projection.select.struct_items))
        return self._filtered(table, conditions)

    def _constants(self, rows: Sequence[Any]) -> Rows:
        """A row of constants, which is beside a total: there is one row in each of both."""
        if len(rows) != 1 or not self._tables:
            raise ValueError("VALUES of several rows are not kept: put them into a table")
        total = next(iter(self._tables.values())).relation.aggregate({"rows": "count()"})
        of, names = Rows(total, ()).computed(rows[0].fields, self._functions, "constant")
        return of._replace(names=tuple(names))

    def _project(self, project: algebra.ProjectRel, conditions: Sequence[Condition]) -> Rows:
        number = width(project.input)
        made = [*range(number), *(field_of(each) for each in project.expressions)]
        is_plain = [True] * number + [each is not None for each in made[number:]]
        shown = [*project.common.emit.output_mapping] if project.common.HasField("emit") else [*range(len(made))]
        below, above = list[Condition](), list[Condition]()
        for each in conditions:
            (below if all(is_plain[shown[field]] for field in fields_of(each.expression)) else above).append(each)
        of = self.rows(
            project.input, [each._replace(expression=moved(each.expression, lambda n: made[shown[n]] or 0)) for each in below]
        )
        of, computed = of.computed(project.expressions, self._functions)
        names = (*of.names, *computed)
        return self._filtered(of._replace(names=tuple(names[n] for n in shown)), above)

    def _union(self, rows: Sequence[Rows]) -> Rows:
        if not rows[0].names:  # they are counted
            made = [each.beside("row", pc.scalar(True)) for each in rows]
            return self._union([each._replace(names=(name,)) for each, name in made])._replace(names=())
        names = tuple(f"column_{n}" for n, _ in enumerate(rows[0].names))
        if len({*rows[0].names}) == len(rows[0].names):
            names = rows[0].names
        selected = [each.relation.select(dict(zip(names, each.names, strict=True))) for each in rows]
        return Rows(selected[0].union(*selected[1:]), names)

    def _aggregate(self, node: algebra.AggregateRel, conditions: Sequence[Condition]) -> Rows:
        return self._filtered(grouped(self.rows(node.input), node, self._functions), conditions)

    def _inner(self, node: algebra.Rel, conditions: Sequence[Condition]) -> Rows:
        """Inner joins of any number of nodes, in an order in which each is equal to columns of those before."""
        inputs, on = list[_Input](), list[Condition]()
        self._gather(node, 0, inputs, on)
        conditions = [*on, *conditions]
        above = list[Condition]()
        below: list[list[Condition]] = [[] for _ in inputs]
        for each in conditions:
            read = {n for n, of in enumerate(inputs) for field in fields_of(each.expression) if field in of.fields} or {0}
            (below[min(read)] if len(read) == 1 else above).append(each)
        rows = [
            self.rows(of.node, [each._replace(expression=moved(each.expression, of.fields.index)) for each in part])
            for of, part in zip(inputs, below, strict=True)
        ]
        made, fields = rows[0], [*inputs[0].fields]
        waiting = [*zip(inputs[1:], rows[1:], strict=True)]
        while waiting:
            of, right = self._next(waiting, fields, above, made)
            waiting.remove((of, right))
            equal = self._equalities(above, fields, of)
            used = {id(each) for each, _ in equal}
            there = {*fields, *of.fields}
            rest = [each for each in above if id(each) not in used and there.issuperset(fields_of(each.expression))]
            above = [each for each in above if id(each) not in used and each not in rest]
            number = {field: n for n, field in enumerate([*fields, *of.fields])}
            pairs = [
                Equality(moved(pair.left, fields.index), moved(pair.right, of.fields.index), pair.is_null_safe) for _, pair in equal
            ]
            first, *others = in_clauses(rest) if rest else [[]]
            made = joined(made, right, "inner", pairs, [moved(each, number.__getitem__) for each in first], self._functions)
            for clause in others:
                made = made.filtered([moved(each, number.__getitem__) for each in clause], self._functions)
            fields = [*fields, *of.fields]
        return made._replace(names=tuple(made.names[fields.index(n)] for n in range(len(fields))))

    def _gather(self, node: algebra.Rel, begin: int, inputs: list[_Input], on: list[Condition]) -> None:
        """The nodes that inner joins are of, and their conditions over the columns of all."""
        if node.WhichOneof("rel_type") == "filter":
            self._gather(node.filter.input, begin, inputs, on)
            found = self._conditions(node.filter.condition)
        elif _is_inner(node):
            of: Any = node.join if node.WhichOneof("rel_type") == "join" else node.cross
            self._gather(of.left, begin, inputs, on)
            self._gather(of.right, begin + width(of.left), inputs, on)
            found = self._conditions(of.expression) if node.WhichOneof("rel_type") == "join" and of.HasField("expression") else []
        else:
            inputs.append(_Input(node, begin))
            return
        on += [each._replace(expression=moved(each.expression, lambda n: n + begin)) for each in found]

    def _next(
        self, waiting: Sequence[tuple[_Input, Rows]], fields: Sequence[int], conditions: Sequence[Condition], made: Rows
    ) -> tuple[_Input, Rows]:
        """The node to join next: one that is equal to columns of those before, or one of a row."""
        equal = (each for each in waiting if self._equalities(conditions, fields, each[0]))
        return next(equal, None) or next((each for each in waiting if each[1].is_one or made.is_one), waiting[0])

    def _equalities(self, conditions: Sequence[Condition], fields: Sequence[int], of: _Input) -> list[tuple[Condition, Equality]]:
        pairs = (
            (each, equality(each.expression, self._functions, fields.__contains__, of.fields.__contains__)) for each in conditions
        )
        return [(each, pair) for each, pair in pairs if pair is not None]

    def _join(self, node: algebra.JoinRel, conditions: Sequence[Condition]) -> Rows:
        """A join that is no inner one: conditions on the side that is kept are those of its rows."""
        kind = algebra.JoinRel.JoinType.Name(node.type).removeprefix("JOIN_TYPE_")
        if node.HasField("post_join_filter") or kind not in {*_JOINS, *_MIRRORED, _MARK}:
            raise ValueError(f"a {kind.replace('_', ' ').lower()} join is not kept: write the query another way")
        of_left, of_right = width(node.left), width(node.right)
        begin = 0 if kind in _MIRRORED else of_left  # of the right columns of the result
        of_side = {"LEFT": range(of_left), "RIGHT": range(begin, begin + of_right)}
        below: dict[str, list[Condition]] = {"LEFT": [], "RIGHT": []}
        above = list[Condition]()
        for each in conditions:
            side = kind.partition("_")[0]
            is_of_side = side in of_side and all(field in of_side[side] for field in fields_of(each.expression))
            (below[side] if is_of_side else above).append(each)
        at_right = [each._replace(expression=moved(each.expression, lambda n: n - begin)) for each in below["RIGHT"]]
        made = self._outer(node, kind, self.rows(node.left, below["LEFT"]), self.rows(node.right, at_right))
        return self._filtered(made, above)

    def _outer(self, node: algebra.JoinRel, kind: str, left: Rows, right: Rows) -> Rows:
        by = len(left.names)
        rest, pairs = list[algebra.Expression](), list[Equality]()
        for part in conjuncts(node.expression, self._functions) if node.HasField("expression") else ():
            pair = equality(part, self._functions, lambda n: n < by, lambda n: n >= by)
            if pair is None:
                rest.append(part)
            else:
                pairs.append(pair._replace(right=moved(pair.right, lambda n: n - by)))
        if is_value(node) and not right.is_one:
            key, equal = row_key(right.relation).columns, {right.names[field] for each in pairs for field in fields_of(each.right)}
            if key is None or not equal.issuperset(key):
                raise ValueError("a subquery used as a value may have several rows: aggregate it with max(...), or join it")
        if is_not_in(node):
            if rest or len(pairs) != 1 or kind != "LEFT_ANTI":
                raise ValueError("NOT IN is not kept with a subquery that refers to rows outside of it: write NOT EXISTS")
            return not_in(left, right, pairs[0], self._functions)
        if kind == _MARK:
            return marked(left, right, pairs, rest, self._functions)
        if kind in _JOINS:
            return joined(left, right, _JOINS[kind], pairs, rest, self._functions)
        of_right = len(right.names)
        rest = [moved(each, lambda n: n + of_right if n < by else n - by) for each in rest]
        return joined(right, left, _MIRRORED[kind], [each.mirrored for each in pairs], rest, self._functions)


def _is_inner(node: algebra.Rel) -> bool:
    """Whether a node is an inner join, or all rows with all."""
    kind = node.WhichOneof("rel_type")
    return bool(kind == "cross" or (kind == "join" and node.join.type == algebra.JoinRel.JOIN_TYPE_INNER))
