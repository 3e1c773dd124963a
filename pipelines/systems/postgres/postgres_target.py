"""Reads what a table of PostgreSQL promises, and refuses a table that would not keep the rows that are merged into it."""

from typing import Any, Final, LiteralString, NamedTuple

import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.formats.types.target_types import target_type
from beam_joins.pipelines.results.table_columns import TableColumns
from beam_joins.pipelines.systems.postgres.postgres_forms import PostgresType, TargetColumn, form_of
from beam_joins.values.arrow_types import is_text

with needs("postgres"):
    import psycopg
    from psycopg import sql

_RELATION: Final = """
    SELECT relkind::text, row_security_active(oid), current_user::text,
        EXISTS (SELECT FROM pg_rewrite WHERE ev_class = pg_class.oid AND ev_type IN ('2', '3', '4')),
        EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid AND NOT tgisinternal AND tgtype & 6 = 6),
        1234.5::money::text = '$1,234.50'
    FROM pg_class WHERE oid = to_regclass(%s)
"""
_RELATIONS: Final = "(SELECT to_regclass(%s)::oid UNION SELECT relid::oid FROM pg_partition_tree(to_regclass(%s)))"
_TRIGGERS: Final = f"""
    SELECT DISTINCT tgname::text FROM pg_trigger
    WHERE tgrelid IN {_RELATIONS} AND NOT tgisinternal AND tgenabled NOT IN ('D', 'R') ORDER BY tgname
"""
_CATALOG: Final = f"""
    WITH relations AS {_RELATIONS}
    SELECT coalesce(string_agg(row, ' ' ORDER BY row), '') FROM (
        SELECT 'r' || oid || ':' || relkind::text || relrowsecurity || relforcerowsecurity FROM pg_class WHERE oid IN (TABLE relations)
        UNION ALL SELECT 'a' || attrelid || '.' || attnum || ':' || pg_attribute.xmin || '.' || coalesce(pg_type.xmin::text, '')
            FROM pg_attribute LEFT JOIN pg_type ON pg_type.oid = atttypid WHERE attrelid IN (TABLE relations) AND attnum > 0
        UNION ALL SELECT 'i' || indexrelid || ':' || pg_index.xmin FROM pg_index WHERE indrelid IN (TABLE relations)
        UNION ALL SELECT 'c' || oid || ':' || pg_constraint.xmin FROM pg_constraint
            WHERE conrelid IN (TABLE relations) OR contypid IN (SELECT atttypid FROM pg_attribute WHERE attrelid IN (TABLE relations))
        UNION ALL SELECT 't' || oid || ':' || pg_trigger.xmin FROM pg_trigger WHERE tgrelid IN (TABLE relations)
        UNION ALL SELECT 'w' || oid || ':' || pg_rewrite.xmin FROM pg_rewrite WHERE ev_class IN (TABLE relations)
    ) AS rows (row)
"""
"""What the catalog says of a table, as a text that differs where anything of it has been altered."""
_COLUMNS: Final = f"""
    WITH RECURSIVE types AS (
        SELECT attnum, attname, atttypid AS of_column, atttypid AS type, atttypmod AS modifier, attcollation, atthasdef,
            attidentity, attgenerated
        FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT attnum, attname, of_column, typbasetype, CASE modifier WHEN -1 THEN typtypmod ELSE modifier END, attcollation,
            atthasdef OR typdefault IS NOT NULL, attidentity, attgenerated
        FROM types JOIN pg_type ON pg_type.oid = type WHERE typtype = 'd'
    )
    SELECT attname::text, format_type(type, modifier), format_type(type, NULL),
        coalesce(format_type(CASE WHEN typcategory = 'A' THEN typelem ELSE rngsubtype END, NULL), ''),
        CASE WHEN of_column <> type THEN format_type(of_column, NULL) END,
        typname IN ('bpchar', 'citext') OR NOT coalesce(collisdeterministic, true),
        atthasdef OR attidentity <> '', attgenerated <> '' OR attidentity = 'a', attgenerated <> '',
        EXISTS (SELECT FROM pg_attribute AS of_part WHERE attrelid IN {_RELATIONS} AND of_part.attname = types.attname AND attnotnull),
        ARRAY (
            WITH RECURSIVE parts AS (
                SELECT types.type AS part, types.modifier AS part_modifier, 0 AS depth
                UNION ALL
                SELECT part_of.part, part_of.part_modifier, depth + deeper
                FROM parts JOIN pg_type AS whole ON whole.oid = parts.part CROSS JOIN LATERAL (
                    SELECT typbasetype, CASE parts.part_modifier WHEN -1 THEN typtypmod ELSE parts.part_modifier END, 2
                        WHERE typtype = 'd'
                    UNION ALL SELECT typelem, parts.part_modifier, 1 WHERE typcategory = 'A' AND typelem <> 0
                    UNION ALL SELECT rngsubtype, -1, 1 FROM pg_range AS range
                        WHERE whole.oid::text IN (rngtypid::text, to_jsonb(range) ->> 'rngmultitypid')
                    UNION ALL SELECT atttypid, atttypmod, 2 FROM pg_attribute AS field
                        WHERE typtype = 'c' AND field.attrelid = typrelid AND field.attnum > 0 AND NOT field.attisdropped
                ) AS part_of (part, part_modifier, deeper)
            )
            SELECT DISTINCT format_type(part, part_modifier) FROM parts JOIN pg_type AS leaf ON leaf.oid = part
            WHERE depth > 1 AND typtype NOT IN ('d', 'c', 'r', 'm', 'e') AND typcategory <> 'A'
        )
    FROM types JOIN pg_type ON pg_type.oid = type LEFT JOIN pg_collation ON pg_collation.oid = attcollation
        LEFT JOIN pg_range ON type::text IN (rngtypid::text, to_jsonb(pg_range) ->> 'rngmultitypid')
    WHERE typtype <> 'd' ORDER BY attnum
"""
_CHECKS: Final = f"""
    SELECT conname::text, pg_get_expr(conbin, conrelid) FROM pg_constraint
    WHERE contype = 'c' AND conrelid IN {_RELATIONS} AND cardinality(conkey) > 0 ORDER BY conname
"""
_INDEXES: Final = f"""
    SELECT relname::text, indisvalid, indimmediate, indisexclusion, indrelid = to_regclass(%s),
        coalesce((to_jsonb(pg_index) ->> 'indnullsnotdistinct')::boolean, false), pg_get_expr(indpred, indrelid),
        ARRAY (SELECT attname::text FROM generate_series(0, indnkeyatts - 1) AS place
            JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[place]),
        ARRAY (SELECT pg_get_indexdef(indexrelid, place + 1, false) FROM generate_series(0, indnkeyatts - 1) AS place
            WHERE indkey[place] = 0)
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid IN {_RELATIONS} AND (indisunique OR indisexclusion) AND indislive ORDER BY indrelid, relname
"""
_NO_TABLES: Final = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a type"}
_QUOTES: Final = sql.Literal(" \"'\\")
"""What types within types put around texts, or leave out."""
_POSITIONS: Final = frozenset({"bigint", "integer", "smallint", "numeric"})


class PostgresTarget(NamedTuple):
    """``columns`` are those that are written, in their order; ``hands_on`` says whether rows may hand on values to
    each other that the table holds once, row by row; ``triggers``, by name, may change rows.
    """

    columns: tuple[TargetColumn, ...]
    hands_on: bool
    triggers: tuple[str, ...]


class _Column(NamedTuple):
    name: str
    shown: str
    plain: str
    element: str
    domain: str | None
    is_loose: bool
    has_default: bool
    is_generated: bool
    is_computed: bool
    is_never_null: bool
    within: list[str]


class _Index(NamedTuple):
    name: str
    is_valid: bool
    is_immediate: bool
    is_exclusion: bool
    is_of_the_table: bool
    nulls_are_equal: bool
    predicate: str | None
    columns: list[str]
    expressions: list[str]


class TargetReader:
    """Reads the table that ``quoted`` names in SQL and sentences name ``table``.

    ``in_one``: whether all changes of a run are merged in one transaction.
    """

    def __init__(self, table: str, quoted: str, columns: TableColumns, position: str, deleted: str, *, in_one: bool) -> None:
        self._table, self._quoted, self._written, self._in_one = table, quoted, columns, in_one
        self._position, self._deleted = position, deleted
        self._key, self._values = columns.key.names, columns.values.names
        self._names = [*self._key, *self._values, position, deleted]

    def read(self, connection: Any) -> PostgresTarget:
        """Reads the table within a transaction; raises InputError for a table that rows cannot be merged into."""
        row = connection.execute(_RELATION, [self._quoted]).fetchone()
        if row is None:
            raise InputError(f"there is no table {self._table} in the database: create it, or say create=True")
        kind, hides_rows, role, has_rules, has_triggers, has_dollars = row
        if kind in _NO_TABLES:
            raise InputError(f"{self._table} is {_NO_TABLES[kind]} in the database: name a table")
        if hides_rows:
            raise InputError(
                f"the policies of the table {self._table} hide rows from the role {role}: give it BYPASSRLS, or the table"
            )
        if has_rules:
            raise InputError(f"the table {self._table} has rules (CREATE RULE), which rows cannot be merged past: drop them")
        columns = [_Column(*each) for each in self._asked(connection, _COLUMNS, 3)]
        target = self._columns({each.name: each for each in columns}, has_dollars=has_dollars)
        if needed := [each.name for each in columns if self._is_in_need(each) and not has_triggers]:
            raise InputError(
                f"the column {', '.join(needed)} of the table {self._table} is NOT NULL and not written: give it a default"
            )
        self._take_nulls(connection, {each.name: each for each in columns})
        nulls = sql.SQL(", ").join(
            sql.SQL("NULL::{} AS {}").format(_of_server(each.plain), sql.Identifier(each.name))
            for each in columns
            if each.name in self._values
        )
        emptied = sql.SQL(", ").join(
            filter(None, [nulls if self._values else None, sql.SQL("true AS {}").format(sql.Identifier(self._deleted))])
        )
        self._pass_checks(connection, emptied)
        triggers = tuple(name for (name,) in self._asked(connection, _TRIGGERS, 2))
        return PostgresTarget(target, self._hands_on(connection, emptied), triggers)

    def _asked(self, connection: Any, query: LiteralString, names: int) -> list[Any]:
        rows: list[Any] = connection.execute(query, [self._quoted] * names).fetchall()
        return rows

    def _is_in_need(self, column: _Column) -> bool:
        return column.is_never_null and not column.has_default and column.name not in self._names

    def _columns(self, there: dict[str, _Column], *, has_dollars: bool) -> tuple[TargetColumn, ...]:
        kinds = {field.name: field.type for schema in (self._written.key, self._written.values) for field in schema}
        kinds |= {self._position: pa.int64(), self._deleted: pa.bool_()}
        if missing := [name for name in kinds if name not in there]:
            raise InputError(
                f"the table {self._table} has no column {', '.join(missing)}; it has {', '.join(there)}: add it there, or give the "
                "rows such columns (--select, MapTable)"
            )
        if loose := [name for name in self._key if there[name].is_loose]:
            raise InputError(
                f"the column {', '.join(loose)} of the table {self._table} takes keys for one that differ in case, "
                "accents or spaces: make it text"
            )
        if made := [name for name in kinds if there[name].is_computed or (there[name].is_generated and name not in self._key)]:
            raise InputError(
                f"the column {', '.join(made)} of the table {self._table} is generated (GENERATED ALWAYS), so that no value can be "
                "written to it: make it a plain column, or leave it out"
            )
        columns = []
        for name, kind in kinds.items():
            within = () if name in self._key else tuple(there[name].within)  # keys are looked up by their values
            into = PostgresType(there[name].shown, there[name].plain, there[name].element, within)
            form = form_of(kind, into)
            if name == self._position and into.plain not in _POSITIONS:
                form = None
            if name == self._deleted and into.plain != "boolean":
                form = None
            if form is None or (into.plain == "money" and not has_dollars):
                way = f"make it {target_type('postgres', name, kind)}"
                if into.plain == "bytea" and is_text(kind):
                    way = f"read the column as bytes (schema=), or {way}"
                raise InputError(
                    f"the column {name} of the table {self._table} is {into.shown}, which does not hold every {kind} as it is: {way}"
                )
            columns.append(TargetColumn(name, into, form))
        return tuple(columns)

    def _take_nulls(self, connection: Any, there: dict[str, _Column]) -> None:
        if never := [name for name in self._values if there[name].is_never_null]:
            raise InputError(
                f"the column {', '.join(never)} of the table {self._table} is NOT NULL, and is null where a row is "
                "deleted: let it be null"
            )
        for name in self._values:
            if (domain := there[name].domain) is not None:
                try:
                    with connection.transaction():
                        connection.execute(sql.SQL("SELECT NULL::{}").format(_of_server(domain)))
                except psycopg.IntegrityError:
                    raise InputError(
                        f"the column {name} of the table {self._table} is of the domain {domain}, which refuses null, and is "
                        "null where a row is deleted: let it be null"
                    ) from None

    def _pass_checks(self, connection: Any, emptied: sql.Composed) -> None:
        for name, expression in self._asked(connection, _CHECKS, 2):
            if _answer(connection, expression, "FALSE", emptied):
                raise InputError(
                    f"the check {name} of the table {self._table} refuses deleted rows, which stay with null values: let it take "
                    f"those (OR {self._deleted})"
                )

    def _hands_on(self, connection: Any, emptied: sql.Composed) -> bool:
        indexes = [_Index(*each) for each in self._asked(connection, _INDEXES, 3)]
        of_key = [each for each in indexes if {*each.columns} == {*self._key} and not each.expressions]
        arbiters = [each for each in of_key if each.predicate is None and not each.is_exclusion and each.is_of_the_table]
        if not any(each.is_valid and each.is_immediate for each in arbiters):
            what = ", only one that is deferrable or invalid" if arbiters else ""
            raise InputError(f"the table {self._table} has no primary key or unique index of the columns {', '.join(self._key)}{what}")
        others = [each for each in indexes if each.is_exclusion or not {*self._key} <= {*each.columns}]
        others = [each for each in others if each.expressions or {*each.columns} & {*self._names}]
        for each in others:
            if not self._leaves_out_deleted(connection, each, emptied):
                raise InputError(
                    f"the unique index {each.name} of the table {self._table} would hold the next row against a deleted one, which "
                    f"stays with null values: let it leave those out (WHERE NOT {self._deleted}), or drop it"
                )
            if not self._in_one:
                raise InputError(
                    f"the unique index {each.name} of the table {self._table} would refuse a value that one row hands on to another, "
                    "as they may be merged in two transactions: drop it, or make it an index that is not unique"
                )
        return any(each.is_immediate for each in others)

    def _leaves_out_deleted(self, connection: Any, index: _Index, emptied: sql.Composed) -> bool:
        if index.predicate is not None and _answer(connection, index.predicate, "FALSE", emptied):
            return True
        if index.nulls_are_equal:
            return False
        is_null = (_answer(connection, each, "NULL", emptied) for each in index.expressions)
        return bool({*index.columns} & {*self._values}) or any(is_null)


def _answer(connection: Any, expression: str, answer: LiteralString, emptied: sql.Composed) -> bool:
    """Whether an expression is so for a deleted row; not where it asks for more than the values and whether it is
    deleted.
    """
    query = sql.SQL("SELECT ({}) IS {} FROM (SELECT {}) AS emptied").format(_of_server(expression), sql.SQL(answer), emptied)
    try:
        with connection.transaction():
            return bool(connection.execute(query).fetchone()[0])
    except psycopg.Error:
        return False


def unbounded(column: TargetColumn) -> sql.Composable:
    """The column of the rows that wait to be merged: where its type might change values, it has a type that does not."""
    name = sql.Identifier(column.name)
    if not column.form.is_compared:
        return name
    return sql.SQL("{0}::{1} AS {0}").format(name, _of_server(column.type.unbounded))


def is_changed(column: TargetColumn) -> sql.Composed:
    """Whether the type of a column changes a value of :func:`unbounded`; ``character(n)`` fills text up with spaces."""
    name, kind = sql.Identifier(column.name), _of_server(column.type.shown)
    if column.type.plain == "character":
        (length,) = column.type.numbers
        return sql.SQL("rtrim({0}, ' ') IS DISTINCT FROM {0}::{1}::text OR ({0} LIKE '% ' AND length({0}) <> {2})").format(
            name, kind, sql.Literal(length)
        )
    if column.type.is_rewritten:
        same = sql.SQL("translate({}, {}, '') IS DISTINCT FROM translate({}::{}::text, {}, '')")
        return same.format(name, _QUOTES, name, kind, _QUOTES)
    return sql.SQL("{0} IS DISTINCT FROM {0}::{1}::{2}").format(name, kind, _of_server(column.type.unbounded))


def merged_value(column: TargetColumn) -> sql.Composable:
    """A value of :func:`unbounded` as the column's type has it."""
    name = sql.Identifier(column.name)
    return sql.SQL("{}::{} AS {}").format(name, _of_server(column.type.shown), name) if column.type.is_rewritten else name


def kept_value(column: TargetColumn) -> sql.Composed:
    """Of a column its name, a value that is written as its type has it, and the one that is there."""
    name, kind = sql.Identifier(column.name), _of_server(column.type.shown)
    return sql.SQL("({}, staged.{}::{}::text, kept.{}::text)").format(sql.Literal(column.name), name, kind, name)


def catalog_text(connection: Any, quoted: str) -> str:
    """What the catalog says of the table that is ``quoted`` in SQL: another text where anything of it has been altered."""
    (text,) = connection.execute(_CATALOG, [quoted, quoted]).fetchone()
    return str(text)


def _of_server(text: str) -> sql.SQL:
    """SQL that the server has written itself."""
    return sql.SQL(text)
