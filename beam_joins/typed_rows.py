"""What a function of one record gives, as a column of a type that the user declares."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from beam_joins.copied import copied
from beam_joins.keys.opaque import VALUES, opaque_values
from beam_joins.sorting import combine_chunks

_PART_ROWS = 1 << 12

Schema: TypeAlias = pa.Schema | pa.DataType
"""What a function of one record gives: its columns, or the type of what has no columns."""


def type_of_schema(schema: Schema | None) -> pa.DataType:
    """The type that ``schema=`` declares, that of opaque values without one; raises ``ValueError`` for anything else.

    >>> type_of_schema(pa.schema([("n", pa.int64())]))
    StructType(struct<n: int64>)
    """
    if schema is None:
        return VALUES
    if isinstance(schema, pa.DataType):
        return schema
    if isinstance(schema, pa.Schema) and len(schema):
        return pa.struct(schema)
    raise ValueError(f"schema={schema!r}: give a pyarrow.Schema, the columns of what the function gives, or its pyarrow.DataType")


def column_writer(option: str, schema: Schema | None) -> Callable[[Iterable[Any]], pa.Array]:
    """What makes a column of the results of the function that was given as ``option``; opaque without a schema.

    A result may be overwritten when the next one is taken. The column is made with ``ValueError`` for a result that is not of the type.

    >>> column_writer("joiner", pa.int64())([1, None]).to_pylist()
    [1, None]
    """
    kind = type_of_schema(schema)
    if schema is None:
        return opaque_values
    return partial(_rows if pa.types.is_struct(kind) else _typed, option, kind)


def _typed(option: str, kind: pa.DataType, results: Iterable[Any]) -> pa.Array:
    return _array(option, [copied(result) for result in results], kind, "")


def _array(option: str, given: list[Any], kind: pa.DataType, what: str) -> pa.Array:
    try:
        return pa.array(given, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"{option} gave a value that is not of the type{what} in schema=: {error}") from None


def _rows(option: str, kind: pa.StructType, results: Iterable[Any]) -> pa.Array:
    names = [field.name for field in kind]
    # with one name itemgetter would give no tuple
    read, width = itemgetter(*names, names[0]), len(names) + 1
    # cells that a function may write into later: lists and the like, a bytearray
    mutable = not all(pa.types.is_primitive(field.type) or pa.types.is_string(field.type) for field in kind)
    rows = iter(results)

    def part() -> pa.StructArray:
        cells: list[Any] = []
        absent: list[int] = []
        for row in islice(rows, _PART_ROWS):
            if row is None:
                absent.append(len(cells) // width)
                cells.extend([None] * width)
                continue
            try:
                given = read(row if type(row) is dict and len(row) == width - 1 else _with_all(option, row, names))
            except (KeyError, TypeError):
                given = read(_with_all(option, row, names))
            # taken at once, for the function may give the same dict again
            cells.extend(map(copied, given) if mutable else given)
        arrays = [_array(option, cells[i::width], field.type, f" of {field.name}") for i, field in enumerate(kind)]
        for field, array in zip(kind, arrays, strict=True):
            if not field.nullable and array.null_count > len(absent):
                raise ValueError(f"{option} gave null for {field.name}, which schema= declares nullable=False")
        mask = np.zeros(len(cells) // width, np.bool_)
        mask[absent] = True
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(mask))

    parts: list[pa.StructArray] = []
    while not parts or len(parts[-1]):
        parts.append(part())
    return combine_chunks(pa.chunked_array(parts))


def _with_all(option: str, row: Any, names: list[str]) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not row.keys() <= set(names):
        raise ValueError(f"{option} gave {row!r}, and schema= has the columns {', '.join(names)}: give a dict with these only")
    return {name: row.get(name) for name in names}
