"""Columns as Avro writes them: a schema for their types, and their rows as encoded records."""

import io
import re
from typing import Any, Final

import fastavro
import pyarrow as pa

from beam_joins.pipelines.changelog_files.avro_records import Schema

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPES: Final[dict[pa.DataType, Any]] = {
    pa.int8(): {"type": "int", "connect.type": "int8"},
    pa.int16(): {"type": "int", "connect.type": "int16"},
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.timestamp("ms"): {"type": "long", "logicalType": "local-timestamp-millis"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.timestamp("ms", "UTC"): {"type": "long", "logicalType": "timestamp-millis"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
}


def avro_record(name: str, columns: pa.Schema | pa.StructType) -> Schema:
    """The schema of a record with these columns, each of which may be null.

    Raises ``ValueError`` for a type that Avro does not have, and for a name that it does not take.

    >>> avro_record("Row", pa.schema([("id", pa.int64())]))
    {'type': 'record', 'name': 'Row', 'fields': [{'name': 'id', 'type': ['null', 'long'], 'default': None}]}
    """
    fields = []
    for field in columns:
        if not _NAME.fullmatch(field.name):
            raise ValueError(f"column '{field.name}': Avro takes letters, digits and _ in names: give it another with MapTable")
        fields.append({"name": field.name, "type": ["null", _type(f"{name}_{field.name}", field.type)], "default": None})
    return {"type": "record", "name": name, "fields": fields}


def avro_rows(rows: pa.StructArray, schema: Any) -> pa.Array:
    """The rows as encoded records of a schema that fastavro has parsed."""
    return pa.array([_encoded(row, schema) for row in rows.to_pylist()], pa.binary())


def _type(name: str, kind: Any) -> Any:
    if kind in _TYPES:
        return _TYPES[kind]
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _type(name, kind.value_type)]}
    if pa.types.is_struct(kind):
        return avro_record(name, kind)
    raise ValueError(f"column '{name.partition('_')[2]}' is {kind}, which Avro has no type for: make it another with MapTable")


def _encoded(row: dict[str, Any], schema: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, row)
    return written.getvalue()
