"""One table, filtered or as it is, as a pipeline."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins import Change, FilterTable, TableFromChangelog, TableToChanges, TableToStream
from beam_joins.elements.content import Emit
from tests.conformance.operators import Topology
from tests.conformance.pipelines.operators import Inputs, Pipeline, Streams
from tests.conformance.pipelines.rows import streams_of
from tests.conformance.tables import old_values_unknown, predicate
from tests.conformance.values import Values, text_of


class ChangelogTable(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """The table of a topic. By default tombstones of absent rows are changes too, as Kafka forwards them."""

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
            except_columns=["key", "at", "position", "deleted"],
            emit=self._emit,
        )
        return table


class _RawChangelog(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """A table as the stream of its records, old values forgotten.

    A key carries the position, which a stream has not.
    """

    def expand(self, table: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        keyed = table | TableToChanges() | "Position" >> beam.Map(_with_position).with_output_types(Change)
        stream: PCollection[Any] = keyed | TableToStream()
        return stream


def _with_position(change: Change[str, Any]) -> Change[tuple[str, int], Any]:
    return change._replace(key=(change.key, change.position))


def _texts(stream: PCollection[Any], label: str) -> PCollection[Any]:
    texts: PCollection[Any] = stream | label >> beam.MapTuple(lambda key, row: (key, None if row is None else text_of(row)))
    return texts


def _filter(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    holds = predicate(topology)

    def filtering() -> FilterTable:
        return FilterTable(lambda key, row: holds(key, text_of(row)), negate=topology.get("not", False))

    table = inputs["in"] | ChangelogTable()
    filtered = streams_of(table | filtering())
    if not old_values_unknown(topology):
        return filtered
    return filtered._replace(raw=_texts(table | _RawChangelog() | "Raw" >> filtering(), "Raw texts"))


def _to_stream(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    table, records = inputs["in"] | ChangelogTable("updates"), inputs["in"] | "Records" >> ChangelogTable()
    return streams_of(table)._replace(
        outs=_texts(table | _RawChangelog(), "Texts"), raw=_texts(records | "Raw" >> _RawChangelog(), "Raw texts")
    )


FILTER = Pipeline(_filter, branch=lambda topology: (topology["predicate"], topology.get("not", False), old_values_unknown(topology)))
TO_STREAM = Pipeline(_to_stream, branch=lambda topology: ())
