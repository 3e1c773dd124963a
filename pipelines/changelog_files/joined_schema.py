"""The Avro schemas of the rows of a result and of its changelog, made from the schemas of the inputs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from beam_joins.pipelines.changelog_files.avro_records import Schema

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_PARTS: Final = ("type", "items", "values")
NAMESPACE: Final = "beam_joins"
COMBINED: Final = ("foreign_key", "primary_key")
Taken: TypeAlias = Sequence[tuple[str, str]] | None


def row_schema(name: str, schema: Schema, without: Iterable[str], taken: Taken = None, *, nullable: bool = False) -> Schema:
    """The schema of the rows of the changelog ``name``; ``without`` names columns to leave out, or ``taken`` those that are not, and what they are called.

    A type that a column left out defines is defined where it is first used. Types with a name get a namespace of their own, ``name``.
    ``nullable``: each column may be null.
    """
    record = _named_within(name, schema)
    fields = {field["name"]: field for field in record["fields"]}
    if taken is None:
        left_out = frozenset(without)
        taken = [(column, column) for column in fields if column not in left_out]
    kept = {
        "type": "record",
        "name": f"{NAMESPACE}.Row",
        "fields": [_nullable({**fields[column], "name": named}, nullable) for column, named in taken],
    }
    whole: Schema = _defined_once(kept, dict(_definitions(record)))
    return whole


def joined_schema(name: str, rows: Sequence[tuple[Schema, str]], nested: str) -> Schema:
    """The columns of several rows together, those of one with a name as a record of that name, or null.

    The types of the rows must have namespaces of their own, so that the same name in both does no harm. ``name`` is that of the record, and ``nested``
    that of a record in it.
    """
    fields: list[Any] = []
    for row, field in rows:
        inner = {**row, "name": f"{NAMESPACE}.{nested}"}
        fields += [{"name": field, "type": ["null", inner], "default": None}] if field else row["fields"]
    return {"type": "record", "name": f"{NAMESPACE}.{name}", "fields": fields}


def changelog_schema(row: Schema, key: Any) -> Schema:
    """The schema of a change record: key, op, old and new row, timestamp, position."""
    change = {
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
    whole: Schema = _defined_once(change, dict(_definitions([key, row])))
    return whole


def key_type(name: str, schema: Schema, column: str) -> Any:
    """The type of a column of the changelog ``name`` without null, its named types in the namespace of that changelog."""
    type_ = next(field["type"] for field in schema["fields"] if field["name"] == column)
    if isinstance(type_, list):
        rest = [member for member in type_ if member != "null"]
        type_ = rest[0] if len(rest) == 1 else rest
    return _named_within(name, type_)


def combined_key_type(foreign_key: Any, primary_key: Any) -> Any:
    """The type of the keys of a foreign-key join that keeps right rows, of those of both sides, each of which may be null."""
    fields = [_nullable({"name": name, "type": type_}, True) for name, type_ in zip(COMBINED, (foreign_key, primary_key), strict=True)]
    return {"type": "record", "name": f"{NAMESPACE}.CombinedKey", "fields": fields}


def _nullable(field: Schema, nullable: bool) -> Schema:
    if not nullable:
        return field
    members = field["type"] if isinstance(field["type"], list) else [field["type"]]
    rest = {name: said for name, said in field.items() if name != "default"}
    return {**rest, "type": ["null", *(member for member in members if member != "null")], "default": None}


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


def _definitions(type_: Any) -> Iterator[tuple[str, Schema]]:
    """The types with a name that are defined in a type."""
    if isinstance(type_, str):
        return
    if isinstance(type_, Sequence):
        for member in type_:
            yield from _definitions(member)
        return
    if "name" in type_:
        yield type_["name"], type_
    yield from _definitions([field["type"] for field in type_.get("fields", ())])
    yield from _definitions([type_[part] for part in _PARTS if part in type_])


def _defined_once(type_: Any, definitions: Mapping[str, Schema], seen: set[str] | None = None) -> Any:
    """The type with each definition where its name comes first, and the name alone behind that: Avro reads from front to back."""
    seen = set() if seen is None else seen
    if isinstance(type_, str):
        return type_ if type_ in seen or type_ not in definitions else _defined_once(definitions[type_], definitions, seen)
    if isinstance(type_, Sequence):
        return [_defined_once(member, definitions, seen) for member in type_]
    if "name" in type_:
        if type_["name"] in seen:
            return type_["name"]
        seen.add(type_["name"])
    whole = {k: _defined_once(v, definitions, seen) if k in _PARTS else v for k, v in type_.items()}
    if "fields" in whole:
        whole["fields"] = [{**field, "type": _defined_once(field["type"], definitions, seen)} for field in whole["fields"]]
    return whole
