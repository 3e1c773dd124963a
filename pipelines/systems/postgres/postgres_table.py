"""Merges rows into a PostgreSQL table by key and position; an error of the server is one sentence."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, LiteralString, TypeVar

from beam_joins.errors import InputError, OutputError, Unavailable
from beam_joins.extras import needs
from beam_joins.pipelines.formats.types.target_types import target_type
from beam_joins.pipelines.results.run_mark import Mark, NotAsLeft
from beam_joins.pipelines.results.table_columns import TableColumns
from beam_joins.pipelines.systems.postgres.copy_text import copy_text
from beam_joins.pipelines.systems.postgres.postgres_forms import PostgresType, is_wider, require_names
from beam_joins.pipelines.systems.postgres.postgres_mark import PostgresMarks
from beam_joins.pipelines.systems.postgres.postgres_server import is_out_of_reach
from beam_joins.pipelines.systems.postgres.postgres_target import (
    PostgresTarget,
    TargetReader,
    catalog_text,
    is_changed,
    kept_value,
    merged_value,
    unbounded,
)
from beam_joins.pipelines.systems.postgres.sessions import end_session, open_session, session

with needs("postgres"):
    import psycopg
    from psycopg import sql

_Written = TypeVar("_Written")
_STAGED_ROWS: Final = sql.Identifier("beam_joins staged")
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts; a transaction that another one or the server has ended is done again."""
_LOCK_TIMEOUT: Final = "SELECT set_config('lock_timeout', '30s', false) WHERE current_setting('lock_timeout') = '0'"
"""The longest wait in one attempt for a row that somebody else has locked, unless the user says another."""
_SESSION: Final = """
    SELECT set_config(name, value, false) FROM (VALUES ('TimeZone', 'UTC'), ('DateStyle', 'ISO, MDY'), ('IntervalStyle', 'postgres'),
        ('extra_float_digits', '1'), ('bytea_output', 'hex'), ('array_nulls', 'on'), ('xmloption', 'content'),
        ('client_encoding', 'UTF8'), ('synchronous_commit', 'local')) AS settings (name, value)
    WHERE name <> 'synchronous_commit' OR current_setting(name) = 'off'
"""
"""A text is one value, whatever the role, the database or the environment are set to; what is committed is on the disk, as the
state of a run counts it.
"""
_SETTINGS: Final = (_LOCK_TIMEOUT, _SESSION)
_SCHEMA: Final = "SELECT to_regnamespace(%s) IS NULL"
_CREATE: Final = "CREATE TABLE {table} ({columns}, {position} bigint NOT NULL, {deleted} boolean NOT NULL, PRIMARY KEY ({key}))"
_VIEW: Final = "CREATE VIEW {view} AS SELECT {shown} FROM {table} WHERE NOT {deleted}"
_ADD: Final = "ALTER TABLE {table} ADD COLUMN {added}"
_MADE: Final = "made by beam_joins"
_COMMENT: Final = "COMMENT ON TABLE {table} IS {made}"
_COMMENTED: Final = "SELECT obj_description(to_regclass(%s), 'pg_class')"
_ALTER: Final = "ALTER TABLE {table} {altered}"
_REPLACE_VIEW: Final = "CREATE OR REPLACE VIEW {view} AS SELECT {names} FROM {table} WHERE NOT {deleted}"
_DROP_VIEW: Final = "DROP VIEW {view}"
_GRANTED: Final = """
    SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, privilege_type
    FROM pg_class CROSS JOIN aclexplode(relacl) WHERE oid = to_regclass(%s) AND grantee <> relowner
"""
_TYPES: Final = """
    SELECT attname::text, format_type(atttypid, atttypmod), format_type(atttypid, NULL) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_NAMES: Final = """
    SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_NO_STAGED: Final = "DROP TABLE IF EXISTS pg_temp.{staged}"
_STAGED: Final = "CREATE TEMPORARY TABLE {staged} ON COMMIT DELETE ROWS AS SELECT {unbounded} FROM {table} WITH NO DATA"
_DELETE: Final = "DELETE FROM {table}"
_BEGIN_ANEW: Final = "UPDATE {table} SET {position} = {before} WHERE {position} >= {at}"
_DELETE_EARLIER: Final = "UPDATE {table} SET {nulls}{deleted} = true WHERE {position} < {at} AND NOT {deleted}"
_HAS_ROWS: Final = "SELECT EXISTS (SELECT FROM {table})"
_HOLD: Final = "LOCK TABLE {table} IN ROW EXCLUSIVE MODE"
"""What the catalog says of a table does not change until the end of the transaction."""
_HOLDERS: Final = """
    SELECT pid, usename::text, coalesce(nullif(application_name, ''), 'without a name'), state,
        to_char(xact_start, 'YYYY-MM-DD HH24:MI:SS TZ')
    FROM pg_stat_activity JOIN pg_locks USING (pid)
    WHERE pid <> pg_backend_pid() AND relation = to_regclass(%s) AND granted ORDER BY xact_start LIMIT 1
"""
_COPY: Final = "COPY {staged} ({all}) FROM STDIN (ENCODING 'UTF8')"
_CHANGED: Final = """
    SELECT compared.name, compared.type, compared.value
    FROM {staged} CROSS JOIN LATERAL (VALUES {compared}) AS compared (name, type, value, is_changed) WHERE compared.is_changed LIMIT 1
"""
# rows are locked in the order of their keys, so that two transactions do not wait for each other
_LOCK: Final = """
    SELECT count(*) FROM (SELECT FROM {table} AS kept WHERE EXISTS (SELECT FROM {staged} AS staged WHERE {same_key})
        ORDER BY {key} FOR UPDATE) AS locked
"""
_RELEASE: Final = """
    UPDATE {table} AS kept SET {nulls}{deleted} = true
    FROM (SELECT {key}, max({position}) AS {position} FROM {staged} GROUP BY {key}) AS staged
    WHERE {same_key} AND staged.{position} > kept.{position}
"""
_MERGE: Final = """
    INSERT INTO {table} AS kept ({all}) OVERRIDING SYSTEM VALUE
    SELECT DISTINCT ON ({key}) {merged} FROM {staged} ORDER BY {key}, {position} DESC
    ON CONFLICT ({key}) DO UPDATE SET {set} WHERE excluded.{position} > kept.{position}
"""
_AT_ONCE: Final = "SET CONSTRAINTS ALL IMMEDIATE"  # triggers that would fire at the end
_KEPT: Final = """
    SELECT compared.name, compared.value, compared.actual
    FROM (SELECT DISTINCT ON ({key}) * FROM {staged} ORDER BY {key}, {position} DESC) AS staged
        LEFT JOIN {table} AS kept ON {same_key} CROSS JOIN LATERAL (VALUES {kept}) AS compared (name, value, actual)
    WHERE kept.{position} IS NULL OR kept.{position} < staged.{position}
        OR (kept.{position} = staged.{position} AND compared.value IS DISTINCT FROM compared.actual)
    ORDER BY compared.value IS NOT DISTINCT FROM compared.actual LIMIT 1
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

    ``in_one``: whether all changes of a run are merged in one transaction; ``has_view``: whether the table is
    to get a view of the rows that are not deleted; ``is_marked``: whether a state remembers the marks of its runs;
    ``lines_come_later``: whether lines are made within the transaction.

    Raises InputError for names that PostgreSQL does not keep.
    """

    conninfo: str
    name: str
    columns: TableColumns
    position: str
    deleted: str
    in_one: bool = False
    has_view: bool = False
    is_marked: bool = False
    lines_come_later: bool = False
    _target: PostgresTarget | None = field(default=None, compare=False)
    _connection: Any = field(default=None, compare=False)
    _looked: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_names(self.name, self._names, has_view=self.has_view)

    def __getstate__(self) -> dict[str, Any]:
        """A connection stays in its process."""
        return {**self.__dict__, "_connection": None}

    @property
    def _names(self) -> list[str]:
        return [*self.columns.key.names, *self.columns.values.names, self.position, self.deleted]

    def exists(self) -> bool:
        """Whether the table is there. Raises InputError if the server does not say it, and for a schema that is not
        there.
        """
        with self._saying(InputError), self._connected() as connection:
            return self._is_there(connection, self.name)

    def has_rows(self) -> bool:
        """Whether the table, which is there, has rows. Raises InputError if the server does not say it."""
        with self._saying(InputError), self._connected() as connection:
            return bool(connection.execute(self._sql(_HAS_ROWS)).fetchone()[0])

    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        """Creates the table and its view if requested; raises InputError for a table that rows cannot be
        merged into, and NotAsLeft for one without the mark of the ``last`` run. ``widen``: columns that the table lacks are added
        if requested, to its view too, null in the rows that are there; and in a table that was created so, types that are narrower
        than those of the rows get as wide.
        """
        if create:
            require_names(self.name, self._names, has_view=True)
        _ = self._sql(_CREATE)  # a column without a type in PostgreSQL is refused before the server is asked
        with self._saying(InputError), self._connected() as connection, connection.transaction(force_rollback=not create):
            if create:
                # two that create a table at once would fail
                connection.execute("SELECT pg_advisory_xact_lock(hashtext('beam_joins'))")
                self._create(connection, self.name, _CREATE)
            self._require_left(connection, last)
            if widen:
                self._add_columns(connection)
                self._widen_types(connection)
            self._target = self._read(connection)
            if create:
                self._create(connection, f"{self.name}_live", _VIEW)

    def _create(self, connection: Any, name: str, statement: LiteralString) -> None:
        if not self._is_there(connection, name):
            connection.execute(self._sql(statement))
            if statement == _CREATE:
                connection.execute(self._sql(_COMMENT, made=sql.Literal(_MADE)))

    def _add_columns(self, connection: Any) -> None:
        added = [field for field in self.columns.values if field.name not in self._columns_of(connection, self.name)]
        for each in added:
            kind = sql.SQL(target_type("postgres", each.name, each.type))
            connection.execute(self._sql(_ADD, added=sql.SQL("{} {}").format(sql.Identifier(each.name), kind)))
        if added and (shown := self._columns_of(connection, f"{self.name}_live")):  # a view only gets columns at its end
            names = [*shown, *(each.name for each in added if each.name not in shown)]
            connection.execute(self._sql(_REPLACE_VIEW, names=sql.SQL(", ").join(map(sql.Identifier, names))))

    def _widen_types(self, connection: Any) -> None:
        if connection.execute(_COMMENTED, [self._identifier(self.name).as_string()]).fetchone() != (_MADE,):
            return  # the types of a table of somebody else are theirs
        types = {name: PostgresType(*of) for name, *of in connection.execute(_TYPES, [self._identifier(self.name).as_string()])}
        altered = list[sql.Composed]()
        for each in self.columns.values:
            kind = target_type("postgres", each.name, each.type)
            if each.name in types and is_wider(types[each.name], PostgresType(kind, kind.partition("(")[0])):
                altered.append(sql.SQL("ALTER COLUMN {} TYPE {}").format(sql.Identifier(each.name), sql.SQL(kind)))
        if not altered:
            return
        view = self._identifier(f"{self.name}_live")
        shown = self._columns_of(connection, f"{self.name}_live")
        granted = connection.execute(_GRANTED, [view.as_string()]).fetchall()
        if shown:  # the type of a column in a view stays
            connection.execute(self._sql(_DROP_VIEW))
        connection.execute(self._sql(_ALTER, altered=sql.SQL(", ").join(altered)))
        if shown:
            connection.execute(self._sql(_REPLACE_VIEW, names=sql.SQL(", ").join(map(sql.Identifier, shown))))
        for role, privilege in granted:
            connection.execute(sql.SQL("GRANT {} ON {} TO {}").format(sql.SQL(privilege), view, sql.SQL(role)))

    def _columns_of(self, connection: Any, name: str) -> list[str]:
        """The names of the columns of a relation, in order; none if it is not there."""
        return [each for (each,) in connection.execute(_NAMES, [self._identifier(name).as_string()])]

    def _is_there(self, connection: Any, name: str) -> bool:
        schema, point, _ = name.rpartition(".")
        if point and connection.execute(_SCHEMA, [self._identifier(schema).as_string()]).fetchone() == (True,):
            raise InputError(f'PostgreSQL, table {self.name}: schema "{schema}" does not exist: create it')
        return bool(connection.execute("SELECT to_regclass(%s)", [self._identifier(name).as_string()]).fetchone() != (None,))

    def _read(self, connection: Any) -> PostgresTarget:
        quoted = self._identifier(self.name).as_string()
        return TargetReader(self.name, quoted, self.columns, self.position, self.deleted, in_one=self.in_one).read(connection)

    def lines(self, columns: Sequence[Any]) -> bytes:
        """The columns of a batch, as :class:`TableColumns` makes them, as lines for :meth:`merge`; raises
        OutputError for values that their columns would change.
        """
        if self._target is None:
            with self._saying(InputError), self._connected() as connection, connection.transaction():
                self._target = self._read(connection)
        try:
            return copy_text(columns, self._target.columns)
        except ValueError as error:
            raise OutputError(f"PostgreSQL, table {self.name}: {error}") from None

    def merge(self, pieces: Iterable[bytes], *, anew: bool = False, last: Mark | None = None, replaces: int | None = None) -> Mark:
        """Merges the rows of all pieces in one transaction, which is repeated, from the first piece on, if the
        server has ended it; ``anew``: in place of all rows that are there; ``replaces``: in place of those that precede this
        position. Raises OutputError if that fails, and NotAsLeft for a table without the mark of the ``last`` run. Gives the
        mark of this one.
        """
        return self._repeated(partial(self._merge, pieces, anew=anew, last=last, replaces=replaces))

    def require_left(self, last: Mark | None) -> None:
        """Raises NotAsLeft for a table without the mark of the ``last`` run, and InputError if the server does not say it."""
        with self._saying(InputError), self._connected() as connection:
            self._require_left(connection, last)

    def _require_left(self, connection: Any, last: Mark | None) -> None:
        if last is not None and (how := self._marks.lacks(connection, last)) is not None:
            raise NotAsLeft(f"the table {self.name}", how)

    @property
    def _marks(self) -> PostgresMarks:
        key, values = self.columns.key.names, self.columns.values.names
        return PostgresMarks(self._identifier(self.name), key, values, self.position, self.deleted)

    def begin_anew(self, position: int) -> None:
        """Has all rows precede this position, so that those that a run merges at it or behind it are newer: a late transaction
        of an earlier attempt at the run changes none of them. Raises OutputError.
        """
        self._repeated(partial(self._begin_anew, position))

    def _begin_anew(self, position: int) -> None:
        with self._connected() as connection:
            connection.execute(self._sql(_BEGIN_ANEW, before=sql.Literal(position - 1), at=sql.Literal(position)))

    def _repeated(self, write: Callable[[], _Written]) -> _Written:
        """Calls a function until the server does not end its transaction. Raises OutputError."""
        for pause in _PAUSES:
            try:
                with self._saying(OutputError, retry=True):
                    return write()
            except psycopg.OperationalError:
                self.close()
                time.sleep(pause)
        with self._saying(OutputError):
            return write()

    def _merge(self, pieces: Iterable[bytes], *, anew: bool, last: Mark | None, replaces: int | None) -> Mark:
        if self._connection is None:
            self._connection, self._looked = open_session(self.conninfo, _SETTINGS), None
        connection = self._connection
        with connection.transaction():
            connection.execute(self._sql(_HOLD))
            if (looked := catalog_text(connection, self._identifier(self.name).as_string())) != self._looked:
                self._take(self._read(connection))
                connection.execute(self._sql(_NO_STAGED))
                connection.execute(self._sql(_STAGED))
                self._looked = looked
            assert self._target is not None
            if anew:
                connection.execute(self._sql(_DELETE))
                if self._target.triggers and connection.execute(self._sql(_HAS_ROWS)).fetchone() == (True,):
                    raise OutputError(f"PostgreSQL, table {self.name}: rows stay that are deleted: {self._triggers}")
            else:
                self._require_left(connection, last)
            with connection.cursor().copy(self._sql(_COPY)) as copy:
                for piece in pieces:
                    copy.write(piece)
            if self._compared and (changed := connection.execute(self._sql(_CHANGED)).fetchone()):
                name, kind, value = changed
                raise OutputError(
                    f"PostgreSQL, table {self.name}: the column {name} is {kind}, which does not hold {value!r} as it is"
                )
            if self._target.hands_on and not anew:
                connection.execute(self._sql(_LOCK))
                connection.execute(self._sql(_RELEASE))
            if replaces is not None:
                connection.execute(self._sql(_DELETE_EARLIER, at=sql.Literal(replaces)))
            connection.execute(self._sql(_MERGE))
            if self._target.triggers:
                self._read_back(connection)
            return self._marks.left(connection, _STAGED_ROWS, None if anew else last) if self.is_marked else {}

    def _read_back(self, connection: Any) -> None:
        """Raises OutputError if the rows are not there as they were merged, as triggers have changed them."""
        connection.execute(_AT_ONCE)
        if (changed := connection.execute(self._sql(_KEPT)).fetchone()) is not None:
            name, value, actual = changed
            raise OutputError(
                f"PostgreSQL, table {self.name}: the column {name} has {actual!r} in place of {value!r}: {self._triggers}"
            )

    @property
    def _triggers(self) -> str:
        assert self._target is not None
        return f"a trigger of the table changes rows ({', '.join(self._target.triggers)}): disable it, or write to another table"

    def _take(self, target: PostgresTarget) -> None:
        """Write into a target. Raises OutputError if the lines for it have been written for other columns."""
        is_other = self._target is not None and [each[::2] for each in self._target.columns] != [each[::2] for each in target.columns]
        if is_other and not self.lines_come_later:
            raise OutputError(f"PostgreSQL, table {self.name}: the table was altered since the pipeline was built: run it again")
        self._target = target

    def close(self) -> None:
        """Ends the session, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            end_session(connection)

    def _connected(self) -> AbstractContextManager[Any]:
        return session(self.conninfo, _SETTINGS)

    @contextmanager
    def _saying(self, kind: type[InputError], *, retry: bool = False) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if retry and isinstance(error, psycopg.OperationalError):
                raise
            self.close()
            message = error.diag.message_primary or (str(error).splitlines() or [type(error).__name__])[0]
            if isinstance(error, psycopg.errors.LockNotAvailable):
                message += self._holder()
            # of COPY's "COPY staged, line 3, column n: ..." only the column says something to the user
            _, _, column = (error.diag.context or "").partition(", column ")
            kind = Unavailable if is_out_of_reach(error) else kind
            raise kind(f"PostgreSQL, table {self.name}: {message}{f' (column {column.splitlines()[0]})' if column else ''}") from None

    def _holder(self) -> str:
        """The session that has locked the table for the longest time, and what to do."""
        with suppress(psycopg.Error), self._connected() as connection:
            if (row := connection.execute(_HOLDERS, [self._identifier(self.name).as_string()]).fetchone()) is not None:
                pid, role, application, state, since = row
                return (
                    f": the session {pid} of {role} ({application}, {state}) has it locked since {since}: end its transaction, or the "
                    f"session with pg_terminate_backend({pid})"
                )
        return ""

    @property
    def _compared(self) -> list[sql.Composed]:
        """Of each column whose type might change values: its name, its type, a value as text, and whether it is changed."""
        return [
            sql.SQL("({}, {}, {}::text, {})").format(
                sql.Literal(each.name), sql.Literal(each.type.shown), sql.Identifier(each.name), is_changed(each)
            )
            for each in (self._target.columns if self._target is not None else ())
            if each.form.is_compared
        ]

    def _sql(self, statement: LiteralString, **more: sql.Composable) -> sql.Composed:
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
            staged=_STAGED_ROWS,
            columns=comma.join(typed),
            key=comma.join(map(sql.Identifier, key.names)),
            same_key=sql.SQL(" AND ").join(sql.SQL("kept.{0} = staged.{0}").format(sql.Identifier(name)) for name in key.names),
            shown=comma.join(map(sql.Identifier, self._names[:-1])),
            all=comma.join(map(sql.Identifier, self._names)),
            merged=comma.join(map(merged_value, self._target.columns if self._target is not None else ())),
            unbounded=comma.join(map(unbounded, self._target.columns if self._target is not None else ())),
            compared=comma.join(self._compared),
            kept=comma.join(map(kept_value, self._target.columns if self._target is not None else ())),
            set=comma.join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in merged),
            nulls=sql.SQL("").join(sql.SQL("{} = NULL, ").format(sql.Identifier(name)) for name in values.names),
            position=sql.Identifier(self.position),
            deleted=sql.Identifier(self.deleted),
            **more,
        )

    @staticmethod
    def _identifier(name: str) -> sql.Identifier:
        return sql.Identifier(*name.split("."))
