"""Converts between values and the JSON of Kafka Connect: reads rows by the schema part of an event, and writes columns."""

import base64
from collections.abc import Callable, Mapping
from decimal import Context
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa

from beam_joins.function_failed import shortened
from beam_joins.pipelines.formats.types.column_kind import DECIMAL, NAMED, Kind, Types, decimal_kind, text_of, whole_digits
from beam_joins.pipelines.formats.types.exact_json import loads, object_text
from beam_joins.pipelines.formats.types.json_text import iso_texts, texts_of

_EXACT: Final = Context(prec=100)
_NULL: Final = b"null"
_PLAIN: Final = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


class Field(msgspec.Struct):
    """A field of a Kafka Connect schema."""

    type: str
    field: str = ""
    name: str | None = None
    parameters: dict[str, str] | None = None
    fields: "list[Field] | None" = None
    items: "Field | None" = None


class ConnectRows(Types):
    """The columns of rows, and :meth:`text`, which writes a row as it is meant."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        super().__init__(kinds)
        self._stored_otherwise = {name: kind.text for name, kind in kinds.items() if kind.text is not None}
        self._decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def text(self, row: bytes) -> bytes:
        """The row with the values of those columns that are stored as something else, such as a date as a
        number of days, as they are meant.
        """
        if not self._stored_otherwise or row == _NULL:
            return row
        members = self._decoder.decode(row)
        return object_text(members, (_meant(value, self._stored_otherwise.get(name)) for name, value in members.items()))


def rows_of(schema: bytes) -> tuple[ConnectRows | None, ConnectRows | None]:
    """Of the schema part of an event the rows within it, and the event itself as a row; none where the part
    does not say.
    """
    root = msgspec.json.decode(schema, type=Field | None)
    if root is None or not root.fields:
        return None, None
    within = {field.field: field for field in root.fields}
    row = within.get("after") or within.get("before")
    fields = row.fields if row is not None else None
    return (_rows(fields) if fields else None), _rows(root.fields)


def connect_texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value, null for null."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else _unscaled(value, kind.scale) for value in column.to_pylist()], pa.binary())
    return texts_of(iso_texts(column) if pa.types.is_timestamp(kind) and kind.tz is not None else column)


def _rows(fields: list[Field]) -> ConnectRows:
    return ConnectRows({field.field: _kind(field) for field in fields})


def _kind(field: Field) -> Kind:
    if field.name == DECIMAL:
        parameters = field.parameters or {}
        precision = parameters.get("connect.decimal.precision")
        return decimal_kind(whole_digits(parameters.get("scale", 0)), whole_digits(precision) if precision else None)
    if field.name in NAMED:
        return NAMED[field.name]
    if field.type == "array" and field.items is not None:
        item = _kind(field.items)
        return Kind(pa.list_(item.type), item.text and partial(_list_text, item.text))
    if field.type == "struct" and field.fields:
        kinds = {each.field: _kind(each) for each in field.fields}
        texts = {name: kind.text for name, kind in kinds.items() if kind.text is not None}
        return Kind(pa.struct([(name, kind.type) for name, kind in kinds.items()]), partial(_struct_text, texts) if texts else None)
    return Kind(_PLAIN.get(field.type, pa.string()))


def _list_text(text: Callable[[Any], bytes], values: list[Any]) -> bytes:
    return b"[" + b",".join(_NULL if value is None else text(value) for value in values) + b"]"


def _struct_text(texts: Mapping[str, Callable[[Any], bytes]], value: dict[str, Any]) -> bytes:
    parts = (_NULL if each is None else texts.get(name, text_of)(each) for name, each in value.items())
    return object_text(value, map(msgspec.Raw, parts))


def _meant(value: msgspec.Raw, text: Callable[[Any], bytes] | None) -> msgspec.Raw:
    if text is None or bytes(value) == _NULL:
        return value
    try:
        return msgspec.Raw(text(loads(bytes(value))))
    except (TypeError, AttributeError, ArithmeticError, LookupError):
        raise ValueError(f"the value {shortened(loads(bytes(value)))} is not what its schema says") from None


def _unscaled(number: Any, scale: int) -> bytes:
    whole = int(number.scaleb(scale, _EXACT))
    return b'"' + base64.b64encode(whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)) + b'"'
