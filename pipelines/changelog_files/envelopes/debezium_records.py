"""Debezium's events as records of Avro or rows of Parquet."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from beam_joins.pipelines.changelog_files.envelopes.debezium import MARKS, MESSAGE, NULL, Debezium, Source, marks_in
from beam_joins.pipelines.changelog_files.envelopes.record_kinds import RecordRows
from beam_joins.pipelines.changelog_files.envelopes.row_change import UPSERT, RowChange

RowsAt = Callable[..., RecordRows | None]
"""The columns of the record at a path within those of a file."""


class DebeziumRecords(Debezium):
    """Reads the records of one file, whose columns ``rows_at`` tells."""

    def __init__(self, rows_at: RowsAt, table: str) -> None:
        super().__init__(table)
        self._within = rows_at("after") or rows_at("before")
        self._flat = rows_at()

    def changes(self, item: Mapping[str, Any]) -> Iterator[RowChange]:
        """The change of a record; none for what is about no row."""
        said = item.get("op")
        if said is None or self._within is None:
            yield from self._flattened(item)
        elif said == "m":
            self.skipped[MESSAGE] += 1
        else:
            given = item.get("source")
            source = None if given is None else msgspec.convert(given, Source)
            if self.is_meant(source) and source is not None:
                row = item.get("after" if self.operation(said) == UPSERT else "before")
                text = NULL if row is None else self._within.text(row)
                yield self.change(said, source, item.get("ts_ms"), text, self._within.types)

    def _flattened(self, item: Mapping[str, Any]) -> Iterator[RowChange]:
        what = self.about_no_row(item, item.get("status"))
        if what is not None:
            self.skipped[what] += 1
        elif self._flat is not None:
            row = self._flat.text({name: value for name, value in item.items() if name not in MARKS})
            yield from self.unwrapped(marks_in(item), row, self._flat.types_without(MARKS))
