"""Debezium's events as lines of JSON, with a schema or without."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from beam_joins.pipelines.changelog_files.envelopes.connect_schema import Rows, rows_of
from beam_joins.pipelines.changelog_files.envelopes.debezium import MARKS, MESSAGE, NULL, Debezium, Source, marks_in
from beam_joins.pipelines.changelog_files.envelopes.row_change import UPSERT, RowChange, object_text

_NONE: Final = msgspec.Raw(NULL)


class _Event(msgspec.Struct):
    op: str | None = None
    before: msgspec.Raw = _NONE
    after: msgspec.Raw = _NONE
    source: msgspec.Raw = _NONE
    ts_ms: msgspec.Raw = _NONE


class _Line(_Event):
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema: msgspec.Raw = _NONE


class DebeziumJson(Debezium):
    """Reads lines; the columns of their rows have types where a line has a schema."""

    def __init__(self, key: tuple[str, ...] = (), table: str = "", columns: pa.Schema | None = None) -> None:
        super().__init__(table)
        self._line = msgspec.json.Decoder(_Line | None)
        self._event = msgspec.json.Decoder(_Event)
        self._source = msgspec.json.Decoder(Source | None)
        self._flat = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._sent = msgspec.json.Decoder(int | None)
        self._said: dict[bytes, tuple[Rows | None, Rows | None]] = {}
        """What schema parts say, by their bytes: they are the same in line after line."""

    def changes(self, item: bytes) -> Iterator[RowChange]:
        """The change of a line; none for what is about no row."""
        found = self._line.decode(item)
        if found is None:
            self.tombstone()
            return
        text, event, schema = item, found, NULL
        if found.payload is not msgspec.UNSET and found.op is None and self._flat.decode(item).keys() <= {"schema", "payload"}:
            text, schema = bytes(found.payload), bytes(found.schema)
            if text == NULL:
                self.tombstone()
                return
            event = self._event.decode(text)
        within, flat = self._rows(schema)
        if event.op is None:
            yield from self._flattened(text, flat)
        elif event.op == "m":
            self.skipped[MESSAGE] += 1
        else:
            source = self._source.decode(event.source)
            if self.is_meant(source) and source is not None:
                operation = self.operation(event.op)
                row = bytes(event.after if operation == UPSERT else event.before)
                sent = self._sent.decode(event.ts_ms)
                meant = row if within is None or row == NULL else within.text(row)
                yield self.change(event.op, source, sent, meant, None if within is None else within.types)

    def _flattened(self, text: bytes, rows: Rows | None) -> Iterator[RowChange]:
        members = self._flat.decode(text)
        what = self.about_no_row(members, msgspec.json.decode(members.get("status", _NONE)))
        if what is not None:
            self.skipped[what] += 1
            return
        marks: dict[str, Any] = marks_in({name: msgspec.json.decode(members.pop(name)) for name in list(members) if name in MARKS})
        row = object_text(members, members.values())
        types = None
        if rows is not None:
            row = rows.text(row)
            types = rows.types_without(MARKS)
        yield from self.unwrapped(marks, row, types)

    def _rows(self, schema: bytes) -> tuple[Rows | None, Rows | None]:
        if schema == NULL:
            return None, None
        if schema not in self._said:
            self._said[schema] = rows_of(schema)
        return self._said[schema]
