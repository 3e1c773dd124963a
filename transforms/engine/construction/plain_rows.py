"""Flattens the rows of a table into plain columns: those of the key, then those of the value."""

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.nested import is_combined, is_windowed, stored_key_type, stored_keys
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.values.arrow_types import is_json, texts_of_json

_OF_WINDOWS: Final = ("key", "window_start", "window_end")
Stored = Callable[[str, pa.DataType], pa.DataType]


def _as_it_is(name: str, kind: pa.DataType) -> pa.DataType:
    return kind


class PlainRows:
    """The columns of a table's rows; ``schema`` are these, ``keys`` the names of the columns of the key.

    The key's columns are named as ``key`` says, by default as the columns that it was made of, ``key`` where
    there was one. A column of the value that has the name of one of the key gives way to it. A value that is
    no struct is the column ``value``. ``stored`` gives the type of a column of this name and type, by default that
    type. Rows ``without_key`` have the columns of the value alone, as those of a total have, whose key is null where it is a
    column.

    >>> rows = PlainRows("Write", TableType(pa.int64(), pa.struct([("id", pa.int64()), ("n", pa.string())])), "id")
    >>> rows.schema.names
    ['id', 'n']
    >>> rows.structs(pa.array([7]), pa.array([{"id": 7, "n": "a"}])).to_pylist()
    [{'id': 7, 'n': 'a'}]
    """

    def __init__(
        self,
        transform: str,
        of_table: TableType,
        key: str | Sequence[str] | None = None,
        *,
        stored: Stored = _as_it_is,
        without_key: bool = False,
    ) -> None:
        """Raises ``ValueError`` for a table of Python objects, for another number of names than the key has columns,
        and for a name that is there twice.
        """
        if not of_table.is_typed:
            raise ValueError(
                f"{transform} writes typed columns, and the keys or the values of this table are Python objects "
                "(opaque): say schema= where they are made, and take"
                " key= of columns by name"
            )
        self.nullable_key = is_combined(of_table.key_column)
        parts = [] if without_key or of_table.is_total else _parts(of_table.key_column)
        key_names = (key,) if isinstance(key, str) else tuple(key or (name for name, _ in parts))
        if len(key_names) != len(parts):
            raise ValueError(
                f"{transform}: key={key!r} names {len(key_names)} columns, and the key has {len(parts)}: "
                f"{', '.join(name for name, _ in parts)}"
            )
        self.keys = key_names
        self.key_type = pa.null() if of_table.is_total else stored("key", stored_key_type(of_table.key_column))
        value = of_table.value_column
        self._is_struct = pa.types.is_struct(value)
        fields = list(value) if self._is_struct else [pa.field("value", value)]
        self._values = [field.name for field in fields if field.name not in key_names]
        names = [*key_names, *self._values]
        if len(set(names)) < len(names):
            raise ValueError(f"{transform}: the columns {', '.join(names)} have not all a name of their own")
        types = {field.name: field.type for field in fields} | {name: kind for name, (_, kind) in zip(key_names, parts, strict=True)}
        self.schema = pa.schema([(name, stored(name, types[name])) for name in names])

    def columns(self, keys: pa.Array, values: pa.Array) -> list[pa.Array]:
        """The columns of rows; one whose value is null has its key all the same."""
        storage = stored_keys(keys)
        of_key = storage.flatten() if pa.types.is_struct(storage.type) else [storage]
        of_key = of_key if self.keys else []
        of_value = [pc.struct_field(values, name) if self._is_struct else values for name in self._values]
        return [_cast(column, field.type) for column, field in zip([*of_key, *of_value], self.schema, strict=True)]

    def structs(self, keys: pa.Array, values: pa.Array) -> pa.StructArray:
        """Rows as structs of these columns, null where the value is null."""
        if not self.keys and self._is_struct:
            return _cast(values, pa.struct(list(self.schema)))
        return pa.StructArray.from_arrays(self.columns(keys, values), fields=list(self.schema), mask=values.is_null())


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column in another type, JSON as text also within structs."""
    if is_json(column.type) and not is_json(kind):
        return texts_of_json(column).cast(kind)
    if pa.types.is_struct(kind) and kind != column.type:
        parts = [_cast(part, field.type) for part, field in zip(column.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null()) if parts else column
    return column.cast(kind)


def _parts(key: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """The columns that a key consists of."""
    storage = stored_key_type(key)
    if not pa.types.is_struct(storage):
        return [("key", storage)]
    names = _OF_WINDOWS if is_windowed(key) else [field.name for field in storage]
    return [(name, field.type) for name, field in zip(names, storage, strict=True)]
