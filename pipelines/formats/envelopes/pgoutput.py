"""Converts messages of PostgreSQL's output plugin ``pgoutput`` to lines of wal2json's format 2.

Unlike wal2json's own, a line of an update says which large values (TOAST) it leaves out (``unchanged``), and
``lsn`` alone says where a transaction is: where its commit begins in the log.
"""

import struct
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

import msgspec

from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.formats.envelopes.slot_lines import place_text

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_COUNT, _SIZE, _TYPE, _RELATION = (struct.Struct(f) for f in (">h", ">i", ">Ii", ">I"))
_BEGIN: Final = struct.Struct(">Qq")
_TRUNCATE: Final = struct.Struct(">iB")
_NUMBERS: Final = frozenset({20, 21, 23, 26, 700, 701, 1700})
"""int8, int2, int4, oid, float4, float8, numeric: written as numbers."""
_BOOLEAN, _BYTES = 16, 17
_NULL: Final = b"null"
Value = str | None
_UNCHANGED: Final = "\0"
"""Stands for a large value that an update does not have; no text of PostgreSQL has this character."""

TypeName = Callable[[int, int], str]
"""The name of a type, given its OID and modifier."""


_quoted: Final[Callable[[str], bytes]] = msgspec.json.Encoder().encode


class Column(NamedTuple):
    """``type`` is the name that PostgreSQL's ``format_type`` gives."""

    name: str
    type: str
    oid: int

    @property
    def text(self) -> Callable[[str], bytes]:
        r"""What gives the JSON of a value, as wal2json writes it, of PostgreSQL's text.

        >>> Column("n", "numeric(5,2)", 1700).text("1.50"), Column("b", "bytea", 17).text(r"\x00ff")
        (b'1.50', b'"00ff"')
        """
        if self.oid in _NUMBERS:
            return lambda value: value.encode() if value[-1:].isdigit() else _quoted(value)
        if self.oid == _BOOLEAN:
            return lambda value: b"true" if value == "t" else b"false"
        return (lambda value: _quoted(value[2:])) if self.oid == _BYTES else _quoted


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

    def update(self, row: Sequence[Value], old: Sequence[Value] | None, at: bytes) -> bytes:
        """The line of an update, of whose old row the log has all columns or some."""
        left_out = []
        if _UNCHANGED in row:
            row = completed(row, old)
            left_out = [name for name, value in zip(self._names, row, strict=True) if value == _UNCHANGED]
            row = [None if value == _UNCHANGED else value for value in row]
        identity = b"" if old is None else b',"identity":' + self._identity(old)
        text = b',"unchanged":[' + b",".join(left_out) + b"]"
        return b'{"action":"U"' + at + self._of + b',"columns":' + self._values(row) + identity + text + self._pk

    def delete(self, old: Sequence[Value], at: bytes) -> bytes:
        """The line of a delete."""
        return b'{"action":"D"' + at + self._of + b',"identity":' + self._identity(old) + self._pk

    def truncate(self, at: bytes = b"") -> bytes:
        """The line of a truncate."""
        return b'{"action":"T"' + at + self._of + b"}"

    def _values(self, row: Sequence[Value]) -> bytes:
        heads, texts = self._heads, self._texts
        parts = [heads[n] + (_NULL if value is None else texts[n](value)) for n, value in enumerate(row)]
        return b"[" + b"},".join(parts) + b"}]" if parts else b"[]"

    def _identity(self, old: Sequence[Value]) -> bytes:
        """The columns of an old row, as wal2json has them: without nulls, which those of an identity never are."""
        parts = (
            head + text(value) + b"}" for head, text, value in zip(self._heads, self._texts, old, strict=True) if value is not None
        )
        return b"[" + b",".join(parts) + b"]"


class Pgoutput:
    r"""Reads the messages of version 1 of the protocol in their order; gives lines for the changes of
    ``tables`` in transactions whose commit begins in ``[begin, end)``, each with the name of its table.

    The lines of one table are a log of their own: a transaction has its bounds among those of each table.

    ``type_name`` asks the catalog for the name of a type. ``tables`` are those that are read, by their OIDs: a name may
    be that of another table within the log. ``left_out`` are the full names of tables whose rows the log does not tell,
    with the reason: those that had other columns for a while than ``shapes`` has by their OIDs, and those that have
    given a row another key without a large value of it. Changes of these are left out from there on.

    >>> message = bytes.fromhex("5200000007") + b"public\0t\0d" + bytes.fromhex("0001") + b"\1id\0" + bytes.fromhex("00000017ffffffff")
    >>> read = Pgoutput(lambda oid, modifier: "integer", {7: Table("public", "t", (), ("id",))}, 0, 1 << 60)
    >>> begin, insert = bytes.fromhex("42" + "00" * 7 + "90" + "00" * 12), b"I" + bytes.fromhex("00000007") + b"N\0\1t\0\0\0\0017"
    >>> for table, line in (each for data in (message, begin, insert, b"C") for each in read.lines("0/70", data)):
    ...     print(line.decode())
    {"action":"B","timestamp":"2000-01-01 00:00:00+00:00","lsn":"0/90"}
    {"action":"I","lsn":"0/70","schema":"public","table":"t","columns":[{"name":"id","type":"integer","value":7}],"pk":[{"name":"id"}]}
    {"action":"C","timestamp":"2000-01-01 00:00:00+00:00","lsn":"0/90"}
    """

    def __init__(
        self,
        type_name: TypeName,
        tables: Mapping[int, Table],
        begin: int,
        end: int,
        shapes: Mapping[int, Container[Shape]] | None = None,
    ) -> None:
        self._type_name, self._tables, self._shapes = type_name, tables, shapes or {}
        self._begin, self._end = begin, end
        self._relations: dict[int, tuple[Table, Lines]] = {}
        self._bounds: bytes | None = None
        """What the lines of the transaction's bounds say, None within one that is not read."""
        self._begun: dict[str, None] = {}
        """The tables that the transaction changes."""
        self.left_out: dict[str, str] = {}
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
        if relation not in self._tables:
            return
        _, at = _text(data, 5)
        _, at = _text(data, at)
        columns = []
        (count,) = _COUNT.unpack_from(data, at + 1)
        at += 3
        for _ in range(count):
            column, at = _text(data, at + 1)
            oid, modifier = _TYPE.unpack_from(data, at)
            at += _TYPE.size
            columns.append(Column(column, self._type_name(oid, modifier), oid))
        table = self._tables[relation]._replace(columns=columns)
        if relation in self._shapes and table.shape not in self._shapes[relation]:
            self.left_out.setdefault(table.full_name, "columns altered")
        self._relations[relation] = table, Lines(table)

    def _change(self, kind: bytes, at: bytes, data: bytes) -> Iterator[tuple[str, bytes]]:
        (relation,) = _RELATION.unpack_from(data, 1)
        entry = self._relations.get(relation)
        if entry is None or entry[0].full_name in self.left_out:
            return
        table, lines = entry
        row, place = _tuple(table, data, 6)
        old = None if data[5:6] == b"N" else row
        if kind == b"U" and old is not None:
            row, _ = _tuple(table, data, place + 1)
        # a row that comes into a row filter by another key is an insert, which leaves large values out, too
        if kind != b"D" and (old is not None or kind == b"I") and _UNCHANGED in completed(row, old):
            self.left_out[table.full_name] = "a key updated without a large value"
            return
        if kind == b"I":
            line = lines.insert(row, at)
        elif kind == b"D":
            line = lines.delete(row, at)
        else:
            line = lines.update(row, old, at)
        yield from self._in_transaction(table.full_name, line)

    def _truncate(self, at: bytes, data: bytes) -> Iterator[tuple[str, bytes]]:
        count, _ = _TRUNCATE.unpack_from(data, 1)
        for number in range(count):
            (relation,) = _RELATION.unpack_from(data, 6 + 4 * number)
            entry = self._relations.get(relation)
            if entry is not None and entry[0].full_name not in self.left_out:
                yield from self._in_transaction(entry[0].full_name, entry[1].truncate(at))

    def _in_transaction(self, table: str, line: bytes) -> Iterator[tuple[str, bytes]]:
        if table not in self._begun:
            self._begun[table] = None
            yield table, b'{"action":"B",' + (self._bounds or b"")
        yield table, line


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _tuple(table: Table, data: bytes, at: int) -> tuple[list[Value], int]:
    (count,) = _COUNT.unpack_from(data, at)
    at += 2
    row: list[Value] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t
            (size,) = _SIZE.unpack_from(data, at)
            at += 4
            try:
                row.append(data[at : at + size].decode())
            except UnicodeDecodeError:
                raise InputError(no_text(table, table.columns[len(row)].name, data[at : at + size])) from None
            at += size
        else:
            row.append(None if kind == 0x6E else _UNCHANGED)
    return row, at


def completed(row: Sequence[Value], old: Sequence[Value] | None) -> Sequence[Value]:
    """The row with the large values that an update leaves out, as far as the old row has them.

    Whether the old row is whole is not what the message says of it: a partition may log less, or more, than the table that
    it is a part of. A value that is left out is none of null, so that null is a column that the old row does not have.
    """
    if old is None or _UNCHANGED not in row:
        return row
    return [before if value == _UNCHANGED and before is not None else value for value, before in zip(row, old, strict=True)]


def no_text(table: Table, column: str, value: bytes = b"") -> str:
    r"""The sentence on a value that is no UTF-8, which a database in the encoding SQL_ASCII may have.

    >>> no_text(Table("public", "t", ()), "name", b"Zo\xeb")
    "public.t: column 'name' has a value that is no UTF-8 (b'Zo\\xeb'): correct it, or leave the column out of the publication"
    """
    what = "has a value that is no UTF-8" + (f" ({value[:40]!r})" if value else "")
    return f"{table.full_name}: column '{column}' {what}: correct it, or leave the column out of the publication"
