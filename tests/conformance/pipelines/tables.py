"""One table, filtered or as it is, as a pipeline."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins import Change, FilterTable, LatestTable, MapTable, TableFromChangelog, TableToStream
from beam_joins.content import Emit
from tests.conformance.operators import Topology
from tests.conformance.pipelines.columns import ColumnTable, column_streams, in_records
from tests.conformance.pipelines.operators import Pipeline, Streams
from tests.conformance.tables import kept_by, old_values_unknown, predicate
from tests.conformance.values import text_of


class ChangelogTable(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """The table of a topic. By default tombstones of absent rows are changes too, as Kafka forwards them."""

    def __init__(self, emit: Emit = "records") -> None:
        super().__init__()
        self._emit: Emit = emit

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        changes = rows | TableFromChangelog(
            key="key",
            timestamp_by=lambda row: row["ts"] * 1000,
            sequence_by="position",
            apply_as_deletes=lambda row: row["value"] is None,
            except_columns=["key", "ts", "position"],
            emit=self._emit,
        )
        table: PCollection[Any] = changes | "Value" >> MapTable(lambda key, row: row["value"])
        return table


class RawChangelog(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """A table as the stream of its records, old values forgotten. A key carries the position, which a stream has not."""

    def expand(self, changes: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        keyed = changes | "Position" >> beam.Map(lambda change: change._replace(key=(change.key, change.position)))
        stream: PCollection[Any] = keyed | TableToStream()
        return stream


def _filter_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    def filtering() -> FilterTable:
        return FilterTable(predicate(topology), negate=topology.get("not", False))

    changes = inputs["in"] | ChangelogTable()
    filtered = changes | filtering()
    raw = changes | RawChangelog() | "Raw" >> filtering() if old_values_unknown(topology) else None
    return Streams(changes=filtered, rows=filtered | LatestTable(), raw=raw)


def _filter_columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    kept = kept_by(topology)
    return column_streams(inputs["in"] | ColumnTable() | FilterTable(lambda key, row: kept(key, text_of(row))), text_of)


def _to_stream_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    changes = inputs["in"] | ChangelogTable("updates")
    raw = inputs["in"] | "Records" >> ChangelogTable() | "Raw" >> RawChangelog()
    return Streams(outs=changes | RawChangelog(), changes=changes, rows=changes | LatestTable(), raw=raw)


def _to_stream_columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    changes = in_records(inputs["in"] | "Records" >> ColumnTable(), "Raw records")
    texts = changes | "Raw text" >> beam.Map(lambda c: c._replace(old=None, new=c.new and text_of(c.new))).with_output_types(Change)
    return column_streams(inputs["in"] | ColumnTable("updates"), text_of)._replace(raw=texts | "Raw" >> RawChangelog())


FILTER = Pipeline(
    _filter_pipeline,
    branch=lambda topology: (topology["predicate"], topology.get("not", False), old_values_unknown(topology)),
    columns=_filter_columns,
)
TO_STREAM = Pipeline(_to_stream_pipeline, branch=lambda topology: (), columns=_to_stream_columns)
