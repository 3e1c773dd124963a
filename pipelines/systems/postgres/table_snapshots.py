"""Reads the rows of published tables as they are at one place in the log."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.csv

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.formats.changelog_columns import micros_of
from beam_joins.pipelines.formats.envelopes.row_change import INSERT, TRUNCATE, UPSERT, lsn
from beam_joins.pipelines.systems.postgres.pgoutput import LoggedChange, Table, no_text
from beam_joins.pipelines.systems.postgres.postgres_server import connected, run_patiently
from beam_joins.pipelines.systems.postgres.published_tables import PublishedTable, qualified
from beam_joins.pipelines.systems.postgres.slot_changes import TableFile
from beam_joins.tables.key_handover import Life

with needs("postgres"):
    import psycopg
    from psycopg import sql

_FILE: Final = "SELECT oid::int8, coalesce(pg_relation_filenode(oid), 0)::int8 FROM (SELECT %s::oid) AS of_table (oid)"
_FILES_OF_PARTITIONS: Final = "SELECT relid::int8, coalesce(pg_relation_filenode(relid), 0)::int8 FROM pg_partition_tree(%s)"
_BYTES: Final = 16 << 20
_ATTACHED: Final = "attached"
"""The mark in place of the content of a row that replaces the one at its key."""


class Slot(NamedTuple):
    """Where changes come from: a slot of the database that ``conninfo`` names, and a publication."""

    conninfo: str
    name: str
    publication: str


@contextmanager
def snapshot_of(slot: Slot) -> Iterator[tuple[int, str]]:
    """A place in the log, and the name of a snapshot that has every transaction whose commit begins before it
    and no other.
    """
    with connected(slot.conninfo, replication="database") as connection:
        statement = f'CREATE_REPLICATION_SLOT "beam_joins_{uuid4().hex}" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT'
        made = run_patiently(f"PostgreSQL, slot {slot.name}", slot.conninfo, connection, statement.encode())
        yield lsn(made.get_value(0, 1).decode()), made.get_value(0, 2).decode()


def copy_rows(
    conninfo: str,
    connection: Any,
    published: PublishedTable,
    file: TableFile,
    position: int,
    attached: Sequence[str] | None,
    most_rows: int | None,
) -> None:
    """Write the rows of a table, as the transaction of ``connection`` sees them, in place of those of before, or those of
    partitions that are ``attached`` to it.
    """
    table = published.table
    (now,) = connection.execute("SELECT now()").fetchone()
    life = Life(before=_ATTACHED, after=_ATTACHED) if attached is not None else Life(True)
    change = LoggedChange(INSERT if attached is None else UPSERT, micros_of(now), position, 1, life=life.text())
    if attached is None:
        file.write(change._replace(operation=TRUNCATE, order=0, life=None, row=[None] * len(table.columns)), 0)
    try:
        for statement in _copy_statements(published, attached, most_rows):
            with connection.cursor().copy(statement) as copy:
                for lines in _chunks(copy):
                    rows = _rows(lines, table)
                    file.write_rows(rows, change)
                    change = change._replace(order=change.order + len(rows))
    except psycopg.errors.CharacterNotInRepertoire:
        raise InputError(no_text(table, _column_without_text(conninfo, table))) from None


def is_in_place(connection: Any, table: PublishedTable) -> bool:
    """Whether a table and its partitions still lie where the snapshot has them: a TRUNCATE, a partition that is attached or
    detached, and an ALTER TABLE that rewrites show in older snapshots too.
    """
    now = connection.execute(_FILES_OF_PARTITIONS if table.is_partitioned else _FILE, [table.oid]).fetchall()
    return {*now} == {(oid, storage) for oid, storage, _ in table.storage}


def _chunks(copy: Any) -> Iterator[bytes]:
    """Whole rows of CSV, some at a time."""
    lines, size = list[bytes](), 0
    for line in copy:
        lines.append(bytes(line))
        size += len(line)
        if size > _BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def _rows(lines: bytes, table: Table) -> pa.RecordBatch:
    r"""Rows of CSV as columns of texts, where null is nothing and an empty text a pair of quotes.

    >>> from beam_joins.pipelines.systems.postgres.pgoutput import Column
    >>> _rows(b'\n""\n"a\nb"\n', Table("public", "t", [Column("c", "text", 25)])).to_pylist()
    [{'c': None}, {'c': ''}, {'c': 'a\nb'}]
    """
    read = pa.csv.read_csv(
        pa.BufferReader(lines),
        pa.csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=list(table.names)),
        pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pa.csv.ConvertOptions(
            column_types=dict.fromkeys(table.names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return read.combine_chunks().to_batches()[0]


def _copy_statements(published: PublishedTable, attached: Sequence[str] | None, most_rows: int | None) -> Iterator[sql.Composed]:
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in published.table.columns)
    whole = sql.SQL("{}{}").format(sql.SQL("" if published.is_partitioned else "ONLY "), qualified(published.table))
    rows = sql.SQL(f" WHERE {published.rows}" if published.rows else "")  # as the catalog has it
    most = sql.SQL("" if most_rows is None else " LIMIT {}").format(sql.Literal(most_rows))
    for source in [whole] if attached is None else map(sql.SQL, attached):
        yield sql.SQL("COPY (SELECT {} FROM {}{}{}) TO STDOUT (FORMAT csv)").format(columns, source, rows, most)


def _column_without_text(conninfo: str, table: Table) -> str:
    """The column that has a value which is no UTF-8."""
    checked = sql.SQL("SELECT count(convert_from(convert_to({}::text, 'SQL_ASCII'), 'UTF8')) FROM {}")
    with connected(conninfo) as connection:
        for name in table.names:
            try:
                connection.execute(checked.format(sql.Identifier(name), qualified(table)))
            except psycopg.errors.CharacterNotInRepertoire:
                return name
    return "?"
