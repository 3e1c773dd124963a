"""Columns as Kafka Connect writes them in JSON: each value as it is stored, and a schema that says what it means."""

import base64
from decimal import Context
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.pipelines.changelog_files.json_text import objects, texts_of
from beam_joins.pipelines.command.input_error import OutputError

_EXACT: Final = Context(prec=100)
_NAMES: Final = {
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "bytes",
}
_MEANT: Final = {
    pa.date32(): ("int32", "io.debezium.time.Date"),
    pa.time32("ms"): ("int32", "io.debezium.time.Time"),
    pa.time64("us"): ("int64", "io.debezium.time.MicroTime"),
    pa.time64("ns"): ("int64", "io.debezium.time.NanoTime"),
    pa.timestamp("ms"): ("int64", "io.debezium.time.Timestamp"),
    pa.timestamp("us"): ("int64", "io.debezium.time.MicroTimestamp"),
    pa.timestamp("ns"): ("int64", "io.debezium.time.NanoTimestamp"),
    pa.timestamp("ms", "UTC"): ("string", "io.debezium.time.ZonedTimestamp"),
    pa.timestamp("us", "UTC"): ("string", "io.debezium.time.ZonedTimestamp"),
}


def connect_type(name: str, kind: Any) -> dict[str, Any]:
    """The schema of a column. Raises ``ValueError`` for a type that has none.

    >>> connect_type("at", pa.timestamp("us"))
    {'type': 'int64', 'optional': True, 'name': 'io.debezium.time.MicroTimestamp', 'version': 1}
    """
    if kind in _NAMES:
        return {"type": _NAMES[kind], "optional": True}
    if kind in _MEANT:
        stored, meant = _MEANT[kind]
        return {"type": stored, "optional": True, "name": meant, "version": 1}
    if pa.types.is_decimal(kind):
        parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
        return {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": parameters,
        }
    if pa.types.is_list(kind):
        return {"type": "array", "optional": True, "items": connect_type(name, kind.value_type)}
    if pa.types.is_struct(kind):
        return {"type": "struct", "optional": True, "fields": connect_fields(kind, f"{name}.")}
    raise ValueError(f"column '{name}' is {kind}, which Debezium has no type for: make it another with MapTable")


def connect_fields(columns: pa.Schema | pa.StructType, within: str = "") -> list[dict[str, Any]]:
    """The schemas of columns, each with its name."""
    return [{**connect_type(f"{within}{field.name}", field.type), "field": field.name} for field in columns]


def connect_rows(rows: pa.StructArray) -> pa.Array:
    """The rows as JSON objects, null where one is null.

    >>> connect_rows(pa.array([{"a": 1, "d": None}, None]))[0].as_py()
    b'{"a":1,"d":null}'
    """
    columns = {field.name: connect_texts(pc.struct_field(rows, field.name)) for field in rows.type}
    texts = objects(columns, len(rows))
    return pc.if_else(rows.is_valid(), texts, pa.scalar(None, pa.binary()))


def connect_texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value, null for null."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else _unscaled(value, kind.scale) for value in column.to_pylist()], pa.binary())
    return texts_of(iso_texts(column) if pa.types.is_timestamp(kind) and kind.tz is not None else column)


def iso_texts(column: pa.Array) -> pa.Array:
    """Times and dates in ISO 8601; other columns as they are. Raises OutputError for a time that has no such text.

    >>> iso_texts(pa.array([1], pa.timestamp("ms", "UTC"))).to_pylist()
    ['1970-01-01T00:00:00.001Z']
    """
    kind = column.type
    if not pa.types.is_timestamp(kind):
        return column.cast(pa.string()) if pa.types.is_date(kind) or pa.types.is_time(kind) else column
    plain = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
    if pc.any(far := pc.starts_with(plain, "<")).as_py():  # Arrow says so of what its texts cannot say
        number = column.cast(pa.int64()).filter(far)[0]
        raise OutputError(f"there is a time beyond the year 32767, {number} {kind.unit} since 1970: is it of another unit?")
    texts = pc.replace_substring(plain, " ", "T", max_replacements=1)
    return texts if kind.tz is None else pc.binary_join_element_wise(texts, "Z", "")


def _unscaled(number: Any, scale: int) -> bytes:
    whole = int(number.scaleb(scale, _EXACT))
    return b'"' + base64.b64encode(whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)) + b'"'
