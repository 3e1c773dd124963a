"""wal2json's output: format 1, a transaction a line, and format 2, a change a line between lines for begin and commit.

All changes of a transaction have the position behind its commit (``nextlsn``; needs ``include-lsn`` and, for times, ``include-timestamp``).
"""

from collections.abc import Iterator

import msgspec

from beam_joins.pipelines.changelog_files.envelopes.row_change import (
    DELETE,
    UPSERT,
    RowChange,
    full_name,
    is_meant,
    key_left,
    lsn,
    microseconds,
    object_text,
)

_KINDS = {"insert": "I", "update": "U", "delete": "D", "truncate": "T"}
_Row = dict[str, msgspec.Raw]


class _Column(msgspec.Struct):
    name: str
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Keys(msgspec.Struct):
    keynames: list[str] = []
    keyvalues: list[msgspec.Raw] = []


class _Names(msgspec.Struct):
    pknames: list[str] = []


class _Change(msgspec.Struct):
    kind: str
    schema: str | None = None
    table: str = ""
    columnnames: list[str] = []
    columnvalues: list[msgspec.Raw] = []
    oldkeys: _Keys | None = None
    pk: _Names | None = None


class _Line(msgspec.Struct):
    change: list[_Change] | None = None
    action: str | None = None
    timestamp: str | None = None
    lsn: str | None = None
    nextlsn: str | None = None
    schema: str | None = None
    table: str = ""
    columns: list[_Column] = []
    identity: list[_Column] = []
    pk: list[_Column] = []


class Wal2Json:
    """Reads lines; ``key`` are the columns by which a row that gets another primary key is deleted first.

    An update does not have large values (TOAST) that have not changed: they are those of the old row where the log has it, as with REPLICA IDENTITY FULL.
    Elsewhere they are missed by the columns of the rows before: a first update of a file that has no such value cannot be told from a row without that column.
    """

    def __init__(self, key: tuple[str, ...] = (), table: str = "") -> None:
        self._line = msgspec.json.Decoder(_Line)
        self._key = key
        self._table = table
        self._begin: _Line | None = None
        self._order = 0
        self._columns: dict[str, tuple[str, ...]] = {}
        """Of each table those of the last row, which has all that are known."""

    def changes(self, line: bytes) -> Iterator[RowChange]:
        """The changes of a line."""
        found = self._line.decode(line)
        if found.change is not None:
            for number, change in enumerate(found.change):
                if change.kind != "message" and is_meant(self._table, change.schema, change.table):
                    new = dict(zip(change.columnnames, change.columnvalues, strict=True))
                    old = dict(zip(change.oldkeys.keynames, change.oldkeys.keyvalues, strict=True)) if change.oldkeys else {}
                    key = tuple(change.pk.pknames) if change.pk else ()
                    said = full_name(change.schema, change.table), _KINDS.get(change.kind, change.kind)
                    yield from self._of_row(*said, new, old, found, number, key)
        elif found.action in ("B", "C"):
            self._begin, self._order = (found if found.action == "B" else None), 0
        elif found.action is None:
            raise ValueError("no line of wal2json: it has neither change nor action")
        elif found.action != "M":
            self._order += 1
            if is_meant(self._table, found.schema, found.table):
                new, old = ({column.name: column.value for column in columns} for columns in (found.columns, found.identity))
                key = tuple(column.name for column in found.pk)
                said = full_name(found.schema, found.table), found.action
                yield from self._of_row(*said, new, old, self._begin or found, self._order, key)

    def _of_row(
        self, table: str, action: str, new: _Row, old: _Row, place: _Line, order: int, key: tuple[str, ...]
    ) -> Iterator[RowChange]:
        if action == "T":
            raise ValueError("a truncate empties its table, which a changelog of rows cannot say: delete its rows instead")
        if action not in ("I", "U", "D"):
            raise ValueError(f"a change of the unknown kind {action!r}")
        at = place.nextlsn or place.lsn
        if at is None or place.timestamp is None:
            raise ValueError("a line without lsn or timestamp: read the slot with include-lsn and include-timestamp")
        if not (old if action == "D" else new):
            raise ValueError(f"a change without its row: give {table} a primary key, or set its REPLICA IDENTITY")
        time, position = microseconds(place.timestamp), lsn(at)
        if action == "D":
            yield RowChange(table, DELETE, _text(old), time, position, order, key)
            return
        known = self._columns.get(table, ()) if action == "U" else ()
        if left_out := [name for name in dict.fromkeys([*known, *old]) if action == "U" and name not in new]:
            if lost := [name for name in left_out if name not in old]:
                raise ValueError(
                    f"an update without the column {lost[0]!r}, as the log leaves out large values that have not changed: set the REPLICA"
                    f" IDENTITY of {table} to FULL"
                )
            new = {name: new[name] if name in new else old[name] for name in dict.fromkeys([*known, *new, *old])}
        self._columns[table] = tuple(new)
        row = _text(new)
        if action == "U" and old and (left := key_left(_text(old), row, self._key)) is not None:
            yield RowChange(table, DELETE, left, time, position, order, key)
        yield RowChange(table, UPSERT, row, time, position, order, key)


def _text(row: _Row) -> bytes:
    return object_text(row, row.values())
