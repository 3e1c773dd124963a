"""``table_filter``, ``table_to_stream`` and ``stream_to_table``: one table, filtered or as it is."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins import Change, FilterTable, LatestTable, MapTable, TableFromChangelog, TableToStream
from beam_joins.content import Emit
from beam_joins.filter import filter_change, filter_upsert
from tests.conformance import table_rules
from tests.conformance.answer import Run
from tests.conformance.columns import ColumnTable, column_streams, in_records, text_of
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import Scenario
from tests.reference.operators import changes_of, upsert_table


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


def core_table(scenario: Scenario, topic: str, emit: Emit = "records") -> list[Change[Any, Any]]:
    """The table of a topic through the pure core."""
    return [as_text(change) for change in changes_of(upsert_table(scenario.records(topic), emit))]


def as_text(change: Change[bytes, Any]) -> Change[str, Any]:
    """The change with key and values as text."""
    key, old, new, timestamp, position = change
    return Change(key.decode(), _text(old), _text(new), timestamp, position)


def core_run(changes: list[Change[str, str]]) -> Run:
    """A result table as a run."""
    return Run(changes=[(c.position, c.key, c.old, c.new, c.timestamp) for c in changes])


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


def _filter_core(scenario: Scenario) -> Run:
    kept = _kept(scenario.topology)
    changes = core_table(scenario, "in")
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


def _to_stream_core(scenario: Scenario) -> Run:
    raw = [(c.position, c.key, c.new, c.timestamp) for c in core_table(scenario, "in")]
    return core_run(core_table(scenario, "in", "updates"))._replace(raw=raw)


def _to_stream_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    changes = inputs["in"] | ChangelogTable("updates")
    raw = inputs["in"] | "Records" >> ChangelogTable() | "Raw" >> RawChangelog()
    return Streams(outs=changes | RawChangelog(), changes=changes, rows=changes | LatestTable(), raw=raw)


def _to_stream_columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    changes = in_records(inputs["in"] | "Records" >> ColumnTable(), "Raw records")
    texts = changes | "Raw text" >> beam.Map(lambda c: c._replace(old=None, new=c.new and text_of(c.new))).with_output_types(Change)
    return column_streams(inputs["in"] | ColumnTable("updates"), text_of)._replace(raw=texts | "Raw" >> RawChangelog())


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


FILTER = Operator(
    topics=("in",),
    kind=lambda topology: "",
    core=_filter_core,
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
    core=_to_stream_core,
    pipeline=_to_stream_pipeline,
    columns=_to_stream_columns,
    branch=lambda topology: (),
    rule=table_rules.single_table,
    raw_rule=table_rules.raw_changelog,
)
