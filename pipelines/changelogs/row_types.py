"""Infers the types of a changelog's columns from its files or its first records."""

from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.pipelines.changelogs.changelog import Changelog
from beam_joins.pipelines.formats.columnar import marked
from beam_joins.pipelines.formats.csv import type_named
from beam_joins.pipelines.formats.envelopes.look import together
from beam_joins.pipelines.formats.registry import Format, plain_format
from beam_joins.schema_union import common_schema
from beam_joins.transforms.connect import plain_schema

_LEAST, _MOST = -(2**63), 2**63 - 1
_DIGITS, _MOST_DIGITS = 38, 76


def row_types(changelog: Changelog, reference: Collection[str] = ()) -> pa.Schema:
    """The columns of the rows, without those about the change, and their types.

    Files of Parquet, Arrow and Avro say them, and envelopes that have a schema; of JSON lines, of CSV and of
    other envelopes they are those of the first records, where an option does not say them
    (:func:`type_of_values`). Bytes of envelopes in the columns of a key and of the ``reference`` to another
    table's are text, as in the key. Raises InputError for a column of two types.
    """
    flag = changelog.columns.flag("schema")
    types = changelog.evidence.types
    try:
        schemas = [together(changelog.name, types)] if types else list(dict.fromkeys(_schemas(changelog)))
        whole = common_schema(schemas, of=changelog.name, remedy=f"say with {flag} what it is, or write JSON lines")
    except ValueError as error:
        raise InputError(str(error)) from error
    left_out = changelog.columns.about_the_change()
    declared = _declared(changelog) if types else {}
    if changelog.columns.enveloped:
        keys = (field for field in whole if field.name in (*changelog.columns.key, *reference) and pa.types.is_binary(field.type))
        declared = {**{field.name: pa.string() for field in keys}, **declared}
    return pa.schema([field.with_type(declared.get(field.name, field.type)) for field in whole if field.name not in left_out])


def _declared(changelog: Changelog) -> dict[str, pa.DataType]:
    return {name: type_named(kind) for name, kind in changelog.declared}


def _schemas(changelog: Changelog) -> Iterator[pa.Schema]:
    declared = _declared(changelog)
    formats = dict.fromkeys(file.format for file in changelog.files)
    for file in changelog.files:
        if (schema_of := _schema_of(file.format)) is not None:
            schema = plain_schema(schema_of(file.path))
            yield marked(schema.empty_table()).schema if file.is_unmarked else schema
    if not all(map(_schema_of, formats)):
        texts = {name for file in changelog.files for name, kind in file.layout if kind == "string"}
        values = {name: [row[name] for row in changelog.first if row.get(name) is not None] for name in changelog.rows_have}
        kinds = {name: pa.string() if name in texts else type_of_values(each) for name, each in values.items()}
        yield pa.schema([(name, declared.get(name, kind)) for name, kind in kinds.items()])


def _schema_of(format_: Format) -> Callable[[str], pa.Schema] | None:
    """What reads the schema of a file, of a format whose files have one."""
    plain = plain_format(format_)
    return None if plain is None else plain.schema


def type_of_values(values: list[Any]) -> pa.DataType:
    """The type of a column that has values of JSON.

    Whole numbers are of 64 bits, or decimals where one does not fit; with fractions they are doubles, or
    decimals where a double does not have the digits of one. What is of several kinds, an object or a list, is
    text: of what is no text itself the text of its JSON.

    >>> type_of_values([1, 2.5]), type_of_values([1, Decimal("0.10000000000000000001")]), type_of_values([1, "a"])
    (DataType(double), Decimal128Type(decimal128(38, 20)), DataType(string))
    """
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return pa.bool_()
    if not kinds or not kinds <= {int, float, Decimal}:
        return pa.string()
    if kinds == {int} and all(_LEAST <= value <= _MOST for value in values):
        return pa.int64()
    if Decimal not in kinds and all(not isinstance(value, int) or abs(value) <= 1 << 53 for value in values):
        return pa.float64()
    exact = [Decimal(str(value)) for value in values]
    scale = max(0, *(-int(value.as_tuple().exponent) for value in exact))
    whole = max(1, *(value.adjusted() + 1 for value in exact))
    if whole + scale > _MOST_DIGITS:
        return pa.string()
    return pa.decimal128(_DIGITS, scale) if whole + scale <= _DIGITS else pa.decimal256(_MOST_DIGITS, scale)
