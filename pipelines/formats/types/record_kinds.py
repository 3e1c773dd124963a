"""Converts the columns of Avro records and Parquet rows to typed values and to JSON."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec
import pyarrow as pa

from beam_joins.pipelines.formats.types.column_kind import (
    DECIMAL,
    NAMED,
    Kind,
    Types,
    date_text,
    decimal_kind,
    text_of,
    time_text,
    timestamp_text,
    whole_digits,
)
from beam_joins.pipelines.formats.types.exact_json import object_text
from beam_joins.values.arrow_types import JSON_TYPE, without_uuids

Schema: TypeAlias = dict[str, Any]
_PLAIN: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}


def _uuid_text(value: Any) -> bytes:
    """A UUID, its 16 bytes, or its text."""
    return text_of(str(UUID(bytes=value)) if isinstance(value, bytes) and len(value) == 16 else value)


_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}
_LOGICAL: Final = {
    ("int", "date"): Kind(pa.date32(), date_text),
    ("int", "time-millis"): Kind(pa.time32("ms"), time_text("ms")),
    ("long", "time-micros"): Kind(pa.time64("us"), time_text("us")),
    **{("long", f"timestamp-{name}"): Kind(pa.timestamp(unit, "UTC"), timestamp_text(unit, "Z")) for name, unit in _UNITS.items()},
    **{("long", f"local-timestamp-{name}"): Kind(pa.timestamp(unit), timestamp_text(unit)) for name, unit in _UNITS.items()},
    ("string", "uuid"): Kind(pa.string(), _uuid_text),
    ("fixed", "uuid"): Kind(pa.string(), _uuid_text),
}
"""By the stored type and the logical type; of other stored types a logical type is ignored, as Avro's specification says."""
_CONNECT: Final = {"int8": pa.int8(), "int16": pa.int16()}
"""The types of small integers, as Kafka Connect names them on an int."""
_NO_NAMES: Final[Mapping[str, Any]] = MappingProxyType({})


class RecordRows(Types):
    """The columns of rows that are dicts, and :meth:`text`, which writes a row in JSON."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        super().__init__(kinds)
        self._texts: dict[str, Callable[[Any], bytes]] = {name: kind.text or text_of for name, kind in kinds.items()}

    def text(self, row: Mapping[str, Any]) -> bytes:
        """The row as a JSON object."""
        parts = (b"null" if value is None else self._texts[name](value) for name, value in row.items())
        return object_text(row, map(msgspec.Raw, parts))


def rows_of_avro(schema: Schema, *path: str, names: Mapping[str, Any] = _NO_NAMES) -> RecordRows | None:
    """The columns of the record that lies at a path within another one; none where there is no such record.

    ``names`` are types that others define.
    """
    named = dict(names)
    record = described(schema, named, "")
    for name in path:
        fields = {field["name"]: field["type"] for field in record["fields"]}
        record_type = _record_in(fields.get(name), named)
        if record_type is None:
            return None
        record = record_type
    return RecordRows({field["name"]: _avro_kind(field["type"], named) for field in record["fields"]})


def has_unions(type_: Any) -> bool:
    """Whether a type is a union of several types beside null, at any depth.

    >>> has_unions({"type": "array", "items": ["null", "int"]}), has_unions({"type": "map", "values": ["null", "int", "string"]})
    (False, True)
    """
    if isinstance(type_, list):
        return len([each for each in type_ if each != "null"]) > 1 or any(map(has_unions, type_))
    if not isinstance(type_, dict):
        return False
    return any(has_unions(type_.get(part)) for part in ("items", "values", "type")) or any(map(has_unions, type_.get("fields", ())))


def rows_of_columns(fields: pa.Schema | pa.StructType) -> RecordRows:
    """The rows of columns of Arrow types, UUIDs as text."""
    return RecordRows({field.name: Kind(without_uuids(field.type)) for field in fields})


def described(type_: Any, named: dict[str, Any], namespace: str) -> Any:
    """The type, after noting all types with a name in it."""
    if isinstance(type_, list):
        for member in type_:
            described(member, named, namespace)
    elif isinstance(type_, dict):
        inner = type_.get("namespace", namespace)
        if "name" in type_:
            name = type_["name"]
            full = name if "." in name or not inner else f"{inner}.{name}"
            named[full] = named[name] = type_
            inner = full.rpartition(".")[0]
        for part in ("items", "values", "type"):
            if part in type_:
                described(type_[part], named, inner)
        for field in type_.get("fields", ()):
            described(field["type"], named, inner)
    return type_


def _record_in(type_: Any, named: dict[str, Any]) -> Any:
    members = type_ if isinstance(type_, list) else [type_]
    whole = (named.get(member, member) if isinstance(member, str) else member for member in members)
    return next((member for member in whole if isinstance(member, dict) and member.get("type") == "record"), None)


def _avro_kind(type_: Any, named: dict[str, Any]) -> Kind:
    if isinstance(type_, list):
        members = [member for member in type_ if member != "null"]
        return _avro_kind(members[0], named) if len(members) == 1 else Kind(pa.string())
    if isinstance(type_, str):
        if type_ not in named:
            return Kind(_PLAIN.get(type_, pa.string()))
        within = {name: each for name, each in named.items() if each is not named[type_]}  # a type may have itself within
        return _avro_kind(named[type_], within)
    return _annotated_kind(type_) or _inner_kind(type_, named)


def _annotated_kind(type_: dict[str, Any]) -> Kind | None:
    """The kind that a logical type, of Avro or of Kafka Connect, says; None for others."""
    meant, logical = type_.get("connect.name"), type_.get("logicalType")
    if logical == "decimal" and type_["type"] in ("bytes", "fixed"):
        return decimal_kind(type_.get("scale", 0), type_["precision"])
    if meant == DECIMAL:
        return decimal_kind(whole_digits(type_.get("connect.parameters", {}).get("scale", 0)), None)
    if type_["type"] == "int" and type_.get("connect.type") in _CONNECT:
        return Kind(_CONNECT[type_["connect.type"]])
    stored = type_["type"] if isinstance(type_["type"], str) else ""
    return NAMED.get(meant or "") or _LOGICAL.get((stored, logical or ""))


def _inner_kind(type_: dict[str, Any], named: dict[str, Any]) -> Kind:
    if type_["type"] == "array":
        item = _avro_kind(type_["items"], named)
        inner = item.text or text_of
        return Kind(pa.list_(item.type), lambda values: b"[" + b",".join(b"null" if v is None else inner(v) for v in values) + b"]")
    if type_["type"] == "record":
        rows = RecordRows({field["name"]: _avro_kind(field["type"], named) for field in type_["fields"]})
        return Kind(pa.struct(list(rows.types)), rows.text)
    if type_["type"] == "map":
        value = _avro_kind(type_["values"], named).text or text_of

        def text(map_: Any) -> bytes:
            return object_text(map_, (msgspec.Raw(b"null" if each is None else value(each)) for each in map_.values()))

        return Kind(JSON_TYPE, text)
    return _avro_kind(type_["type"], named)
