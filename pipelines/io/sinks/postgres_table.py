"""Merges rows into a PostgreSQL table by key and position; an error of the server is one sentence."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

from beam_joins.pipelines.base.extras import needs
from beam_joins.pipelines.base.input_error import InputError, OutputError
from beam_joins.pipelines.formats.target_types import target_type
from beam_joins.pipelines.io.sinks.copy_text import copy_text
from beam_joins.pipelines.io.sinks.table_columns import TableColumns

with needs("postgres"):
    import psycopg
    from psycopg import sql

_PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts; a transaction that another one or the server has ended is done again."""

_CONNECT_SECONDS: Final = 10
"""How long an attempt to connect takes, unless the user says it."""
_LOCK_TIMEOUT: Final = "SELECT set_config('lock_timeout', '30s', false) WHERE current_setting('lock_timeout') = '0'"
"""How long a row that somebody else has locked is waited for in one attempt, unless the user says it."""
_COLUMNS: Final = """
    SELECT attname::text, attnotnull, typname IN ('bpchar', 'citext') OR NOT coalesce(collisdeterministic, true)
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid LEFT JOIN pg_collation ON pg_collation.oid = attcollation
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_UNIQUE: Final = """
    SELECT (SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY (indkey))
    FROM pg_index WHERE indrelid = to_regclass(%s) AND indisunique AND indimmediate AND indpred IS NULL AND indexprs IS NULL
"""
_CREATE: Final = "CREATE TABLE {table} ({columns}, {position} bigint NOT NULL, {deleted} boolean NOT NULL, PRIMARY KEY ({key}))"
_VIEW: Final = "CREATE VIEW {view} AS SELECT {shown} FROM {table} WHERE NOT {deleted}"
_STAGED: Final = "CREATE TEMPORARY TABLE IF NOT EXISTS {staged} ON COMMIT DELETE ROWS AS SELECT {all} FROM {table} WITH NO DATA"
_DELETE: Final = "DELETE FROM {table}"
_COPY: Final = "COPY {staged} ({all}) FROM STDIN (ENCODING 'UTF8')"
# rows are locked in the order of their keys, so that two transactions do not wait for each other
_MERGE: Final = """
    INSERT INTO {table} AS kept ({all}) SELECT DISTINCT ON ({key}) {all} FROM {staged} ORDER BY {key}, {position} DESC
    ON CONFLICT ({key}) DO UPDATE SET {set} WHERE excluded.{position} > kept.{position}
"""


def checked_conninfo(conninfo: str) -> str:
    """Checks a connection string or URI; raises ``ValueError`` if PostgreSQL does not accept its form."""
    if not isinstance(conninfo, str):
        raise ValueError(f"conninfo={conninfo!r}: give NAME=VALUE ... or postgresql://USER@HOST:PORT/DATABASE")
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        message = str(error).strip()
        raise ValueError(f"conninfo: {message}: give NAME=VALUE ... or postgresql://USER@HOST:PORT/DATABASE") from None
    return conninfo


@dataclass
class PostgresTable:
    """A PostgreSQL table, SCHEMA.NAME or NAME, in the database of ``conninfo``; keeps its connection open
    after the first write.
    """

    conninfo: str
    name: str
    columns: TableColumns
    position: str
    deleted: str
    _connection: Any = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """A connection stays in its process."""
        return {**self.__dict__, "_connection": None}

    @property
    def _names(self) -> list[str]:
        return [*self.columns.key.names, *self.columns.values.names, self.position, self.deleted]

    def exists(self) -> bool:
        """Whether the table is there. Raises InputError if the server does not say it."""
        with self._saying(InputError), self._connected() as connection:
            named = self._identifier(self.name).as_string()
            return bool(connection.execute("SELECT to_regclass(%s)", [named]).fetchone() != (None,))

    def prepare(self, *, create: bool) -> None:
        """Creates the table and its view if requested; raises InputError for a table that rows cannot be
        merged into.
        """
        _ = self._sql(_CREATE)  # a column without a type in PostgreSQL is refused before the server is asked
        with self._saying(InputError), self._connected() as connection, connection.transaction():
            if create:
                # two that create a table at once would fail
                connection.execute("SELECT pg_advisory_xact_lock(hashtext('beam_joins'))")
                self._create(connection, self.name, _CREATE)
            self._check(connection)
            if create:
                self._create(connection, f"{self.name}_live", _VIEW)

    def _create(self, connection: Any, name: str, statement: LiteralString) -> None:
        if connection.execute("SELECT to_regclass(%s)", [self._identifier(name).as_string()]).fetchone() == (None,):
            connection.execute(self._sql(statement))

    def _check(self, connection: Any) -> None:
        quoted = self._identifier(self.name).as_string()
        columns = {name: (never_null, loose) for name, never_null, loose in connection.execute(_COLUMNS, [quoted]).fetchall()}
        if not columns:
            raise InputError(f"there is no table {self.name} in the database: create it, or say create=True")
        if missing := [name for name in self._names if name not in columns]:
            raise InputError(f"the table {self.name} has no column {', '.join(missing)}; it has {', '.join(columns)}")
        if loose := [name for name in self.columns.key.names if columns[name][1]]:
            raise InputError(
                f"the column {', '.join(loose)} of the table {self.name} takes keys for one that differ in case, "
                "accents or spaces: make it text"
            )
        if never := [name for name in self.columns.values.names if columns[name][0]]:
            raise InputError(
                f"the column {', '.join(never)} of the table {self.name} is NOT NULL, and is null where a row is "
                "deleted: let it be null"
            )
        if not any({*names} == {*self.columns.key.names} for (names,) in connection.execute(_UNIQUE, [quoted])):
            raise InputError(
                f"the table {self.name} has no primary key or unique index of the columns {', '.join(self.columns.key.names)}"
            )

    def lines(self, columns: Sequence[Any]) -> bytes:
        """The columns of a batch, as :class:`TableColumns` makes them, as lines for :meth:`merge`; raises
        OutputError for times that PostgreSQL would round.
        """
        try:
            return copy_text(columns)
        except ValueError as error:
            raise OutputError(f"PostgreSQL, table {self.name}: {error}: PostgreSQL keeps microseconds, so round them before") from None

    def merge(self, pieces: Iterable[bytes], *, anew: bool = False) -> None:
        """Merges the rows of all pieces in one transaction, which is repeated, from the first piece on, if the
        server has ended it; ``anew``: in place of all rows that are there. Raises OutputError if that fails.
        """
        for pause in (*_PAUSES, None):
            try:
                with self._saying(OutputError, retry=pause is not None):
                    self._merge(pieces, anew=anew)
                return
            except psycopg.OperationalError:
                self.close()
                time.sleep(pause or 0)

    def _merge(self, pieces: Iterable[bytes], *, anew: bool) -> None:
        if self._connection is None:
            self._connection = self._connected()
            self._connection.execute(self._sql(_STAGED))
        with self._connection.transaction():
            if anew:
                self._connection.execute(self._sql(_DELETE))
            with self._connection.cursor().copy(self._sql(_COPY)) as copy:
                for piece in pieces:
                    copy.write(piece)
            self._connection.execute(self._sql(_MERGE))

    def close(self) -> None:
        """Closes the connection, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Any:
        is_limited = "connect_timeout" in psycopg.conninfo.conninfo_to_dict(self.conninfo) or "PGCONNECT_TIMEOUT" in os.environ
        limit: dict[str, Any] = {} if is_limited else {"connect_timeout": _CONNECT_SECONDS}
        connection = psycopg.connect(self.conninfo, autocommit=True, **limit)
        connection.execute(_LOCK_TIMEOUT)
        return connection

    @contextmanager
    def _saying(self, kind: type[InputError], *, retry: bool = False) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if retry and isinstance(error, psycopg.OperationalError):
                raise
            self.close()
            message = error.diag.message_primary or (str(error).splitlines() or [type(error).__name__])[0]
            # of COPY's "COPY staged, line 3, column n: ..." only the column says something to the user
            _, _, column = (error.diag.context or "").partition(", column ")
            raise kind(f"PostgreSQL, table {self.name}: {message}{f' (column {column.splitlines()[0]})' if column else ''}") from None

    def _sql(self, statement: LiteralString) -> sql.Composed:
        key, values = self.columns.key, self.columns.values
        comma = sql.SQL(", ")
        typed = [
            sql.SQL("{} {}").format(sql.Identifier(each.name), sql.SQL(target_type("postgres", each.name, each.type)))
            for each in (*key, *values)
        ]
        merged = [*values.names, self.position, self.deleted]
        return sql.SQL(statement).format(
            table=self._identifier(self.name),
            view=self._identifier(f"{self.name}_live"),
            staged=sql.Identifier("beam_joins staged"),
            columns=comma.join(typed),
            key=comma.join(map(sql.Identifier, key.names)),
            shown=comma.join(map(sql.Identifier, self._names[:-1])),
            all=comma.join(map(sql.Identifier, self._names)),
            set=comma.join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in merged),
            position=sql.Identifier(self.position),
            deleted=sql.Identifier(self.deleted),
        )

    @staticmethod
    def _identifier(name: str) -> sql.Identifier:
        return sql.Identifier(*name.split("."))
