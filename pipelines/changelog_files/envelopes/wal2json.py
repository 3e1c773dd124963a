"""wal2json's output: format 1, a transaction a line, and format 2, a change a line between lines for begin and commit.

All changes of a transaction have the position behind its commit (``nextlsn``; needs ``include-lsn`` and, for times, ``include-timestamp``).
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa

from beam_joins.pipelines.changelog_files.envelopes.postgres_types import arrow_type, may_be_left_out
from beam_joins.pipelines.changelog_files.envelopes.row_change import (
    DELETE,
    NO_ROW,
    TRUNCATE,
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
    type: str | None = None
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Keys(msgspec.Struct):
    keynames: list[str] = []
    keytypes: list[str] = []
    keyvalues: list[msgspec.Raw] = []


class _Names(msgspec.Struct):
    pknames: list[str] = []


class _Change(msgspec.Struct):
    kind: str
    schema: str | None = None
    table: str = ""
    columnnames: list[str] = []
    columntypes: list[str] = []
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
    """Reads lines; ``key`` are the columns by which a row that gets another primary key is deleted first, ``columns`` those that a row is known to have.

    An update does not have large values (TOAST) that have not changed: they are those of the old row where the log has it, as with REPLICA IDENTITY FULL.
    Elsewhere they are missed by the columns of the rows before, or by ``columns``; an update of which nothing shows that it is whole is ``partial``.
    """

    def __init__(self, key: tuple[str, ...] = (), table: str = "", columns: pa.Schema | None = None) -> None:
        self.skipped: Counter[str] = Counter()
        self._line = msgspec.json.Decoder(_Line)
        self._key = key
        self._table = table
        self._begin: _Line | None = None
        self._order = 0
        self._given = pa.schema([]) if columns is None else columns
        self._columns: dict[str, pa.Schema] = {}
        """Of each table those of the last row, which has all that are known."""
        self._schemas: dict[tuple[tuple[str, str | None], ...], pa.Schema] = {}

    def changes(self, item: bytes) -> Iterator[RowChange]:
        """The changes of a line."""
        found = self._line.decode(item)
        if found.change is not None:
            for number, change in enumerate(found.change):
                if change.kind == "message":
                    self.skipped["message"] += 1
                elif is_meant(self._table, change.schema, change.table):
                    new = dict(zip(change.columnnames, change.columnvalues, strict=True))
                    keys = change.oldkeys or _Keys()
                    old = dict(zip(keys.keynames, keys.keyvalues, strict=True))
                    types = dict(zip(keys.keynames, keys.keytypes, strict=False)) | dict(
                        zip(change.columnnames, change.columntypes, strict=False)
                    )
                    key = tuple(change.pk.pknames) if change.pk else ()
                    said = full_name(change.schema, change.table), _KINDS.get(change.kind, change.kind)
                    yield from self._of_row(*said, new, old, types, found, number, key)
        elif found.action in ("B", "C"):
            self._begin, self._order = (found if found.action == "B" else None), 0
        elif found.action is None:
            raise ValueError("no line of wal2json: it has neither change nor action")
        elif found.action == "M":
            self.skipped["message"] += 1
        else:
            self._order += 1
            if is_meant(self._table, found.schema, found.table):
                new, old = ({column.name: column.value for column in columns} for columns in (found.columns, found.identity))
                types = {column.name: column.type for column in (*found.identity, *found.columns) if column.type is not None}
                key = tuple(column.name for column in found.pk)
                said = full_name(found.schema, found.table), found.action
                yield from self._of_row(*said, new, old, types, self._begin or found, self._order, key)

    def _of_row(
        self,
        table: str,
        action: str,
        new: _Row,
        old: _Row,
        types: Mapping[str, str],
        place: _Line,
        order: int,
        key: tuple[str, ...],
    ) -> Iterator[RowChange]:
        if action not in ("I", "U", "D", "T"):
            raise ValueError(f"a change of the unknown kind {action!r}")
        at = place.nextlsn or place.lsn
        if at is None or place.timestamp is None:
            raise ValueError("a line without lsn or timestamp: read the slot with include-lsn and include-timestamp")
        time, position = microseconds(place.timestamp), lsn(at)
        if action == "T":
            yield RowChange(table, TRUNCATE, NO_ROW, time, position, order, key)
            return
        if not (old if action == "D" else new):
            raise ValueError(f"a change without its row: give {table} a primary key, or set its REPLICA IDENTITY")
        if action == "D":
            yield RowChange(table, DELETE, _text(old), time, position, order, key)
            return
        known = self._columns.get(table, self._given)
        if action == "U":
            self._require_whole(table, known, new, old)
        partial = action == "U" and not known.names and not new.keys() <= old.keys()
        if action == "U" and not new.keys() >= {*known.names, *old}:
            there = (name for name in dict.fromkeys([*known.names, *new, *old]) if name in new or name in old)
            new = {name: new[name] if name in new else old[name] for name in there}
        columns = self._schema(new, types)
        self._columns[table] = columns
        row, said = _text(new), columns if types.keys() >= new.keys() else None
        if action == "U" and old and (left := key_left(_text(old), row, self._key)) is not None:
            yield RowChange(table, DELETE, left, time, position, order, key)
        yield RowChange(table, UPSERT, row, time, position, order, key, said, partial)

    def _require_whole(self, table: str, known: pa.Schema, new: _Row, old: _Row) -> None:
        """Raise ValueError for an update that has not all of what may be left out, and no old row to take it from."""
        for field in known:
            if field.name not in new and field.name not in old and may_be_left_out(field.type):
                raise ValueError(
                    f"an update without the column {field.name!r}, as the log leaves out large values that have not changed: set the REPLICA"
                    f" IDENTITY of {table} to FULL"
                )

    def _schema(self, row: _Row, types: Mapping[str, str]) -> pa.Schema:
        said = tuple((name, types.get(name)) for name in row)
        if said not in self._schemas:
            self._schemas[said] = pa.schema([(name, pa.null() if kind is None else arrow_type(kind)) for name, kind in said])
        return self._schemas[said]


def _text(row: _Row) -> bytes:
    return object_text(row, row.values())
