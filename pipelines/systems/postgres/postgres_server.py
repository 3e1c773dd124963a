"""Connects to a PostgreSQL server and queries it about its log and slots; an error of the server is one sentence."""

import logging
import re
import select
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, NamedTuple

from beam_joins.errors import InputError, Unavailable
from beam_joins.extras import needs
from beam_joins.pipelines.formats.envelopes.row_change import lsn
from beam_joins.pipelines.systems.postgres.sessions import session

with needs("postgres"):
    import psycopg

_SESSION: Final = """
    SELECT set_config(name, value, false) FROM (VALUES ('TimeZone', 'UTC'), ('DateStyle', 'ISO'), ('IntervalStyle', 'postgres'),
        ('extra_float_digits', '1'), ('bytea_output', 'hex'), ('statement_timeout', '0'), ('search_path', 'pg_catalog'),
        ('client_encoding', 'UTF8'), ('row_security', 'off'), ('lock_timeout', '20s')) AS settings (name, value)
    WHERE name <> 'lock_timeout' OR current_setting(name) = '0'
"""
"""Values have one text, whatever the role or the database are set to; rows that a policy hides are an error."""
_SLOT: Final = """
    SELECT plugin::text, database = current_database(), active_pid, confirmed_flush_lsn::text,
        coalesce(to_jsonb(slots) ->> 'wal_status', ''), coalesce(to_jsonb(slots) ->> 'invalidation_reason', '')
    FROM pg_replication_slots AS slots WHERE slot_name = %s
"""
_LOG: Final = """
    SELECT system_identifier::text, substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8) FROM pg_control_system()
"""
_OPEN: Final = """
    SELECT sentence FROM (
        SELECT xact_start AS since, format('process %s of %s in %s%s', pid, coalesce(usename, '?'), coalesce(datname, '?'),
            coalesce(' (' || concat_ws(', ', nullif(application_name, ''), state) || ')', '')) AS sentence
        FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL SELECT prepared, format('the prepared transaction %L of %s in %s', gid, owner, database) FROM pg_prepared_xacts
    ) AS transactions ORDER BY since NULLS LAST
"""
_LOCK_TIMEOUT: Final = """
    SELECT milliseconds FROM (SELECT name, CASE setting WHEN '0' THEN '20000' ELSE setting END AS milliseconds FROM pg_settings)
        AS settings WHERE name = 'lock_timeout' AND set_config(name, milliseconds, false) <> ''
"""
_LOCKED: Final = b"55P03"
_OPEN_SHOWN: Final = 3
_PATIENT_SECONDS: Final = 3
"""The seconds that a statement waits for others before a warning says so."""
_LOOK_SECONDS: Final = 0.5
_HOLDERS: Final = """
    SELECT DISTINCT format('process %%s of %%s in %%s%%s', pid, coalesce(usename, '?'), coalesce(datname, '?'),
        coalesce(' (' || concat_ws(', ', nullif(application_name, ''), state) || ')', ''))
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (pid = %(pid)s OR %(pid)s::int IS NULL AND EXISTS (
        SELECT FROM pg_locks WHERE pg_locks.pid = pg_stat_activity.pid AND granted AND mode = 'AccessExclusiveLock'
            AND locktype = 'relation'))
    ORDER BY 1
"""
_PROCESS: Final = re.compile(r"PID (\d+)")
_LONGER: Final = (
    "let it wait for longer, as with options='-c lock_timeout=10min' for the connection (in an address "
    "options=-c%20lock_timeout%3D10min)"
)
_REMEDIES: Final = {
    "row-level security": "the role needs BYPASSRLS (ALTER ROLE), as a policy may hide rows from it that the log has",
    "all replication slots are in use": (
        "drop one that no job reads (SELECT slot_name FROM pg_replication_slots WHERE NOT active), or raise max_replication_slots "
        "and restart the server; reading the rows of a table needs one more for a while"
    ),
    "may not be used as an output plugin": (
        "the server's administrator adds it to output_plugin_libraries and reloads the configuration (ALTER SYSTEM SET "
        "output_plugin_libraries = ..., SELECT pg_reload_conf())"
    ),
}
"""What to do, by words of the server."""
_REFUSED: Final = re.compile(
    r"authentication failed|no password supplied|pg_hba|not permitted|permission denied|(?:role|database) \S+ does not exist"
    r"|certificate|does not support|invalid|replication role|REPLICATION attribute"
)
"""The words of a server, or of the client, that refuses a connection for good."""
_PASSING: Final = ("08", "57P0", "53300", "55P03", "55006", "40001", "40P01", "25006")
"""The beginnings of codes of errors that pass: of connections, a server that stops or starts, too many sessions, what others have
locked or read, deadlocks, and a server that is not the primary one.
"""
_NEEDS_REPLICATION: Final = re.compile("replication role|REPLICATION attribute|WAL sender|walsender|replication slots$")


_log: Final = logging.getLogger(__name__)


class LogIdentity(NamedTuple):
    """Which log a place is in: the ``system`` identifier of the server, and the ``timeline``, which a promoted or
    restored server begins anew.
    """

    system: str
    timeline: str


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


@contextmanager
def server_errors(what: str, conninfo: str = "") -> Iterator[None]:
    """Within the block an error of the server is an InputError of one sentence that begins with ``what``, and names who holds
    what a statement has waited for.
    """
    try:
        yield
    except psycopg.Error as error:
        message = error.diag.message_primary or (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = f": {error.diag.message_hint.rstrip('.')}" if error.diag.message_hint else ""
        if _NEEDS_REPLICATION.search(f"{message} {error.diag.message_detail or ''}".strip()):
            hint = ": the role needs REPLICATION (ALTER ROLE)"
        elif (remedy := next((remedy for words, remedy in _REMEDIES.items() if words in message), None)) is not None:
            hint = f": {remedy}"
        elif isinstance(error, psycopg.errors.InsufficientPrivilege):
            hint = ": the role needs the privilege (GRANT)"
        elif isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.ObjectInUse):
            hint = _held(conninfo, message)
        kind = Unavailable if is_out_of_reach(error) else InputError
        raise kind(f"{what}: {message}{hint}") from None


def is_out_of_reach(error: Any) -> bool:
    """Whether an error of the driver says that the server does not answer now, or that a session is in the way: a repetition may
    succeed.
    """
    if not isinstance(error, psycopg.OperationalError | psycopg.errors.ReadOnlySqlTransaction | psycopg.errors.ObjectInUse):
        return False
    if error.sqlstate is None:  # there is no connection, or none any more
        return not _REFUSED.search(str(error))
    return bool(error.sqlstate.startswith(_PASSING))


def _held(conninfo: str, message: str) -> str:
    """The sessions that hold a lock or a slot for which a statement has waited, and the remedy."""
    pid = _PROCESS.search(message)
    remedy = "stop it, or give each job a slot of its own" if pid else f"end that, or {_LONGER}"
    holders = list[str]()
    with suppress(psycopg.Error), connected(conninfo, options="-c lock_timeout=1s") as connection:
        holders = [each for (each,) in connection.execute(_HOLDERS, {"pid": None if pid is None else int(pid[1])})]
    held = f" ({', '.join(holders[:_OPEN_SHOWN])})" if holders else ""
    return f"{held}: {remedy}" if pid else f", as it is locked{held or ' by another session (pg_locks)'}: {remedy}"


def connected(conninfo: str, **options: Any) -> AbstractContextManager[Any]:
    """A connection within a block, which commits by itself, and writes values in one way."""
    return session(conninfo, () if "replication" in options else (_SESSION,), **options)


def slot_status(connection: Any, slot: str) -> SlotStatus | None:
    """The status of a slot on the server; None where there is none."""
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


def log_identity(connection: Any) -> LogIdentity:
    """Which log the server writes now."""
    return LogIdentity(*connection.execute(_LOG).fetchone())


def run_patiently(what: str, conninfo: str, connection: Any, statement: bytes) -> Any:
    """Run a statement that waits for all open transactions of the server, as a statement that makes a slot does; returns its
    result.

    After some seconds the open transactions are named. Raises InputError, which names them too, when it has waited as long
    as the session's ``lock_timeout``, by default 20 seconds. An exception, such as that of a signal, cancels the statement.
    """
    pgconn, is_told = connection.pgconn, False
    (milliseconds,) = connection.execute(_LOCK_TIMEOUT).fetchone()
    seconds = int(milliseconds) / 1000
    begin = time.monotonic()
    pgconn.send_query(statement)
    try:
        while pgconn.flush() or pgconn.is_busy():
            if select.select([pgconn.socket], [], [], _LOOK_SECONDS)[0]:
                pgconn.consume_input()
            elif (waited := time.monotonic() - begin) > seconds:
                raise _waited(what, conninfo, seconds)
            elif waited > _PATIENT_SECONDS and not is_told:
                is_told = True
                _log.warning("%s: waiting for open transactions of the server%s", what, _open_transactions(conninfo))
    except BaseException:
        pgconn.get_cancel().cancel()
        connection.close()
        raise
    made, _ = pgconn.get_result(), pgconn.get_result()  # the second one is the end
    if made.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == _LOCKED:  # the server's own clock was first
        raise _waited(what, conninfo, seconds)
    if made.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.OperationalError(made.error_message.decode(errors="replace").removeprefix("ERROR:").strip())
    return made


def _waited(what: str, conninfo: str, seconds: float) -> InputError:
    return InputError(
        f"{what}: waited {seconds:,.0f} s for open transactions of the server{_open_transactions(conninfo)}: end them, or {_LONGER}"
    )


def _open_transactions(conninfo: str) -> str:
    with connected(conninfo) as connection:
        sentences = [sentence for (sentence,) in connection.execute(_OPEN)]
    more = f" and {len(sentences) - _OPEN_SHOWN} more" if len(sentences) > _OPEN_SHOWN else ""
    return f": {', '.join(sentences[:_OPEN_SHOWN])}{more}" if sentences else ""
