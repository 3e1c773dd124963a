"""Plans of SQL queries as Substrait; what the planner gets wrong or leaves out is refused."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import sqlglot
from datafusion import SQLOptions
from datafusion.substrait import Producer
from sqlglot import exp
from sqlglot.errors import SqlglotError
from substrait import algebra_pb2 as algebra
from substrait import plan_pb2

from beam_joins.views.planned.sql_engine import planning_session, sentence
from beam_joins.views.planned.sql_expressions import messages

_NOT_IN: Final = "NOT IN"
_VALUE: Final = "VALUE"
"""The aliases of joins of ``NOT IN`` and of subqueries that are values, for which Substrait has no words."""
_CORRELATED: Final = "a subquery refers to rows outside of it other than by = in its WHERE: write a join"
_REMEDIES: Final = {
    r"Invalid function '(.*?)'": "the function {} is not kept, if there is one: its result depends on more than its arguments",
    r"table 'datafusion\.public\.(.*?)' not found": "there is no table {}",
    r"(?s)No field named (.*?)\.\s+Did you mean.*?Valid fields are (.*)\.": "there is no column {}; there are {}",
    r"(?s)No field named (.*?)\.\s+Valid fields are (.*)\.": "there is no column {}; there are {}",
    r"uter refe|OuterReference": _CORRELATED,
    r'NotImplemented\("Unsupported plan type: (\w+)': "{} is not kept: write the query another way",
}


class SqlPlan(NamedTuple):
    """The plan of a query, the numbers of its functions, and the names of its columns."""

    root: algebra.Rel
    functions: dict[int, str]
    names: tuple[str, ...]


def sql_plan(query: str, tables: Mapping[str, pa.Schema]) -> SqlPlan:
    """The plan of a query over tables with these columns. Raises ``ValueError``, a sentence, for a query that is not kept."""
    tree = parsed(query)
    session = planning_session()
    try:
        for name, schema in tables.items():
            session.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema=schema)]])
        options = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
        frame = session.sql(query, options)
        logical = frame.optimized_logical_plan()
        encoded = Producer.to_substrait_plan(logical, session).encode()
    except Exception as error:  # the engine raises Exception itself, too
        raise ValueError(_explained(error)) from None
    _require_named(tree)
    joins = [node for node in _nodes(logical) if " Join:" in node.display()]
    if "IN (<subquery>)" in frame.logical_plan().display_indent() and any("Mark Join:" in node.display() for node in joins):
        raise ValueError("IN (SELECT ...) is not kept below OR or in an expression, where its null would be forgotten: write EXISTS")
    plan = plan_pb2.Plan()
    plan.ParseFromString(encoded)
    in_plan = [each for each in messages(plan) if isinstance(each, algebra.JoinRel | algebra.CrossRel)]
    for node, each in zip(joins, in_plan, strict=True):
        if "null_aware" in node.display():
            each.common.hint.alias = _NOT_IN
        elif node.inputs()[1].display().startswith("SubqueryAlias: __scalar_sq"):
            each.common.hint.alias = _VALUE
    functions = {each.extension_function.function_anchor: each.extension_function.name for each in plan.extensions}
    return SqlPlan(plan.relations[0].root.input, functions, tuple(frame.schema().names))


def is_not_in(join: algebra.JoinRel) -> bool:
    """Whether a join of a plan is one of ``NOT IN``, which matches no row where a value is null."""
    return bool(join.common.hint.alias == _NOT_IN)


def is_value(join: algebra.JoinRel) -> bool:
    """Whether the right side of a join of a plan is a subquery that is a value: no row may have several."""
    return bool(join.common.hint.alias == _VALUE)


def _explained(error: Exception) -> str:
    """The sentence for an error of the planner's."""
    for pattern, said in _REMEDIES.items():
        if (match := re.search(pattern, str(error))) is not None:
            return said.format(*match.groups())
    return f"the query cannot be planned: {sentence(error)}"


@cache
def parsed(query: str) -> exp.Query:
    """The query by another parser, which says what the planner takes and leaves out. Raises ``ValueError``, a sentence."""
    try:
        tree = sqlglot.parse_one(query, read="postgres")
    except SqlglotError as error:
        first = str(error).partition("\n")[0]
        raise ValueError(f"the query cannot be parsed: {first}") from None
    if not isinstance(tree, exp.Query):
        raise ValueError("a view is one SELECT")
    for node in tree.walk():
        for kinds, refused in _REFUSED:
            if isinstance(node, kinds) and (said := refused(node)) is not None:
                raise ValueError(said)
    return tree


def takes_all_columns(query: str) -> bool:
    """Whether a query has ``*`` for the columns of tables."""
    return any(not isinstance(each.parent, exp.Count) for each in parsed(query).find_all(exp.Star))


def _require_named(tree: exp.Query) -> None:
    """Refuse columns of the result that only the planner names."""
    for column in tree.selects:
        if not isinstance(column, exp.Alias | exp.Column | exp.Star):
            raise ValueError(f"name the column {column.sql(dialect='postgres')} of the result with AS")


def _of_all(node: exp.Expression) -> str | None:
    return None if node.args.get("distinct") else "EXCEPT ALL and INTERSECT ALL are not kept: leave ALL out"


def _without_parentheses(node: exp.Expression) -> str | None:
    """The planner takes what follows for a part of the right side: ``a IS DISTINCT FROM b AND c`` would be of ``b AND c``."""
    if not isinstance(node.parent, exp.Binary | exp.Unary) or isinstance(node.parent, exp.Paren):
        return None
    return "IS [NOT] DISTINCT FROM is kept in parentheses: (a IS DISTINCT FROM b)"


def _by_names(node: exp.Expression) -> str | None:
    is_by_names = node.args.get("using") or node.args.get("method") == "NATURAL"
    return "USING and NATURAL are not kept: write ON with the columns that are equal" if is_by_names else None


def _said(text: str) -> Callable[[exp.Expression], str]:
    return lambda node: text


_REFUSED: Final[list[tuple[Any, Callable[[Any], str | None]]]] = [
    ((exp.Except, exp.Intersect), _of_all),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), _without_parentheses),
    (exp.Join, _by_names),
    ((exp.Unnest, exp.Explode, exp.Lateral), _said("UNNEST and LATERAL are not kept: make rows of lists before the view")),
    (
        exp.Distinct,
        lambda node: "DISTINCT ON is not kept: join the min or max of a group" if node.args.get("on") else None,
    ),
    (exp.TableSample, _said("TABLESAMPLE is not kept: leave it out")),
    (exp.Lock, _said("FOR UPDATE is not kept: a view locks nothing, leave it out")),
    (exp.Hint, _said("hints are not kept: leave them out")),
    (exp.Order, _said("ORDER BY is not kept: a view is a table without an order, leave it out")),
    (
        (exp.Limit, exp.Offset, exp.Fetch),
        _said("LIMIT is not kept: a view is a table without an order; join the min or max of a group"),
    ),
    (exp.Window, _said("window functions are not kept: aggregate with GROUP BY and join the result")),
    (exp.With, lambda node: "WITH RECURSIVE is not kept" if node.args.get("recursive") else None),
    (
        (exp.GroupingSets, exp.Cube, exp.Rollup),
        _said("ROLLUP, CUBE and GROUPING SETS are not kept: write one GROUP BY for each, and UNION ALL"),
    ),
]


def _nodes(logical: Any) -> Iterator[Any]:
    yield logical
    for each in logical.inputs():
        yield from _nodes(each)


def tables_read(query: str) -> list[str]:
    """The names of the tables that a query reads, in the order of the alphabet. Raises ``ValueError``."""
    tree = parsed(query)
    expressions = {each.alias for each in tree.find_all(exp.CTE)}
    named = (each.this for each in tree.find_all(exp.Table))
    names = (each.this if each.quoted else each.this.lower() for each in named if isinstance(each, exp.Identifier))
    return sorted({*names} - expressions)
