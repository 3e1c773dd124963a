"""Converts Python values to Arrow columns of a declared type without changing any value.

``pa.array`` cuts fractions, microseconds and times of day off, takes text for a list, drops unknown fields of
structs and reads naive times as UTC. Here a value comes back equal from the column, or is refused with the
path of its column, such as ``who.age``.
"""

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from beam_joins.function_failed import shortened
from beam_joins.values.arrow_types import is_list, lists_of
from beam_joins.values.exact_scalars import NotHeld, scalar_column


class ValuePlace(NamedTuple):
    """Where values come from, for messages: the option that gave them, and the path of their column."""

    source: str
    path: str = ""

    def within(self, name: str) -> "ValuePlace":
        """The place of a field, or of the items of a list with ``"[]"``."""
        return ValuePlace(self.source, f"{self.path}{'.' if self.path and name != '[]' else ''}{name}")

    def refuse(self, value: Any, kind: pa.DataType, why: str = "which does not hold it exactly") -> NoReturn:
        """Raise the ``ValueError`` of a value that a column of the type does not hold."""
        column = f"the column '{self.path}'" if self.path else "a column"
        raise ValueError(f"{self.source} gave {shortened(value)} ({type(value).__name__}) for {column} of type {kind}, {why}")

    def refuse_field(self, name: Any, value: Any, kind: pa.DataType) -> NoReturn:
        """Raise the ``ValueError`` of a field that a struct does not have."""
        names = ", ".join(field.name for field in kind) or "none"
        raise ValueError(f"{self.source} gave the field '{self.within(str(name)).path}' = {shortened(value)}, and there are {names}")

    def require(self, column: pa.Array, field: pa.Field, absent: int = 0) -> None:
        """Raise the ``ValueError`` of a null in a field that has none, other than those of ``absent`` rows."""
        if not field.nullable and column.null_count > absent:
            raise ValueError(f"{self.source} gave null for {self.path}, which schema= declares nullable=False")


def exact_column(values: Sequence[Any], kind: pa.DataType, place: ValuePlace) -> pa.Array:
    """A column of the values, ``None`` as null, of a :func:`plain type <beam_joins.values.arrow_types.plain_type>`;
    raises ``ValueError`` for a value that it does not hold exactly.

    A whole number may be a float or a ``Decimal`` of that value, a list a tuple or a NumPy array, a map a
    dict, a struct a mapping, a ``NamedTuple`` or a dataclass; a field that is left out is null.

    >>> exact_column([{"n": 1.0}, None], pa.struct([("n", pa.int64())]), ValuePlace("fn")).to_pylist()
    [{'n': 1}, None]
    >>> exact_column([{"n": 1.5}], pa.struct([("n", pa.int64())]), ValuePlace("fn"))
    Traceback (most recent call last):
    ValueError: fn gave 1.5 (float) for the column 'n' of type int64, which does not hold it exactly
    """
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, exact_column(_stored(values, kind, place), kind.storage_type, place))
    if pa.types.is_struct(kind):
        return _structs(values, kind, place)
    if pa.types.is_map(kind):
        return _maps(values, kind, place)
    if is_list(kind):
        return _lists(values, kind, place)
    try:
        return scalar_column(values, kind)
    except NotHeld as error:
        place.refuse(error.value, kind)


def _stored(values: Sequence[Any], kind: pa.BaseExtensionType, place: ValuePlace) -> Sequence[Any]:
    if not isinstance(kind, pa.UuidType):
        return values
    for value in values:
        if value is not None and not isinstance(value, uuid.UUID):
            place.refuse(value, kind)
    return [None if value is None else value.bytes for value in values]


def _structs(values: Sequence[Any], kind: pa.StructType, place: ValuePlace) -> pa.Array:
    missing = pa.array([value is None for value in values], pa.bool_())
    rows = [value for value in values if value is not None] if missing.true_count else values
    columns = []
    for field, cells in zip(kind, _cells(rows, kind, place), strict=True):
        inner = place.within(field.name)
        column = exact_column(cells, field.type, inner)
        inner.require(column, field)
        columns.append(column)
    structs = pa.StructArray.from_arrays(columns, fields=list(kind)) if columns else pa.array([{}] * len(rows), kind)
    if len(rows) == len(values):
        return structs
    at = missing.to_numpy(zero_copy_only=False)
    return structs.take(pa.array(np.cumsum(~at) - 1, mask=at))


def _cells(rows: Sequence[Any], kind: pa.StructType, place: ValuePlace) -> list[list[Any]]:
    """The cells of the rows, one list for each field of the struct."""
    names = [field.name for field in kind]
    if {dict}.issuperset(map(type, rows)) and {len(names)}.issuperset(map(len, rows)):
        with suppress(KeyError):
            return [list(map(itemgetter(name), rows)) for name in names]
    fields = []
    for row in rows:
        members = fields_of(row)
        if members is None:
            place.refuse(row, kind, "which is made of a dict")
        for name in members:
            if name not in names:
                place.refuse_field(name, members[name], kind)
        fields.append(members)
    return [[row.get(name) for row in fields] for name in names]


def fields_of(row: Any) -> Mapping[Any, Any] | None:
    """The fields of a mapping, a dataclass, a ``NamedTuple`` or a ``beam.Row``; ``None`` for anything else.

    >>> fields_of({"id": 7}), fields_of("id")
    ({'id': 7}, None)
    """
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    return row._asdict() if hasattr(row, "_asdict") else None


def _lists(values: Sequence[Any], kind: Any, place: ValuePlace) -> pa.Array:
    lists: Sequence[Any] = values
    if not {list, tuple}.issuperset(map(type, values)):
        lists = [() if value is None else _items(value, kind, place) for value in values]
    missing = np.array([value is None for value in values], np.bool_)
    if pa.types.is_fixed_size_list(kind):
        for each, value in zip(lists, values, strict=True):
            if value is not None and len(each) != kind.list_size:
                place.refuse(value, kind, f"which has {kind.list_size} items")
    inner = place.within("[]")
    items = exact_column(list(chain.from_iterable(lists)), kind.value_type, inner)
    inner.require(items, kind.value_field)
    return lists_of(items, np.array(list(map(len, lists)), np.int64), missing, kind)


def _items(value: Any, kind: pa.DataType, place: ValuePlace) -> Sequence[Any]:
    if isinstance(value, np.ndarray) and value.ndim:
        return list(value)
    if not isinstance(value, list | tuple):
        place.refuse(value, kind, "which is made of a list")
    return value


def _maps(values: Sequence[Any], kind: pa.MapType, place: ValuePlace) -> pa.Array:
    maps = [() if value is None else _pairs(value, kind, place) for value in values]
    parts = pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")])
    items = exact_column([{"key": key, "value": value} for pairs in maps for key, value in pairs], parts, place.within("[]"))
    return lists_of(items, np.array(list(map(len, maps)), np.int64), np.array([value is None for value in values], np.bool_), kind)


def _pairs(value: Any, kind: pa.DataType, place: ValuePlace) -> Sequence[Any]:
    pairs = list(value.items()) if isinstance(value, Mapping) else _items(value, kind, place)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        place.refuse(value, kind, "which is made of a dict or of pairs")
    return pairs
