"""The one rule for batches whose columns differ.

Columns are matched by name, absent ones are null, and types are only widened where every value stays what it
is.
"""

from collections import Counter
from collections.abc import Iterable
from functools import reduce
from typing import Any

import pyarrow as pa

from beam_joins.values.arrow_types import is_bytes, is_list, is_text, plain_type
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace


def common_schema(schemas: Iterable[pa.Schema], *, of: str = "", widen: bool = True, remedy: str = "cast it to one") -> pa.Schema:
    """The columns of all schemas, in the order in which they first appear; ``of`` is the name before theirs
    in messages.

    A column without a type in some schemas has that of the others, and a column that some do not have may be
    null; so it is within structs, lists and maps. With ``widen`` numbers and times of two types have a type
    that holds both, into which :func:`conformed` casts them exactly. Without it two types are refused, for
    files that are kept: the types that their readers rely on would depend on the batches that a run happens
    to have.

    Raises ``ValueError`` that names a column of two types, with its ``remedy``, and a name that a schema has
    twice.

    >>> common_schema([pa.schema({"b": pa.int8()}), pa.schema({"b": pa.int64(), "a": pa.string()})])
    b: int64
    a: string
    >>> common_schema([pa.schema({"b": pa.string()}), pa.schema({"b": pa.binary()})], of="orders")
    Traceback (most recent call last):
    ValueError: the column 'orders.b' is of type binary in some batches and string in others: cast it to one
    """
    different = list(dict.fromkeys(map(pa.Schema.remove_metadata, schemas)))
    rule = _Rule(widen, remedy)
    within = f"{of}." if of else ""
    if len(different) == 1:
        return different[0]
    return pa.schema(reduce(lambda one, other: rule.fields(within, one, other), map(list, different)))


def conformed(rows: pa.Table, schema: pa.Schema, source: str) -> pa.Table:
    """The rows with the columns of a schema, by name; a column that they lack is null.

    Raises ``ValueError`` that names the ``source`` and the column for a value that its type does not hold
    exactly, and for a null where it allows none.
    """
    if rows.schema.equals(schema):
        return rows
    columns = []
    for field in schema:
        place = ValuePlace(source, field.name)
        if field.name in rows.column_names:
            column = pa.chunked_array([_as(field.type, chunk, place) for chunk in rows[field.name].chunks], field.type)
        else:
            column = pa.chunked_array([pa.nulls(len(rows), field.type)])
        place.require(column, field)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _as(kind: pa.DataType, array: pa.Array, place: ValuePlace) -> pa.Array:
    return array if array.type == kind else exact_cast(array, plain_type(kind), place).cast(kind)


class _Rule:
    """A rule by which two types become one."""

    def __init__(self, widen: bool, remedy: str) -> None:
        self._widen = widen
        self._remedy = remedy

    def fields(self, path: str, one: Iterable[pa.Field], other: Iterable[pa.Field]) -> list[pa.Field]:
        """The fields of both; ``path`` is the text before their names."""
        fields, others = (_by_name(path, each) for each in (one, other))
        for name, field in others.items():
            mine = fields.get(name)
            kind = field.type if mine is None else self._type(f"{path}{name}", mine.type, field.type)
            fields[name] = pa.field(name, kind, nullable=mine is None or mine.nullable or field.nullable)
        return [field if name in others else field.with_nullable(True) for name, field in fields.items()]

    def _type(self, path: str, one: Any, other: Any) -> pa.DataType:
        if one == other or pa.types.is_null(other):
            return one
        if pa.types.is_null(one):
            return other
        if pa.types.is_struct(one) and pa.types.is_struct(other):
            return pa.struct(self.fields(f"{path}.", one, other))
        if is_list(one) and is_list(other):
            return self._list(f"{path}[]", one, other)
        if pa.types.is_map(one) and pa.types.is_map(other):
            pairs = (
                self._type(f"{path}[].{part}", getattr(one, f"{part}_type"), getattr(other, f"{part}_type"))
                for part in ("key", "item")
            )
            return pa.map_(*pairs)
        if self._widen and _are_alike(one, other):
            schemas = [pa.schema({"": kind}) for kind in (one, other)]
            try:
                return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                pass
        first, second = sorted(map(str, (one, other)))
        raise ValueError(f"the column '{path}' is of type {first} in some batches and {second} in others: {self._remedy}")

    def _list(self, path: str, one: Any, other: Any) -> pa.DataType:
        kinds = (one, other)
        items = pa.field("item", self._type(path, one.value_type, other.value_type), any(kind.value_field.nullable for kind in kinds))
        if all(map(pa.types.is_fixed_size_list, kinds)) and one.list_size == other.list_size:
            return pa.list_(items, one.list_size)
        large = any(pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind) for kind in kinds)
        return pa.large_list(items) if large else pa.list_(items)


def _by_name(path: str, fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    fields = list(fields)
    if twice := [name for name, count in Counter(field.name for field in fields).items() if count > 1]:
        raise ValueError(f"there are two columns '{path}{twice[0]}' in some batches: give each a name of its own")
    return {field.name: field for field in fields}


def _are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of two types may be equal; Arrow also widens others, after which values that differ are
    the same.
    """
    kinds = (one, other)
    if any(map(pa.types.is_decimal, kinds)) and any(map(pa.types.is_floating, kinds)):
        return False
    return not (any(map(is_text, kinds)) and any(map(is_bytes, kinds)))
