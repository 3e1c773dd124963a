"""``table_filter``, ``table_to_stream`` and ``stream_to_table``: one table, filtered or as it is."""

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins import Change, FilterTable, LatestTable, MapTable, TableFromChangelog, TableToStream
from beam_joins.content import Emit
from beam_joins.filter import filter_change, filter_upsert
from tests.conformance import table_rules
from tests.conformance.answer import Run
from tests.conformance.columns import ColumnTable, column_streams, in_records
from tests.conformance.cores import core_run, core_table
from tests.conformance.kernels import table_of, texts
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values, text_of


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


def predicate(topology: Topology) -> Callable[[Any, str], bool]:
    """The predicate of a filter: ``lt:2`` and the like on numbers, ``contains:1`` on text."""
    name, _, text = topology["predicate"].partition(":")
    if name == "contains":
        return lambda key, value: text in value
    holds: Callable[[int, int], bool] = {
        "lt": int.__lt__,
        "le": int.__le__,
        "gt": int.__gt__,
        "ge": int.__ge__,
        "eq": int.__eq__,
    }[name]
    bound = int(text)
    return lambda key, value: holds(int(value), bound)


def old_values_unknown(topology: Topology) -> bool:
    """True if Kafka's filter sees only new values: old ones were not requested, or the source is versioned (finding 20)."""
    asked = topology.get("send_old_values") or topology.get("source_materialized")
    return not asked or topology.get("history_retention_ms") is not None


def _kept(topology: Topology) -> Callable[[Any, str], bool]:
    keep, negate = predicate(topology), topology.get("not", False)
    return lambda key, value: bool(keep(key, value) != negate)


def _filter_reference(scenario: Scenario) -> Run:
    return _filtered(scenario, core_table(scenario, "in"))


def _filter_kernels(scenario: Scenario, values: Values) -> Run:
    return _filtered(scenario, texts(table_of(scenario, "in", values)))


def _filtered(scenario: Scenario, changes: Sequence[Change[str, str]]) -> Run:
    kept = _kept(scenario.topology)
    filtered = (filter_change(kept, change) for change in changes)
    run = core_run([change for change in filtered if change is not None])
    if not old_values_unknown(scenario.topology):
        return run
    upserts = ((change, *filter_upsert(kept, change.key, change.new)) for change in changes)
    return run._replace(raw=[(change.position, key, value, change.timestamp) for change, key, value in upserts])


def _filter_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    def filtering() -> FilterTable:
        return FilterTable(predicate(topology), negate=topology.get("not", False))

    changes = inputs["in"] | ChangelogTable()
    filtered = changes | filtering()
    raw = changes | RawChangelog() | "Raw" >> filtering() if old_values_unknown(topology) else None
    return Streams(changes=filtered, rows=filtered | LatestTable(), raw=raw)


def _filter_columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    kept = _kept(topology)
    return column_streams(inputs["in"] | ColumnTable() | FilterTable(lambda key, row: kept(key, text_of(row))), text_of)


def _to_stream_reference(scenario: Scenario) -> Run:
    raw = [(c.position, c.key, c.new, c.timestamp) for c in core_table(scenario, "in")]
    return core_run(core_table(scenario, "in", "updates"))._replace(raw=raw)


def _to_stream_kernels(scenario: Scenario, values: Values) -> Run:
    raw = [(c.position, c.key, c.new, c.timestamp) for c in texts(table_of(scenario, "in", values))]
    return core_run(texts(table_of(scenario, "in", values, "updates")))._replace(raw=raw)


def _to_stream_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    changes = inputs["in"] | ChangelogTable("updates")
    raw = inputs["in"] | "Records" >> ChangelogTable() | "Raw" >> RawChangelog()
    return Streams(outs=changes | RawChangelog(), changes=changes, rows=changes | LatestTable(), raw=raw)


def _to_stream_columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    changes = in_records(inputs["in"] | "Records" >> ColumnTable(), "Raw records")
    texts = changes | "Raw text" >> beam.Map(lambda c: c._replace(old=None, new=c.new and text_of(c.new))).with_output_types(Change)
    return column_streams(inputs["in"] | ColumnTable("updates"), text_of)._replace(raw=texts | "Raw" >> RawChangelog())


FILTER = Operator(
    topics=("in",),
    kind=lambda topology: "",
    kernels=_filter_kernels,
    reference=_filter_reference,
    pipeline=_filter_pipeline,
    columns=_filter_columns,
    branch=lambda topology: (topology["predicate"], topology.get("not", False), old_values_unknown(topology)),
    rule=lambda scenario: table_rules.single_table(scenario, _kept(scenario.topology)),
    raw_rule=lambda scenario: table_rules.raw_changelog(scenario, _kept(scenario.topology)),
    loses_lateness=lambda topology: bool(topology.get("materialized")),
)
TO_STREAM = Operator(
    topics=("in",),
    kind=lambda topology: "",
    kernels=_to_stream_kernels,
    reference=_to_stream_reference,
    pipeline=_to_stream_pipeline,
    columns=_to_stream_columns,
    branch=lambda topology: (),
    rule=table_rules.single_table,
    raw_rule=table_rules.raw_changelog,
)
