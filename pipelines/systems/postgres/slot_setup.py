"""Creates, shows and drops slots and publications."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.formats.envelopes.row_change import lsn_text
from beam_joins.pipelines.systems.postgres.postgres_server import (
    connected,
    flushed,
    require_logical,
    run_patiently,
    server_errors,
    slot_status,
)
from beam_joins.pipelines.systems.postgres.published_tables import published_tables, require_identity
from beam_joins.pipelines.systems.postgres.table_snapshots import Slot

with needs("postgres"):
    from psycopg import sql

_TABLE: Final = """
    SELECT nspname::text, relname::text, relreplident::text,
        array(SELECT indkey::text FROM pg_index WHERE indrelid = pg_class.oid AND (indisprimary OR indisreplident))
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass(%s)
"""
_HAS_PUBLICATION: Final = "SELECT FROM pg_publication WHERE pubname = %s"
_CREATE: Final = "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"


def create_slot(slot: Slot, tables: Sequence[str]) -> str:
    """Make a slot, and its publication of tables unless there is one; what was made, in words.

    A table whose changes would not say of which row they are is refused before it is published: the server
    then refuses its updates and deletes. Raises InputError.
    """
    with server_errors(f"PostgreSQL, slot {slot.name}", slot.conninfo), connected(slot.conninfo) as connection:
        require_logical(connection)
        if slot_status(connection, slot.name) is not None:
            raise InputError(f"there is a slot {slot.name} already: drop it, or give this one another name")
        exists = connection.execute(_HAS_PUBLICATION, [slot.publication]).fetchone() is not None
        if not exists and not tables:
            raise InputError(f"there is no publication {slot.publication}: name with --tables those that it is to have")
        if not exists:
            names = [_checked(connection, table) for table in tables]
            publication = sql.SQL(_CREATE).format(sql.Identifier(slot.publication), sql.SQL(", ").join(names))
            connection.execute(publication)  # before the slot, whose log does not know later ones
        try:
            published = published_tables(connection, slot.publication, tables)
            for table in published.values() if tables else ():
                table.require_readable(None)
            make = sql.SQL("SELECT pg_create_logical_replication_slot({}, 'pgoutput')").format(sql.Literal(slot.name))
            run_patiently(f"PostgreSQL, slot {slot.name}", slot.conninfo, connection, make.as_bytes())
        except BaseException:
            if not exists:
                with connected(slot.conninfo) as another:  # a statement that was given up has closed the first one
                    another.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(slot.publication)))
            raise
        return f"slot {slot.name} is there, with the publication {slot.publication} of {', '.join(published)}"


def _checked(connection: Any, table: str) -> sql.Identifier:
    names = [(table[: dot.start()], table[dot.end() :]) for dot in re.finditer(r"\.", table)] or [("public", table)]
    for schema, relation in names:  # of a schema and of a table the name may have dots
        name = sql.Identifier(schema, relation)
        row = connection.execute(_TABLE, [name.as_string()]).fetchone()
        if row is not None:
            require_identity(f"{row[0]}.{row[1]}", *row[2:])
            return name
    remedy = "check the name" if "." in table else "check the name, or write it as SCHEMA.NAME"
    raise InputError(f"there is no table {table if '.' in table else f'public.{table}'}: {remedy}")


def shown_slot(slot: Slot) -> Iterator[str]:
    """The lines that describe a slot and its publication. Raises InputError."""
    with server_errors(f"PostgreSQL, slot {slot.name}", slot.conninfo), connected(slot.conninfo) as connection:
        status = slot_status(connection, slot.name)
        if status is None:
            raise InputError(f"there is no slot {slot.name}: make it with beam-joins slot create")
        user = f", in use by the process {status.active_pid}" if status.active_pid else ""
        lost = f", lost ({status.invalidation or 'max_slot_wal_keep_size'})" if status.is_lost else ""
        yield f"slot         {slot.name}, of {status.plugin}{user}{lost}"
        yield f"read up to   {lsn_text(status.confirmed)}, {flushed(connection) - status.confirmed:,} bytes behind the server"
        if connection.execute(_HAS_PUBLICATION, [slot.publication]).fetchone() is not None:
            yield f"publication  {slot.publication}, of {', '.join(published_tables(connection, slot.publication)) or 'no tables'}"


def drop_slot(slot: Slot) -> str:
    """Drop a slot and its publication; what was dropped, in words. Raises InputError."""
    with server_errors(f"PostgreSQL, slot {slot.name}", slot.conninfo), connected(slot.conninfo) as connection:
        dropped = []
        if slot_status(connection, slot.name) is not None:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot.name])
            dropped.append(f"the slot {slot.name}")
        if connection.execute(_HAS_PUBLICATION, [slot.publication]).fetchone() is not None:
            connection.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(slot.publication)))
            dropped.append(f"the publication {slot.publication}")
        if not dropped:
            raise InputError(f"there is neither a slot {slot.name} nor a publication {slot.publication}")
        return f"dropped {' and '.join(dropped)}"
