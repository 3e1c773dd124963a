"""Converts messages of PostgreSQL's output plugin ``pgoutput`` to lines of wal2json's format 2.

Unlike wal2json's own, a line of an update says which large values (TOAST) it leaves out (``unchanged``), and
``lsn`` alone says where a transaction is: where its commit begins in the log.
"""

import struct
from collections.abc import Callable, Container, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from beam_joins.pipelines.formats.envelopes.slot_lines import place_text

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_COUNT, _SIZE, _TYPE, _RELATION = (struct.Struct(f) for f in (">h", ">i", ">Ii", ">I"))
_BEGIN: Final = struct.Struct(">Qq")
_TRUNCATE: Final = struct.Struct(">iB")
_NUMBERS: Final = frozenset({20, 21, 23, 26, 700, 701, 1700})
"""int8, int2, int4, oid, float4, float8, numeric: written as numbers."""
_NUMERIC, _BOOLEAN, _BYTES = 1700, 16, 17
_NULL: Final = b"null"
Value = str | None
_UNCHANGED: Final = "\0"
"""Stands for a large value that an update does not have; no text of PostgreSQL has this character."""

TypeName = Callable[[int, int], str]
"""The name of a type, given its OID and modifier."""


_quoted: Final[Callable[[str], bytes]] = msgspec.json.Encoder().encode


def _null(value: str) -> bytes:
    return _NULL


class Column(NamedTuple):
    """``type`` is the name that PostgreSQL's ``format_type`` gives, ``in_identity`` whether old rows have the
    column.
    """

    name: str
    type: str
    oid: int
    in_identity: bool = False

    @property
    def text(self) -> Callable[[str], bytes]:
        r"""What gives the JSON of a value, as wal2json writes it, of PostgreSQL's text.

        >>> Column("n", "numeric(5,2)", 1700).text("1.50"), Column("b", "bytea", 17).text(r"\x00ff")
        (b'1.50', b'"00ff"')
        """
        if self.oid in _NUMBERS:
            # a decimal of Arrow has no NaN; without a scale the column is text
            other = _null if self.oid == _NUMERIC and self.type != "numeric" else _quoted
            return lambda value: value.encode() if value[-1:].isdigit() else other(value)
        if self.oid == _BOOLEAN:
            return lambda value: b"true" if value == "t" else b"false"
        return (lambda value: _quoted(value[2:])) if self.oid == _BYTES else _quoted


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


class Lines:
    """Writes the changes of one table; lines have no newline."""

    def __init__(self, table: Table) -> None:
        encode = msgspec.json.encode
        self._columns = table.columns
        self._texts = [column.text for column in table.columns]
        self._of = b',"schema":' + encode(table.schema) + b',"table":' + encode(table.name)
        self._heads = [b'{"name":%b,"type":%b,"value":' % (encode(each.name), encode(each.type)) for each in table.columns]
        self._names = [encode(each.name) for each in table.columns]
        self._pk = b',"pk":[' + b",".join(b'{"name":%b}' % encode(name) for name in table.key) + b"]}"

    def insert(self, row: Sequence[Value], at: bytes = b"") -> bytes:
        """The line of a row that is there from now on; ``at`` is where the log has it."""
        return b'{"action":"I"' + at + self._of + b',"columns":' + self._values(row) + self._pk

    def update(self, row: Sequence[Value], old: Sequence[Value] | None, at: bytes, *, whole: bool) -> bytes:
        """The line of an update, of whose old row ``whole`` or only the columns of its identity are there."""
        left_out = []
        if _UNCHANGED in row:
            values = list(row)
            for n, value in enumerate(row):
                if value == _UNCHANGED:
                    values[n] = old[n] if old is not None and whole else None
                    if old is None or not whole:
                        left_out.append(self._names[n])
            row = values
        identity = b"" if old is None else b',"identity":' + self._identity(old, whole=whole)
        text = b',"unchanged":[' + b",".join(left_out) + b"]"
        return b'{"action":"U"' + at + self._of + b',"columns":' + self._values(row) + identity + text + self._pk

    def delete(self, old: Sequence[Value], at: bytes, *, whole: bool) -> bytes:
        """The line of a delete."""
        return b'{"action":"D"' + at + self._of + b',"identity":' + self._identity(old, whole=whole) + self._pk

    def truncate(self, at: bytes = b"") -> bytes:
        """The line of a truncate."""
        return b'{"action":"T"' + at + self._of + b"}"

    def _values(self, row: Sequence[Value]) -> bytes:
        heads, texts = self._heads, self._texts
        parts = [heads[n] + (_NULL if value is None else texts[n](value)) for n, value in enumerate(row)]
        return b"[" + b"},".join(parts) + b"}]" if parts else b"[]"

    def _identity(self, old: Sequence[Value], *, whole: bool) -> bytes:
        parts = (
            head + (_NULL if value is None else text(value)) + b"}"
            for head, text, each, value in zip(self._heads, self._texts, self._columns, old, strict=True)
            if (value is not None if whole else each.in_identity)
        )
        return b"[" + b",".join(parts) + b"]"


class Pgoutput:
    r"""Reads the messages of version 1 of the protocol in their order; gives lines for the changes of
    ``tables`` in transactions whose commit begins in ``[begin, end)``, each with the name of its table.

    The lines of one table are a log of their own: a transaction has its bounds among those of each table.

    ``type_name`` and ``key_of`` ask the catalog: for the name of a type, and for the primary key of a table,
    given its OID. ``moved`` are the full names of tables that have given a row another key without a large
    value of it, which nothing but the table itself has: changes of these are left out from there on.

    >>> message = bytes.fromhex("5200000007") + b"public\0t\0d" + bytes.fromhex("0001") + b"\1id\0" + bytes.fromhex("00000017ffffffff")
    >>> read = Pgoutput(lambda oid, modifier: "integer", lambda relation: ("id",), {"public.t"}, 0, 1 << 60)
    >>> begin, insert = bytes.fromhex("42" + "00" * 7 + "90" + "00" * 12), b"I" + bytes.fromhex("00000007") + b"N\0\1t\0\0\0\0017"
    >>> for table, line in (each for data in (message, begin, insert, b"C") for each in read.lines("0/70", data)):
    ...     print(line.decode())
    {"action":"B","timestamp":"2000-01-01 00:00:00+00:00","lsn":"0/90"}
    {"action":"I","lsn":"0/70","schema":"public","table":"t","columns":[{"name":"id","type":"integer","value":7}],"pk":[{"name":"id"}]}
    {"action":"C","timestamp":"2000-01-01 00:00:00+00:00","lsn":"0/90"}
    """

    def __init__(
        self, type_name: TypeName, key_of: Callable[[int], Sequence[str]], tables: Container[str], begin: int, end: int
    ) -> None:
        self._type_name, self._key_of, self._tables = type_name, key_of, tables
        self._begin, self._end = begin, end
        self._known: dict[int, tuple[Table, Lines, bool] | None] = {}
        self._bounds: bytes | None = None
        """What the lines of the transaction's bounds say, None within one that is not read."""
        self._begun: dict[str, None] = {}
        """The tables that the transaction changes."""
        self.moved: set[str] = set()
        self.transactions = 0

    def lines(self, at: str, data: bytes) -> Iterator[tuple[str, bytes]]:
        """The lines of a message that the log has at ``at``. Raises ValueError for one that is not known."""
        kind = data[:1]
        if kind in b"IUD":
            if self._bounds is not None:
                yield from self._change(kind, b',"lsn":"%b"' % at.encode(), data)
        elif kind == b"B":
            commit, since = _BEGIN.unpack_from(data, 1)
            is_read = self._begin <= commit < self._end
            text = f'"timestamp":"{_EPOCH + timedelta(microseconds=since)}","lsn":"{place_text(commit)}"}}'
            self._bounds, self._begun = (text.encode() if is_read else None), {}
        elif kind == b"C":
            self.transactions += bool(self._begun)
            yield from ((table, b'{"action":"C",' + (self._bounds or b"")) for table in self._begun)
            self._bounds, self._begun = None, {}
        elif kind == b"R":
            self._relation(data)
        elif kind == b"T":
            if self._bounds is not None:
                yield from self._truncate(b',"lsn":"%b"' % at.encode(), data)
        elif kind not in b"YOM":
            raise ValueError(f"a message of the unknown kind {kind!r} in the slot's log")

    def _relation(self, data: bytes) -> None:
        (relation,) = _RELATION.unpack_from(data, 1)
        schema, at = _text(data, 5)
        name, at = _text(data, at)
        if f"{schema or 'pg_catalog'}.{name}" not in self._tables:
            self._known[relation] = None
            return
        whole, columns = data[at : at + 1] == b"f", []
        (count,) = _COUNT.unpack_from(data, at + 1)
        at += 3
        for _ in range(count):
            in_identity = bool(data[at] & 1)
            column, at = _text(data, at + 1)
            oid, modifier = _TYPE.unpack_from(data, at)
            at += _TYPE.size
            columns.append(Column(column, self._type_name(oid, modifier), oid, in_identity))
        table = Table(schema or "pg_catalog", name, columns, self._key_of(relation))
        self._known[relation] = table, Lines(table), whole

    def _change(self, kind: bytes, at: bytes, data: bytes) -> Iterator[tuple[str, bytes]]:
        (relation,) = _RELATION.unpack_from(data, 1)
        entry = self._known.get(relation)
        if entry is None or entry[0].full_name in self.moved:
            return
        table, lines, whole = entry
        if kind == b"I":
            row, _ = _tuple(data, 6)
            line = lines.insert(row, at)
        elif kind == b"D":
            row, _ = _tuple(data, 6)
            line = lines.delete(row, at, whole=whole)
        else:
            old, place = _tuple(data, 6) if data[5:6] in b"KO" else (None, 5)
            row, _ = _tuple(data, place + 1)
            if old is not None and not whole and _UNCHANGED in row:
                self.moved.add(table.full_name)
                return
            line = lines.update(row, old, at, whole=whole)
        yield from self._in_transaction(table.full_name, line)

    def _truncate(self, at: bytes, data: bytes) -> Iterator[tuple[str, bytes]]:
        count, _ = _TRUNCATE.unpack_from(data, 1)
        for number in range(count):
            (relation,) = _RELATION.unpack_from(data, 6 + 4 * number)
            entry = self._known.get(relation)
            if entry is not None and entry[0].full_name not in self.moved:
                yield from self._in_transaction(entry[0].full_name, entry[1].truncate(at))

    def _in_transaction(self, table: str, line: bytes) -> Iterator[tuple[str, bytes]]:
        if table not in self._begun:
            self._begun[table] = None
            yield table, b'{"action":"B",' + (self._bounds or b"")
        yield table, line


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
        if kind == 0x74:  # t
            (size,) = _SIZE.unpack_from(data, at)
            at += 4
            row.append(data[at : at + size].decode())
            at += size
        else:
            row.append(None if kind == 0x6E else _UNCHANGED)
    return row, at
