"""The Avro schemas of enriched orders and of their changelog, made from the schemas of the inputs."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from beam_joins.pipelines.changelog_files.avro_records import Schema

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMESPACE: Final = "beam_joins"


def enriched_schema(orders: Schema, customers: Schema, *, customer_field: str, without: tuple[Iterable[str], Iterable[str]]) -> Schema:
    """An order's columns and, under ``customer_field``, its customer or null; ``without`` names columns to leave out of each.

    Types with a name get a namespace of their own (``orders``, ``customers``), so that the same name in both inputs does no harm.
    """
    left_out, left_out_of_customer = map(frozenset, without)
    customer = {
        "type": "record",
        "name": f"{NAMESPACE}.Customer",
        "fields": [_within("customers", field) for field in customers["fields"] if field["name"] not in left_out_of_customer],
    }
    fields = [_within("orders", field) for field in orders["fields"] if field["name"] not in left_out]
    fields.append({"name": customer_field, "type": ["null", customer], "default": None})
    return {"type": "record", "name": f"{NAMESPACE}.EnrichedOrder", "fields": fields}


def changelog_schema(row: Schema, key: Any) -> Schema:
    """The schema of a change record: key, op, old and new row, timestamp, position."""
    return {
        "type": "record",
        "name": f"{NAMESPACE}.Change",
        "fields": [
            {"name": "key", "type": key},
            {"name": "op", "type": {"type": "enum", "name": f"{NAMESPACE}.Op", "symbols": ["insert", "update", "delete"]}},
            {"name": "old", "type": ["null", row], "default": None},
            {"name": "new", "type": ["null", row["name"]], "default": None},
            {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "position", "type": "long"},
        ],
    }


def key_type(schema: Schema, column: str) -> Any:
    """The type of a column without null, its named types in the namespace of the orders."""
    type_ = next(field["type"] for field in schema["fields"] if field["name"] == column)
    if isinstance(type_, list):
        rest = [member for member in type_ if member != "null"]
        type_ = rest[0] if len(rest) == 1 else rest
    return _named_within("orders", type_)


def _within(namespace: str, field: Schema) -> Schema:
    return {**{k: v for k, v in field.items() if k != "aliases"}, "type": _named_within(namespace, field["type"])}


def _named_within(namespace: str, type_: Any) -> Any:
    """The type with ``namespace`` before every name that it defines or refers to."""
    if isinstance(type_, str):
        return type_ if type_ in _PRIMITIVES else f"{namespace}.{type_}"
    if isinstance(type_, Sequence):
        return [_named_within(namespace, member) for member in type_]
    inner = {k: v for k, v in type_.items() if not k.startswith("__") and k not in ("aliases", "namespace")}
    if "name" in inner:
        full = inner["name"] if "." in inner["name"] or not type_.get("namespace") else f"{type_['namespace']}.{inner['name']}"
        inner["name"] = f"{namespace}.{full}"
    if "fields" in inner:
        inner["fields"] = [_within(namespace, field) for field in inner["fields"]]
    for part in ("items", "values"):
        if part in inner:
            inner[part] = _named_within(namespace, inner[part])
    if isinstance(inner["type"], dict):
        inner["type"] = _named_within(namespace, inner["type"])
    return inner
