"""What a joiner makes of pairs of rows, in columns: given record by record, as a function of columns, or as column expressions."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from beam_joins.copied import copied
from beam_joins.function_failed import NO_KEY, FunctionFailed
from beam_joins.functions import batch_of, values_of, vectorized
from beam_joins.keys.opaque import opaque_values, python_keys, python_values
from beam_joins.pairs import Pairs, each_joined
from beam_joins.sorting import gather
from beam_joins.user_functions import Functions

Join = Callable[[Pairs], pa.Array]
"""Gives one value for every pair: null where there is no row."""


Schema: TypeAlias = pa.Schema | pa.DataType
"""What a joiner of one record gives: its columns, or the type of what has no columns."""

Joiner = Callable[[Any, Any], Any] | Mapping[str, Any]
"""What a user gives: a function of the left and the right value, a vectorized one, or columns by name."""

IN_COLUMNS = ("ForeignKeyJoin", "TableTableJoin", "WindowedStreamJoin")
"""The joins that take a joiner of columns."""


def of_records(transform: str, joiner: Joiner, schema: Schema | None = None) -> Callable[[Any, Any], Any]:
    """The joiner as a function of records; raises ``ValueError`` for a joiner of columns, and for a schema."""
    if schema is not None:
        raise ValueError(f"{transform} joins records here, and schema= is for tables in columns: leave it out")
    if isinstance(joiner, Mapping | vectorized):
        if transform not in IN_COLUMNS:
            raise ValueError(f"{transform} joins records, and its joiner is of columns: give a function of two values")
        raise ValueError(
            f"{transform} joins records here, and its joiner is of columns: give it tables made by TableFromChangelog of Arrow batches"
            ' (foreign_key=, and how="inner" or "left"), or a function of the left and the right value'
        )
    return joiner


def columns_read(joiner: Joiner) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """The left and the right columns that a joiner reads; ``None`` where that is not known.

    >>> columns_read({"name": "right.name"})
    (frozenset(), frozenset({'name'}))
    """
    if not isinstance(joiner, Mapping) or not all(isinstance(column, str) for column in joiner.values()):
        return None, None
    left, right = (frozenset(c.partition(".")[2] for c in joiner.values() if c.startswith(f"{side}.")) for side in _SIDES)
    return left, right


def narrowed(values: pa.Array, columns: frozenset[str] | None) -> pa.Array:
    """The values with those of their columns only, as what no joiner reads need not travel; at least one column stays.

    A batch without one of the columns stays whole: others may have it, and if none has, the error names all columns.
    """
    if columns is None or not pa.types.is_struct(values.type) or not values.type.num_fields:
        return values
    names = [field.name for field in values.type]
    if not columns.issubset(names):
        return values
    kept = [i for i, name in enumerate(names) if name in columns] or [0]
    if len(kept) == len(names):
        return values
    parts = values.flatten()
    return pa.StructArray.from_arrays([parts[i] for i in kept], fields=[values.type.field(i) for i in kept], mask=values.is_null())


def joiner_in_columns(joiner: Any, functions: Functions | None = None, schema: Schema | None = None) -> Join:
    """How a user's joiner joins in columns; raises ``ValueError`` if it is none.

    What a joiner of records gives has the columns of ``schema``, or is of that type; without one it is opaque.
    """
    if schema is not None and not (isinstance(schema, pa.DataType) or (isinstance(schema, pa.Schema) and len(schema))):
        raise ValueError(f"schema={schema!r}: give a pyarrow.Schema, the columns of what the joiner gives, or its pyarrow.DataType")
    if schema is not None and (isinstance(joiner, Mapping | vectorized) or not callable(joiner)):
        raise ValueError("schema= says what a joiner of one record gives, and this joiner gives columns by itself: leave schema= out")
    functions = functions or Functions("a join")
    if isinstance(joiner, Mapping):
        return _expressions(joiner)
    if isinstance(joiner, vectorized):
        return _by_column(functions.function("joiner", joiner))
    if callable(joiner):
        return _by_record(joiner, functions, schema)
    raise ValueError(
        f"joiner={joiner!r}: give a function of the left and the right value, a vectorized one, or a dict of columns such as"
        ' {"amount": "left.amount"}'
    )


def _by_record(joiner: Callable[[Any, Any], Any], functions: Functions, schema: Schema | None) -> Join:
    kind = pa.struct(schema) if isinstance(schema, pa.Schema) else schema
    write = opaque_values if kind is None else partial(_rows if pa.types.is_struct(kind) else _typed, kind)

    def join(pairs: Pairs) -> pa.Array:
        def key_of(n: int) -> Any:
            return python_keys(pairs.key.slice(n, 1))[0] if pairs.key is not None else NO_KEY

        results = each_joined(joiner, functions, pairs, python_values(pairs.left), python_values(pairs.right), key_of)
        return write(results)

    return join


def _typed(kind: pa.DataType, results: Iterable[Any]) -> pa.Array:
    return _array([copied(result) for result in results], kind, "")


def _array(given: list[Any], kind: pa.DataType, what: str) -> pa.Array:
    try:
        return pa.array(given, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"joiner gave a value that is not of the type{what} in schema=: {error}") from None


def _rows(kind: pa.StructType, results: Iterable[Any]) -> pa.Array:
    names = [field.name for field in kind]
    # with one name itemgetter would give no tuple
    read, width = itemgetter(*names, names[0]), len(names) + 1
    # cells that a joiner may write into later: lists and the like, a bytearray
    mutable = not all(pa.types.is_primitive(field.type) or pa.types.is_string(field.type) for field in kind)
    nothing = (None,) * width
    cells: list[Any] = []
    absent: list[bool] = []
    for row in results:
        absent.append(row is None)
        try:
            given = nothing if row is None else read(row if type(row) is dict and len(row) == width - 1 else _with_all(row, names))
        except (KeyError, TypeError):
            given = read(_with_all(row, names))
        # taken at once, for the joiner may give the same dict again
        cells.extend(map(copied, given) if mutable else given)
    arrays = [_array(cells[i::width], field.type, f" of {field.name}") for i, field in enumerate(kind)]
    for field, array in zip(kind, arrays, strict=True):
        if not field.nullable and array.null_count > sum(absent):
            raise ValueError(f"joiner gave null for {field.name}, which schema= declares nullable=False")
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(absent, pa.bool_()))


def _with_all(row: Any, names: list[str]) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not row.keys() <= set(names):
        raise ValueError(f"joiner gave {row!r}, and schema= has the columns {', '.join(names)}: give a dict with these only")
    return {name: row.get(name) for name in names}


def _by_column(joiner: Callable[[Any, Any], Any]) -> Join:
    def join(pairs: Pairs) -> pa.Array:
        asked = (pairs.left_index >= 0) | (pairs.right_index >= 0)
        unknown = [side for side, values in zip(_SIDES, (pairs.left, pairs.right), strict=True) if pa.types.is_null(values.type)]
        if unknown and not asked.any():
            return pa.nulls(len(asked))
        left = gather(pairs.left, pairs.left_index[asked])
        right = gather(pairs.right, pairs.right_index[asked])
        try:
            values = values_of(joiner(batch_of(left), batch_of(right)), len(left))
        except (KeyError, pa.ArrowInvalid, FunctionFailed) as failed:
            error = failed.__cause__ if isinstance(failed, FunctionFailed) else failed
            if not unknown or not isinstance(error, KeyError | pa.ArrowInvalid):
                raise
            raise ValueError(
                f"the joiner asks for a column of the {unknown[0]} table, which has no batch at all to say what columns it has ({error}):"
                " give it a batch without rows"
            ) from None
        if asked.all():
            return values
        return gather(values, np.where(asked, np.cumsum(asked) - 1, -1))

    return join


def _expressions(columns: Mapping[Any, Any]) -> Join:
    if not columns:
        raise ValueError("joiner={}: give at least one column")
    plain: dict[str, tuple[int, str]] = {}
    derived: dict[str, pc.Expression] = {}
    for name, column in columns.items():
        side, dot, field = column.partition(".") if isinstance(column, str) else ("", "", "")
        if isinstance(column, pc.Expression):
            derived[name] = column
        elif side in _SIDES and dot and field:
            plain[name] = _SIDES.index(side), field
        else:
            raise ValueError(
                f'joiner={{{name!r}: {column!r}}}: give "left.<column>", "right.<column>" or an Arrow expression of'
                ' pyarrow.compute.field("left", "<column>")'
            )

    def evaluate(*sides: pa.RecordBatch) -> dict[str, Any]:
        given = {name: _column(sides[side], side, field) for name, (side, field) in plain.items()}
        if derived:
            named = [_with_columns(batch, _named(derived.values(), side)) for batch, side in zip(sides, _SIDES, strict=True)]
            rows = pa.table([batch.to_struct_array() for batch in named], names=_SIDES)
            project = acero.ProjectNodeOptions(list(derived.values()), list(derived))
            steps = [
                acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
                acero.Declaration("project", project),
            ]
            computed = acero.Declaration.from_sequence(steps).to_table(use_threads=False)
            given |= {name: computed[name].combine_chunks() for name in derived}
        return {name: given[name] for name in columns}

    return _by_column(evaluate)


_SIDES = ["left", "right"]


def _column(batch: pa.RecordBatch, side: int, field: str) -> pa.Array:
    if field in batch.schema.names:
        return batch.column(field)
    if _is_unknown(batch):
        return pa.nulls(len(batch))
    raise ValueError(f"joiner: the {_SIDES[side]} table has no column {field!r}; it has {', '.join(batch.schema.names)}")


def _is_unknown(batch: pa.RecordBatch) -> bool:
    """Whether nothing is known of a side's columns: it has no batch."""
    return bool(batch.schema.types == [pa.null()])


def _with_columns(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    if not _is_unknown(batch) or not names:
        return batch
    return pa.RecordBatch.from_arrays([pa.nulls(len(batch))] * len(names), names=names)


def _named(expressions: Iterable[pc.Expression], side: str) -> list[str]:
    """The columns of a side that expressions read, parsed from their repr."""
    nested = re.compile(rf"FieldRef\.Nested\(FieldRef\.Name\({side}\) FieldRef\.Name\(([^()]*)\)")
    return sorted({name for expression in expressions for name in nested.findall(str(expression))})
