"""Reads wal2json's output: format 1, a transaction a line, and format 2, a change a line between lines for
begin and commit.

All changes of a transaction have the position behind its commit (``nextlsn``; needs ``include-lsn`` and, for
times, ``include-timestamp``). Within it those of format 2 are ordered by their own ``lsn``, so that a
transaction may begin in one file and go on in another.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from beam_joins.elements.iso_times import micros_of_text
from beam_joins.pipelines.formats.envelopes.row_change import (
    DELETE,
    INSERT,
    NO_ROW,
    TRUNCATE,
    UPSERT,
    WHOLE_ROWS,
    RowChange,
    content,
    full_name,
    is_meant,
    key_left,
    lsn,
    require_whole,
)
from beam_joins.pipelines.formats.types.exact_json import object_text
from beam_joins.pipelines.formats.types.postgres_types import arrow_type, may_be_left_out

_KINDS = {"insert": "I", "update": "U", "delete": "D", "truncate": "T"}
_Row = dict[str, msgspec.Raw]
_MESSAGE = b'{"change":[,'
"""The beginning of a message outside of transactions, as wal2json writes it in format 1."""
_SAME_BITS = 8


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
    """Reads lines; ``key`` are the columns by which a row that gets another primary key is deleted first,
    ``columns`` those that a row is known to have.

    An update does not have large values (TOAST) that did not change: they are those of the old row where the
    log has it, as with REPLICA IDENTITY FULL. Elsewhere the columns of the rows before, or ``columns``, say
    which columns are ``unchanged``; an update that nothing shows to be whole is ``partial``.
    """

    def __init__(self, key: tuple[str, ...] = (), table: str = "", columns: pa.Schema | None = None) -> None:
        self.skipped: Counter[str] = Counter()
        self._line = msgspec.json.Decoder(_Line)
        self._key = key
        self._table = table
        self._begin: _Line | None = None
        self._order = 0
        self._lsn: str | None = None
        self._same = Counter[tuple[bytes, ...]]()
        """The number of changes with this ``lsn``, by their keys."""
        self._given = pa.schema([]) if columns is None else columns
        self._columns: dict[str, pa.Schema] = {}
        """Of each table those that its last row has, or has left out."""
        self._whole: set[str] = set()
        """The tables with a row that has shown all columns."""
        self._has_old_rows: set[str] = set()
        """The tables whose REPLICA IDENTITY is FULL, as their last changes show."""
        self._schemas: dict[tuple[tuple[str, str | None], ...], pa.Schema] = {}

    def changes(self, item: bytes) -> Iterator[RowChange | str]:
        """The changes of a line."""
        if item == b"{" or item.endswith(b'"change":['):
            raise ValueError("a part of a transaction: read the slot without pretty-print and write-in-chunks")
        line = self._line.decode(item.replace(b"[,", b"[", 1) if item.startswith(_MESSAGE) else item)
        if line.change is not None:
            if not line.change:
                self.skipped["empty_transaction"] += 1
            for number, change in enumerate(line.change):
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
                    described = full_name(change.schema, change.table), _KINDS.get(change.kind, change.kind)
                    yield from self._or_fault(*described, new, old, types, line, number, key)
        elif line.action in ("B", "C"):
            self._begin, self._order, self._lsn = (line if line.action == "B" else None), 0, None
        elif line.action is None:
            raise ValueError("no line of wal2json: it has neither change nor action")
        elif line.action == "M":
            self.skipped["message"] += 1
        elif is_meant(self._table, line.schema, line.table):
            new, old = ({column.name: column.value for column in columns} for columns in (line.columns, line.identity))
            types = {column.name: column.type for column in (*line.identity, *line.columns) if column.type is not None}
            key = tuple(column.name for column in line.pk)
            described = full_name(line.schema, line.table), line.action
            if self._begin is None:
                raise ValueError("a change of no transaction: read the slot with include-transaction, which is the default")
            order = self._next_order(line.lsn, new or old, self._key or key)
            yield from self._or_fault(*described, new, old, types, self._begin, order, key)

    def _next_order(self, at: str | None, row: _Row, key: tuple[str, ...]) -> int:
        """The order of a change within its transaction.

        Rows that PostgreSQL logs together, as those of a COPY, have one ``lsn``. Only those with one key are counted, as
        a count of all would begin anew in each file: a transaction that is sent again may be cut elsewhere.
        """
        if at is None:
            self._order += 1
            return self._order
        if at != self._lsn:
            self._lsn = at
            self._same.clear()
        values = tuple(bytes(row.get(name, b"")) for name in key)
        self._same[values] += 1
        return (lsn(at) << _SAME_BITS) + self._same[values] - 1

    def _or_fault(self, table: str, action: str, new: _Row, old: _Row, *rest: Any) -> Iterator[RowChange | str]:
        """The changes of an event that the log has, or what is wrong with it and which row of the table is not
        right without it.
        """
        try:
            changes = list(self._of_row(table, action, new, old, *rest))
        except ValueError as error:
            key = self._key or rest[-1]
            row = {name: value for name in key if (value := old.get(name, new.get(name))) is not None}
            which = f"the row {_text(row).decode(errors='replace')}" if row else "a row"
            yield f"{error}; without the change {which} of {table} is not right"
        else:
            yield from changes

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
        time, position = micros_of_text(place.timestamp), lsn(at)
        if action == "T":
            yield RowChange(table, TRUNCATE, NO_ROW, time, position, order, key)
            return
        if not (old if action == "D" else new):
            raise ValueError(f"a change without its row: give {table} a primary key, or set its REPLICA IDENTITY")
        if action == "D":
            is_whole = table in self._has_old_rows or (table in self._whole and old.keys() >= {*self._columns[table].names})
            before = _content(old) if is_whole else ""
            yield RowChange(table, DELETE, _text(old), time, position, order, key, before=before)
            return
        has_old_row = action == "U" and self._has_old_row(table, new, old, key)
        identity = key or tuple(old)
        unseen = [name for name in self._key if name not in old and name not in key]
        if action == "U" and identity and unseen and not has_old_row:
            raise ValueError(
                f"an update of the table with the primary key {', '.join(identity)} without the old {', '.join(unseen)}, so that the "
                f"row may have left another key: {WHOLE_ROWS}, or to USING INDEX of an index of {', '.join(self._key)}"
            )
        new, columns, unchanged, partial = self._completed(table, action, new, old, types, has_old_row=has_old_row)
        before, after = (_content(old) if has_old_row else ""), (_content(new) if action == "I" or has_old_row else "")
        row = _text(new)
        left = key_left(_text(old), row, self._key) if action == "U" and old else None
        if left is not None:
            require_whole(unchanged, WHOLE_ROWS)
            yield RowChange(table, DELETE, left, time, position, order, key, before=before)
        operation = INSERT if action == "I" or left is not None else UPSERT
        change = RowChange(table, operation, row, time, position, order, key, columns, partial, unchanged=unchanged)
        yield change._replace(before="" if left is not None else before, after=after)

    def _completed(
        self, table: str, action: str, new: _Row, old: _Row, types: Mapping[str, str], *, has_old_row: bool
    ) -> tuple[_Row, pa.Schema | None, tuple[str, ...], bool]:
        """The row with the columns that the old one tells, its types, the columns that it does not have, and whether
        there may be more of these.
        """
        of_table, left_out = self._columns.get(table, self._given), list[pa.Field]()
        if action == "I" or has_old_row:
            self._whole.add(table)
        else:
            left_out = [field for field in of_table if field.name not in new and field.name not in old and may_be_left_out(field.type)]
        if action == "U" and not new.keys() >= {*of_table.names, *old}:
            names = (name for name in dict.fromkeys([*of_table.names, *new, *old]) if name in new or name in old)
            new = {name: new[name] if name in new else old[name] for name in names}
        columns = self._schema(new, types)
        self._columns[table] = pa.schema([*columns, *left_out]) if left_out else columns
        partial = table not in self._whole and not self._given.names
        unchanged = tuple(field.name for field in left_out)
        return new, columns if types.keys() >= new.keys() else None, unchanged, partial

    def _has_old_row(self, table: str, new: _Row, old: _Row, key: tuple[str, ...]) -> bool:
        """Whether an update has its whole old row, so that a column that is in neither row is gone: the log
        leaves only nulls out of old rows.
        """
        if old.keys() <= {*(key or self._key)}:
            self._has_old_rows.discard(table)
        elif all(name in old or bytes(value) == b"null" for name, value in new.items()):
            self._has_old_rows.add(table)
        return table in self._has_old_rows

    def _schema(self, row: _Row, types: Mapping[str, str]) -> pa.Schema:
        described = tuple((name, types.get(name)) for name in row)
        if described not in self._schemas:
            self._schemas[described] = pa.schema([(name, pa.null() if kind is None else arrow_type(kind)) for name, kind in described])
        return self._schemas[described]


def _content(row: _Row) -> str:
    """The content of a row; an old row is without the columns that are null."""
    return content(_text({name: row[name] for name in sorted(row) if bytes(row[name]) != b"null"}))


def _text(row: _Row) -> bytes:
    return object_text(row, row.values())
