"""Asks a PostgreSQL server how it compares the values of a table's columns."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from beam_joins.pipelines.formats.types.postgres_equality import Category, ComparedType, Locale, PostgresColumn
from beam_joins.pipelines.formats.types.postgres_types import arrow_type
from beam_joins.pipelines.systems.postgres.pgoutput import Table

_ATTRIBUTES: Final = """
    SELECT attname::text, atttypid::int8, atttypmod::int4,
        (SELECT collname::text FROM pg_collation WHERE pg_collation.oid = attcollation AND NOT collisdeterministic)
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
"""
_TYPES: Final = """
    WITH RECURSIVE types (oid) AS (
        SELECT unnest(%s::oid[])
        UNION SELECT part.oid FROM types JOIN pg_type USING (oid) LEFT JOIN pg_range ON pg_type.oid IN (rngtypid, rngmultitypid)
            LEFT JOIN pg_attribute ON typtype = 'c' AND attrelid = typrelid AND attnum > 0 AND NOT attisdropped
            CROSS JOIN LATERAL unnest(ARRAY[typelem, typbasetype, rngsubtype, atttypid]) AS part (oid) WHERE part.oid <> 0)
    SELECT oid::int8, typname::text, typtype::text, typbasetype::int8, typtypmod::int4,
        CASE WHEN typcategory = 'A' THEN typelem::int8 END,
        (SELECT rngsubtype::int8 FROM pg_range WHERE pg_type.oid IN (rngtypid, rngmultitypid)),
        (SELECT json_agg(json_build_array(atttypid::int8, atttypmod,
                (SELECT collname FROM pg_collation WHERE pg_collation.oid = attcollation AND NOT collisdeterministic)) ORDER BY attnum)
            FROM pg_attribute WHERE typtype = 'c' AND attrelid = typrelid AND attnum > 0 AND NOT attisdropped)
    FROM types JOIN pg_type USING (oid)
"""
_LOCALE: Final = """
    SELECT datctype::text, coalesce(to_jsonb(pg_database) ->> 'datlocprovider', 'c'),
        coalesce(to_jsonb(pg_database) ->> 'datlocale', to_jsonb(pg_database) ->> 'daticulocale', '')
    FROM pg_database WHERE datname = current_database()
"""
_MULTIRANGES: Final = 140_000
_CATEGORIES: Final[dict[str, Category]] = {"e": "enum", "c": "composite", "r": "range", "m": "range"}
_OF_OTHER_RULES: Final = ("tr", "az", "lt")
"""Languages whose lower case differs from that of others."""


class _Described(NamedTuple):
    """The row of a type in the catalog."""

    name: str
    kind: str
    base: int
    modifier: int
    element: int | None
    subtype: int | None
    columns: list[tuple[int, int, str | None]] | None


def compared_columns(connection: Any, oid: int, table: Table) -> Mapping[str, PostgresColumn]:
    """The columns of a table as the database compares their values, by name."""
    attributes = {name: (number, modifier, by) for name, number, modifier, by in connection.execute(_ATTRIBUTES, [oid])}
    numbers = sorted({number for number, *_ in attributes.values()})
    query = _TYPES if connection.info.server_version >= _MULTIRANGES else _TYPES.replace("IN (rngtypid, rngmultitypid)", "= rngtypid")
    types = {number: _Described(*row) for number, *row in connection.execute(query, [numbers])}
    locale = _locale(*connection.execute(_LOCALE).fetchone())

    def made(number: int, modifier: int, collation: str | None, shown: str = "") -> ComparedType:
        each = types[number]
        if each.kind == "d":
            return made(each.base, each.modifier if modifier < 0 else modifier, collation, shown)
        parts: tuple[ComparedType, ...] = ()
        category = _CATEGORIES.get(each.kind, "base")
        if each.element is not None:
            category, parts = "array", (made(each.element, modifier, collation),)
        elif each.subtype is not None:
            parts = (made(each.subtype, -1, collation),)
        elif each.columns:
            parts = tuple(made(of, to, by) for of, to, by in each.columns)
        is_text = not shown or pa.types.is_string(arrow_type(shown))
        name = each.name if category in ("base", "array") else f"{each.name} ({number})"
        return ComparedType(name, modifier, category, parts, collation or "", locale, is_text)

    return {
        column.name: PostgresColumn(table.full_name, column.name, column.type, made(*attributes[column.name], column.type))
        for column in table.columns
    }


def _locale(ctype: str, provider: str, of_provider: str) -> Locale:
    """The letters that ``lower()`` knows in a database.

    >>> _locale("C", "c", ""), _locale("en_US.UTF-8", "c", ""), _locale("C", "i", "de"), _locale("tr_TR.UTF-8", "c", "")
    ('ascii', 'simple', 'full', 'other')
    """
    name = of_provider if provider != "c" else ctype
    if name.lower().startswith(_OF_OTHER_RULES):
        return "other"
    if provider == "i":
        return "full"
    return "ascii" if name in ("C", "POSIX") else "simple"
