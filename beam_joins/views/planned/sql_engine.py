"""DataFusion as the engine of SQL: it plans queries over tables without rows, and evaluates expressions of its plans on batches."""

import re
import threading
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from functools import cache
from itertools import count, product
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from datafusion import SessionConfig, SessionContext, udf
from datafusion.substrait import Consumer, Producer, Serde
from substrait import algebra_pb2 as algebra
from substrait import plan_pb2, type_pb2

_NEEDED: Final = frozenset(
    {
        "decorrelate_lateral_join",
        "decorrelate_predicate_subquery",
        "replace_distinct_aggregate",
        "rewrite_set_comparison",
        "scalar_subquery_to_join",
    }
)
"""The optimizer's rules that plans need: they make joins of subqueries. Others only make plans faster, and some make mistakes: one
pushes filters below an aggregate without groups, so that ``SELECT * FROM (SELECT min(a), 1 AS k FROM t) WHERE k = 2`` has a row,
one takes the ``=`` of one of several joins for ``IS NOT DISTINCT FROM``.
"""
_OTHERS: Final = frozenset(
    {
        *("common_sub_expression_eliminate", "eliminate_cross_join", "eliminate_duplicated_expr", "eliminate_filter"),
        *("eliminate_group_by_constant", "eliminate_join", "eliminate_limit", "eliminate_outer_join", "extract_equijoin_predicate"),
        *("extract_leaf_expressions", "filter_null_join_keys", "optimize_projections", "optimize_unions", "propagate_empty_relation"),
        *("push_down_filter", "push_down_leaf_projections", "push_down_limit", "simplify_expressions"),
        *("single_distinct_aggregation_to_group_by", "unions_to_filter"),
    }
)
"""All others of this version."""
_OF_EVALUATION: Final = frozenset({"simplify_expressions", "optimize_projections"})
"""The rules that the evaluation of expressions needs: some functions are made of others. It computes constants, where whole numbers
wrap around in plans; evaluations have checked functions for these.
"""
FUNCTIONS: Final = frozenset(
    [
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "cot", "degrees", "exp"),
        *("factorial", "floor", "gcd", "isnan", "iszero", "lcm", "ln", "log", "log10", "log2", "nanvl", "pi", "pow", "power"),
        *("radians", "round", "signum", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        *("ascii", "bit_length", "btrim", "char_length", "character_length", "chr", "concat", "concat_ws", "contains", "ends_with"),
        *("initcap", "instr", "left", "length", "levenshtein", "lower", "lpad", "ltrim", "octet_length", "overlay", "position"),
        *("regexp_count", "regexp_instr", "regexp_like", "regexp_replace", "repeat", "replace", "reverse", "right", "rpad", "rtrim"),
        *("split_part", "starts_with", "strpos", "substr", "substring", "to_hex", "translate", "trim", "upper"),
        *("decode", "digest", "encode", "md5", "sha224", "sha256", "sha384", "sha512"),
        *("coalesce", "greatest", "ifnull", "least", "nullif", "nvl", "nvl2"),
        *("date_bin", "date_format", "date_part", "date_trunc", "datepart", "datetrunc", "from_unixtime", "make_date", "to_char"),
        *("to_date", "to_timestamp", "to_timestamp_micros", "to_timestamp_millis", "to_timestamp_nanos", "to_timestamp_seconds"),
        "to_unixtime",
        *("array_element", "array_has", "array_length", "array_to_string", "cardinality", "get_field", "make_array", "named_struct"),
    ]
)
"""The functions that queries may call: their results depend on their arguments alone."""
_CHECKED: Final = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "negate": pc.negate_checked,
}
_WHOLE: Final = {
    **{f"i{bits}": pa.type_for_alias(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": pa.type_for_alias(f"uint{bits}") for bits in (8, 16, 32, 64)},
}
_VIEWS: Final = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def planning_session() -> SessionContext:
    """A session that plans queries, and has no functions but those of :data:`FUNCTIONS`."""
    context = _session(_NEEDED)
    for name in _other_functions():
        context.deregister_udf(name)
    return context


@cache
def _other_functions() -> frozenset[str]:
    named = _evaluating_session().sql("SELECT routine_name FROM information_schema.routines WHERE function_type = 'SCALAR'")
    return frozenset(named.to_pydict()["routine_name"]) - FUNCTIONS


def _session(rules: Set[str]) -> SessionContext:
    """A session with some of the optimizer's rules."""
    config = SessionConfig().with_target_partitions(1).with_information_schema(True)
    # scalar subqueries become joins, which relations have
    config = config.set("datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", "false")
    config = config.set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
    config = config.set("datafusion.execution.time_zone", "UTC")
    context = SessionContext(config.set("datafusion.sql_parser.parse_float_as_decimal", "true"))  # 0.1 is exact, as in PostgreSQL
    for rule in (_NEEDED | _OTHERS) - rules:
        context.remove_optimizer_rule(rule)
    for (name, function), (kind, arrow) in product(_CHECKED.items(), _WHOLE.items()):
        arguments = [arrow] if name == "negate" else [arrow, arrow]
        if name != "negate" or kind[0] == "i":
            context.register_udf(udf(function, arguments, arrow, "immutable", _checked(name, kind)))
    return context


def _checked(name: str, kind: str) -> str:
    return f"checked_{name}_{kind}"


def type_of(kind: str) -> pa.DataType:
    """The Arrow type of a SQL type; times and instants without a precision have microseconds, as in PostgreSQL. Raises
    ``ValueError``.
    """
    try:
        (made,) = _evaluating_session().sql(f"SELECT CAST(NULL AS {kind}) AS c").schema().types
    except Exception as error:  # the engine raises Exception itself, too
        raise ValueError(sentence(error)) from None
    if pa.types.is_timestamp(made) and "(" not in kind:
        return pa.timestamp("us", made.tz)
    return pa.time64("us") if pa.types.is_time(made) and "(" not in kind else made


def checked_function(name: str, output: Any) -> str:
    """The function that computes the same as one with this Substrait type of results, and fails where whole numbers overflow: the
    engine's wrap around (apache/datafusion#3520).

    >>> from substrait import type_pb2
    >>> checked_function("add", type_pb2.Type(i64=type_pb2.Type.I64()))
    'checked_add_i64'
    """
    kind = output.WhichOneof("kind")
    if name not in _CHECKED or kind not in _WHOLE:
        return name
    return _checked(name, kind.replace("i", "u") if getattr(output, kind).type_variation_reference else kind)


_THREAD: Final = threading.local()
_NUMBERS: Final = count()


def _evaluating_session() -> SessionContext:
    """The session of this thread that evaluates expressions."""
    if not hasattr(_THREAD, "context"):
        _THREAD.context = _session(_OF_EVALUATION)
    context: SessionContext = _THREAD.context
    return context


def results_of(relation: algebra.Rel, rows: pa.Table, functions: Mapping[str, int]) -> list[pa.Array]:
    """The columns that a relation of a plan gives of rows, which take the place of its innermost input, empty in ``relation``.

    ``functions`` are the numbers of its functions. Raises ``ValueError``, the engine's sentence.
    """
    with _reading(rows) as (context, plan):
        read = algebra.Rel()
        read.CopyFrom(plan.relations[0].root.input)
        inner = plan.relations[0].rel  # in place of the root, which has names of columns
        inner.CopyFrom(relation)
        while (kind := inner.WhichOneof("rel_type")) is not None:
            inner = getattr(inner, kind).input
        inner.CopyFrom(read)
        del plan.extensions[:]
        for function, number in functions.items():
            declared = plan.extensions.add().extension_function
            declared.name, declared.function_anchor = function, number
        encoded = Serde.deserialize_bytes(plan.SerializeToString())
        frame = context.create_dataframe_from_logical_plan(Consumer.from_substrait_plan(context, encoded))
        table = frame.to_arrow_table()
    return [_complete(column.combine_chunks()) for column in table.columns]


def _complete(column: pa.Array) -> pa.Array:
    """A column of results, whose texts are no views, and whose decimals have no more digits than their type: the engine lets these
    pass.
    """
    if pa.types.is_decimal(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise ValueError(f"overflow of {column.type}") from None
    return column.cast(_VIEWS[column.type]) if column.type in _VIEWS else column


def _substrait_type(kind: pa.DataType) -> type_pb2.Type:
    """The type of a plan for an Arrow type, as the engine gives it. Raises ``ValueError``."""
    with _reading(pa.schema({"c": kind}).empty_table()) as (_, plan):
        return plan.relations[0].root.input.read.base_schema.struct.types[0]


@cache
def is_planned(kind: pa.DataType) -> bool:
    """Whether plans have columns of an Arrow type: a zone other than UTC would be lost where they cast one.

    >>> is_planned(pa.int64()), is_planned(pa.float16()), is_planned(pa.timestamp("us", "Europe/Oslo"))
    (True, False, False)
    """
    if pa.types.is_interval(kind):  # the engine compares them by their parts
        return False
    if pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return all(is_planned(kind.field(n).type) for n in range(kind.num_fields))
    try:
        project = algebra.Rel()
        project.project.input.SetInParent()
        project.project.expressions.append(cast_of_column(kind))
        project.project.common.emit.output_mapping.append(1)
        (cast,) = results_of(project, pa.schema({"c": kind}).empty_table(), {})
    except ValueError:
        return False
    return bool(cast.type == _VIEWS.get(kind, kind))


def cast_of_column(kind: pa.DataType) -> algebra.Expression:
    """The only column of rows in an Arrow type. Raises ``ValueError``."""
    cast = algebra.Expression()
    cast.cast.type.CopyFrom(_substrait_type(kind))
    cast.cast.input.selection.direct_reference.struct_field.field = 0
    cast.cast.input.selection.root_reference.SetInParent()
    cast.cast.failure_behavior = algebra.Expression.Cast.FAILURE_BEHAVIOR_THROW_EXCEPTION
    return cast


@contextmanager
def _reading(rows: pa.Table) -> Iterator[tuple[SessionContext, plan_pb2.Plan]]:
    """A session in which rows are a table, and the plan that reads it, in the types of the rows. Errors of the block are
    ``ValueError``s with the engine's sentence.
    """
    context, name = _evaluating_session(), f"rows_{next(_NUMBERS)}"
    try:
        context.register_record_batches(name, [rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]])
        plan = plan_pb2.Plan()
        plan.ParseFromString(Producer.to_substrait_plan(context.table(name).logical_plan(), context).encode())
        yield context, plan
    except Exception as error:  # the engine raises Exception itself, too
        raise ValueError(sentence(error)) from None
    finally:
        context.deregister_table(name)


def sentence(error: Exception) -> str:
    """The first line of an error of the engine's, without the names of its parts; or that of a function that it has called.

    >>> sentence(Exception("DataFusion error: Arrow error: Divide by zero error"))
    'Divide by zero error'
    """
    if (called := re.search(r"PyErr \{.*?value: \w+\('(.*?)'\)", str(error), re.DOTALL)) is not None:
        return called[1]
    first = str(error).partition("\n")[0]
    while (cut := first.partition(": "))[0] in _PARTS:
        first = cut[2]
    return first


_PARTS: Final = (
    "DataFusion error",
    "Arrow error",
    "Error during planning",
    "Schema error",
    "SQL error",
    "Execution error",
    "Optimizer rule",
)
