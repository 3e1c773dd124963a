"""Scenarios as Arrow batches: what the operators' pipelines on columns share."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins import Change, ChangeBatch, LatestTable, TableFromChangelog, TableToRecords
from beam_joins.content import Emit
from tests.conformance.pipelines.operators import Streams
from tests.reference.recomputed import fk_of

ROWS = pa.schema(
    [
        ("key", pa.string()),
        ("text", pa.string()),
        ("reference", pa.string()),
        ("at", pa.int64()),
        ("position", pa.int64()),
        ("number", pa.int64()),
        ("deleted", pa.bool_()),
    ]
)
"""``reference`` is the foreign key that the text refers to, of the form ``number/key`` as ``key`` is; ``at`` is in microseconds."""


def batches(rows: Sequence[dict[str, Any]]) -> list[pa.Table]:
    """The rows of a topic as three batches, the last ones first: the order of arrival says nothing."""
    table = pa.Table.from_pylist([_in_columns(row) for row in rows], schema=ROWS)
    third = -(-len(rows) // 3)
    return [table.slice(third * i, third) for i in (2, 1, 0)]


def _in_columns(row: dict[str, Any]) -> dict[str, Any]:
    reference = None if row["value"] is None else fk_of(row["value"])
    return {
        "key": row["key"],
        "text": row["value"],
        "reference": None if reference is None else f"{row['number']}/{reference}",
        "at": row["ts"] * 1000,
        "position": row["position"],
        "number": row["number"],
        "deleted": row["value"] is None,
    }


class ColumnTable(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """The table of a topic, whose values are of ``text`` and ``reference``; see :class:`tests.conformance.pipelines.tables.ChangelogTable`."""

    def __init__(self, emit: Emit = "records") -> None:
        super().__init__()
        self._emit: Emit = emit

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        table: PCollection[Any] = rows | TableFromChangelog(
            key="key",
            timestamp_by="at",
            sequence_by="position",
            apply_as_deletes="deleted",
            except_columns=["key", "at", "position", "number", "deleted"],
            emit=self._emit,
        )
        assert table.element_type is ChangeBatch, "a table of Arrow batches is one in columns"
        return table


def in_records(table: PCollection[Any], label: str = "In records") -> PCollection[Any]:
    """The changes of a table in columns, by ``TableToRecords``; those of another as they are."""
    return table | label >> TableToRecords() if table.element_type is ChangeBatch else table


def column_streams(table: PCollection[Any], shown: Callable[[dict[str, Any]], str]) -> Streams:
    """The changes of a table and its rows in the end, their values as text."""

    def as_text(change: Change[str, Any]) -> Change[str, str]:
        old, new = (None if value is None else shown(value) for value in (change.old, change.new))
        return change._replace(old=old, new=new)

    def rows(latest: Any) -> Iterator[tuple[str, str]]:
        if isinstance(latest, pa.RecordBatch):
            keys, values = latest["key"].to_pylist(), latest["value"].to_pylist()
            return ((key, shown(value)) for key, value in zip(keys, values, strict=True))
        key, value = latest
        return iter([(key, shown(value))])

    return Streams(
        changes=in_records(table) | "As text" >> beam.Map(as_text).with_output_types(Change),
        rows=table | LatestTable() | "Rows" >> beam.FlatMap(rows),
    )
