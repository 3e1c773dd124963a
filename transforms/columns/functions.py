"""The functions that a user gives, on tables in columns: a column's name, a function of columns, or one of a record."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from beam_joins.copied import copied
from beam_joins.transforms.columns.order import gather, valid

F = TypeVar("F", bound=Callable[..., Any])


class vectorized(Generic[F]):  # it is used as a decorator
    """Marks a function of columns: it is called once for many rows, with Arrow record batches, and gives Arrow arrays.

    As a joiner it gets the left and the right values, one row for each pair, columns null where a side is absent, and gives a record batch, a
    dict of arrays, or one array whose values are the result (null: no row). As a ``key``, ``foreign_key`` or the like it gets the values
    and gives one array.

    >>> import pyarrow.compute as pc
    >>> @vectorized
    ... def total(order, customer):
    ...     return {"total": pc.multiply(order["amount"], customer["discount"])}
    """

    def __init__(self, function: F) -> None:
        if not callable(function):
            raise ValueError(f"vectorized({function!r}): give a function of Arrow record batches")
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)


def batch_of(values: pa.Array) -> pa.RecordBatch:
    """The fields of values as the columns of a record batch; a single column ``value`` if they have no fields."""
    if pa.types.is_struct(values.type):
        return pa.RecordBatch.from_arrays(values.flatten(), names=[field.name for field in values.type])
    return pa.RecordBatch.from_arrays([values], names=["value"])


def values_of(columns: Any, length: int) -> pa.Array:
    """What a vectorized function gave, as one array; raises ``ValueError`` for anything else, or for another number of rows."""
    if isinstance(columns, Mapping):
        columns = {name: pa.array(column) if isinstance(column, np.ndarray | list) else column for name, column in columns.items()}
        with suppress(TypeError):  # what is no column is refused below
            columns = pa.table(columns)
    if isinstance(columns, pa.Table | pa.RecordBatch):
        columns = columns.to_struct_array()
    if isinstance(columns, pa.ChunkedArray):
        columns = columns.combine_chunks()
    if isinstance(columns, np.ndarray):
        columns = pa.array(columns)
    if not isinstance(columns, pa.Array) or len(columns) != length:
        given = f"{len(columns)} rows" if isinstance(columns, pa.Array) else f"a {type(columns).__name__}"
        raise ValueError(
            f"a vectorized function was called with {length} rows and gave {given}: give a record batch, a dict of arrays or an array"
            " with one row for each"
        )
    return columns


def field_of(values: pa.Array, name: str, option: str) -> pa.Array:
    """A field of values; raises ``ValueError`` naming the option and the fields that there are."""
    names = [field.name for field in values.type] if pa.types.is_struct(values.type) else []
    if name not in names:
        raise ValueError(f"{option}={name!r}: there is no such column; there are {', '.join(names) or 'none'}")
    return values.flatten()[names.index(name)]


def by_row(option: str, spec: str | Callable[..., Any], values: pa.Array, keys: Callable[[], list[Any]] | None = None) -> pa.Array:
    """One array that a column's name, a vectorized function or a function of one row gives; with ``keys`` that is of key and value.

    Null values give null.
    """
    if isinstance(spec, str):
        return field_of(values, spec, option)
    if isinstance(spec, vectorized):
        columns = values_of(spec(batch_of(values)), len(values))
        return gather(columns, np.where(valid(values), np.arange(len(values)), -1)) if values.null_count else columns
    rows = values.to_pylist()
    if keys is None:
        given = [None if row is None else copied(spec(row)) for row in rows]
    else:
        given = [None if row is None else copied(spec(key, row)) for key, row in zip(keys(), rows, strict=True)]
    return array_of(given, option)


def python_keys(keys: pa.Array) -> list[Any]:
    """Keys as Python has them: those of several columns are tuples."""
    python: list[Any] = keys.to_pylist()
    return [None if key is None else tuple(key.values()) for key in python] if pa.types.is_struct(keys.type) else python


def array_of(given: Sequence[Any], option: str) -> pa.Array:
    """What a function of one row gave, as an array; raises ``ValueError`` if that has no Arrow type."""
    try:
        return pa.array(given)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"what {option} gives for the rows of a table in columns has no common Arrow type ({error}): give values of one type, or turn"
            " the table into records with TableToRecords() before"
        ) from None
