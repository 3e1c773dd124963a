"""Decodes messages of PostgreSQL's output plugin ``pgoutput`` into the changes of published tables."""

import struct
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from beam_joins.pipelines.formats.envelopes.row_change import DELETE, INSERT, TRUNCATE, UPSERT, content
from beam_joins.pipelines.formats.types.postgres_types import Texts
from beam_joins.tables.key_handover import Life

_SINCE_1970: Final = 946_684_800_000_000
"""The microseconds of the year 2000, from which PostgreSQL counts."""
_COUNT, _SIZE, _TYPE, _RELATION = (struct.Struct(f) for f in (">h", ">i", ">Ii", ">I"))
_BEGIN: Final = struct.Struct(">QqI")
_TRUNCATE: Final = struct.Struct(">iB")
_MESSAGE_AT: Final = 10
_TEXT, _NULL_VALUE = b"tn"
_FULL: Final = b"f"
_NUMBERS: Final = frozenset({20, 21, 23, 26, 700, 701, 1700})
"""int8, int2, int4, oid, float4, float8, numeric."""
_BOOLEAN, _BYTES = 16, 17
_NULL: Final = b"\xff"
_LARGE: Final = b"\0"
"""Stands for a large value (TOAST) that an update does not have; no text of PostgreSQL is this byte."""
BEFORE: Final = "b"
"""The operation of a record with the row as it was before the next record, as far as the log has it."""
Value = bytes | None
TypeName = Callable[[int, int], str]
"""The name of a type, given its OID and modifier."""


class Column(NamedTuple):
    """``type`` is the name that PostgreSQL's ``format_type`` gives."""

    name: str
    type: str
    oid: int

    @property
    def texts(self) -> Texts:
        """The kind of value that PostgreSQL's texts of the column are.

        >>> Column("n", "numeric(5,2)", 1700).texts, Column("day", "date", 1082).texts
        ('numbers', 'text')
        """
        if self.oid in _NUMBERS:
            return "numbers"
        return "booleans" if self.oid == _BOOLEAN else "bytes" if self.oid == _BYTES else "text"


Shape: TypeAlias = tuple[tuple[str, str], ...]


class Table(NamedTuple):
    """A table as the log has it: ``key`` are the columns of its primary key."""

    schema: str
    name: str
    columns: Sequence[Column]
    key: Sequence[str] = ()

    @property
    def full_name(self) -> str:
        """SCHEMA.NAME."""
        return f"{self.schema}.{self.name}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(column.name for column in self.columns)

    @property
    def shape(self) -> Shape:
        """The names and types of its columns."""
        return tuple((column.name, column.type) for column in self.columns)


class LoggedChange(NamedTuple):
    """A record of a table's log; ``row`` has PostgreSQL's text of each value in the order of the table's columns.

    ``order`` orders the records of a transaction, which share ``time`` (microseconds since 1970) and ``position`` (where the
    commit begins in the log). ``left_out`` is a JSON list of columns whose large values did not change, and ``life`` the text
    of a :class:`~beam_joins.tables.key_handover.Life`.
    """

    operation: str
    time: int
    position: int
    order: int
    row: Sequence[Value] = ()
    left_out: str | None = None
    life: str | None = None


class Pgoutput:
    r"""Reads the messages of version 1 of the protocol in their order; gives the changes of ``tables`` in transactions
    whose commit begins in ``[begin, end)``, each with its table.

    ``type_name`` asks the catalog for the name of a type. ``tables`` are those that are read, by their OIDs: a name may
    be that of another table within the log. ``keys`` are the columns that a table is read by, where these are not its own
    key. ``left_out`` are the full names of tables whose rows the log does not tell, with the reason: those that had other
    columns for a while than ``shapes`` has by their OIDs, those that have given a row another key without a large value of
    it, and those an update or delete of which does not have the old key. Changes of these are left out from there on.

    ``parts`` are, by the OID of each relation of which there are changes, the OIDs of the tables that these are of, itself
    or its partitions, and the first transaction with each.

    >>> message = bytes.fromhex("5200000007") + b"public\0t\0d" + bytes.fromhex("0001") + b"\1id\0" + bytes.fromhex("00000017ffffffff")
    >>> read = Pgoutput(lambda oid, modifier: "integer", {7: Table("public", "t", (), ("id",))}, 0, 1 << 60)
    >>> begin, insert = bytes.fromhex("42" + "00" * 7 + "90" + "00" * 12), b"I" + bytes.fromhex("00000007") + b"N\0\1t\0\0\0\0017"
    >>> for table, change in (each for data in (message, begin, insert, b"C") for each in read.changes(data)):
    ...     print(table.full_name, change.operation, change.position, change.order, change.row)
    public.t i 144 1 [b'7']
    """

    def __init__(
        self,
        type_name: TypeName,
        tables: Mapping[int, Table],
        begin: int,
        end: int,
        shapes: Mapping[int, Container[Shape]] | None = None,
        keys: Mapping[int, Collection[str]] | None = None,
    ) -> None:
        self._type_name, self._tables, self._shapes = type_name, tables, shapes or {}
        self._keys = {oid: {*((keys or {}).get(oid) or table.key)} for oid, table in tables.items()}
        self._begin, self._end = begin, end
        self._relations: dict[int, Table] = {}
        self._reads = False
        """Whether the transaction is read."""
        self._time = self._position = self._order = 0
        self._transaction = 0
        self._described: list[tuple[int, frozenset[str] | None]] = []
        """The relations that were described since the last change, each with the columns of its identity; None for all."""
        self._identities: dict[int, dict[int, frozenset[str]]] = {}
        """The columns of which the log has old values, by relation and partition, where these are not all."""
        self.parts: dict[int, dict[int, int]] = {}
        self.left_out: dict[str, str] = {}
        self.transactions = 0

    def changes(self, data: bytes) -> Iterator[tuple[Table, LoggedChange]]:
        """The changes of a message. Raises ValueError for a message of an unknown kind."""
        kind = data[:1]
        if kind in b"IUD":
            self._find_part(data)
            if self._reads:
                yield from self._change(kind, data)
        elif kind == b"B":
            self._position, since, self._transaction = _BEGIN.unpack_from(data, 1)
            self._time, self._order = since + _SINCE_1970, 0
            self._reads = self._begin <= self._position < self._end
        elif kind == b"C":
            self.transactions += bool(self._reads and self._order)
            self._reads = False
        elif kind == b"R":
            self._relation(data)
        elif kind == b"T":
            for relation, identity in self._described:
                self._note(relation, relation, identity)
            self._described.clear()
            if self._reads:
                yield from self._truncate(data)
        elif kind not in b"YOM":
            raise ValueError(f"a message of the unknown kind {kind!r} in the slot's log")

    def _relation(self, data: bytes) -> None:
        (relation,) = _RELATION.unpack_from(data, 1)
        _, at = _text(data, 5)
        _, at = _text(data, at)
        columns, identity = list[tuple[str, int, int]](), set[str]()
        is_full = data[at : at + 1] == _FULL
        (count,) = _COUNT.unpack_from(data, at + 1)
        at += 3
        for _ in range(count):
            is_of_identity = data[at]
            column, at = _text(data, at + 1)
            columns.append((column, *_TYPE.unpack_from(data, at)))
            at += _TYPE.size
            if is_of_identity:
                identity.add(column)
        self._described.append((relation, None if is_full else frozenset(identity)))
        if relation not in self._tables:
            return
        described = [Column(name, self._type_name(oid, modifier), oid) for name, oid, modifier in columns]
        table = self._tables[relation]._replace(columns=described)
        if relation in self._shapes and table.shape not in self._shapes[relation]:
            self.left_out.setdefault(table.full_name, "columns altered")
        self._relations[relation] = table

    def _find_part(self, data: bytes) -> None:
        """Note the table that changes are of: a table is described before its first change, behind the one that its changes
        are published as, and both again once one is altered.
        """
        if not self._described:
            return
        (relation,) = _RELATION.unpack_from(data, 1)
        part, identity = self._described[-1]
        if relation in (part, *(each for each, _ in self._described[-2:-1])):
            self._note(relation, part, identity)
        self._described.clear()

    def _note(self, relation: int, part: int, identity: frozenset[str] | None) -> None:
        parts, identities = self.parts.setdefault(relation, {}), self._identities.setdefault(relation, {})
        parts.setdefault(part, self._transaction)
        if part != relation:
            identities.pop(relation, None)  # a partitioned table has rows in its partitions alone
        if identity is None or (part == relation and len(parts) > 1):
            identities.pop(part, None)
        else:
            identities[part] = identity

    def _change(self, kind: bytes, data: bytes) -> Iterator[tuple[Table, LoggedChange]]:
        (relation,) = _RELATION.unpack_from(data, 1)
        table = self._relations.get(relation)
        if table is None or table.full_name in self.left_out:
            return
        row: Sequence[Value]
        row, place = _tuple(data, 6)
        old = None if data[5:6] == b"N" else row
        if kind != b"I" and not self._has_key(relation, table, old):
            self.left_out[table.full_name] = "changed without the old key (REPLICA IDENTITY)"
            return
        if kind == b"D":
            whole = self._is_whole(relation, table, row)
            yield table, self._record(DELETE, row, life=Life(before=content_of_row(row) if whole else "").text())
            return
        if old is not None:
            row = completed(_tuple(data, place + 1)[0], old)
        left_out = None
        if _LARGE in row:
            # a row that comes into a row filter by another key is an insert, which leaves large values out, too
            if old is not None or kind == b"I":
                self.left_out[table.full_name] = "a key updated without a large value"
                return
            left_out = msgspec.json.encode([name for name, value in zip(table.names, row, strict=True) if value == _LARGE]).decode()
            row = [None if value == _LARGE else value for value in row]
        if kind == b"I":
            yield table, self._record(INSERT, row, life=Life(True, after=content_of_row(row)).text())
            return
        life = None
        if old is not None:
            if self._is_whole(relation, table, old):
                life = Life(before=content_of_row(old), after=content_of_row(row)).text()
            yield table, self._record(BEFORE, old)
        yield table, self._record(UPSERT, row, left_out, life)

    def _has_key(self, relation: int, table: Table, old: Sequence[Value] | None) -> bool:
        """Whether the key that the row had is known: the log has the old row, or the key cannot have changed without."""
        key = self._keys[relation]
        if all(key <= identity for identity in self._identities.get(relation, {}).values()):
            return True
        return old is not None and all(value is not None for name, value in zip(table.names, old, strict=True) if name in key)

    def _is_whole(self, relation: int, table: Table, old: Sequence[Value]) -> bool:
        """Whether an old row has all columns. The message does not say so: it has the letter of the table, and the columns
        of the partition.
        """
        identities = self._identities.get(relation, {})
        known = frozenset[str]().union(*identities.values())
        is_beyond = any(value is not None and name not in known for name, value in zip(table.names, old, strict=True))
        return not identities or is_beyond or None not in old

    def _truncate(self, data: bytes) -> Iterator[tuple[Table, LoggedChange]]:
        count, _ = _TRUNCATE.unpack_from(data, 1)
        for number in range(count):
            (relation,) = _RELATION.unpack_from(data, 6 + 4 * number)
            table = self._relations.get(relation)
            if table is not None and table.full_name not in self.left_out:
                yield table, self._record(TRUNCATE, [None] * len(table.columns))

    def _record(self, operation: str, row: Sequence[Value], left_out: str | None = None, life: str | None = None) -> LoggedChange:
        self._order += 1
        return LoggedChange(operation, self._time, self._position, self._order, row, left_out, life)


def message_of(data: bytes, prefix: str) -> str | None:
    r"""The content of a message that a session has written into the log with this prefix; None for other data.

    >>> message_of(bytes.fromhex("4d0100000000000000ff") + b"app\0" + bytes.fromhex("00000002") + b"hi", "app")
    'hi'
    """
    if data[:1] != b"M":
        return None
    found, at = _text(data, _MESSAGE_AT)
    return data[at + _SIZE.size :].decode(errors="replace") if found == prefix else None


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _tuple(data: bytes, at: int) -> tuple[list[Value], int]:
    (count,) = _COUNT.unpack_from(data, at)
    at += 2
    row: list[Value] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == _TEXT:
            begin = at + _SIZE.size
            at = begin + _SIZE.unpack_from(data, at)[0]
            row.append(data[begin:at])
        else:
            row.append(None if kind == _NULL_VALUE else _LARGE)
    return row, at


def completed(row: Sequence[Value], old: Sequence[Value]) -> Sequence[Value]:
    """The row with the large values that an update leaves out, as far as the old row has them.

    Whether the old row is whole is not what the message says of it: a partition may log less, or more, than the table that
    it is a part of. A value that is left out is none of null, so that null is a column that the old row does not have.
    """
    if _LARGE not in row:
        return row
    return [before if value == _LARGE and before is not None else value for value, before in zip(row, old, strict=True)]


def content_of_row(row: Sequence[Value]) -> str:
    """A hash of a row.

    >>> content_of_row([b"1", None]) == content_of_row([b"1", b""])
    False
    """
    return content(b"\0".join([_NULL if value is None else value for value in row]))


def no_text(table: Table, column: str, value: bytes = b"") -> str:
    r"""The sentence on a value that is no UTF-8, which a database in the encoding SQL_ASCII may have.

    >>> no_text(Table("public", "t", ()), "name", b"Zo\xeb")
    "public.t: column 'name' has a value that is no UTF-8 (b'Zo\\xeb'): correct it, or leave the column out of the publication"
    """
    what = "has a value that is no UTF-8" + (f" ({value[:40]!r})" if value else "")
    return f"{table.full_name}: column '{column}' {what}: correct it, or leave the column out of the publication"
