"""Expressions over the columns of values, as functions of columns."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from beam_joins.functions.column_expressions import EXPRESSIONS, EngineExpression, Expression
from beam_joins.functions.function_versions import versioned
from beam_joins.functions.marked_functions import built_in, vectorized
from beam_joins.functions.value_texts import text_of


def evaluated(option: str, expressions: Mapping[str, Expression], rows: pa.Table) -> dict[str, pa.Array]:
    """The columns that expressions give of rows. Raises ``ValueError``, which names the ``option``, for an expression that does not
    fit the columns or their values.
    """
    made = dict[str, pa.Array]()
    engines = {type(each) for each in expressions.values() if isinstance(each, EngineExpression)}
    for engine in sorted(engines, key=str):
        try:
            made |= engine.evaluated({name: each for name, each in expressions.items() if isinstance(each, engine)}, rows)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from None
    of_arrow = {name: each for name, each in expressions.items() if isinstance(each, pc.Expression)}
    return made | (_of_arrow(option, of_arrow, rows) if of_arrow else {})


def _of_arrow(option: str, expressions: Mapping[str, pc.Expression], rows: pa.Table) -> dict[str, pa.Array]:
    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
        acero.Declaration("project", acero.ProjectNodeOptions(list(expressions.values()), list(expressions))),
    ]
    try:
        computed = acero.Declaration.from_sequence(steps).to_table(use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ValueError(f"{option}: {_sentence(str(error), rows.schema)}") from None
    return {name: computed[name].combine_chunks() for name in expressions}


def _sentence(error: str, schema: pa.Schema) -> str:
    """The first line of an error of Arrow's; an unknown column as other options name it."""
    first = error.partition("\n")[0]
    if not first.startswith("No match for FieldRef"):
        return first
    absent = ".".join(re.findall(r"FieldRef\.Name\((.*?)\)", first))
    parts = [f"{field.name}.{each.name}" for field in schema if pa.types.is_struct(field.type) for each in field.type]
    return f"there is no column {absent!r}; there are {', '.join(parts if '.' in absent else schema.names)}"


class of_expression(vectorized[Callable[[pa.RecordBatch], pa.Array]]):  # it is a function, as its base is
    """An expression as a function of columns; ``option`` names it in messages. Two of one expression are equal.

    >>> of_expression("where", pc.field("n") > 2)(pa.record_batch({"n": [1, 5, None]})).to_pylist()
    [False, True, None]
    """

    def __init__(self, option: str, expression: Expression) -> None:
        def of_rows(rows: pa.RecordBatch) -> pa.Array:
            return evaluated(f"{option}={expression}", {option: expression}, pa.table(rows))[option]

        super().__init__(built_in("expression")(versioned(str(text_of(expression)))(of_rows)))
        self.expression = expression

    def __repr__(self) -> str:
        return str(self.expression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, of_expression) and text_of(self.expression) == text_of(other.expression)

    def __hash__(self) -> int:
        return hash(str(self.expression))


def in_columns(option: str, spec: Any) -> Any:
    """An expression as a function of columns; anything else as it is."""
    return of_expression(option, spec) if isinstance(spec, EXPRESSIONS) else spec


def of_columns(option: str, columns: Mapping[str, str | Expression]) -> vectorized[Callable[[pa.RecordBatch], Any]]:
    """The function of rows that gives columns, by their names or as expressions of them.

    >>> made = of_columns("fn", {"n": "n", "twice": pc.field("n") * 2})(pa.record_batch({"n": [1, 5]}))
    >>> {name: column.to_pylist() for name, column in made.items()}
    {'n': [1, 5], 'twice': [2, 10]}
    """

    def of_rows(rows: pa.RecordBatch) -> dict[str, pa.Array]:
        computed = evaluated(option, {name: each for name, each in columns.items() if not isinstance(each, str)}, pa.table(rows))
        return {name: rows[each] if isinstance(each, str) else computed[name] for name, each in columns.items()}

    texts = ", ".join(f"{name!a}: {text_of(each)}" for name, each in columns.items())
    return vectorized(built_in("columns of rows")(versioned(texts)(of_rows)))


def without_rows(schema: pa.Schema) -> pa.Table:
    """A table with these columns and no row: Arrow itself makes none of extension types within structs.

    >>> without_rows(pa.schema({"row": pa.struct([("text", pa.json_())])})).num_rows
    0
    """
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


def columns_read(expression: Expression, schema: pa.Schema, *, side: str = "", other: pa.Schema | None = None) -> list[str]:
    """The columns of a schema that an expression reads, in their order: of rows, or of a ``side`` of pairs with ``other`` rows.

    >>> columns_read((pc.field("a") + 1).is_null(), pa.schema({"a": pa.int8(), "b": pa.int8()}))
    ['a']
    """
    if isinstance(expression, EngineExpression):
        read = {path[1] if side else path[0] for path in expression.reads if side in ("", path[0])}
        return [name for name in schema.names if name in read]

    def fails_without(name: str) -> bool:
        fields = [field for field in schema if field.name != name] or [pa.field("", pa.bool_())]
        rows = without_rows(pa.schema(fields))
        if other is not None:
            sides = {side: pa.nulls(0, pa.struct(fields)), _OTHER[side]: pa.nulls(0, pa.struct(list(other)))}
            rows = pa.table(sides)
        try:
            evaluated("", {"": expression}, rows)
        except ValueError:
            return True
        return False

    return list(filter(fails_without, schema.names))


_OTHER = {"left": "right", "right": "left"}
