"""Describes the tables of a PostgreSQL publication: their columns and keys, and what tells one table from another."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from beam_joins.columns.compared import ComparedTable
from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.base.input_error import BEGIN_ANEW
from beam_joins.pipelines.formats.envelopes.row_change import is_meant
from beam_joins.pipelines.formats.read_plan import Kind
from beam_joins.pipelines.formats.types.postgres_equality import PostgresColumn
from beam_joins.pipelines.formats.types.postgres_types import arrow_type
from beam_joins.pipelines.systems.postgres.compared_columns import compared_columns
from beam_joins.pipelines.systems.postgres.pgoutput import Column, Table

with needs("postgres"):
    import psycopg
    from psycopg import sql

_PUBLICATION: Final = """
    SELECT oid::int8, xmin::text, pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s
"""
_PUBLISHED: Final = """
    SELECT schemaname::text, tablename::text, to_jsonb(published) -> 'attnames', to_jsonb(published) ->> 'rowfilter',
        pg_class.oid::int8, relreplident::text, relkind = 'p'
    FROM pg_publication_tables AS published JOIN pg_namespace ON nspname = schemaname
        JOIN pg_class ON relnamespace = pg_namespace.oid AND relname = tablename
    WHERE pubname = %s ORDER BY 1, 2
"""
_COLUMNS: Final = """
    SELECT attnum::int4, attname::text, format_type(atttypid, atttypmod), atttypid::int8 FROM pg_attribute
    WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND (attgenerated = '' OR %s) ORDER BY attnum
"""
_KEY: Final = """
    SELECT array(SELECT attname::text FROM unnest(indkey::int2[]) WITH ORDINALITY AS keys (number, place)
        JOIN pg_attribute ON attrelid = indrelid AND attnum = number WHERE place <= indnkeyatts ORDER BY place)
    FROM pg_index WHERE indrelid = %s AND CASE WHEN %s THEN indisreplident ELSE indisprimary END
"""
_TREE: Final = """
    WITH RECURSIVE tree (oid, depth, since) AS (SELECT %s::oid, 0, ''
        UNION ALL SELECT inhrelid, depth + 1, pg_inherits.xmin::text FROM tree JOIN pg_inherits ON inhparent = tree.oid
            WHERE to_jsonb(pg_inherits) ->> 'inhdetachpending' IS DISTINCT FROM 'true')
    SELECT pg_class.oid::int8, relfilenode::int8, since, format('%%I.%%I', nspname, relname), relkind = 'f' OR relpersistence <> 'p',
        CASE WHEN pg_type.xmin::text = since AND (relkind = 'p' OR relfilenode = pg_class.oid) AND EXISTS (
            SELECT FROM pg_attribute AS of_type WHERE attrelid = pg_class.oid AND attnum > 0
                AND of_type.xmin = pg_type.xmin AND of_type.cmin = pg_type.cmin) THEN since::int8 END
    FROM tree JOIN pg_class USING (oid) JOIN pg_namespace ON pg_namespace.oid = relnamespace JOIN pg_type ON pg_type.oid = reltype
    ORDER BY depth, pg_class.oid
"""
"""A partition that was made as such, and is as it was made, has columns of the command that has made its type."""
_ABOVE: Final = """
    WITH RECURSIVE above (oid, since) AS (SELECT %s::oid, ''
        UNION ALL SELECT inhparent, pg_inherits.xmin::text FROM above JOIN pg_inherits ON inhrelid = oid)
"""
_ENTRIES: Final = f"""
    {_ABOVE} SELECT entries.oid::int8, entries.xmin::text
    FROM above JOIN pg_publication_rel AS entries ON prrelid = above.oid WHERE prpubid = %s
    UNION ALL SELECT oid::int8, since FROM above WHERE since <> '' ORDER BY 1, 2
"""
_ENTRIES_OF_SCHEMAS: Final = f"""
    {_ABOVE} SELECT DISTINCT entries.oid::int8, entries.xmin || ' ' || pg_class.xmin
    FROM above JOIN pg_class USING (oid) JOIN pg_publication_namespace AS entries ON pnnspid = relnamespace
    WHERE pnpubid = %s ORDER BY 1
"""
"""A table that is moved to another schema and back shows in its own row alone."""
_SCHEMAS_PUBLISHED: Final = """
    SELECT (pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_deleted(oid))::int8 FROM pg_class
    WHERE oid = 'pg_catalog.pg_publication_namespace'::regclass
"""
"""A schema that is published overrides the row filters of its tables, and leaves no row in the catalog when it is no more."""
# enumerations and composite types may lie deep within arrays, domains, ranges and each other
_LABELS: Final = """
    WITH RECURSIVE types (oid) AS (
        SELECT unnest(%s::oid[])
        UNION SELECT part.oid FROM types JOIN pg_type USING (oid) LEFT JOIN pg_range ON rngtypid = pg_type.oid
            LEFT JOIN pg_attribute ON typtype = 'c' AND attrelid = typrelid AND attnum > 0 AND NOT attisdropped
            CROSS JOIN LATERAL unnest(ARRAY[typelem, typbasetype, rngsubtype, atttypid]) AS part (oid) WHERE part.oid <> 0)
    SELECT 'label ' || pg_enum.oid, enumlabel || ' ' || pg_enum.xmin FROM types JOIN pg_enum ON enumtypid = types.oid
    UNION ALL SELECT 'type ' || types.oid, string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnum,
            pg_attribute.xmin), ', ' ORDER BY attnum)
        FROM types JOIN pg_type USING (oid)
            JOIN pg_attribute ON typtype = 'c' AND attrelid = typrelid AND attnum > 0 AND NOT attisdropped
        GROUP BY types.oid
    ORDER BY 1
"""
_ATTEMPTS: Final = 3
_PAUSE: Final = 0.1
"""The seconds between two attempts."""
_TRANSACTIONS: Final = 1 << 32
_PUBLISHES_GENERATED: Final = 180_000
_PUBLISHES_SCHEMAS: Final = 150_000

Parts: TypeAlias = Mapping[int, Mapping[int, int]]
"""The parts of relations that have changes in a log: :attr:`~beam_joins.pipelines.systems.postgres.pgoutput.Pgoutput.parts`."""
Difference = Literal["", "extended", "altered", "replaced"]
"""The difference of a table from its remembered identity: ``extended`` by partitions that may have had rows,
``replaced`` where its changes in the log are not those of the rows that were read.
"""


class PublishedTable(NamedTuple):
    """A table of a publication as it is now.

    ``numbers`` are those of its columns: a column that is dropped and added again has another one. ``identity`` is the
    letter of its REPLICA IDENTITY, and ``rows`` the row filter of the publication. ``storage`` are OID and file of the
    table and then of its partitions or children, with the transaction that has attached them; a TRUNCATE and a rewrite
    give a table another file. ``places`` are their names by OID. ``entries`` are the rows of the catalog that publish
    the table or attach it to another one, and ``labels`` those of its enumerations and composite types: each with the
    transaction that has written it. ``unlogged`` are partitions whose changes are not in the log. ``schemas`` counts how often a
    schema of the database was published or no longer so, for a table with a row filter.
    """

    oid: int
    table: Table
    numbers: tuple[int, ...]
    identity: str
    is_partitioned: bool
    rows: str | None
    storage: tuple[tuple[int, int, str], ...]
    entries: tuple[tuple[int, str], ...]
    labels: dict[str, str]
    unlogged: tuple[str, ...]
    places: dict[int, str]
    schemas: int | None = None
    born: Mapping[int, int] = MappingProxyType({})
    """The partitions that were made as such and neither detached nor rewritten since, with the transaction that has made them:
    the log of later ones has all their rows."""
    compared: Mapping[str, PostgresColumn] = MappingProxyType({})
    """The columns by name, as the database compares their values."""

    @property
    def columns(self) -> pa.Schema:
        """The columns, with the types that their values are read in."""
        return pa.schema([(column.name, arrow_type(column.type)) for column in self.table.columns])

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of the keys in the columns, in words."""
        held = {"numbers": "whole numbers", "booleans": "true or false"}
        return {column.name: held.get(column.texts, "text") for column in self.table.columns}

    def compared_by(self, key: Sequence[str]) -> ComparedTable:
        """The columns as the database compares them, in a table by this key."""
        values = tuple((name, (column,)) for name, column in self.compared.items())
        return ComparedTable(tuple(self.compared[name] for name in key), values)

    @property
    def remembered(self) -> dict[str, Any]:
        """The identity of the table, which the next round compares, as JSON has it."""
        return {
            "oid": self.oid,
            "columns": [[number, each.name, each.type] for number, each in zip(self.numbers, self.table.columns, strict=True)],
            "key": [*self.table.key],
            "rows": self.rows,
            "storage": [[*each] for each in self.storage],
            "entries": [[*each] for each in self.entries],
            "labels": self.labels,
            "schemas": self.schemas,
        }

    def difference(self, before: Mapping[str, Any] | None, logged: Parts = MappingProxyType({})) -> tuple[Difference, str]:
        """The difference of the table from its ``remembered`` identity, by the catalog and the ``logged`` parts of relations,
        and the same in words.
        """
        if before is None:
            return "replaced", ""
        now = self.remembered
        labels = {name: self.labels.get(name) for name in before["labels"]}
        is_whole = all(part in now["storage"] for part in before["storage"][1:])
        parts: list[tuple[Any, Any, Difference, str]] = [
            (now["oid"], before["oid"], "replaced", "another table of this name"),
            (now["entries"], before["entries"], "replaced", "published anew"),
            (now["rows"], before["rows"], "replaced", "published with another row filter"),
            (now["schemas"], before.get("schemas", now["schemas"]), "replaced", "schemas published, perhaps without the row filter"),
            (is_whole, True, "replaced", "partitions detached, truncated or rewritten"),
            (self._was_elsewhere(before, logged), False, "replaced", "part of another table for a while"),
            (any(part not in self.places for part in logged.get(self.oid, ())), False, "replaced", "partitions for a while"),
            (self._has_hidden_changes(before, logged.get(self.oid, {})), False, "replaced", "partitions attached and changed"),
            (now["columns"], before["columns"], "altered", "columns altered"),
            (now["storage"][0], before["storage"][0], "altered", "truncated or rewritten"),
            (labels, before["labels"], "altered", "types altered"),
            (len(now["storage"]), len(before["storage"]), "extended", "partitions attached"),
        ]
        return next(((difference, why) for is_, was, difference, why in parts if is_ != was), ("", ""))

    def parts_since(self, before: Mapping[str, Any]) -> list[str]:
        """The names, as SQL has them, of the partitions that were attached since."""
        return [self.places[oid] for oid, file, since in self.storage if file and [oid, file, since] not in before["storage"]]

    def _was_elsewhere(self, before: Mapping[str, Any], logged: Parts) -> bool:
        """Whether changes of the table, or of partitions that it has as before, were published as those of another one."""
        own = {self.oid, *(oid for oid, *rest in self.storage if [oid, *rest] in before["storage"])}
        return any(not own.isdisjoint(parts) for relation, parts in logged.items() if relation not in own)

    def _has_hidden_changes(self, before: Mapping[str, Any], logged: Mapping[int, int]) -> bool:
        """Whether a partition that was attached since has changes in the log, which may lack others: before it was attached,
        in between, or a TRUNCATE by its own name.
        """
        attached = [(oid, file) for oid, file, since in self.storage[1:] if [oid, file, since] not in before["storage"]]
        is_clear = all(file or oid in self.born for oid, file in attached)
        return any(
            not is_clear or oid not in self.born or not _is_later(logged[oid], self.born[oid]) for oid, _ in attached if oid in logged
        )

    def require_readable(self, before: Mapping[str, Any] | None) -> None:
        """Raise InputError for a table some rows of which the log does not have, and for one that had another primary key
        ``before``.
        """
        name = self.table.full_name
        if len(self.storage) > 1 and not self.is_partitioned:
            raise InputError(
                f"{name} has child tables (INHERITS), whose rows the log has under their own names: read the child tables themselves, "
                "or make it a partitioned table"
            )
        if self.unlogged:
            raise InputError(
                f"{name} has partitions whose changes are not in the log, foreign or unlogged: {', '.join(self.unlogged)}"
            )
        earlier, key = set(() if before is None else before["key"]), {*self.table.key}
        if earlier not in (set(), key) and not (self.identity == "f" and set() < key < earlier):
            raise InputError(
                f"the primary key of {name} was {', '.join(sorted(earlier))} in the last run, and now is "
                f"{', '.join(self.table.key) or 'gone'}: {BEGIN_ANEW}"
            )


def published_tables(connection: Any, publication: str, wanted: Sequence[str] = ()) -> dict[str, PublishedTable]:
    """The tables of a publication, or the wanted ones, by their full names, as of one moment: that of the transaction that the
    connection is in, or now.

    Raises InputError if there is no such publication, if it lacks a table or publishes only some changes, and
    for a table whose changes do not name their row.
    """
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        return _described_together(connection, publication, wanted)
    for _ in range(_ATTEMPTS - 1):
        with suppress(InputError):  # functions of the server may know tables that are made or renamed since the moment began
            return _at_one_moment(connection, publication, wanted)
        time.sleep(_PAUSE)
    return _at_one_moment(connection, publication, wanted)


def _at_one_moment(connection: Any, publication: str, wanted: Sequence[str]) -> dict[str, PublishedTable]:
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return _described_together(connection, publication, wanted)


def _described_together(connection: Any, publication: str, wanted: Sequence[str]) -> dict[str, PublishedTable]:
    row = connection.execute(_PUBLICATION, [publication]).fetchone()
    if row is None:
        raise InputError(f"there is no publication {publication}: make one with CREATE PUBLICATION or beam-joins slot create")
    oid, version, is_whole = row
    if not is_whole:
        every = "SET (publish = 'insert, update, delete, truncate')"
        raise InputError(f"the publication {publication} publishes only some changes: ALTER PUBLICATION {publication} {every}")
    published = {f"{schema}.{name}": (schema, name, *row) for schema, name, *row in connection.execute(_PUBLISHED, [publication])}
    matches = list(published) if not wanted else [_named(publication, published, each) for each in wanted]
    if len(set(matches)) < len(matches):
        raise InputError(f"{', '.join(wanted)} are not all different tables: name each once")
    return {name: _described(connection, (oid, version), *published[name]) for name in matches}


def _named(publication: str, names: Mapping[str, tuple[Any, ...]], wanted: str) -> str:
    matches = [name for name, (schema, table, *_) in names.items() if is_meant(wanted, schema, table)]
    if len(matches) > 1:
        raise InputError(f"the publication {publication} has {' and '.join(matches)}: name one of them with its schema")
    if not matches:
        raise InputError(f"the publication {publication} has no table {wanted}; it has {', '.join(names) or 'none'}")
    return matches[0]


def _described(
    connection: Any,
    publication: tuple[int, str],
    schema: str,
    name: str,
    published: Sequence[str] | None,
    rows: str | None,
    oid: int,
    identity: str,
    is_partitioned: bool,
) -> PublishedTable:
    version = connection.info.server_version
    columns = connection.execute(_COLUMNS, [oid, version >= _PUBLISHES_GENERATED]).fetchall()
    columns = [each for each in columns if published is None or each[1] in published]
    key = connection.execute(_KEY, [oid, identity == "i"]).fetchone()
    table = Table(schema, name, [Column(*each) for _, *each in columns], () if key is None else key[0])
    require_identity(table.full_name, identity, table.key)
    tree = connection.execute(_TREE, [oid]).fetchall()
    queries = (_ENTRIES, _ENTRIES_OF_SCHEMAS) if version >= _PUBLISHES_SCHEMAS else (_ENTRIES,)
    entries = [entry for query in queries for entry in connection.execute(query, [oid, publication[0]])]
    is_filtered = rows is not None and version >= _PUBLISHES_SCHEMAS
    schemas = connection.execute(_SCHEMAS_PUBLISHED).fetchone() if is_filtered else None
    labels = connection.execute(_LABELS, [[column.oid for column in table.columns]]).fetchall()
    return PublishedTable(
        oid=oid,
        table=table,
        numbers=tuple(number for number, *_ in columns),
        identity=identity,
        is_partitioned=is_partitioned,
        rows=rows,
        storage=tuple((each, file, since) for each, file, since, *_ in tree),
        entries=(publication, *entries),
        labels=dict(labels),
        unlogged=tuple(name for *_, name, is_unlogged, _ in tree[1:] if is_unlogged),
        places={each: name for each, _, _, name, *_ in tree},
        schemas=None if schemas is None else schemas[0],
        born={each: since for each, *_, since in tree if since is not None},
        compared=compared_columns(connection, oid, table),
    )


def require_identity(name: str, identity: str, key: Sequence[str]) -> None:
    """Raise InputError for a table whose updates and deletes would not say which row they change."""
    if identity == "n":
        raise InputError(
            f"the REPLICA IDENTITY of {name} is NOTHING, so that its changes do not say of which row they are: "
            f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT"
        )
    if not key and identity == "d":
        raise InputError(
            f"{name} has no primary key: give it one, or ALTER TABLE {name} REPLICA IDENTITY FULL and name the columns of its key"
        )


def _is_later(transaction: int, other: int) -> bool:
    """Whether a transaction has a later number, which are counted in 32 bits and begin again."""
    return 0 < (transaction - other) % _TRANSACTIONS < _TRANSACTIONS // 2


def type_names(connection: Any) -> Mapping[tuple[int, int], str]:
    """The names of types by OID and modifier, which are asked for when they are needed."""
    return _TypeNames(connection)


class _TypeNames(dict[tuple[int, int], str]):
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __missing__(self, key: tuple[int, int]) -> str:
        (name,) = self._connection.execute("SELECT format_type(%s, %s)", list(key)).fetchone()
        self[key] = name
        return str(name)


def qualified(table: Table) -> sql.Identifier:
    """The table's name in a statement."""
    return sql.Identifier(table.schema, table.name)
