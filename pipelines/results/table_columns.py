"""Converts the changes of a table to columns of an SQL table: key, value, position, and whether the row is
deleted.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.errors import OutputError
from beam_joins.functions.typed_rows import column_writer
from beam_joins.keys.nested import is_combined, is_windowed
from beam_joins.keys.opaque import is_opaque, python_keys, python_values
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.connect.tables import TableType
from beam_joins.values.arrow_types import is_text, plain_field
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace, exact_column

_OF_TEXTS: Final = pa.decimal128(38, 18)
"""The numbers that the texts of a key are compared as: all of 64 bits, and fractions of them."""


class TableColumns:
    """The columns ``key`` and ``values`` of a table, by name and type.

    Not those of :class:`~beam_joins.transforms.engine.construction.plain_rows.PlainRows`, in which a column of the value
    gives way to one of the key: here rows of Python objects are taken with a schema, parts within parts of a
    key have columns of their own, and a value that differs from its key is refused, as a table of SQL has one
    column for both.
    """

    def __init__(self, of_table: TableType, key: Sequence[str], schema: pa.Schema | None) -> None:
        """Raises ``ValueError`` for keys of another number of columns than ``key`` names, and where types are
        not known without a schema.
        """
        keys, values = _leaves(of_table.key_column), of_table.value_column
        opaque = [what for what, kinds in (("keys", keys), ("values", [values])) if any(map(is_opaque, kinds))]
        if schema is None and opaque:
            raise ValueError(
                f"the {' and '.join(opaque)} of this table are Python objects (opaque): give schema=, the columns to write"
            )
        named = key if schema is None else schema.names
        if missing := [name for name in key if name not in named]:
            raise ValueError(f"key={', '.join(key)}: schema= has no column {', '.join(missing)}; it has {', '.join(named)}")
        if not is_opaque(of_table.key_column) and len(keys) != len(key):
            raise ValueError(f"key={', '.join(key)}: give {len(keys)} names, as the keys of this table have {len(keys)} columns")
        fields = list(values) if pa.types.is_struct(values) else [pa.field("value", values)]
        if schema is None:
            schema = pa.schema([pa.field(name, kind) for name, kind in zip(key, keys, strict=True)])
            schema = pa.schema([*schema, *(field for field in fields if field.name not in key)])
        schema = pa.schema(list(map(plain_field, schema)))
        self.key = pa.schema([schema.field(name) for name in key])
        self.values = pa.schema([field for field in schema if field.name not in key])
        if is_opaque(values):
            fits = True
        elif pa.types.is_struct(values):
            fits = {field.name for field in fields} - {*key} == {*self.values.names}
        else:  # a value without columns may have any name
            fits = len(self.values) == 1
        if not fits:
            names = ", ".join(field.name for field in fields)
            raise ValueError(
                f"schema= has the columns {', '.join(schema.names)}: give those of the key and of the values, which are {names}"
            )
        self._read = column_writer("a row of the table", pa.schema([field.with_nullable(True) for field in schema]))

    def of(self, batch: ChangeBatch) -> list[pa.Array]:
        """The columns of a batch; raises OutputError for values that are not of their types."""
        try:
            keys = [_cast(column, field) for column, field in zip(self._keys(batch.key), self.key, strict=True)]
            columns = self._columns(batch.new)
            values = [_cast(columns[field.name], field) for field in self.values]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError) as error:
            raise OutputError(f"a row does not fit the columns to write: {str(error).splitlines()[0]}") from None
        for field, column in zip(self.key, keys, strict=True):
            if field.name in columns and _differ(columns[field.name], column, field):
                raise OutputError(f"the value of a row has another {field.name} than its key: give the column of the key another name")
        return [*keys, *values, batch.position, batch.new.is_null()]

    def _keys(self, keys: pa.Array) -> list[pa.Array]:
        if not any(map(is_opaque, _leaves(keys.type))):
            return _flattened(keys)
        rows = [_parts(key) for key in python_keys(keys)]
        if wrong := [row for row in rows if len(row) != len(self.key)]:
            raise ValueError(f"the key {tuple(wrong[0])!r} has not the columns {', '.join(self.key.names)}")
        return [
            exact_column([row[i] for row in rows], field.type, ValuePlace("a key", field.name)) for i, field in enumerate(self.key)
        ]

    def _columns(self, new: pa.Array) -> dict[str, pa.Array]:
        if is_opaque(new.type):
            rows = python_values(new)
            if len(self.values) == 1 and not any(isinstance(row, dict) for row in rows):
                (field,) = self.values
                return {field.name: exact_column(rows, field.type, ValuePlace("a row", field.name))}
            new = self._read(rows)
        if pa.types.is_struct(new.type):
            return dict(zip((field.name for field in new.type), new.flatten(), strict=True))
        return {self.values.names[0]: new}


def _differ(values: pa.Array, keys: pa.Array, field: pa.Field) -> bool:
    """Whether a value of a column differs from the key; the number 1 may be the text 1.0."""
    try:
        if is_text(values.type) and pa.types.is_integer(field.type):
            values, keys = values.cast(_OF_TEXTS), keys.cast(_OF_TEXTS)
        else:
            values = _cast(values, field)
    except (pa.ArrowInvalid, ValueError) as error:
        raise OutputError(f"a row does not fit the columns to write: {str(error).splitlines()[0]}") from None
    return bool(pc.any(pc.not_equal(values, keys)).as_py())


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    return exact_cast(column, field.type, ValuePlace("a row", field.name))


def _leaves(kind: pa.DataType) -> list[pa.DataType]:
    if is_windowed(kind) or is_combined(kind):
        kind = kind.storage_type
    return [leaf for field in kind for leaf in _leaves(field.type)] if pa.types.is_struct(kind) else [kind]


def _flattened(keys: pa.Array) -> list[pa.Array]:
    storage = keys.storage if is_windowed(keys.type) or is_combined(keys.type) else keys
    return [leaf for each in storage.flatten() for leaf in _flattened(each)] if pa.types.is_struct(storage.type) else [storage]


def _parts(key: Any) -> list[Any]:
    return [leaf for part in key for leaf in _parts(part)] if isinstance(key, tuple) else [key]
