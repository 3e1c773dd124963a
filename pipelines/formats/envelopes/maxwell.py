"""Reads Maxwell's output: a line a row, with its place in MySQL's binary log (``output_binlog_position``)."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
import pyarrow as pa

from beam_joins.pipelines.formats.envelopes.enveloped import EnvelopeLines
from beam_joins.pipelines.formats.envelopes.row_change import (
    DELETE,
    INSERT,
    NO_ROW,
    TRUNCATE,
    UPSERT,
    Envelope,
    RowChange,
    full_name,
    in_binary_log,
    is_meant,
    key_left,
    require_whole,
)
from beam_joins.pipelines.formats.envelopes.statements import emptied_by
from beam_joins.pipelines.formats.file_parts import File

_BOOTSTRAP: Final = "bootstrap-insert"
_ROWS: Final = {"insert": INSERT, _BOOTSTRAP: UPSERT, "update": UPSERT, "delete": DELETE}
IS_DDL: Final = "isDdl"
NO_CANAL: Final = (
    "lines with isDdl are Canal-JSON, which is not read: let Maxwell or Debezium read MySQL, and TiCDC write protocol=debezium"
)
_NOTHING: Final = msgspec.Raw(b"null")
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LAST: Final = 2**62
"""The order of the row that commits a transaction, which has no ``xoffset``."""


class _Line(msgspec.Struct):
    type: str
    ts: int = 0
    database: str | None = None
    table: str = ""
    position: str | None = None
    server_id: int | None = None
    xoffset: int | None = None
    commit: bool = False
    data: msgspec.Raw = _NOTHING
    old: msgspec.Raw = _NOTHING
    primary_key_columns: list[str] = []
    sql: str = ""
    is_ddl: bool | None = msgspec.field(name=IS_DDL, default=None)


class Maxwell:
    """Reads lines of Maxwell; ``key`` are the columns by which a row with a changed primary key is deleted
    first, those of the line if none are named, and ``columns`` those that a row is known to have.

    Rows of one event of the log have one position, and ``xoffset`` orders them; the row that commits the
    transaction has none, and is the last. Without ``xoffset`` they have the order of the lines.

    With ``binlog_row_image=MINIMAL`` or ``NOBLOB`` an update has not all columns: those that neither ``data``
    nor ``old`` has are ``unchanged``. A column that only ``old`` has is null (``output_nulls=false``).
    """

    def __init__(self, key: tuple[str, ...] = (), table: str = "", columns: pa.Schema | None = None) -> None:
        self.skipped: Counter[str] = Counter()
        self._table = table
        self._line = msgspec.json.Decoder(_Line)
        self._key = key
        self._given = () if columns is None else tuple(columns.names)
        self._columns: dict[str, dict[str, None]] = {}
        """Of each table all columns that a row has had."""
        self._whole: set[str] = set()
        """The tables with a row that has shown all columns."""

    def changes(self, item: bytes) -> Iterator[RowChange]:
        """The changes of a line; empty for a line about no row: a schema change, a bootstrap's boundary."""
        event = self._line.decode(item)
        if event.is_ddl is not None:
            raise ValueError(NO_CANAL)
        if event.type not in _ROWS:
            if event.data not in (_NOTHING, msgspec.Raw(b"{}")):
                raise ValueError(f"the type {event.type!r} is none of Maxwell's that have a row: {', '.join(_ROWS)}")
            emptied = list(emptied_by(event.sql, event.database, self._table, self._columns, lambda table: _emptied(table, event)))
            if emptied:
                yield from emptied
                return
            self.skipped[event.type.replace("-", "_")] += 1
            return
        if not is_meant(self._table, event.database, event.table):
            return
        position, log = _place(event)
        table, time = full_name(event.database, event.table), event.ts * 1_000_000
        key, row = tuple(event.primary_key_columns), bytes(event.data)
        order = _LAST if event.xoffset is None and event.commit else event.xoffset
        old = bytes(event.old) if event.type == "update" and bytes(event.old) != b"null" else None
        unchanged, partial = self._left_out(table, event.type, row, old, self._key or key)
        if (left := key_left(old, row, self._key or key)) is not None:
            require_whole(unchanged, "run MySQL with binlog_row_image=FULL, and Maxwell with output_nulls=true")
            yield RowChange(table, DELETE, left, time, position, order, key, log=log)
        operation = INSERT if left is not None else _ROWS[event.type]
        yield RowChange(table, operation, row, time, position, order, key, None, partial, log, unchanged, alone=operation == INSERT)

    def _left_out(self, table: str, kind: str, row: bytes, old: bytes | None, key: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
        """The columns that an update leaves out as they did not change, and whether there may be others."""
        if _ROWS[kind] == DELETE or not row.startswith(b"{"):
            return (), False
        data, columns = _MEMBERS.decode(row), self._columns.setdefault(table, dict.fromkeys(self._given))
        before = {} if old is None else _MEMBERS.decode(old)
        # of a whole row some columns are neither the key's nor changed
        if kind != "update" or self._given or not data.keys() <= {*key, *before}:
            self._whole.add(table)
        unchanged = tuple(name for name in columns if name not in data and name not in before) if kind == "update" else ()
        columns.update(dict.fromkeys(data))
        return unchanged, table not in self._whole


def _emptied(table: str, event: _Line) -> RowChange:
    """The truncate by a schema change, whose time is in milliseconds."""
    position, log = _place(event)
    return RowChange(table, TRUNCATE, NO_ROW, event.ts * 1_000, position, _LAST, log=log)


def _place(event: _Line) -> tuple[int, str | None]:
    """The position of an event and the log that it is of; rows of a bootstrap have none, and come first."""
    if event.position is None and event.type == _BOOTSTRAP:
        return 0, None
    if event.position is None:
        raise ValueError("a row without its position: run Maxwell with output_binlog_position=true")
    file, _, offset = event.position.partition(":")
    if not offset.isdecimal():
        raise ValueError(f"the position {event.position!r} is no FILE:OFFSET of a binary log")
    base = file.rpartition(".")[0] or None
    return in_binary_log(file, int(offset)), base if event.server_id is None else f"{base or file} of server {event.server_id}"


class MaxwellLines(EnvelopeLines):
    """Maxwell's events as lines of JSON."""

    name = "maxwell"

    def _envelope(self, file: File) -> Envelope:
        return Maxwell(file.key, file.table, file.columns)
