"""Groups of the rows of a plan, and their aggregates."""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from substrait import algebra_pb2 as algebra

from beam_joins.functions.aggregate_functions import Aggregate
from beam_joins.options.aggregate_types import AggregateName
from beam_joins.views.planned.sql_conditions import group_expressions
from beam_joins.views.planned.sql_engine import results_of
from beam_joins.views.planned.sql_rows import WHOLE, Rows, free_name, in_type
from beam_joins.views.relations import AggregateNode

_AGGREGATES: Final[dict[str, AggregateName]] = {"count": "count", "sum": "sum", "min": "min", "max": "max", "avg": "mean"}
_Functions = Mapping[int, str]


def grouped(of: Rows, node: algebra.AggregateRel, functions: _Functions) -> Rows:
    """The groups of rows with their aggregates, or the different groups where there are none. Raises ``ValueError``."""
    if len(node.groupings) > 1:
        raise ValueError("ROLLUP, CUBE and GROUPING SETS are not kept: write one GROUP BY for each, and UNION ALL")
    by = group_expressions(node)
    constants = [each for each in by if _is_constant(each)]  # they are put beside the groups: a key has none
    others = [each for each in by if not _is_constant(each)]
    if not others:
        others, constants = constants, []
    of, groups = of.computed(others, functions, "group")
    made, beside = _measured(of, groups, node.measures, functions).computed(constants, functions, "constant")
    of_groups, of_constants = iter(groups), iter(beside)
    names = [next(of_constants if constants and _is_constant(each) else of_groups) for each in by]
    return made._replace(names=(*names, *made.names[len(groups) :]))


def _measured(of: Rows, groups: Sequence[str], node: Sequence[algebra.AggregateRel.Measure], functions: _Functions) -> Rows:
    by = tuple(dict.fromkeys(groups))
    if not node:
        return Rows(of.relation.select(by).distinct(), tuple(groups))
    measures = [_measure(of, each, functions) for each in node]
    of, read = of.computed([expression for _, options in measures for expression in options.values()], functions)
    columns = iter(read)
    aggregates = dict[str, Aggregate]()
    for function, options in measures:
        name = free_name(function, [*groups, *aggregates])
        aggregates[name] = Aggregate(function, **{option: next(columns) for option in options})
    made = AggregateNode(of.relation, by, aggregates)
    planned = zip(aggregates, _types(of, node, functions), strict=True)
    casts = {name: in_type(name, kind) for name, kind in planned if kind != made.schema.field(name).type}
    return Rows(made.select({name: casts.get(name, name) for name in made.schema.names}), (*groups, *aggregates))


def _types(of: Rows, node: Sequence[algebra.AggregateRel.Measure], functions: _Functions) -> list[pa.DataType]:
    """The types of aggregates as the plan has them: expressions above expect these."""
    whole = algebra.Rel()
    whole.aggregate.input.SetInParent()
    whole.aggregate.measures.extend(node)
    read = pa.table([of.relation.schema.empty_table()[name] for name in of.names], names=[f"c{n}" for n, _ in enumerate(of.names)])
    return [each.type for each in results_of(whole, read, {name: n for n, name in functions.items()})]


def _measure(
    of: Rows, each: algebra.AggregateRel.Measure, functions: _Functions
) -> tuple[AggregateName, dict[str, algebra.Expression]]:
    """The function of an aggregate, and the expressions of its options."""
    measure = each.measure
    name = functions[measure.function_reference]
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
        read["of"] = of.without_widening(read["of"], {*WHOLE, "fp64"} if function == "mean" else WHOLE)
    return function, read | ({"where": each.filter} if each.HasField("filter") else {})


def _is_constant(expression: algebra.Expression) -> bool:
    return bool(expression.WhichOneof("rex_type") == "literal" and expression.literal.WhichOneof("literal_type") != "null")
