"""Turns a user's joiner into a function of columns: one of records, a vectorized one, or column expressions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import gather
from beam_joins.function_failed import NO_KEY, called_with_no_rows
from beam_joins.functions.column_expressions import EXPRESSIONS, Expression
from beam_joins.functions.expressions import evaluated
from beam_joins.functions.marked_functions import batch_of, values_of, vectorized, with_key
from beam_joins.functions.pairs import Pairs, each_joined, refusing
from beam_joins.functions.typed_rows import Schema, column_writer, type_of_schema
from beam_joins.functions.user_functions import Functions, require_takes
from beam_joins.keys.opaque import python_keys
from beam_joins.options.join_types import How
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace

Join = Callable[[Pairs], pa.Array]
"""Gives one value for every pair: null where there is no row."""

Joiner = Callable[..., Any] | Mapping[str, Any]
"""The joiner as a user gives it: a function of the left and the right value, a function of the key too, a
vectorized function, or columns by name.
"""

SIDES = ("left", "right")
"""The names of the two tables of a join."""


class TypedJoin:
    """A :data:`Join` with its result type, ``None`` where that is not known before it joins."""

    def __init__(self, join: Join, kind: pa.DataType | None) -> None:
        self._join = join
        self.type = kind

    def __call__(self, pairs: Pairs) -> pa.Array:
        """The value of every pair."""
        values = self._join(pairs)
        if self.type is None or values.type == self.type:
            return values
        place = ValuePlace(f"joiner gave values of type {values.type}, and of type {self.type} for no rows: it")
        return exact_cast(values, self.type, place)


def values_joined(hows: Sequence[How], names: Sequence[str] = SIDES) -> list[str]:
    """Of tables with these names those whose values the joiner is called with: not those of semi and anti
    joins; ``hows`` says how each but the first is joined.

    >>> values_joined(["left"]), values_joined(["semi"])
    (['left', 'right'], ['left'])
    """
    return [name for name, how in zip(names, ("inner", *hows), strict=True) if how not in ("semi", "anti")]


def swapped(join: TypedJoin) -> TypedJoin:
    """The join that is called with the right values as the left ones."""

    def swap(pairs: Pairs) -> pa.Array:
        left, left_index, right, right_index, *rest = pairs
        return join(Pairs(right, right_index, left, left_index, *rest))

    return TypedJoin(swap, join.type)


def of_records(transform: str, joiner: Any) -> Callable[..., Any]:
    """The joiner of a transform that joins records only; raises ``ValueError`` for a joiner of columns, and
    for anything but a function.
    """
    if isinstance(joiner, Mapping | vectorized):
        raise ValueError(f"{transform} joins records, and its joiner is of columns: give a function of two values")
    if not callable(joiner):
        raise ValueError(f"joiner={joiner!r}: give a function of the left and the right value, or with_key(function)")
    function: Callable[..., Any] = joiner
    return function


def columns_read(joiner: Any, joined: Sequence[str] = SIDES, names: Sequence[str] = SIDES) -> list[frozenset[str] | None]:
    """The columns of each table that a joiner reads; it is called with the values of the tables in
    ``joined``. ``None`` for all, and if unknown.

    >>> columns_read({"name": "right.name"}), columns_read(len, ["left"]), columns_read({"n": "left.n", "of": "right"})
    ([frozenset(), frozenset({'name'})], [None, frozenset()], [frozenset({'n'}), None])
    """
    if not isinstance(joiner, Mapping) or not all(isinstance(column, str) for column in joiner.values()):
        return [None if name in joined else frozenset() for name in names]
    read = [frozenset(c.partition(".")[2] for c in joiner.values() if c.startswith(f"{name}.")) for name in names]
    return [None if name in joiner.values() else columns for name, columns in zip(names, read, strict=True)]


def narrowed(values: pa.Array, columns: frozenset[str] | None) -> pa.Array:
    """The values reduced to the columns that a joiner reads, so that no others are shuffled; at least one
    column stays.

    Values without one of the columns stay whole, for the error to name the existing ones.
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


def joiner_in_columns(
    joiner: Any,
    functions: Functions | None = None,
    schema: Schema | None = None,
    *,
    types: Sequence[pa.DataType | None] | None = None,
    names: Sequence[str] = SIDES,
    option: str = "joiner",
) -> TypedJoin:
    """Turns a user's joiner into a join of columns; raises ``ValueError`` if it is no joiner, or does not fit
    the ``types`` of the values where they are known.

    The results of a joiner of records have the columns of ``schema``, or are of that type; without one they
    are opaque. It is called with the values of the tables of these ``names``; without a joiner the values of
    a single table are the result. ``option`` names it in messages.

    >>> joiner_in_columns({"n": "left.n"}, types=(pa.struct([("n", pa.int8())]), pa.int64())).type
    StructType(struct<n: int8>)
    """
    kind = type_of_schema(schema)
    if schema is not None and (isinstance(joiner, Mapping | vectorized) or not callable(joiner)):
        raise ValueError("schema= says what a joiner of one record gives, and this joiner gives columns by itself: leave schema= out")
    functions = functions or Functions("a join")
    types = [None] * len(names) if types is None else list(types)[: len(names)]
    if joiner is None and len(names) == 1:
        return TypedJoin(lambda pairs: gather(pairs.left, pairs.left_index), types[0])
    if isinstance(joiner, Mapping):
        return _by_column(_expressions(joiner, types, names, option), types, of_any_rows=True)
    if isinstance(joiner, vectorized):
        function = functions.function("joiner", joiner)
        return _by_column(partial(_called_with_batches, function), types)
    if callable(joiner):
        few = f"the {' and the '.join(names)} value"
        require_takes("joiner", joiner, len(names), few if len(names) <= len(SIDES) else f"the values of {', '.join(names)}")
        return TypedJoin(_by_record(joiner, functions, schema, len(names)), kind)
    values = f"the {' and the '.join(names)} value" if len(names) <= len(SIDES) else f"{len(names)} values, of {', '.join(names)}"
    raise ValueError(
        f"joiner={joiner!r}: give a function of {values}, with_key(function), a vectorized one, or a dict of columns such as"
        f' {{"amount": "{names[0]}.amount"}}'
    )


def _by_record(joiner: Callable[..., Any], functions: Functions, schema: Schema | None, sides: int) -> Join:
    write = column_writer("joiner", schema)

    def join(pairs: Pairs) -> pa.Array:
        keys = python_keys(pairs.key) if isinstance(joiner, with_key) else None

        def key_of(n: int) -> Any:
            if keys is not None:
                return keys[n]
            return python_keys(pairs.key.slice(n, 1))[0] if pairs.key is not None else NO_KEY

        refused = refusing(functions, pairs, key_of, sides=sides) if functions.handles_any else None
        return write(each_joined(joiner, functions, pairs, key_of, sides=sides), refused)

    return join


def _by_column(joiner: Callable[..., Any], types: Sequence[pa.DataType | None], *, of_any_rows: bool = False) -> TypedJoin:
    """The join of a function of the values of each side; ``of_any_rows`` says that it may be called for tombstones too, which
    saves a copy of its results.
    """
    join = partial(_joined_by_column, joiner, len(types), of_any_rows)
    if any(kind is None for kind in types):
        return TypedJoin(join, None)
    with called_with_no_rows():
        kind = values_of(joiner(*(pa.nulls(0, kind) for kind in types)), 0).type
    return TypedJoin(join, kind)


def _joined_by_column(joiner: Callable[..., Any], sides: int, of_any_rows: bool, pairs: Pairs) -> pa.Array:
    columns = pairs.columns(sides)
    asked = np.logical_or.reduce([index >= 0 for _, index in columns])
    called = np.ones_like(asked) if of_any_rows else asked
    gathered = [gather(values, index[called]) for values, index in columns]
    values = values_of(joiner(*gathered), len(gathered[0]))
    if asked.all():
        return values
    if of_any_rows:
        return pa.StructArray.from_arrays(values.flatten(), fields=list(values.type), mask=pa.array(~asked))
    return gather(values, np.where(asked, np.cumsum(asked) - 1, -1))


def _called_with_batches(function: Callable[..., Any], *values: pa.Array) -> Any:
    return function(*map(batch_of, values))


def _expressions(columns: Mapping[Any, Any], types: Sequence[pa.DataType | None], sides: Sequence[str], option: str) -> "_Expressions":
    """The columns that are given as expressions of the values of each side; raises ``ValueError`` for anything else, or for
    a column that does not exist.
    """
    if not columns:
        raise ValueError(f"{option}={{}}: give at least one column")
    made = _Expressions(list(columns), list(sides), option, {}, {}, {})
    empty = [None if kind is None else batch_of(pa.nulls(0, kind)) for kind in types]
    for name, column in columns.items():
        side, dot, field = column.partition(".") if isinstance(column, str) else ("", "", "")
        if isinstance(column, EXPRESSIONS):
            made.derived[name] = column
        elif column in sides:
            made.whole[name] = sides.index(column)
        elif side in sides and dot and field:
            made.plain[name] = sides.index(side), field
            if (rows := empty[sides.index(side)]) is not None:
                _column(rows, side, field, option)
        else:
            choices = ", ".join(f'"{side}.<column>"' for side in sides)
            an_expression = f'an Arrow expression of pyarrow.compute.field("{sides[0]}", "<column>")'
            raise ValueError(
                f'{option}={{{name!r}: {column!r}}}: give {choices} or {an_expression}; "{sides[-1]}" alone is the whole value'
            )
    return made


@dataclass(frozen=True)
class _Expressions:
    """The function that evaluates columns on the values of each side: ``plain`` columns of them, ``whole`` values, and those that
    are ``derived``.
    """

    names: list[str]
    sides: list[str]
    option: str
    plain: dict[str, tuple[int, str]]
    whole: dict[str, int]
    derived: dict[str, Expression]

    def __call__(self, *values: pa.Array) -> dict[str, Any]:
        """The columns by their names."""
        batches = [*map(batch_of, values)]
        arrays = {name: _column(batches[side], self.sides[side], field, self.option) for name, (side, field) in self.plain.items()}
        arrays |= {name: values[side] for name, side in self.whole.items()}
        if self.derived:
            rows = pa.table([batch.to_struct_array() for batch in batches], names=self.sides)
            arrays |= evaluated(self.option, self.derived, rows)
        return {name: arrays[name] for name in self.names}


def _column(batch: pa.RecordBatch, side: str, field: str, option: str) -> pa.Array:
    if (index := batch.schema.get_field_index(field)) >= 0:
        return batch.column(index)
    of = f"{side} table" if option == "joiner" else side
    raise ValueError(f"{option}: the {of} has no column {field!r}; it has {', '.join(batch.schema.names)}")
