"""Reads Debezium's events as lines of JSON, with a schema part or without."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from beam_joins.pipelines.formats.envelopes.debezium import MARKS, MESSAGE, NULL, SCHEMA_CHANGE, Debezium, is_deleted, marks_in
from beam_joins.pipelines.formats.envelopes.log_places import Source
from beam_joins.pipelines.formats.envelopes.row_change import INSERT, UPSERT, RowChange
from beam_joins.pipelines.formats.types.exact_json import object_text
from beam_joins.pipelines.formats.types.kafka_connect import ConnectRows, rows_of

TOMBSTONE_ALONE, OPEN_DELETE = "tombstone_alone", "open_delete"
"""The kinds of a tombstone in a part of a file without a delete before it, and of a delete without a tombstone behind it."""
_NONE: Final = msgspec.Raw(NULL)
_UPDATE, _DELETE = "u", "d"
_WITH_TYPES: Final = re.compile(rb'\{\s*"(?:string|long|int|boolean|double|float|bytes|[\w.-]+\.[\w-]+)"\s*:')
"""A value of Avro's JSON, with its type."""
_ENVELOPED: Final = re.compile(rb'\{\s*"[^"\s]+\.Value"\s*:\s*\{')
_AVRO_JSON: Final = (
    "Avro's own JSON, which has the types of values in it, as kafka-avro-console-consumer prints it, and does not say which numbers "
    "are times or decimals: read the topic with schema_registry=, or write it in Avro files or by the JsonConverter"
)


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
    """Reads Debezium's events from JSON lines; columns are typed where a line has a schema. ``in_files``: lines have no keys, and
    tombstones without deletes are counted, and deletes without tombstones, of all tables.
    """

    def __init__(
        self,
        key: tuple[str, ...] = (),
        table: str = "",
        columns: pa.Schema | None = None,
        placeholders: Iterable[str] = (),
        *,
        in_files: bool = False,
    ) -> None:
        super().__init__(table, placeholders, key)
        self._in_files, self._open_deletes = in_files, 0
        self._line = msgspec.json.Decoder(_Line | None)
        self._event = msgspec.json.Decoder(_Event)
        self._source = msgspec.json.Decoder(Source | None)
        self._flat = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._sent = msgspec.json.Decoder(int | None)
        self._rows_of: dict[bytes, tuple[ConnectRows | None, ConnectRows | None]] = {}
        """The rows that schema parts describe, by the bytes of these parts: they are the same in line after line."""

    def tombstone(self) -> None:
        """Skips a tombstone, which closes a delete before it. Raises ValueError where there is no other sign of deletes."""
        super().tombstone()
        if self._open_deletes:
            self._open_deletes -= 1
            self.skipped[OPEN_DELETE] -= 1
        elif self._in_files:
            self.skipped[TOMBSTONE_ALONE] += 1

    def _delete(self) -> None:
        """Counts a delete, which a tombstone may follow."""
        if self._in_files:
            self._open_deletes += 1
            self.skipped[OPEN_DELETE] += 1

    def changes(self, item: bytes) -> Iterator[RowChange]:
        """The changes of a line; empty for an event that is about no row."""
        try:
            yield from self._changes(item)
        except msgspec.ValidationError as error:
            if _WITH_TYPES.search(item) is not None:
                raise ValueError(_AVRO_JSON) from error
            raise

    def _changes(self, item: bytes) -> Iterator[RowChange]:
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
        if event.op is None or (_is_bare(event) and not MARKS.isdisjoint(self._flat.decode(text))):  # a row may have a column op
            yield from self._flattened(text, flat)
        elif event.op == "m":
            self.skipped[MESSAGE] += 1
        else:
            source = self._source.decode(event.source)
            if event.op == _DELETE:
                self._delete()
            if self.is_meant(source) and source is not None:
                operation = self.operation(event.op)
                row = _document(bytes(event.after if operation in (INSERT, UPSERT) else event.before))
                unchanged: tuple[str, ...] = ()
                if operation in (INSERT, UPSERT):
                    row, unchanged = self.placeholders.cut(row, bytes(event.before))
                sent = self._sent.decode(event.ts_ms)
                _require_plain(row)
                if self.is_of_another_key(source, row):
                    return
                meant = row if within is None or row == NULL else within.text(row)
                change = self.change(event.op, source, sent, meant, None if within is None else within.types, unchanged)
                old = _document(bytes(event.before)) if event.op == _UPDATE and self._key else NULL
                yield from self.with_old_row(change, old if within is None or old == NULL else within.text(old))

    def _flattened(self, text: bytes, rows: ConnectRows | None) -> Iterator[RowChange]:
        members = self._flat.decode(text)
        what = self.about_no_row(members, msgspec.json.decode(members.get("status", _NONE)))
        if what is not None:
            emptied = list(self._schema_change(members)) if what == SCHEMA_CHANGE else []
            self.skipped.update({} if emptied else {what: 1})
            yield from emptied
            return
        marks: dict[str, Any] = marks_in({name: msgspec.json.decode(members.pop(name)) for name in list(members) if name in MARKS})
        if is_deleted(marks):
            self._delete()
        row, unchanged = self.placeholders.cut(object_text(members, members.values()), NULL)
        types = None
        if rows is not None:
            row = rows.text(row)
            types = rows.types_without(MARKS)
        yield from self.unwrapped(marks, row, types, unchanged)

    def _schema_change(self, members: Mapping[str, msgspec.Raw]) -> Iterator[RowChange]:
        statement = msgspec.json.decode(members.get("ddl", _NONE), type=str | None)
        return self.schema_change(statement or "", self._source.decode(members.get("source", _NONE)))

    def _rows(self, schema: bytes) -> tuple[ConnectRows | None, ConnectRows | None]:
        if schema == NULL:
            return None, None
        if schema not in self._rows_of:
            self._rows_of[schema] = rows_of(schema)
        return self._rows_of[schema]


def _is_bare(event: _Event) -> bool:
    """Whether an event has nothing of an envelope."""
    return all(bytes(member) == NULL for member in (event.source, event.after, event.before))


def _require_plain(row: bytes) -> None:
    if _ENVELOPED.match(row):
        raise ValueError(_AVRO_JSON)


def _document(row: bytes) -> bytes:
    """The row: MongoDB's documents are written as text of JSON."""
    return msgspec.json.decode(row, type=str).encode() if row.startswith(b'"') else row
