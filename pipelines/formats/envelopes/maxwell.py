"""Reads Maxwell's output: a line a row, with its place in MySQL's binary log (``output_binlog_position``)."""

from collections import Counter
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from beam_joins.pipelines.formats.envelopes.row_change import (
    DELETE,
    UPSERT,
    RowChange,
    full_name,
    in_binary_log,
    is_meant,
    key_left,
)

_ROWS = {"insert": UPSERT, "bootstrap-insert": UPSERT, "update": UPSERT, "delete": DELETE}


class _Line(msgspec.Struct):
    type: str
    ts: int = 0
    database: str | None = None
    table: str = ""
    position: str | None = None
    xoffset: int = 0
    data: msgspec.Raw = msgspec.Raw(b"null")
    old: msgspec.Raw = msgspec.Raw(b"null")
    primary_key_columns: list[str] = []


class Maxwell:
    """Reads lines of Maxwell; ``key`` are the columns by which a row with a changed primary key is deleted
    first.
    """

    def __init__(self, key: tuple[str, ...] = (), table: str = "", columns: pa.Schema | None = None) -> None:
        self.skipped: Counter[str] = Counter()
        self._table = table
        self._line = msgspec.json.Decoder(_Line)
        self._key = key

    def changes(self, item: bytes) -> Iterator[RowChange]:
        """The changes of a line; empty for one that is about no row: a schema change, a bootstrap's boundary."""
        event = self._line.decode(item)
        if event.type not in _ROWS:
            self.skipped[event.type.replace("-", "_")] += 1
            return
        if not is_meant(self._table, event.database, event.table):
            return
        if event.position is None:
            raise ValueError("a row without its position: run Maxwell with output_binlog_position=true")
        file, _, offset = event.position.partition(":")
        if not offset.isdecimal():
            raise ValueError(f"the position {event.position!r} is no FILE:OFFSET of a binary log")
        position, time = in_binary_log(file, int(offset)), event.ts * 1_000_000
        table, log = full_name(event.database, event.table), file.rpartition(".")[0] or None
        row, key = bytes(event.data), tuple(event.primary_key_columns)
        old = bytes(event.old) if event.type == "update" and bytes(event.old) != b"null" else None
        if (left := key_left(old, row, self._key)) is not None:
            yield RowChange(table, DELETE, left, time, position, event.xoffset, key, log=log)
        yield RowChange(table, _ROWS[event.type], row, time, position, event.xoffset, key, log=log)
