"""Maps Arrow types to those of each target: a row for each kind of type, a column for each target.

A target's type holds the same values. Other spellings of a kind, such as unsigned numbers, dictionaries and
large offsets, are in the row of the type that holds their values.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa

from beam_joins.values.arrow_types import is_bytes, is_json, is_text, is_uuid

Target = Literal["parquet", "avro", "connect", "delta", "postgres", "bigquery"]
"""``parquet`` are the Arrow types that Parquet and JSON take, ``connect`` Kafka Connect's as Debezium writes
them.

Types of ``avro`` and ``connect`` are schemas; those of ``bigquery`` are names of types, or for lists and structs what its
REST API says of a field.
"""
_SHOWN: Final[dict[Target, str]] = {
    "parquet": "Parquet",
    "avro": "Avro",
    "connect": "Debezium",
    "delta": "Delta",
    "postgres": "PostgreSQL",
    "bigquery": "BigQuery",
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REMEDY: Final = "(--select, or MapTable), or write another format"
_AVRO_ROOT: Final = "Change"
_BIGQUERY_NAME: Final = re.compile(
    r"(?i)(?!_(TABLE|FILE)_|_PARTITION|_ROW_TIMESTAMP|__ROOT__|_COLIDENTIFIER"
    r"|_CHANGE_(TYPE|TIMESTAMP|SEQUENCE_NUMBER)$)[^\W\d]\w{0,299}"
)


class _Row(NamedTuple):
    """The types of one kind: a type, how it is made of a column's name and Arrow type, or ``None`` for none."""

    is_of: Callable[[Any], bool]
    parquet: Any
    avro: Any = None
    connect: Any = None
    delta: Any = None
    postgres: str | Callable[[str, Any], str] | None = None
    bigquery: str | Callable[[str, Any], Any] | None = None


def target_type(target: Target, column: str, kind: Any) -> Any:
    """The type of a column in a target; the column ``""`` is the row itself, a struct of its columns.

    Raises ``ValueError`` for a type that the target does not have, and for a name that it does not take.

    >>> target_type("parquet", "at", pa.timestamp("s", "CET")), target_type("postgres", "at", pa.timestamp("s", "CET"))
    (TimestampType(timestamp[ms, tz=UTC]), 'timestamp with time zone')
    >>> target_type("delta", "", pa.struct({"at": pa.time64("us")}))
    Traceback (most recent call last):
    ValueError: column 'at' is time64[us], which Delta has no type for: leave it out (--select, or MapTable), or write another format
    """
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return target_type(target, column, kind.value_type)
    cell = next(getattr(row, target) for row in _TABLE if row.is_of(kind))
    made = cell(column, kind) if callable(cell) else cell
    if made is None:
        raise ValueError(f"column '{column}' is {kind}, which {_SHOWN[target]} has no type for: leave it out {_REMEDY}")
    return made


def parquet_type(column: str, kind: Any) -> Any:
    """The type of a column in Parquet and JSON: :func:`target_type`."""
    return target_type("parquet", column, kind)


def json_lines_type(column: str, kind: Any) -> Any:
    """The type of a column in JSON lines: that in Parquet, and JSON as it is.

    >>> json_lines_type("doc", pa.json_()), parquet_type("doc", pa.json_())
    (JsonType(extension<arrow.json>), DataType(string))
    """
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, json_lines_type(f"{column}.{field.name}", field.type)) for field in kind])
    return kind if is_json(kind) else parquet_type(column, kind)


def _fields(target: Target, column: str, kind: Any) -> list[tuple[str, Any]]:
    """The names of a struct's fields and their types in a target."""
    return [(field.name, target_type(target, f"{column}.{field.name}" if column else field.name, field.type)) for field in kind]


def _is(*types: pa.DataType) -> Callable[[Any], bool]:
    return lambda kind: kind in types


def _is_zoned(*units: str) -> Callable[[Any], bool]:
    return lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in units


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _itself(column: str, kind: Any) -> Any:
    return kind


def _avro(stored: str, logical: str) -> dict[str, Any]:
    return {"type": stored, "logicalType": logical}


def _avro_decimal(column: str, kind: Any) -> dict[str, Any]:
    return {**_avro("bytes", "decimal"), "precision": kind.precision, "scale": kind.scale}


def _avro_list(column: str, kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": ["null", target_type("avro", column, kind.value_type)]}


def _avro_record(column: str, kind: Any) -> dict[str, Any]:
    """A record type with the columns of a struct, all nullable; its name says where it stands."""
    if wrong := [field.name for field in kind if not _NAME.fullmatch(field.name)]:
        raise ValueError(f"column '{wrong[0]}': Avro takes letters, digits and _ in names: give it another name {_REMEDY}")
    fields = [{"name": name, "type": ["null", made], "default": None} for name, made in _fields("avro", column, kind)]
    return {"type": "record", "name": "_".join([_AVRO_ROOT, *filter(None, column.split("."))]), "fields": fields}


def _bigquery_decimal(column: str, kind: Any) -> str | None:
    if kind.scale < 0:
        return None
    return "NUMERIC" if kind.scale <= 9 and kind.precision - kind.scale <= 29 else "BIGNUMERIC"


def _bigquery_list(column: str, kind: Any) -> dict[str, Any] | None:
    """A repeated field, which no list of lists is."""
    (item,) = _bigquery_fields([(column, target_type("bigquery", column, kind.value_type))])
    return None if item["mode"] == "REPEATED" else {**item, "mode": "REPEATED"}


def _bigquery_record(column: str, kind: Any) -> dict[str, Any] | None:
    """A record with the columns of a struct."""
    if wrong := [field.name for field in kind if not _BIGQUERY_NAME.fullmatch(field.name)]:
        raise ValueError(f"column '{wrong[0]}': BigQuery takes no such name: give it another one, of letters, digits and _ {_REMEDY}")
    return {"type": "RECORD", "fields": _bigquery_fields(_fields("bigquery", column, kind))} if kind.num_fields else None


def _bigquery_fields(columns: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"mode": "NULLABLE", **(kind if isinstance(kind, dict) else {"type": kind}), "name": name} for name, kind in columns]


def _connect(stored: str, meaning: str | None = None) -> dict[str, Any]:
    return {"type": stored, "optional": True} | ({"name": meaning, "version": 1} if meaning else {})


def _connect_decimal(column: str, kind: Any) -> dict[str, Any]:
    parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
    return {**_connect("bytes", "org.apache.kafka.connect.data.Decimal"), "parameters": parameters}


def _connect_list(column: str, kind: Any) -> dict[str, Any]:
    return {**_connect("array"), "items": target_type("connect", column, kind.value_type)}


def _connect_struct(column: str, kind: Any) -> dict[str, Any]:
    return {**_connect("struct"), "fields": [{**made, "field": name} for name, made in _fields("connect", column, kind)]}


def _list_of(target: Target) -> Callable[[str, Any], pa.DataType]:
    return lambda column, kind: pa.list_(target_type(target, column, kind.value_type))


def _struct_of(target: Target) -> Callable[[str, Any], pa.DataType]:
    return lambda column, kind: pa.struct(_fields(target, column, kind))


def _sql_decimal(column: str, kind: Any) -> str:
    return f"numeric({kind.precision}, {kind.scale})"


_I8, _I16, _I32, _I64, _D20 = pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.decimal128(20, 0)
_F32, _F64, _TEXT, _BYTES, _DAY = pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()
_MS, _US, _NS, _UTC_MS, _UTC_US = (
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "UTC"),
)
_UTC_NS, _CLOCK_MS, _CLOCK_US, _CLOCK_NS = pa.timestamp("ns", "UTC"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")
_TIME: Final = "io.debezium.time."
_ZONED: Final = _connect("string", f"{_TIME}ZonedTimestamp")
_NO_ZONE, _ZONE, _LOCAL = "timestamp without time zone", "timestamp with time zone", "local-timestamp"
_STAMP: Final = f"{_TIME}Timestamp"

_TABLE: Final = (
    # Arrow; Parquet and JSON, Avro, Connect, Delta, PostgreSQL, BigQuery
    _Row(_is(pa.bool_()), pa.bool_(), "boolean", _connect("boolean"), pa.bool_(), "boolean", "BOOLEAN"),
    _Row(_is(_I8), _I8, {"type": "int", "connect.type": "int8"}, _connect("int8"), _I8, "smallint", "INTEGER"),
    _Row(_is(_I16, pa.uint8()), _I16, {"type": "int", "connect.type": "int16"}, _connect("int16"), _I16, "smallint", "INTEGER"),
    _Row(_is(_I32, pa.uint16()), _I32, "int", _connect("int32"), _I32, "integer", "INTEGER"),
    _Row(_is(_I64, pa.uint32()), _I64, "long", _connect("int64"), _I64, "bigint", "INTEGER"),
    _Row(_is(pa.uint64()), _D20, _avro_decimal("", _D20), _connect_decimal("", _D20), _D20, "numeric(20)", "NUMERIC"),
    _Row(_is(_F32, pa.float16()), _F32, "float", _connect("float"), _F32, "real", "FLOAT"),
    _Row(_is(_F64), _F64, "double", _connect("double"), _F64, "double precision", "FLOAT"),
    _Row(pa.types.is_decimal128, _itself, _avro_decimal, _connect_decimal, _itself, _sql_decimal, _bigquery_decimal),
    _Row(pa.types.is_decimal, _itself, _avro_decimal, _connect_decimal, None, _sql_decimal),
    _Row(is_text, _TEXT, "string", _connect("string"), _TEXT, "text", "STRING"),
    _Row(is_json, _TEXT, "string", _connect("string", "io.debezium.data.Json"), _TEXT, "text", "STRING"),
    _Row(is_bytes, _BYTES, "bytes", _connect("bytes"), _BYTES, "bytea", "BYTES"),
    _Row(is_uuid, _itself, _avro("string", "uuid"), _connect("string", "io.debezium.data.Uuid"), postgres="uuid", bigquery="STRING"),
    _Row(pa.types.is_date, _DAY, _avro("int", "date"), _connect("int32", f"{_TIME}Date"), _DAY, "date", "DATE"),
    _Row(pa.types.is_time32, _CLOCK_MS, _avro("int", "time-millis"), _connect("int32", f"{_TIME}Time"), None, "time", "TIME"),
    _Row(_is(_CLOCK_US), _CLOCK_US, _avro("long", "time-micros"), _connect("int64", f"{_TIME}MicroTime"), None, "time", "TIME"),
    _Row(_is(_CLOCK_NS), _CLOCK_NS, None, _connect("int64", f"{_TIME}NanoTime"), None, "time"),
    _Row(_is(_MS, pa.timestamp("s")), _MS, _avro("long", f"{_LOCAL}-millis"), _connect("int64", _STAMP), _US, _NO_ZONE, "DATETIME"),
    _Row(_is(_US), _US, _avro("long", f"{_LOCAL}-micros"), _connect("int64", f"{_TIME}MicroTimestamp"), _US, _NO_ZONE, "DATETIME"),
    _Row(_is(_NS), _NS, _avro("long", f"{_LOCAL}-nanos"), _connect("int64", f"{_TIME}NanoTimestamp"), None, _NO_ZONE),
    _Row(_is_zoned("s", "ms"), _UTC_MS, _avro("long", "timestamp-millis"), _ZONED, _UTC_US, _ZONE, "TIMESTAMP"),
    _Row(_is_zoned("us"), _UTC_US, _avro("long", "timestamp-micros"), _ZONED, _UTC_US, _ZONE, "TIMESTAMP"),
    _Row(_is_zoned("ns"), _UTC_NS, _avro("long", "timestamp-nanos"), None, None, _ZONE),
    _Row(_is_list, _list_of("parquet"), _avro_list, _connect_list, _list_of("delta"), "jsonb", _bigquery_list),
    _Row(pa.types.is_struct, _struct_of("parquet"), _avro_record, _connect_struct, _struct_of("delta"), "jsonb", _bigquery_record),
    _Row(pa.types.is_nested, _itself, postgres="jsonb"),
    _Row(pa.types.is_null, _itself, postgres="text"),
    _Row(lambda kind: True, _itself),
)
