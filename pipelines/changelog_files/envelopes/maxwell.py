"""Maxwell's output: a line a row, with its place in MySQL's binary log (``output_binlog_position``)."""

from collections import Counter
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from beam_joins.pipelines.changelog_files.envelopes.row_change import (
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
    """Reads lines; ``key`` are the columns by which a row that gets another primary key is deleted first."""

    def __init__(self, key: tuple[str, ...] = (), table: str = "", columns: pa.Schema | None = None) -> None:
        self.skipped: Counter[str] = Counter()
        self._table = table
        self._line = msgspec.json.Decoder(_Line)
        self._key = key

    def changes(self, item: bytes) -> Iterator[RowChange]:
        """The change of a line; none for one that is about no row: a change of the schema, the bounds of a bootstrap."""
        found = self._line.decode(item)
        if found.type not in _ROWS:
            self.skipped[found.type.replace("-", "_")] += 1
            return
        if not is_meant(self._table, found.database, found.table):
            return
        if found.position is None:
            raise ValueError("a row without its position: run Maxwell with output_binlog_position=true")
        file, _, offset = found.position.partition(":")
        position, time = in_binary_log(file, int(offset)), found.ts * 1_000_000
        table = full_name(found.database, found.table)
        row, key = bytes(found.data), tuple(found.primary_key_columns)
        old = bytes(found.old) if found.type == "update" and bytes(found.old) != b"null" else None
        if (left := key_left(old, row, self._key)) is not None:
            yield RowChange(table, DELETE, left, time, position, found.xoffset, key)
        yield RowChange(table, _ROWS[found.type], row, time, position, found.xoffset, key)
