"""Expressions of SQL, which their planner evaluates: no expression is translated."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import text_format
from google.protobuf.message import Message
from substrait import algebra_pb2 as algebra
from substrait import type_pb2

from beam_joins.functions.column_expressions import EngineExpression
from beam_joins.views.planned.sql_engine import checked_function, results_of

Path = tuple[str, ...]
_KINDS: Final = frozenset({"literal", "selection", "scalar_function", "cast", "if_then", "singular_or_list"})
_REFUSED: Final = {
    "window_function": "window functions are not kept: aggregate with GROUP BY and join the result",
    "subquery": "IN and EXISTS are kept in WHERE: join the subquery, or aggregate it",
}
_INFIX: Final = {
    **{"and": "and", "or": "or", "equal": "=", "not_equal": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="},
    **{"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulus": "%", "str_concat": "||", "like": "like"},
}
_COMPARE: Final = frozenset({"equal", "not_equal", "lt", "lte", "gt", "gte", "is_not_distinct_from", "is_distinct_from"})
_DIGITS: Final = Context(prec=100)
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_SHOWN: Final = {"boolean", "i64", "string"}


@dataclass(frozen=True, eq=False, repr=False)
class SqlExpression(EngineExpression):
    """An expression of a plan: as a Substrait message whose functions and columns are numbered as they are here. States remember its
    text alone, as another version of the planner has other messages.
    """

    encoded: bytes = field(repr=False)
    functions: tuple[str, ...] = field(repr=False)
    columns: tuple[Path, ...] = field(repr=False)
    text: str

    @property
    def reads(self) -> tuple[Path, ...]:
        """The columns that it reads."""
        return self.columns

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlExpression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def evaluated(cls, expressions: Mapping[str, Self], rows: pa.Table) -> dict[str, pa.Array]:
        """The columns that expressions give of rows: the engine is called once for all of them."""
        columns = {path: n for n, path in enumerate(dict.fromkeys(path for each in expressions.values() for path in each.columns))}
        functions = {name: n for n, name in enumerate(dict.fromkeys(name for each in expressions.values() for name in each.functions))}
        project = algebra.Rel()
        project.project.input.SetInParent()
        for n, each in enumerate(expressions.values()):
            message = project.project.expressions.add()
            message.ParseFromString(each.encoded)
            _renumber(
                message, [functions[name] for name in each.functions].__getitem__, [columns[p] for p in each.columns].__getitem__
            )
            project.project.common.emit.output_mapping.append((len(columns) or 1) + n)
        arrays = [_column(rows, path) for path in columns] or [pa.nulls(rows.num_rows, pa.int8())]  # rows without columns are none
        read = pa.table(arrays, names=[f"c{n}" for n, _ in enumerate(arrays)])
        return dict(zip(expressions, results_of(project, read, functions), strict=True))


def sql_expression(expression: algebra.Expression, functions: Mapping[int, str], names: Sequence[Path]) -> SqlExpression:
    """The expression of a plan over columns with these names, whose ``functions`` have these numbers. Raises ``ValueError``."""
    message = algebra.Expression()
    message.CopyFrom(expression)
    names = _with_fields(message, functions, names)
    numbers, columns = dict[str, int](), dict[Path, int]()
    for each in messages(message):
        if isinstance(each, algebra.Expression) and (kind := str(each.WhichOneof("rex_type"))) not in _KINDS:
            raise ValueError(_REFUSED.get(kind, f"{kind.replace('_', ' ')} is not kept: write the query another way"))
        if isinstance(each, algebra.Expression.Cast) and any(isinstance(kind, type_pb2.Type.Struct) for kind in messages(each.type)):
            raise ValueError("nested values of two types are not kept: cast their fields")  # a cast would rename these
        if _compares_intervals(each, functions):
            raise ValueError(
                "intervals are not compared, as of months, days and seconds none is another: write a > b + INTERVAL '7 days'"
            )
        if isinstance(each, algebra.Expression.ScalarFunction):
            name = checked_function(functions[each.function_reference], each.output_type)
            each.function_reference = numbers.setdefault(name, len(numbers))
        elif isinstance(each, algebra.Expression.FieldReference):
            field = each.direct_reference.struct_field
            field.field = columns.setdefault(names[field.field], len(columns))
    text = _text(message, [*numbers], [*columns])
    return SqlExpression(message.SerializeToString(deterministic=True), tuple(numbers), tuple(columns), text)


def _compares_intervals(message: Message, functions: Mapping[int, str]) -> bool:
    """Whether intervals are compared, or something is cast to one in order to: the engine compares their months first, then days."""
    if isinstance(message, algebra.Expression.Cast):
        return str(message.type.WhichOneof("kind")).startswith("interval")
    if isinstance(message, algebra.Expression.ScalarFunction) and functions[message.function_reference] in _COMPARE:
        return any(str(each.value.literal.WhichOneof("literal_type")).startswith("interval") for each in message.arguments)
    return False


def _with_fields(message: algebra.Expression, functions: Mapping[int, str], names: Sequence[Path]) -> list[Path]:
    """The names of columns, and of the fields of structs that an expression reads, which become columns of it: the engine forgets
    where a struct is null.
    """
    made = [*names]
    for each in messages(message):
        if not isinstance(each, algebra.Expression) or each.WhichOneof("rex_type") != "scalar_function":
            continue
        if functions[each.scalar_function.function_reference] != "get_field":
            continue
        of, *fields = (argument.value for argument in each.scalar_function.arguments)
        if any(field.literal.WhichOneof("literal_type") != "string" for field in fields):
            continue  # of a map
        inner = [*_fields_of_column(of, functions, names)]
        made.append((*inner, *(field.literal.string for field in fields)))
        each.Clear()
        each.selection.direct_reference.struct_field.field = len(made) - 1
        each.selection.root_reference.SetInParent()
    return made


def _fields_of_column(expression: algebra.Expression, functions: Mapping[int, str], names: Sequence[Path]) -> Path:
    if (field := field_of(expression)) is not None:
        return names[field]
    called = expression.scalar_function
    if expression.WhichOneof("rex_type") != "scalar_function" or functions[called.function_reference] != "get_field":
        raise ValueError("a field of a computed struct is not kept: take it of a column")
    of, *fields = (argument.value for argument in called.arguments)
    return (*_fields_of_column(of, functions, names), *(field.literal.string for field in fields))


def all_of(expressions: Sequence[algebra.Expression], function: int) -> algebra.Expression:
    """The conjunction of expressions, by the number of the function ``and``."""
    if len(expressions) == 1:
        return expressions[0]
    both = algebra.Expression()
    both.scalar_function.function_reference = function
    both.scalar_function.output_type.bool.nullability = 1
    for each in expressions:
        both.scalar_function.arguments.add().value.CopyFrom(each)
    return both


def messages(message: Message) -> Iterator[Message]:
    """A message and all within it."""
    yield message
    for described, value in message.ListFields():
        if described.message_type is not None:
            for each in value if isinstance(value, Iterable) else [value]:
                yield from messages(each)


def fields_of(expression: algebra.Expression) -> list[int]:
    """The numbers of the columns that an expression reads."""
    read = (each for each in messages(expression) if isinstance(each, algebra.Expression.FieldReference))
    return [each.direct_reference.struct_field.field for each in read]


def field_of(expression: algebra.Expression) -> int | None:
    """The number of the column that an expression is, ``None`` for any other."""
    is_field = expression.WhichOneof("rex_type") == "selection" and not expression.selection.direct_reference.struct_field.HasField(
        "child"
    )
    return expression.selection.direct_reference.struct_field.field if is_field else None


def moved(expression: algebra.Expression, column: Callable[[int], int]) -> algebra.Expression:
    """An expression over columns with other numbers."""
    made = algebra.Expression()
    made.CopyFrom(expression)
    _renumber(made, lambda n: n, column)
    return made


def _renumber(message: Message, function: Callable[[int], int], column: Callable[[int], int]) -> None:
    for each in messages(message):
        if isinstance(each, algebra.Expression.ScalarFunction):
            each.function_reference = function(each.function_reference)
        elif isinstance(each, algebra.Expression.FieldReference):
            struct_field = each.direct_reference.struct_field
            struct_field.field = column(struct_field.field)


def _column(rows: pa.Table, path: Path) -> pa.ChunkedArray:
    column = rows[path[0]]
    return pc.struct_field(column, [*path[1:]]) if len(path) > 1 else column


def _text(expression: algebra.Expression, functions: Sequence[str], columns: Sequence[Path]) -> str:
    """The expression as text, which no other has."""

    def text(of: algebra.Expression) -> str:
        return _text(of, functions, columns)

    kind = expression.WhichOneof("rex_type")
    made = ""
    if kind == "literal":
        made = _literal(expression.literal)
    elif kind == "selection" and (field := field_of(expression)) is not None:
        made = ".".join(map(_named, columns[field]))
    elif kind == "scalar_function":
        called = expression.scalar_function
        made = _call(functions[called.function_reference], [each.value for each in called.arguments], text)
    elif kind == "cast":
        made = f"cast({text(expression.cast.input)} as {_type(expression.cast.type)}{_failing(expression.cast)})"
    elif kind == "if_then":
        clauses = [f"when {text(getattr(each, 'if'))} then {text(each.then)}" for each in expression.if_then.ifs]
        otherwise = [f"else {text(getattr(expression.if_then, 'else'))}"] if expression.if_then.HasField("else") else []
        made = f"case {' '.join([*clauses, *otherwise])} end"
    elif kind == "singular_or_list":
        made = f"({text(expression.singular_or_list.value)} in ({', '.join(map(text, expression.singular_or_list.options))}))"
    return made or f"<{_line(expression)} of {', '.join(map('.'.join, columns))}>"


def _call(function: str, arguments: list[algebra.Expression], text: Callable[[algebra.Expression], str]) -> str:
    name = function.removeprefix("checked_")
    if name in ("like", "ilike") and _is_null(arguments[-1]):
        del arguments[-1]  # no character that escapes others
    sign = _INFIX.get(name if name == function else name.rpartition("_")[0])
    if sign is not None and len(arguments) > 1:
        return f"({f' {sign} '.join(map(text, arguments))})"
    return f"{name}({', '.join(map(text, arguments))})"


def _failing(cast: algebra.Expression.Cast) -> str:
    behaviors = algebra.Expression.Cast.FailureBehavior
    return "" if cast.failure_behavior == behaviors.Value("FAILURE_BEHAVIOR_THROW_EXCEPTION") else " or null"


def _literal(literal: algebra.Expression.Literal) -> str:
    kind = str(literal.WhichOneof("literal_type"))
    if kind in _SHOWN and not literal.type_variation_reference:
        value = getattr(literal, kind)
        return "'" + value.replace("'", "''") + "'" if kind == "string" else str(value).lower()
    if kind == "decimal":
        return str(Decimal(int.from_bytes(literal.decimal.value, "little", signed=True)).scaleb(-literal.decimal.scale, _DIGITS))
    return "null" if kind == "null" and literal.null.HasField("i64") else f"<{_line(literal)}>"


def _is_null(expression: algebra.Expression) -> bool:
    return bool(expression.literal.WhichOneof("literal_type") == "null")


def _named(name: str) -> str:
    return name if _NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _type(kind: Any) -> str:
    """The name of a type; of one with parameters the text of its message, without whether it has nulls."""
    if (name := kind.WhichOneof("kind")) == "decimal":
        return f"decimal({kind.decimal.precision}, {kind.decimal.scale})"
    message = type(kind)()
    message.CopyFrom(kind)
    for each in messages(message):
        if "nullability" in each.DESCRIPTOR.fields_by_name:
            each.ClearField("nullability")
    line = _line(message)
    return name if line == f"{name} {{ }}" else f"<{line}>"


def _line(message: Message) -> str:
    return str(text_format.MessageToString(message, as_one_line=True)).strip()
