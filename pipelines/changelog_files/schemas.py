"""Batches whose columns differ become rows of one schema: matched by name, whatever their order, so that nothing depends on which came first."""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import pyarrow as pa

from beam_joins.pipelines.command.input_error import InputError


def common_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of all schemas, by name; a column without a type in some has the type of the others. The order of the schemas does not matter.

    Raises InputError that names a column of two types.

    >>> common_schema([pa.schema({"b": pa.int64()}), pa.schema({"b": pa.null(), "a": pa.string()})]).names
    ['b', 'a']
    """
    # the widest first, then by what they are: not by which partition they come from
    ordered = sorted(schemas, key=lambda schema: (-len(schema), str(schema.remove_metadata())))
    return pa.schema(list(reduce(lambda one, other: _common_fields("", one, other), ordered)))


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of a schema, by name; a column that they lack is null.

    Raises InputError for a column that the schema does not have, for a value that its type cannot hold, and for a null where it allows none.
    """
    if rows.schema.equals(schema):
        return rows
    for name in rows.column_names:
        if name not in schema.names:
            raise InputError(f"the batches have a column '{name}' that schema= does not name: add it, or leave it out of the batches")
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            column = pa.chunked_array([_as(field.name, chunk, field.type) for chunk in rows[field.name].chunks], field.type)
        else:
            column = pa.chunked_array([pa.nulls(len(rows), field.type)])
        if column.null_count and not field.nullable:
            raise InputError(f"the column '{field.name}' has nulls, but schema= says that it has none")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _common_fields(path: str, one: Iterable[pa.Field], other: Iterable[pa.Field]) -> list[pa.Field]:
    fields = {field.name: field for field in one}
    others = {field.name: field for field in other}
    for name, field in others.items():
        mine = fields.get(name)
        type_ = field.type if mine is None else _common_type(f"{path}{name}", mine.type, field.type)
        fields[name] = pa.field(name, type_, nullable=mine is None or mine.nullable or field.nullable)
    return [field if name in others else field.with_nullable(True) for name, field in fields.items()]


def _common_type(path: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return pa.struct(_common_fields(f"{path}.", _fields_of(one), _fields_of(other)))
    for is_list, list_of in _LISTS:
        if is_list(one) and is_list(other):
            return list_of(_common_type(f"{path}[]", one.value_type, other.value_type))
    first, second = sorted(map(str, (one, other)))
    raise InputError(f"the column '{path}' is of type {first} in some batches and {second} in others: give schema= to say which it is")


def _as(path: str, array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array with this type; the fields of structs by name."""
    if array.type == type_:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type_)
    if pa.types.is_struct(array.type) and pa.types.is_struct(type_):
        names = [field.name for field in _fields_of(array.type)]
        fields = _fields_of(type_)
        if left := [name for name in names if name not in {field.name for field in fields}]:
            raise InputError(
                f"the batches have a column '{path}.{left[0]}' that schema= does not name: add it, or leave it out of the batches"
            )
        parts = [
            _as(f"{path}.{field.name}", array.field(names.index(field.name)), field.type)
            if field.name in names
            else pa.nulls(len(array), field.type)
            for field in fields
        ]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    for is_list, _ in _LISTS:
        if is_list(array.type) and is_list(type_):
            offsets = pa.array([0, *_ends(array)], pa.int64() if pa.types.is_large_list(type_) else pa.int32())
            values = _as(f"{path}[]", array.flatten(), type_.value_type)
            kind: Any = pa.LargeListArray if pa.types.is_large_list(type_) else pa.ListArray
            return kind.from_arrays(offsets, values, type=type_, mask=array.is_null())
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"the column '{path}' of type {array.type} cannot be written as {type_}: {str(error).splitlines()[0]}"
        ) from error


def _fields_of(struct: pa.StructType) -> list[pa.Field]:
    return [struct.field(i) for i in range(struct.num_fields)]


def _ends(lists: pa.Array) -> list[int]:
    """Where each list ends once those before it lie side by side; a null one is empty."""
    ends, end = [], 0
    for length in lists.value_lengths().fill_null(0).to_pylist():
        end += length
        ends.append(end)
    return ends


_LISTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]], ...] = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
)
