"""The place of a Debezium event in the database's log: position, order within the position, and the name of
the log.

Numbers of two logs say nothing of each other, such as those of a MySQL server and of the one that has taken
its place. So each place names its log, and a table is made of the places of one log
(:class:`~beam_joins.TableFromChangelog`, ``one_log_by``).
"""

from typing import Final, NamedTuple

import msgspec

from beam_joins.pipelines.formats.envelopes.row_change import content, in_binary_log

_GTIDS: Final = 1 << 62
"""The rows of a snapshot have no such identifier, but a place in the binary log: they come before all that
have one.
"""
_READ: Final = ("postgresql", "mysql", "mariadb", "sqlserver", "oracle", "mongodb")
"""The connectors whose places are known; TiCDC names itself by its numbers."""
_STREAMED: Final = (None, False, "false", "")
_VLF_BITS, _BLOCK_BITS, _SLOT_BITS, _SERIAL_BITS = 23, 24, 16, 3
_DISTANCE_BITS, _STATEMENT_BITS = 40, 20


class Source(msgspec.Struct):
    """The source part of an event; each connector fills some of the fields."""

    connector: str | None = None
    snapshot: str | bool | None = None
    ts_ms: int | None = None
    ts_us: int | None = None
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    collection: str | None = None
    lsn: int | str | None = None
    sequence: str | None = None
    server_id: int | None = None
    gtid: str | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None
    commit_lsn: str | None = None
    change_lsn: str | None = None
    event_serial_no: int | None = None
    scn: str | int | None = None
    commit_scn: str | int | None = None
    ssn: int | None = None
    rs_id: str | None = None
    ord: int | None = None
    commit_ts: int | None = None
    cluster_id: str | None = None
    txId: int | str | None = None
    of_tombstone: bool | None = None

    @property
    def database(self) -> str | None:
        """The qualifier of the table's name: a schema or a database; in SQL Server, which has one log for several
        databases, both.
        """
        both = self.commit_lsn is not None and self.schema and self.db
        return f"{self.db}.{self.schema}" if both else self.schema or self.db

    @property
    def is_snapshot(self) -> bool:
        """Whether the row was read by a query, and not from the log."""
        return self.snapshot not in _STREAMED


class Place(NamedTuple):
    """A position, the order within it (``None``: that of the events), the log that both are of, where it can
    change, and the transaction, where its changes have positions of their own.
    """

    position: int
    order: int | None
    log: str | None = None
    transaction: str = ""


def place_of(source: Source) -> Place:
    """The place of an event in the database's log; raises ValueError, a sentence, if the event does not have
    it.

    >>> place_of(Source(file="mysql-bin.000003", pos=154, row=1, server_id=7))
    Place(position=3298534883482, order=1, log='mysql-bin of server 7', transaction='')
    >>> place_of(Source(file="f.000001", pos=9, gtid="0-1-100")).log
    'the GTIDs of domain 0'
    """
    try:
        place = _place_of(source)
        return place._replace(order=place.order + 1) if source.of_tombstone and place.order is not None else place
    except ValueError as error:
        if source.connector is None or source.connector in _READ:
            raise
        raise ValueError(
            f"an event of the connector {source.connector}, whose places in the log are not known: read are events of "
            f"{', '.join(_READ)}, and of others those that ExtractNewRecordState unwraps (add.fields=op,source.ts_ms, "
            "delete.tombstone.handling.mode=rewrite), in the order of their times"
        ) from error


def _place_of(source: Source) -> Place:
    if isinstance(source.lsn, str):
        raise ValueError(f"the log sequence number {source.lsn!r} is no whole number")  # a bad record
    if source.lsn is not None:
        return _in_postgres(source, source.lsn)
    if source.commit_ts is not None:
        # TiCDC's, whose file is empty and pos 0; a key has one change a commit
        return Place(source.commit_ts, None, f"the cluster {source.cluster_id}")
    if source.pos is not None and source.connector not in _READ and source.connector is not None and source.server_id is None:
        raise ValueError("a place in another log than MySQL's")
    if source.pos is not None:
        return _in_mysql(source, source.pos)
    if source.commit_lsn is not None:
        return _in_sql_server(source, source.commit_lsn)
    if source.scn is not None:
        return _in_oracle(source, source.scn)
    if source.ord is not None and source.ts_ms is not None:
        # the timestamp of MongoDB's oplog: seconds, and a number within them; a transaction has one
        return Place((source.ts_ms // 1_000 << 32) + max(source.ord, 0), None)
    if source.is_snapshot:
        raise ValueError(
            f"a row of a snapshot ({source.snapshot}) without a place in the log, so that nothing orders it among the "
            "changes: leave it out, or read"
            " only what a new initial snapshot begins"
        )
    raise ValueError("an event whose source has none of lsn, pos, commit_lsn, scn, ord and commit_ts, so that nothing orders it")


def _in_postgres(source: Source, lsn: int) -> Place:
    if source.connector == "beam_joins":
        # rows that are given again follow those of earlier runs at their position: the sequence is the number of the run
        return Place(lsn, int(source.sequence or 0))
    last = msgspec.json.decode(source.sequence, type=tuple[str | None, ...]) if source.sequence else ()
    committed = last[0] if last else None
    return Place(lsn, 0, transaction=_transaction(source)) if committed is None else Place(int(committed), lsn)


def _transaction(source: Source) -> str:
    return "" if source.txId is None or source.is_snapshot else content(str(source.txId).encode())


def _in_mysql(source: Source, pos: int) -> Place:
    if source.gtid is None:
        if not source.file:
            raise ValueError("an event whose source has a pos but no file of a binary log, so that nothing orders it")
        # rows of a snapshot name server 0, and what a snapshot is of is known by the changes behind it
        base = source.file.rpartition(".")[0] or source.file
        log = None if source.is_snapshot else f"{base} of server {source.server_id}"
        return Place(in_binary_log(source.file, pos), source.row or 0, log)
    server, _, number = source.gtid.rpartition(":" if ":" in source.gtid else "-")
    if not (number.isdigit() and server):
        raise ValueError(f"the GTID {source.gtid!r} is neither of MySQL (server:number) nor of MariaDB (domain-server-number)")
    # MariaDB counts on within a domain, whichever server it is
    log = f"the GTIDs of server {server}" if ":" in source.gtid else f"the GTIDs of domain {server.partition('-')[0]}"
    return Place(_GTIDS + int(number), (pos << 20) + (source.row or 0), log)


def _in_sql_server(source: Source, commit_lsn: str) -> Place:
    """Changes of a transaction are ordered by how far before its commit they are: their own place has too
    many bits.
    """
    commit = _lsn_parts(commit_lsn)
    position = _packed(commit_lsn, *commit)
    if source.change_lsn is None:
        return Place(position, 0)
    vlf, block, slot = _lsn_parts(source.change_lsn)
    order = _packed(source.change_lsn, (1 << _VLF_BITS - _SERIAL_BITS) - 1 - (commit[0] - vlf), block, slot)
    return Place(position, (order << _SERIAL_BITS) + min(source.event_serial_no or 0, (1 << _SERIAL_BITS) - 1))


def _lsn_parts(text: str) -> tuple[int, int, int]:
    """The virtual log file, the block in it and the slot in that."""
    try:
        vlf, block, slot = (int(part, 16) for part in text.split(":"))
    except ValueError:
        raise ValueError(f"{text!r} is no log sequence number of SQL Server (00000027:00000ac0:0002)") from None
    return vlf, block, slot


def _packed(text: str, vlf: int, block: int, slot: int) -> int:
    if not (0 <= vlf < 1 << _VLF_BITS and 0 <= block < 1 << _BLOCK_BITS and 0 <= slot < 1 << _SLOT_BITS):
        raise ValueError(f"the log sequence number {text} does not fit in 64 bits as a position")
    return (vlf << _BLOCK_BITS + _SLOT_BITS) + (block << _SLOT_BITS) + slot


def _in_oracle(source: Source, scn: str | int) -> Place:
    """Changes of a transaction are ordered by how far before its commit they are, and by the statement; where they
    have places in the redo log too, which have too many bits, these tell more, as the events do that follow them.
    """
    number = _scn(scn)
    if source.commit_scn is None:
        return Place(number, 0, transaction=_transaction(source))
    if source.rs_id is not None:
        return Place(_scn(source.commit_scn), None)
    commit, statement = _scn(source.commit_scn), source.ssn or 0
    before = commit - number
    if not (0 <= before < 1 << _DISTANCE_BITS and 0 <= statement < 1 << _STATEMENT_BITS):
        raise ValueError(
            f"a change at SCN {number}, statement {statement}, of the commit {commit}: too far from it to be ordered within 64 bits"
        )
    return Place(commit, (((1 << _DISTANCE_BITS) - 1 - before) << _STATEMENT_BITS) + statement)


def _scn(text: str | int) -> int:
    if not str(text).isdigit():
        raise ValueError(f"{text!r} is no system change number of Oracle")
    return int(text)
