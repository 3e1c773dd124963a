"""Reads Debezium's events as Avro records or Parquet rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from beam_joins.pipelines.formats.envelopes.debezium import MARKS, MESSAGE, NULL, SCHEMA_CHANGE, Debezium, marks_in
from beam_joins.pipelines.formats.envelopes.log_places import Source
from beam_joins.pipelines.formats.envelopes.row_change import INSERT, UPSERT, RowChange
from beam_joins.pipelines.formats.types.record_kinds import RecordRows

RowsAt = Callable[..., RecordRows | None]
"""The columns of the record at a path within those of a schema."""


class EventRows(NamedTuple):
    """The columns of the rows within the events of a schema, and of events that are the rows themselves."""

    within: RecordRows | None
    flat: RecordRows | None

    @classmethod
    def of(cls, rows_at: RowsAt) -> "EventRows":
        """The rows of a schema."""
        return cls(rows_at("after") or rows_at("before"), rows_at())


class RecordEvents(Debezium):
    """Interprets events that are records, whatever their schema comes from."""

    def changes_in(self, record: Mapping[str, Any], rows: EventRows) -> Iterator[RowChange]:
        """The changes of a record; empty for an event that is about no row."""
        code = record.get("op")
        if code is None or rows.within is None:
            yield from self._flattened(record, rows.flat)
        elif code == "m":
            self.skipped[MESSAGE] += 1
        else:
            sent = record.get("source")
            source = None if sent is None else msgspec.convert(sent, Source)
            if self.is_meant(source) and source is not None:
                row = record.get("after" if self.operation(code) in (INSERT, UPSERT) else "before")
                unchanged: tuple[str, ...] = ()
                if self.operation(code) in (INSERT, UPSERT) and row is not None:
                    row, unchanged = self.placeholders.replaced(row, record.get("before"))
                text = NULL if row is None else rows.within.text(row)
                if self.is_of_another_key(source, text):
                    return
                change = self.change(code, source, record.get("ts_ms"), text, rows.within.types, unchanged)
                old = record.get("before") if code == "u" and self._key else None
                yield from self.with_old_row(change, None if old is None else rows.within.text(old))

    def _flattened(self, record: Mapping[str, Any], rows: RecordRows | None) -> Iterator[RowChange]:
        what = self.about_no_row(record, record.get("status"))
        if what is not None:
            source = record.get("source")
            is_change = what == SCHEMA_CHANGE and source is not None
            emptied = list(self.schema_change(record.get("ddl") or "", msgspec.convert(source, Source))) if is_change else []
            self.skipped.update({} if emptied else {what: 1})
            yield from emptied
        elif rows is not None:
            row, unchanged = self.placeholders.replaced({name: value for name, value in record.items() if name not in MARKS}, None)
            yield from self.unwrapped(marks_in(record), rows.text(row), rows.types_without(MARKS), unchanged)


class DebeziumRecords(RecordEvents):
    """Reads the records of one file, whose columns ``rows_at`` tells."""

    def __init__(self, rows_at: RowsAt, table: str, placeholders: Iterable[str] = (), key: tuple[str, ...] = ()) -> None:
        super().__init__(table, placeholders, key)
        self._rows = EventRows.of(rows_at)

    def changes(self, item: Mapping[str, Any]) -> Iterator[RowChange]:
        """The changes of a record; empty for an event that is about no row."""
        return self.changes_in(item, self._rows)
