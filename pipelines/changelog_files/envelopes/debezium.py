"""Debezium's events as JSON, with a schema or without, and unwrapped ones (ExtractNewRecordState).

Changes of a PostgreSQL transaction have one position, the commit before theirs (``source.sequence``); without it the position is the log sequence number, a global
transaction identifier's number or the place in MySQL's binary log.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from beam_joins.pipelines.changelog_files.envelopes.row_change import (
    DELETE,
    UPSERT,
    RowChange,
    full_name,
    in_binary_log,
    is_meant,
    object_text,
)

_NULL: Final = b"null"
_PLACEHOLDER: Final = b"__debezium_unavailable_value"
_UNAVAILABLE: Final = re.compile(rb'"(?:%b|%b|%b)"' % (_PLACEHOLDER, b64encode(_PLACEHOLDER), _PLACEHOLDER.hex().encode()))
_FULL: Final = "set the table's REPLICA IDENTITY to FULL"
_OPERATIONS: Final[Mapping[str, str]] = {"c": UPSERT, "u": UPSERT, "r": UPSERT, "d": DELETE}
_GTIDS: Final = 1 << 62
"""The rows of a snapshot have no such identifier, but a place in the binary log: they come before all that have one."""
_MARKS: Final = ("__op", "__deleted", "__table", "__lsn", "__source_lsn", "__ts_ms", "__source_ts_ms")


class _Source(msgspec.Struct):
    ts_ms: int | None = None
    ts_us: int | None = None
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    lsn: int | None = None
    sequence: str | None = None
    gtid: str | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None


class _Event(msgspec.Struct):
    op: str | None = None
    before: msgspec.Raw = msgspec.Raw(_NULL)
    after: msgspec.Raw = msgspec.Raw(_NULL)
    source: _Source | None = None
    ts_ms: int | None = None


class _Line(_Event):
    payload: _Event | msgspec.UnsetType | None = msgspec.UNSET


class Debezium:
    """Reads events; a row that gets another primary key comes as a delete and an insert by itself."""

    def __init__(self, key: tuple[str, ...] = (), table: str = "") -> None:
        self._table = table
        self._line = msgspec.json.Decoder(_Line | None)
        self._flat = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def changes(self, line: bytes) -> Iterator[RowChange]:
        """The change of a line; none for a tombstone or a message."""
        found = self._line.decode(line)
        if found is None:
            return
        event = found if found.payload is msgspec.UNSET else found.payload
        if event is None:
            if self._flat.decode(line).keys() <= {"schema", "payload"}:
                return
            event = found  # unwrapped, with a column of that name
        if event.op is None:
            yield from self._unwrapped(line)
            return
        if event.op == "m":
            return
        source = event.source
        if source is None:
            raise ValueError("an event without its source")
        schema = source.schema or source.db
        if not is_meant(self._table, schema, source.table):
            return
        operation = _OPERATIONS.get(event.op)
        if operation is None:
            raise ValueError(_not_supported(event.op))
        row = bytes(event.after if operation == UPSERT else event.before)
        if row == _NULL:
            raise ValueError(f"an event of operation {event.op!r} without its row: {_FULL}")
        _require_available(operation, row)
        position, order = _place(source)
        time = source.ts_us if source.ts_us is not None else (source.ts_ms or event.ts_ms or 0) * 1_000
        yield RowChange(full_name(schema, source.table), operation, row, time, position, order)

    def _unwrapped(self, line: bytes) -> Iterator[RowChange]:
        members = self._flat.decode(line)
        marks = {name: msgspec.json.decode(members.pop(name)) for name in _MARKS if name in members}
        table = str(marks.get("__table") or "")
        if self._table and (not table or "." in self._table):
            raise ValueError(
                "an unwrapped event says at most __table, without the schema: name the table so, or name none if the files have one alone"
            )
        if not is_meant(self._table, None, table):
            return
        operation = _OPERATIONS.get(marks.get("__op") or "u")
        if operation is None:
            raise ValueError(_not_supported(marks["__op"]))
        if str(marks.get("__deleted")).lower() == "true":
            operation = DELETE
        position = marks.get("__source_lsn", marks.get("__lsn"))
        time = marks.get("__source_ts_ms", marks.get("__ts_ms"))
        if position is None or time is None:
            raise ValueError("no Debezium event: it has no op, and no __source_lsn and __source_ts_ms as unwrapped events can have")
        row = object_text(members, members.values())
        _require_available(operation, row)
        yield RowChange(table, operation, row, int(time) * 1_000, int(position))


def _require_available(operation: str, row: bytes) -> None:
    if operation == UPSERT and _UNAVAILABLE.search(row):
        raise ValueError(f"an event that leaves a large value out as it has not changed: {_FULL}")


def _place(source: _Source) -> tuple[int, int]:
    """The position of a transaction, and the order of a change within it."""
    if source.lsn is not None:
        sequence = msgspec.json.decode(source.sequence, type=tuple[str | None, ...]) if source.sequence else ()
        committed = sequence[0] if sequence else None
        return (source.lsn, 0) if committed is None else (int(committed), source.lsn)
    if source.pos is not None:
        place = in_binary_log(source.file, source.pos)
        if source.gtid is not None:
            return _GTIDS + int(source.gtid.rpartition(":")[2]), (source.pos << 20) + (source.row or 0)
        return place, source.row or 0
    raise ValueError("an event whose source has neither lsn nor pos, so that nothing orders it")


def _not_supported(operation: str) -> str:
    if operation == "t":
        return "a truncate empties its table, which a changelog of rows cannot say: delete its rows instead, or leave truncates out"
    return f"an event of the unknown operation {operation!r}"
