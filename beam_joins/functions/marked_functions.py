"""The functions that users pass to transforms: a column's name, a vectorized function of columns, or a
function of one record.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import gather, valid
from beam_joins.functions.fields import getter
from beam_joins.keys.key_columns import comparable
from beam_joins.keys.opaque import is_opaque, opaque_keys, python_values
from beam_joins.values.copying import copied
from beam_joins.values.exact_casts import as_plain

F = TypeVar("F", bound=Callable[..., Any])


class MarkedFunction(Generic[F]):
    """A function with a mark; calling it calls the function."""

    _takes: str

    def __init__(self, function: F) -> None:
        if not callable(function) or isinstance(function, MarkedFunction):
            raise ValueError(f"{type(self).__name__}({function!r}): give a function {self._takes}")
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)


class vectorized(MarkedFunction[F]):  # it is used as a decorator
    """Marks a function of columns: it is called once for many rows with Arrow record batches, and returns
    Arrow arrays.

    As a joiner it gets the left and the right values, one row for each pair, columns null where a side is
    absent, and gives a record batch, a dict of arrays, or one array whose values are the result (null: no
    row). As a ``key``, ``foreign_key`` or the like it gets the values and gives one array.

    >>> import pyarrow.compute as pc
    >>> @vectorized
    ... def total(order, customer):
    ...     return {"total": pc.multiply(order["amount"], customer["discount"])}
    """

    _takes = "of Arrow record batches"


class with_key(MarkedFunction[F]):
    """Marks a joiner that takes the key too: it is called with the key, the left value and the right value.

    The key is that of the result. A semi or anti join calls it with the key and the left value.

    >>> named = with_key(lambda key, order, customer: f"{key}: {order} by {customer}")
    >>> named(7, "tea", "Ann")
    '7: tea by Ann'
    """

    _takes = "of the key, the left value and the right value"


_NAME = "__beam_joins_name__"


def built_in(name: str) -> Callable[[F], F]:
    """Names a function of this library that is an option of a transform: states have the name in place of the function's, of its
    arguments and of its source. A function that gives other results gets another name; with
    :func:`~beam_joins.versioned` inside states compare that version, too.

    >>> displayed_name(vectorized(built_in("rows without references")(lambda rows: rows)))
    'rows without references'
    """

    def say(function: F) -> F:
        setattr(function, _NAME, name)
        return function

    return say


def displayed_name(value: Any) -> str | None:
    """The name of a function that is :func:`built_in`, ``None`` for any other value."""
    function = value.function if isinstance(value, MarkedFunction) else value
    name = getattr(function, "__dict__", {}).get(_NAME)
    return name if isinstance(name, str) else None


def batch_of(values: pa.Array) -> pa.RecordBatch:
    """The fields of values as the columns of a record batch; a single column ``value`` if they have no
    fields.

    Raises ``ValueError`` for opaque values.
    """
    require_columns(values)
    if pa.types.is_struct(values.type):
        return pa.RecordBatch.from_arrays(values.flatten(), names=[field.name for field in values.type])
    return pa.RecordBatch.from_arrays([values], names=["value"])


def require_columns(
    column: pa.Array,
    what: str = "values",
    remedy: str = "schema=, their columns (a NamedTuple class, a dataclass or a pyarrow.Schema; of ReadChangelog also 'inferred')",
    otherwise: str = "use functions of one record here too",
) -> None:
    """Raises ``ValueError`` if ``what`` is an opaque column; ``remedy`` is the option of the transform before
    that makes it typed.
    """
    if is_opaque(column.type):
        raise ValueError(
            f"the {what} of this table are Python objects (opaque), made of single elements or by a function of one record: give the"
            f" transform that made them {remedy}, or {otherwise}"
        )


def values_of(columns: Any, length: int) -> pa.Array:
    """Converts the result of a vectorized function to one array; raises ``ValueError`` for anything else, or
    for another number of rows.
    """
    if isinstance(columns, Mapping):
        columns = {name: pa.array(column) if isinstance(column, np.ndarray | list) else column for name, column in columns.items()}
        with suppress(TypeError):  # anything but columns is refused below
            columns = pa.table(columns)
    if isinstance(columns, pa.Table | pa.RecordBatch):
        # an older PyArrow makes no struct array of a table without rows
        columns = columns.to_struct_array() if len(columns) else pa.nulls(0, pa.struct(list(columns.schema)))
    if isinstance(columns, pa.ChunkedArray):
        columns = columns.combine_chunks()
    if isinstance(columns, np.ndarray):
        columns = pa.array(columns)
    if not isinstance(columns, pa.Array) or len(columns) != length:
        returned = f"{len(columns)} rows" if isinstance(columns, pa.Array) else f"a {type(columns).__name__}"
        raise ValueError(
            f"a vectorized function was called with {length} rows and gave {returned}: give a record batch, a dict of arrays or an "
            "array"
            " with one row for each"
        )
    return as_plain(columns)


def field_of(values: pa.Array, name: str, option: str) -> pa.Array:
    """A field of values; raises ``ValueError`` naming the option and the existing fields."""
    require_columns(values)
    names = [field.name for field in values.type] if pa.types.is_struct(values.type) else []
    if name not in names:
        raise ValueError(f"{option}={name!r}: there is no such column; there are {', '.join(names) or 'none'}")
    return values.flatten()[names.index(name)]


def by_row(option: str, spec: Any, values: pa.Array) -> pa.Array:
    """One array that a column's name or a vectorized function gives, null for null values; several names make
    structs, null where a part is.
    """
    if isinstance(spec, str):
        return field_of(values, spec, option)
    if isinstance(spec, vectorized):
        columns = values_of(spec(batch_of(values)), len(values))
        return gather(columns, np.where(valid(values), np.arange(len(values)), -1)) if values.null_count else columns
    parts = [field_of(values, name, option) for name in spec]
    missing = ~np.logical_and.reduce([valid(part) for part in parts])
    return pa.StructArray.from_arrays(parts, names=list(spec), mask=pa.array(missing))


def keys_of(option: str, spec: Any, values: pa.Array) -> pa.Array:
    """The keys that a column's name, several names, a vectorized function or a function of one row gives;
    null where a part is.

    Those that a function of one row gives are opaque, as no type is inferred from the rows of a batch, and so
    are those of opaque values.
    """
    if is_opaque(values.type) or (callable(spec) and not isinstance(spec, vectorized)):
        of_record = getter(option, spec)
        return opaque_keys([None if value is None else copied(of_record(value)) for value in python_values(values)])
    return comparable(by_row(option, spec, values), f"the {option.replace('_', ' ')}")


def keys_with_nulls(option: str, names: str | Sequence[str], values: pa.Array) -> pa.Array:
    """The structs of columns by their names as keys, whose parts may be null; null for null values only."""
    columns = [names] if isinstance(names, str) else list(names)
    parts = [field_of(values, name, option) for name in columns]
    made = pa.StructArray.from_arrays(parts, names=columns, mask=values.is_null())
    return comparable(made, f"the {option.replace('_', ' ')}")
