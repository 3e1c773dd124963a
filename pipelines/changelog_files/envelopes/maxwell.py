"""Maxwell's output: a line a row, with its place in MySQL's binary log (``output_binlog_position``)."""

from collections.abc import Iterator

import msgspec

from beam_joins.pipelines.changelog_files.envelopes.row_change import DELETE, UPSERT, RowChange, in_binary_log, moved

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
    """Reads lines; ``key`` is the column by which a row that gets another primary key is deleted first."""

    def __init__(self, key: str | None = None) -> None:
        self._line = msgspec.json.Decoder(_Line)
        self._key = key

    def changes(self, line: bytes) -> Iterator[RowChange]:
        """The change of a line; none for one that is about no row: a change of the schema, the bounds of a bootstrap."""
        found = self._line.decode(line)
        if found.type not in _ROWS:
            return
        if found.position is None:
            raise ValueError("a row without its position: run Maxwell with output_binlog_position=true")
        file, _, offset = found.position.partition(":")
        position, time = in_binary_log(file, int(offset)), found.ts * 1_000_000
        table = f"{found.database}.{found.table}" if found.database else found.table
        row, key = bytes(found.data), tuple(found.primary_key_columns)
        old = bytes(found.old)
        if found.type == "update" and self._key is not None and old != b"null" and moved(old, row, self._key):
            yield RowChange(table, DELETE, old, time, position, found.xoffset, key)
        yield RowChange(table, _ROWS[found.type], row, time, position, found.xoffset, key)
