"""Debezium's events as records of Avro or rows of Parquet."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from beam_joins.pipelines.changelog_files.envelopes.debezium import MARKS, MESSAGE, NULL, Debezium, Source, marks_in
from beam_joins.pipelines.changelog_files.envelopes.record_kinds import RecordRows
from beam_joins.pipelines.changelog_files.envelopes.row_change import UPSERT, RowChange

RowsAt = Callable[..., RecordRows | None]
"""The columns of the record at a path within those of a schema."""


class EventRows(NamedTuple):
    """The columns of the rows within the events of a schema, and of events that are the rows themselves."""

    within: RecordRows | None
    flat: RecordRows | None

    @classmethod
    def of(cls, rows_at: RowsAt) -> "EventRows":
        """Those of a schema."""
        return cls(rows_at("after") or rows_at("before"), rows_at())


class RecordEvents(Debezium):
    """Understands records, whatever says their columns."""

    def changes_in(self, record: Mapping[str, Any], rows: EventRows) -> Iterator[RowChange]:
        """The change of a record; none for what is about no row."""
        said = record.get("op")
        if said is None or rows.within is None:
            yield from self._flattened(record, rows.flat)
        elif said == "m":
            self.skipped[MESSAGE] += 1
        else:
            given = record.get("source")
            source = None if given is None else msgspec.convert(given, Source)
            if self.is_meant(source) and source is not None:
                row = record.get("after" if self.operation(said) == UPSERT else "before")
                text = NULL if row is None else rows.within.text(row)
                yield self.change(said, source, record.get("ts_ms"), text, rows.within.types)

    def _flattened(self, record: Mapping[str, Any], rows: RecordRows | None) -> Iterator[RowChange]:
        what = self.about_no_row(record, record.get("status"))
        if what is not None:
            self.skipped[what] += 1
        elif rows is not None:
            row = rows.text({name: value for name, value in record.items() if name not in MARKS})
            yield from self.unwrapped(marks_in(record), row, rows.types_without(MARKS))


class DebeziumRecords(RecordEvents):
    """Reads the records of one file, whose columns ``rows_at`` tells."""

    def __init__(self, rows_at: RowsAt, table: str) -> None:
        super().__init__(table)
        self._rows = EventRows.of(rows_at)

    def changes(self, item: Mapping[str, Any]) -> Iterator[RowChange]:
        """The change of a record; none for what is about no row."""
        return self.changes_in(item, self._rows)
