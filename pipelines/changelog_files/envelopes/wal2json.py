"""wal2json's output: format 1, a transaction a line, and format 2, a change a line between lines for begin and commit.

All changes of a transaction have the position behind its commit (``nextlsn``; needs ``include-lsn`` and, for times, ``include-timestamp``).
"""

from collections.abc import Iterator

import msgspec

from beam_joins.pipelines.changelog_files.envelopes.row_change import DELETE, UPSERT, RowChange, lsn, microseconds, moved, object_text

_KINDS = {"insert": "I", "update": "U", "delete": "D", "truncate": "T", "message": "M"}


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
    """Reads lines; ``key`` is the column by which a row that gets another primary key is deleted first."""

    def __init__(self, key: str | None = None) -> None:
        self._line = msgspec.json.Decoder(_Line)
        self._key = key
        self._begin: _Line | None = None
        self._order = 0

    def changes(self, line: bytes) -> Iterator[RowChange]:
        """The changes of a line."""
        found = self._line.decode(line)
        if found.change is not None:
            yield from self._transaction(found, found.change)
        elif found.action in ("B", "C"):
            self._begin, self._order = (found if found.action == "B" else None), 0
        elif found.action is None:
            raise ValueError("no line of wal2json: it has neither change nor action")
        else:
            new = object_text((c.name for c in found.columns), (c.value for c in found.columns)) if found.columns else None
            old = object_text((c.name for c in found.identity), (c.value for c in found.identity)) if found.identity else None
            begin = self._begin or found
            self._order += 1
            names = tuple(column.name for column in found.pk)
            yield from self._of_row(found.action, _name(found.schema, found.table), new, old, begin, self._order, names)

    def _transaction(self, line: _Line, changes: list[_Change]) -> Iterator[RowChange]:
        for number, change in enumerate(changes):
            new = object_text(change.columnnames, change.columnvalues) if change.columnnames else None
            keys = change.oldkeys
            old = object_text(keys.keynames, keys.keyvalues) if keys else None
            names = tuple(change.pk.pknames) if change.pk else ()
            action = _KINDS.get(change.kind, change.kind)
            yield from self._of_row(action, _name(change.schema, change.table), new, old, line, number, names)

    def _of_row(
        self, action: str, table: str, new: bytes | None, old: bytes | None, place: _Line, order: int, key: tuple[str, ...]
    ) -> Iterator[RowChange]:
        if action == "M":
            return
        if action == "T":
            raise ValueError("a truncate empties its table, which a changelog of rows cannot say: delete its rows instead")
        if action not in ("I", "U", "D"):
            raise ValueError(f"a change of the unknown kind {action!r}")
        at = place.nextlsn or place.lsn
        if at is None or place.timestamp is None:
            raise ValueError("a line without lsn or timestamp: read the slot with include-lsn and include-timestamp")
        row = old if action == "D" else new
        if row is None:
            raise ValueError(f"a change without its row: give {table} a primary key, or set its REPLICA IDENTITY")
        time, position = microseconds(place.timestamp), lsn(at)
        if action == "U" and self._key is not None and moved(old, row, self._key):
            yield RowChange(table, DELETE, old or b"", time, position, order, key)
        yield RowChange(table, DELETE if action == "D" else UPSERT, row, time, position, order, key)


def _name(schema: str | None, table: str) -> str:
    return f"{schema}.{table}" if schema else table
