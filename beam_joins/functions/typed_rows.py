"""Converts the results of a user's function to a column of the declared schema."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks
from beam_joins.keys.opaque import VALUES, opaque_values
from beam_joins.values.arrow_types import plain_type
from beam_joins.values.copying import copied
from beam_joins.values.exact_values import ValuePlace, exact_column

_PART_ROWS = 1 << 12

Schema: TypeAlias = pa.Schema | pa.DataType
"""The schema of a function's results, one for each record: columns, or the type of results without columns.
"""

Refused: TypeAlias = Callable[[int, ValueError], None]
"""Is told the index of a result that is not of the declared type, and why; it raises, or the result is null.
"""


class Writer(Protocol):
    """Converts results to a column; raises ``ValueError`` for a result that is not of the declared type, unless
    such results are handled.
    """

    def __call__(self, results: Iterable[Any], refused: Refused | None = None) -> pa.Array:
        """The column."""
        ...


_Part: TypeAlias = Callable[[Iterator[Any], Refused | None], pa.Array]


def type_of_schema(schema: Schema | None) -> pa.DataType:
    """The plain type that ``schema=`` declares, that of opaque values without one; raises ``ValueError`` for
    anything else.

    >>> type_of_schema(pa.schema([("n", pa.int64())]))
    StructType(struct<n: int64>)
    """
    if schema is None:
        return VALUES
    if isinstance(schema, pa.DataType):
        return plain_type(schema)
    if isinstance(schema, pa.Schema) and len(schema):
        return plain_type(pa.struct(schema))
    raise ValueError(f"schema={schema!r}: give a pyarrow.Schema, the columns of what the function gives, or its pyarrow.DataType")


def column_writer(option: str, schema: Schema | None) -> Writer:
    """A writer for the results of the function in ``option``: of the schema's columns, or opaque without a
    schema.

    A result may be overwritten when the next one is taken.

    >>> column_writer("joiner", pa.int64())([1, None]).to_pylist()
    [1, None]
    """
    kind = type_of_schema(schema)
    if schema is None:
        return _opaque
    part_of = _part_of_rows(kind, option) if pa.types.is_struct(kind) and kind.num_fields else _part_of_values(kind, option)

    def write(results: Iterable[Any], refused: Refused | None = None) -> pa.Array:
        rows, count = iter(results), 0
        parts: list[pa.Array] = []
        while not parts or len(parts[-1]):
            parts.append(part_of(rows, refused and partial(_refused_behind, refused, count)))
            count += len(parts[-1])
        return combine_chunks(pa.chunked_array(parts))

    return write


def _opaque(results: Iterable[Any], refused: Refused | None = None) -> pa.Array:
    return opaque_values(results)


def _refused_behind(refused: Refused, count: int, n: int, error: ValueError) -> None:
    refused(count + n, error)


def _part_of_values(kind: pa.DataType, option: str) -> _Part:
    place = ValuePlace(option)

    def part(rows: Iterator[Any], refused: Refused | None) -> pa.Array:
        values = list(map(copied, islice(rows, _PART_ROWS)))
        try:
            return exact_column(values, kind, place)
        except ValueError:
            if refused is None:
                raise
        for n, value in enumerate(values):
            try:
                exact_column([value], kind, place)
            except ValueError as error:
                refused(n, error)
                values[n] = None
        return exact_column(values, kind, place)

    return part


def _part_of_rows(kind: pa.StructType, option: str) -> _Part:
    names, place = [field.name for field in kind], ValuePlace(option)
    # with one name itemgetter would give no tuple
    read, width = itemgetter(*names, names[0]), len(names) + 1
    # cells that a function may write into later: lists and the like, a bytearray
    mutable = not all(pa.types.is_primitive(field.type) or pa.types.is_string(field.type) for field in kind)

    def cells_of(row: Any) -> Iterable[Any]:
        try:
            cells = read(row if type(row) is dict and len(row) == width - 1 else _with_all(row, kind, place))
        except (KeyError, TypeError):
            cells = read(_with_all(row, kind, place))
        # taken at once, for the function may give the same dict again
        return map(copied, cells) if mutable else cells

    def columns(cells: list[Any], absent: int) -> list[pa.Array]:
        arrays = []
        for i, field in enumerate(kind):
            inner = place.within(field.name)
            arrays.append(exact_column(cells[i::width], field.type, inner))
            inner.require(arrays[-1], field, absent)
        return arrays

    def part(rows: Iterator[Any], refused: Refused | None) -> pa.StructArray:
        cells: list[Any] = []
        absent: list[int] = []
        for n, row in enumerate(islice(rows, _PART_ROWS)):
            try:
                of_row = None if row is None else cells_of(row)
            except ValueError as error:
                if refused is None:
                    raise
                refused(n, error)
                of_row = None
            if of_row is None:
                absent.append(n)
            cells.extend([None] * width if of_row is None else of_row)
        count = len(cells) // width
        try:
            arrays = columns(cells, len(absent))
        except ValueError:
            if refused is None:
                raise
            for n in sorted({*range(count)}.difference(absent)):
                try:
                    columns(cells[n * width : (n + 1) * width], 0)
                except ValueError as error:
                    refused(n, error)
                    cells[n * width : (n + 1) * width] = [None] * width
                    absent.append(n)
            arrays = columns(cells, len(absent))
        mask = np.zeros(count, np.bool_)
        mask[absent] = True
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(mask))

    return part


def _with_all(row: Any, kind: pa.StructType, place: ValuePlace) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        place.refuse(row, kind, "which is made of a dict")
    names = [field.name for field in kind]
    if unknown := [name for name in row if name not in names]:
        place.refuse_field(unknown[0], row[unknown[0]], kind)
    return {name: row.get(name) for name in names}
