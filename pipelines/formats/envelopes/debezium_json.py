"""Reads Debezium's events as lines of JSON, with a schema part or without."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from beam_joins.pipelines.formats.envelopes.connect_schema import Rows, rows_of
from beam_joins.pipelines.formats.envelopes.debezium import MARKS, MESSAGE, NULL, Debezium, marks_in
from beam_joins.pipelines.formats.envelopes.log_places import Source
from beam_joins.pipelines.formats.envelopes.row_change import INSERT, UPSERT, RowChange, object_text

_NONE: Final = msgspec.Raw(NULL)
_UPDATE: Final = "u"


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
    """Reads Debezium's events from JSON lines; columns are typed where a line has a schema."""

    def __init__(
        self, key: tuple[str, ...] = (), table: str = "", columns: pa.Schema | None = None, placeholders: Iterable[str] = ()
    ) -> None:
        super().__init__(table, placeholders, key)
        self._line = msgspec.json.Decoder(_Line | None)
        self._event = msgspec.json.Decoder(_Event)
        self._source = msgspec.json.Decoder(Source | None)
        self._flat = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._sent = msgspec.json.Decoder(int | None)
        self._rows_of: dict[bytes, tuple[Rows | None, Rows | None]] = {}
        """What schema parts say, by their bytes: they are the same in line after line."""

    def changes(self, item: bytes) -> Iterator[RowChange]:
        """The changes of a line; empty for an event that is about no row."""
        message = self._line.decode(item)
        if message is None:
            self.tombstone()
            return
        text, event, schema = item, message, NULL
        if message.payload is not msgspec.UNSET and message.op is None and self._flat.decode(item).keys() <= {"schema", "payload"}:
            text, schema = bytes(message.payload), bytes(message.schema)
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
                row = _document(bytes(event.after if operation in (INSERT, UPSERT) else event.before))
                unchanged: tuple[str, ...] = ()
                if event.op == _UPDATE:
                    row, unchanged = self.placeholders.cut(row, bytes(event.before))
                sent = self._sent.decode(event.ts_ms)
                meant = row if within is None or row == NULL else within.text(row)
                change = self.change(event.op, source, sent, meant, None if within is None else within.types, unchanged)
                old = _document(bytes(event.before)) if event.op == _UPDATE and self._key else NULL
                yield from self.with_key_left(change, old if within is None or old == NULL else within.text(old))

    def _flattened(self, text: bytes, rows: Rows | None) -> Iterator[RowChange]:
        members = self._flat.decode(text)
        what = self.about_no_row(members, msgspec.json.decode(members.get("status", _NONE)))
        if what is not None:
            self.skipped[what] += 1
            return
        marks: dict[str, Any] = marks_in({name: msgspec.json.decode(members.pop(name)) for name in list(members) if name in MARKS})
        row, unchanged = self.placeholders.cut(object_text(members, members.values()), NULL)
        types = None
        if rows is not None:
            row = rows.text(row)
            types = rows.types_without(MARKS)
        yield from self.unwrapped(marks, row, types, unchanged)

    def _rows(self, schema: bytes) -> tuple[Rows | None, Rows | None]:
        if schema == NULL:
            return None, None
        if schema not in self._rows_of:
            self._rows_of[schema] = rows_of(schema)
        return self._rows_of[schema]


def _document(row: bytes) -> bytes:
    """The row: MongoDB's documents are written as text of JSON."""
    return msgspec.json.decode(row, type=str).encode() if row.startswith(b'"') else row
