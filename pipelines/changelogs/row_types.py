"""Infers the types of a changelog's columns from its files or its first records."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog, DatabaseTable
from beam_joins.pipelines.formats.csv_types import type_named
from beam_joins.pipelines.formats.envelopes.inferred_key import together
from beam_joins.pipelines.formats.types.typed_texts import type_of_values
from beam_joins.transforms.connect.tables import plain_schema
from beam_joins.values.arrow_types import is_bytes, is_text
from beam_joins.values.schema_evolution import union_type
from beam_joins.values.schema_union import common_schema

_EXAMPLES: Final[dict[str, Any]] = {"int64": 0, "double": 0.5, "bool": True}
"""A value of each type of a layout."""


def row_types(changelog: Changelog, reference: Collection[str] = ()) -> pa.Schema:
    """The columns of the rows, without those about the change, and their types.

    Files of formats with a schema say them, and envelopes that have one; of other files and envelopes they are
    those of the first records, where an option does not say them
    (:func:`~beam_joins.pipelines.formats.types.typed_texts.type_of_values`).

    Bytes of envelopes in the columns of a key and of the ``reference`` to another table's are text, as in the key. Raises
    InputError for a column of two types.
    """
    flag = changelog.columns.flag("schema")
    types = changelog.evidence.types
    try:
        schemas = [together(changelog.name, types)] if types else list(dict.fromkeys(_schemas(changelog))) or [pa.schema([])]
        whole = common_schema(schemas, of=changelog.name, remedy=f"say with {flag} what it is, or write JSON lines")
    except ValueError as error:
        raise InputError(str(error)) from error
    left_out = changelog.columns.about_the_change()
    declared = _declared(changelog) if types else {}
    if changelog.columns.enveloped:
        keys = (field for field in whole if field.name in (*changelog.columns.key, *reference) and pa.types.is_binary(field.type))
        declared = {**{field.name: pa.string() for field in keys}, **declared}
    return pa.schema([field.with_type(declared.get(field.name, field.type)) for field in whole if field.name not in left_out])


class AlteredColumn(NamedTuple):
    """A column that has another type in its table now than earlier runs have read, by the names of both; ``fits``: values of
    the one may be values of the other, and are read as long as they are.
    """

    name: str
    was: str
    now: str
    fits: bool

    @property
    def sentence(self) -> str:
        """What was altered."""
        return f"column '{self.name}' was {self.was} in earlier runs, and is {self.now}"


def altered_columns(table: DatabaseTable, known: pa.Schema, now: pa.Schema, names: Mapping[str, str]) -> list[AlteredColumn]:
    """The columns of a table whose types ``now`` have values that those of earlier runs, which are ``known``, do not hold;
    ``names`` are the names that the database gave to the known types, where they are remembered.

    A column of text holds the texts of other values, but for the digits of bytes.
    """
    altered = []
    for name, kind in zip(now.names, now.types, strict=True):
        was = known.field(name).type if name in known.names else kind
        try:
            is_held = (table.has_texts and is_text(was) and not is_bytes(kind)) or bool(union_type(was, kind))
        except ValueError:
            is_held = False
        if not is_held:
            fits = _fits(was, kind, is_number=table.kinds.get(name) == "whole numbers")
            altered.append(AlteredColumn(name, names.get(name, str(was)), table.types.get(name, str(kind)), fits))
    return altered


def _fits(was: pa.DataType, now: pa.DataType, *, is_number: bool) -> bool:
    """Whether some values of a type are exactly values of another one."""
    if _is_number(was):
        return is_number or _is_number(now)
    return bool(pa.types.is_timestamp(was) and was.tz is None and pa.types.is_date(now))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _declared(changelog: Changelog) -> dict[str, pa.DataType]:
    return {name: type_named(kind) for name, kind in changelog.columns.declared}


def _schemas(changelog: Changelog) -> Iterator[pa.Schema]:
    declared = _declared(changelog)
    schemas = [file.reader.schema(file) for file in changelog.files]
    yield from (plain_schema(schema) for schema in schemas if schema is not None)
    if any(schema is None for schema in schemas):
        said = {name: kind for file in changelog.files for name, kind in file.layout}
        values = {name: [row[name] for row in changelog.first if row.get(name) is not None] for name in changelog.rows_have}
        kinds = {name: _type_of(each, said.get(name)) for name, each in values.items()}
        yield pa.schema([(name, declared.get(name, kind)) for name, kind in kinds.items()])


def _type_of(values: list[Any], said: str | None) -> pa.DataType:
    """The type of a column that has these values in the first records; ``said`` is its type in the layout of CSV files, which
    may have seen more records.
    """
    if said == "string":
        return pa.string()
    kind = type_of_values(values)
    is_wider = said in _EXAMPLES and (not values or (said == "double" and pa.types.is_integer(kind)))
    return type_of_values([*values, _EXAMPLES[said]]) if said is not None and is_wider else kind
