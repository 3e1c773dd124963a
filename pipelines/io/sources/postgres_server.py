"""Queries a PostgreSQL server about slots, publications and tables."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from beam_joins.pipelines.base.extras import needs
from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.formats.envelopes.pgoutput import Column, Table
from beam_joins.pipelines.formats.envelopes.row_change import is_meant, lsn

with needs("postgres"):
    import psycopg
    from psycopg import sql

_CONNECT_SECONDS: Final = 10
_SESSION: Final = """
    SELECT set_config(name, value, false) FROM (VALUES ('TimeZone', 'UTC'), ('DateStyle', 'ISO'), ('IntervalStyle', 'postgres'),
        ('extra_float_digits', '1'), ('bytea_output', 'hex'), ('statement_timeout', '0'), ('search_path', 'pg_catalog'),
        ('client_encoding', 'UTF8')) AS settings (name, value)
"""
"""Values have one text, whatever the role or the database are set to."""
_SLOT: Final = """
    SELECT plugin::text, database = current_database(), active_pid, confirmed_flush_lsn::text,
        coalesce(to_jsonb(slots) ->> 'wal_status', ''), coalesce(to_jsonb(slots) ->> 'invalidation_reason', '')
    FROM pg_replication_slots AS slots WHERE slot_name = %s
"""
_PUBLICATION: Final = "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s"
_PUBLISHED: Final = """
    SELECT schemaname::text, tablename::text, to_jsonb(published) -> 'attnames', to_jsonb(published) ->> 'rowfilter',
        pg_class.oid::int8, relreplident::text, relfilenode::int8
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
        JOIN pg_attribute ON attrelid = indrelid AND attnum = number ORDER BY place)
    FROM pg_index WHERE indrelid = %s AND CASE WHEN %s THEN indisreplident ELSE indisprimary END
"""
_PUBLISHES_GENERATED: Final = 180_000
_NEEDS_REPLICATION: Final = re.compile("replication role|REPLICATION attribute|WAL sender|walsender|replication slots$")


class SlotStatus(NamedTuple):
    """``confirmed`` is where the log has been read up to, as the server knows it."""

    plugin: str
    is_here: bool
    active_pid: int | None
    confirmed: int
    wal_status: str
    invalidation: str

    @property
    def is_lost(self) -> bool:
        """Whether the server has removed a part of the log that the slot has not read."""
        return self.wal_status == "lost" or bool(self.invalidation)


class PublishedTable(NamedTuple):
    """A table as it is now: ``identity`` is the letter of its REPLICA IDENTITY, ``numbers`` are those of its
    columns, which a dropped and added one has another of, ``rows`` the filter of the publication.
    """

    oid: int
    table: Table
    numbers: tuple[int, ...]
    identity: str
    storage: int
    rows: str | None

    @property
    def columns_said(self) -> list[list[Any]]:
        """The columns, so that any change of them shows, as JSON has it."""
        return [[number, each.name, each.type] for number, each in zip(self.numbers, self.table.columns, strict=True)]


@contextmanager
def server_errors(what: str) -> Iterator[None]:
    """Within the block an error of the server is an InputError of one sentence that begins with ``what``."""
    try:
        yield
    except psycopg.Error as error:
        message = error.diag.message_primary or (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = f": {error.diag.message_hint.rstrip('.')}" if error.diag.message_hint else ""
        if _NEEDS_REPLICATION.search(f"{message} {error.diag.message_detail or ''}".strip()):
            hint = ": the role needs REPLICATION (ALTER ROLE)"
        elif isinstance(error, psycopg.errors.InsufficientPrivilege):
            hint = ": the role needs the privilege (GRANT)"
        raise InputError(f"{what}: {message}{hint}") from None


def connected(conninfo: str, **options: Any) -> Any:
    """A connection that commits by itself, and writes values in one way."""
    named = psycopg.conninfo.conninfo_to_dict(conninfo)
    if "connect_timeout" not in named and "PGCONNECT_TIMEOUT" not in os.environ:
        options["connect_timeout"] = _CONNECT_SECONDS
    connection = psycopg.connect(conninfo, autocommit=True, **options)
    if "replication" not in options:
        connection.execute(_SESSION)
    return connection


def slot_status(connection: Any, slot: str) -> SlotStatus | None:
    """What the server says of a slot; None where there is none."""
    row = connection.execute(_SLOT, [slot]).fetchone()
    if row is None:
        return None
    plugin, is_here, pid, confirmed, wal_status, invalidation = row
    return SlotStatus(plugin, bool(is_here), pid, 0 if confirmed is None else lsn(confirmed), wal_status, invalidation)


def flushed(connection: Any) -> int:
    """Where the log ends that is on the server's disk."""
    return lsn(connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()[0])


def require_logical(connection: Any) -> None:
    """Raise InputError for a server that keeps too little in its log."""
    (level,) = connection.execute("SHOW wal_level").fetchone()
    if level != "logical":
        raise InputError(f"the server's wal_level is {level}: set it to logical (ALTER SYSTEM SET wal_level = logical) and restart it")


def published_tables(connection: Any, publication: str, wanted: Sequence[str] = ()) -> dict[str, PublishedTable]:
    """The tables of a publication, or the wanted ones, by their full names.

    Raises InputError if there is no such publication, if it lacks a table or publishes only some changes, and
    for a table whose changes do not name their row.
    """
    row = connection.execute(_PUBLICATION, [publication]).fetchone()
    if row is None:
        raise InputError(f"there is no publication {publication}: make one with CREATE PUBLICATION or beam-joins slot create")
    if row != (True,):
        every = "SET (publish = 'insert, update, delete, truncate')"
        raise InputError(f"the publication {publication} publishes only some changes: ALTER PUBLICATION {publication} {every}")
    published = {f"{schema}.{name}": (schema, name, *row) for schema, name, *row in connection.execute(_PUBLISHED, [publication])}
    matches = list(published) if not wanted else [_named(publication, published, each) for each in wanted]
    if len(set(matches)) < len(matches):
        raise InputError(f"{', '.join(wanted)} are not all different tables: name each once")
    return {name: _described(connection, *published[name]) for name in matches}


def _named(publication: str, names: Mapping[str, tuple[Any, ...]], wanted: str) -> str:
    matches = [name for name, (schema, table, *_) in names.items() if is_meant(wanted, schema, table)]
    if len(matches) > 1:
        raise InputError(f"the publication {publication} has {' and '.join(matches)}: name one of them with its schema")
    if not matches:
        raise InputError(f"the publication {publication} has no table {wanted}; it has {', '.join(names) or 'none'}")
    return matches[0]


def _described(
    connection: Any,
    schema: str,
    name: str,
    published: Sequence[str] | None,
    rows: str | None,
    oid: int,
    identity: str,
    storage: int,
) -> PublishedTable:
    generated = connection.info.server_version >= _PUBLISHES_GENERATED
    columns = connection.execute(_COLUMNS, [oid, generated]).fetchall()
    columns = [each for each in columns if published is None or each[1] in published]
    key = connection.execute(_KEY, [oid, identity == "i"]).fetchone()
    table = Table(schema, name, [Column(*each) for _, *each in columns], () if key is None else key[0])
    require_identity(table.full_name, identity, table.key)
    return PublishedTable(oid, table, tuple(number for number, *_ in columns), identity, storage, rows)


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
