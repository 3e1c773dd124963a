"""Rounds of reading a PostgreSQL slot: each reads what was committed since the one before into files, and the
first one the rows that are there.

A transaction belongs to the round in whose range its commit begins. A table is read as it is at the end of a
round where the log does not say what its rows are: in the first round; once it is another table, has other
columns, partitions or files, or is published otherwise; and where the log shows that it was so for a while. A round
leaves a mark behind its end in the log, which is not there any more once the server's files were put back and others
were written since.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.changelogs.round_files import RoundFiles
from beam_joins.pipelines.formats.envelopes.row_change import lsn, lsn_text
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.systems.postgres.pgoutput import Pgoutput, Shape, message_of
from beam_joins.pipelines.systems.postgres.postgres_server import (
    LogIdentity,
    connected,
    flushed,
    log_identity,
    require_logical,
    server_errors,
    slot_status,
)
from beam_joins.pipelines.systems.postgres.published_tables import PublishedTable, published_tables, type_names
from beam_joins.pipelines.systems.postgres.slot_changes import SlotChanges, TableFile
from beam_joins.pipelines.systems.postgres.table_snapshots import Slot, copy_rows, is_in_place, snapshot_of

with needs("postgres"):
    import psycopg
    from psycopg import sql

_PEEK: Final = """
    SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s, NULL,
        VARIADIC ARRAY['proto_version', '1', 'publication_names', %s] || %s::text[])
"""
_MESSAGES: Final = ["messages", "true"]
_SENDS_MESSAGES: Final = 140_000
_MARK: Final = "SELECT pg_logical_emit_message(true, %s, %s)"
_PREFIX: Final = "beam_joins"
IDLE_BYTES: Final = 16 << 20
"""So far behind a slot may be without a change: then a run moves it on, so that the server can forget its log."""
_FETCHED: Final = 2_000
_ANY_BYTES: Final = "SQL_ASCII"
"""The encoding of databases that do not look at the bytes of text."""
_ACTIVE_SECONDS: Final = 15
"""The longest wait, in seconds, for a slot that a connection still uses, such as that of a run that was killed."""
_ATTEMPTS: Final = 5


class Round(NamedTuple):
    """The result of a round: paths and sizes of the ``files`` of each table, and the tables as they are.

    The next round begins at ``end`` of ``log``, with ``state``. ``behind`` is the number of bytes of the log by which
    the slot was behind the server. ``anew`` are the tables that were read as they are, and the reasons. ``mark`` stands
    behind ``end`` in the log; empty where the server takes none.
    """

    files: dict[str, list[tuple[str, int]]]
    tables: dict[str, PublishedTable]
    log: LogIdentity
    end: int
    behind: int
    transactions: int
    anew: dict[str, str]
    mark: str = ""

    def files_of(self, table: str, key: Sequence[str] = ()) -> tuple[File, ...]:
        """The files of a table, which is read by a key."""
        return tuple(
            File(path=path, bytes=size, shown=f"slot, {table}", reader=SlotChanges(), table=table, key=tuple(key))
            for path, size in self.files.get(table, [])
        )

    def then(self, later: "Round") -> "Round":
        """The two rounds, one right behind the other, as one."""
        files = {table: [*self.files.get(table, []), *later.files.get(table, [])] for table in (*self.files, *later.files)}
        anew = {table: why for table, why in {**self.anew, **later.anew}.items() if table in later.tables}
        return later._replace(files=files, transactions=self.transactions + later.transactions, anew=anew)

    @property
    def state(self) -> dict[str, Any]:
        """The state for the next round, in JSON values."""
        tables = {name: table.remembered for name, table in self.tables.items()}
        return {"end": lsn_text(self.end), "log": [*self.log], "tables": tables, "mark": self.mark}


def read_round(
    slot: Slot,
    tables: Mapping[str, Sequence[str]],
    before: dict[str, Any] | None,
    folder: str,
    *,
    counts: bool = True,
    most_rows: int | None = None,
    marks: bool = False,
) -> Round:
    """Read what was committed since the round before, whose ``state`` is given, into files in ``folder``. The ``tables`` have the
    columns of the keys that they are read by; none for their own.

    The slot stays where it is until :func:`advance`, or the next round that is read behind one that
    ``counts``. ``most_rows``: of a table at most so many are read, for a look. ``marks``: a mark is left in the log.

    Raises InputError for a slot, a publication or a table that cannot be used.
    """
    with server_errors(f"PostgreSQL, slot {slot.name}", slot.conninfo), connected(slot.conninfo) as connection:
        require_logical(connection)
        log = log_identity(connection)
        promoted = _is_promoted(connection, slot, log, before)
        confirmed = _usable(connection, slot, before, promoted=promoted)
        if before is not None and counts and not promoted:  # the last run may have been cut off right behind its commit
            _advance(connection, slot, lsn(before["end"]))
        end = flushed(connection)
        behind = end - confirmed
        reader = _Reader(connection, slot, tables, before, RoundFiles(folder, TableFile, ".arrow"), promoted=promoted)
        if before is not None:
            reader.read_changes(lsn(before["end"]), end, reader.tables)
        # behind the changes: what is altered later shows in the next round
        now = reader.look()
        if reader.anew:
            end, now = reader.read_tables(None if before is None else end, most_rows)
        anew = {name: reader.anew[name] for name in now if name in reader.anew}
        read = Round(reader.files.close(), now, log, end, behind, reader.transactions, anew)
        if before is not None and before.get("mark") and not (read.files or anew or end - lsn(before["end"]) >= IDLE_BYTES):
            return read._replace(end=lsn(before["end"]), mark=before["mark"])  # no mark of its own where nothing else is written
        return read._replace(mark=_marked(connection)) if marks else read


def advance(slot: Slot, read: Round) -> None:
    """Let the server forget the log of a slot that a round has read, unless it is another server by now."""
    with server_errors(f"PostgreSQL, slot {slot.name}", slot.conninfo), connected(slot.conninfo) as connection:
        if log_identity(connection) == read.log:
            _advance(connection, slot, read.end)


def _marked(connection: Any) -> str:
    """The mark that is left at the end of the log; empty where the server or the rights of the role do not allow one."""
    if connection.info.server_version < _SENDS_MESSAGES:
        return ""
    mark = uuid4().hex
    try:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit TO local")  # the next round reads what is on the disk
            connection.execute(_MARK, [_PREFIX, mark])
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
        return ""
    return mark


def _advance(connection: Any, slot: Slot, end: int) -> None:
    status = slot_status(connection, slot.name)
    if status is None or status.confirmed >= end:
        return
    for is_last in _attempts():
        try:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s)", [slot.name, lsn_text(end)])
            return
        except psycopg.errors.ObjectInUse:
            if is_last:
                raise


def _attempts() -> Iterator[bool]:
    """Attempts to use a slot; whether one is the last."""
    until = time.monotonic() + _ACTIVE_SECONDS
    while (left := until - time.monotonic()) > 0:
        yield False
        time.sleep(min(left, 0.2))
    yield True


def _is_promoted(connection: Any, slot: Slot, log: LogIdentity, before: dict[str, Any] | None) -> bool:
    """Whether the log is on another timeline than that of the last run, so that it may lack what that run has read.

    Raises InputError for the log of another server, and for a log that ends before the last run did.
    """
    if before is None or "log" not in before:
        return False
    read, end = LogIdentity(*before["log"]), flushed(connection)
    if read.system != log.system:
        raise InputError(
            f"the slot {slot.name} is of another server (system identifier {log.system}) than the last run has read ({read.system}): "
            "places in their logs cannot be compared, so begin with an empty state"
        )
    if end < lsn(before["end"]):
        raise InputError(
            f"the server's log ends at {lsn_text(end)}, before {before['end']}, where the last run ended, as after a restore: begin "
            "with an empty state"
        )
    return read.timeline != log.timeline


def _usable(connection: Any, slot: Slot, before: dict[str, Any] | None, *, promoted: bool) -> int:
    """The place up to which the slot has been read; raises InputError for a slot that cannot be read from where the
    last run ended.
    """
    name, status = slot.name, slot_status(connection, slot.name)
    anew = "" if before is None else ", and with an empty state, as changes since the last run are missing"
    if status is None:
        raise InputError(f"there is no slot {name}: make it with beam-joins slot create{anew}")
    if not status.is_here:
        raise InputError(f"the slot {name} is of another database: name that database in the address")
    if status.plugin != "pgoutput":
        raise InputError(f"the slot {name} is of the plugin {status.plugin}: make one of pgoutput with beam-joins slot create")
    if status.is_lost:
        why = status.invalidation or "max_slot_wal_keep_size"
        raise InputError(f"the slot {name} is lost, as the server has removed its log ({why}): drop it and make it again{anew}")
    if before is not None and not promoted and status.confirmed > lsn(before["end"]):
        raise InputError(
            f"the slot {name} was read up to {lsn_text(status.confirmed)} by somebody else, or made again, and the last "
            f"run ended at {before['end']}: begin with an empty state, and give each job a slot"
        )
    return max(status.confirmed, 0 if before is None else lsn(before["end"]))


class _Reader:
    """Reads tables; ``anew`` are those that are to be read as they are, and why."""

    def __init__(
        self,
        connection: Any,
        slot: Slot,
        wanted: Mapping[str, Sequence[str]],
        before: dict[str, Any] | None,
        files: RoundFiles[TableFile],
        *,
        promoted: bool,
    ) -> None:
        self._connection, self._slot, self._wanted, self.files = connection, slot, wanted, files
        self._before: dict[str, Any] = {} if before is None else before.get("tables", {})
        self._mark: str = "" if before is None else before.get("mark", "")
        """That of the round before, until it is found in the log."""
        self._promoted = promoted
        self.anew: dict[str, str] = {}
        self.transactions = 0
        self._logged: dict[int, dict[int, int]] = {}
        """The parts of relations that have changes in the log."""
        self._attached: dict[str, list[str]] = {}
        """The partitions that are read, of tables that are ``anew`` for these alone."""
        self._left_out: set[str] = set()
        """Tables whose changes in the log are not those of the rows that were read."""
        self.tables = self.look()
        self._names = frozenset(self.tables)

    def look(self, connection: Any = None) -> dict[str, PublishedTable]:
        """The tables as they are now; those that are not as the last round has left them are read anew.

        Raises InputError for a table that cannot be read any more.
        """
        tables = published_tables(connection or self._connection, self._slot.publication, [*self._wanted])
        for name, table in tables.items():
            before = self._before.get(name)
            table.require_readable(before)
            difference, why = table.difference(before, self._logged)
            if self._promoted:
                difference, why = "replaced", "the server was promoted or restored"
            if difference:
                self.anew[name] = why
            if difference == "extended":
                self._attached[name] = table.parts_since(before or {})
            else:
                self._attached.pop(name, None)
            if difference == "replaced":
                self._left_out.add(name)
                self.files.drop(name)
        return tables

    def read_changes(self, begin: int, end: int, tables: Mapping[str, PublishedTable]) -> None:
        """The transactions of a range; ``tables`` are the tables as they are now."""
        if self._names <= self._left_out:  # the publication may be younger than the range, which cannot be read then
            return
        with connected(self._slot.conninfo) as catalog:
            types = type_names(catalog)
            shapes = {each.oid: {each.table.shape, self._shape_before(name)} for name, each in tables.items()}
            keys = {each.oid: key for each, key in zip(tables.values(), self._wanted.values(), strict=True)}
            read = Pgoutput(lambda *of: types[of], {each.oid: each.table for each in tables.values()}, begin, end, shapes, keys)
            read.left_out = dict.fromkeys(self._left_out, "")
            for data in self._peeked(end):
                if self._mark and message_of(data, _PREFIX) == self._mark:
                    self._mark = ""
                for table, change in read.changes(data):
                    self.files.to(table.full_name, table).write(change, len(data))
        for relation, parts in read.parts.items():
            self._logged[relation] = {**parts, **self._logged.get(relation, {})}
        left_out = dict.fromkeys(self._names, "the server was restored") if self._mark else read.left_out
        self.anew = {**left_out, **self.anew}
        self._left_out |= {*left_out}
        self.transactions += read.transactions
        for name in self._names if self._mark else ():
            self.files.drop(name)
        self._mark = ""

    def _shape_before(self, name: str) -> Shape:
        """The columns of a table as the last round has left it."""
        before = self._before.get(name)
        return () if before is None else tuple((column, kind) for _, column, kind in before["columns"])

    def _peeked(self, end: int) -> Iterator[bytes]:
        """The messages up to a place; the slot stays where it is."""
        publication = sql.Identifier(self._slot.publication).as_string()
        for is_last in _attempts():
            with self._connection.transaction(), self._connection.cursor(name="beam_joins", binary=True) as cursor:
                if self._connection.info.parameter_status("server_encoding") == _ANY_BYTES:
                    # else the server refuses a value that is no text, without the name of its column
                    cursor.connection.execute(f"SET LOCAL client_encoding TO '{_ANY_BYTES}'")
                try:
                    options = _MESSAGES if self._connection.info.server_version >= _SENDS_MESSAGES else []
                    cursor.execute(_PEEK, [self._slot.name, lsn_text(end), publication, options])
                    some = cursor.fetchmany(_FETCHED)
                except psycopg.errors.ObjectInUse:
                    if is_last:
                        raise
                    raise psycopg.Rollback from None
                while some:
                    yield from (data for (data,) in some)
                    some = cursor.fetchmany(_FETCHED)
                return

    def read_tables(self, begin: int | None, most_rows: int | None) -> tuple[int, dict[str, PublishedTable]]:
        """The rows of tables as they are at a place in the log, and the changes up to there from ``begin`` on;
        gives the place, and all tables as they are there.
        """
        for attempt in range(_ATTEMPTS):
            with snapshot_of(self._slot) as (end, snapshot), connected(self._slot.conninfo) as connection:
                if begin is not None:
                    self.read_changes(begin, end, published_tables(connection, self._slot.publication, [*self._wanted]))
                    begin = end
                mark: dict[str, int] | None = None
                with connection.transaction():
                    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
                    try:
                        tables = self.look(connection)
                        mark = self.files.mark()
                        read = [table for name, table in tables.items() if name in self.anew]
                        for table in read:
                            name = table.table.full_name
                            attached = None if name in self._left_out else self._attached.get(name)
                            file = self.files.to(name, table.table)
                            copy_rows(self._slot.conninfo, connection, table, file, end - 1, attached, most_rows)
                        if all(is_in_place(connection, table) for table in read):
                            return end, tables
                    except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable, InputError):
                        if attempt + 1 == _ATTEMPTS:
                            raise
                    raise psycopg.Rollback
                if mark is not None:
                    self.files.discard(mark)
        raise InputError("tables are truncated or rewritten faster than they are read: run again")
