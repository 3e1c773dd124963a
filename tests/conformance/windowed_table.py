"""``windowed_table`` and ``windowed_table_join``: a stream counted by window, and two such counts joined."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins import (
    Change,
    LatestTable,
    TableTableJoin,
    Windowed,
    WindowedAggregate,
)
from beam_joins.record import Record
from tests.conformance import table_rules
from tests.conformance.aggregate_judge import judge_windowed, windows_of
from tests.conformance.answer import Run
from tests.conformance.cores import core_run, renamed
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import Scenario
from tests.reference.lookup_join import LookupJoin
from tests.reference.windowed_aggregate import WindowedAggregate as WindowedAggregateCore


def name_of(row: Windowed[str]) -> str:
    """The key of a row of a windowed table as the format has it, ``key@start-end`` in milliseconds."""
    key, (start, end) = row
    return f"{key}@{start // 1000}-{end // 1000}"


def _counted(scenario: Scenario, topic: str) -> Iterator[Change[str, str]]:
    """The windowed count of a topic through the core, one core a source key."""
    topology = scenario.topology
    records = sorted(scenario.records(topic), key=lambda record: (record.key, record.position))
    for key, own in groupby(records, key=lambda record: record.key):
        core = WindowedAggregateCore(
            lambda micros: windows_of(topology, micros), int, lambda count, value: count + 1, topology["grace_ms"] * 1000
        )
        for record in own:
            for output in core.advance(record.position, [record]):
                if isinstance(output, Change):
                    yield renamed(output, name_of(Windowed(key.decode(), output.key.window)))


def _count_reference(scenario: Scenario) -> Run:
    return core_run(list(_counted(scenario, "in")))


def _join_reference(scenario: Scenario) -> Run:
    rows: dict[str, list[Record]] = defaultdict(list)
    for number, topic in enumerate(("left", "right")):
        for row, _, count, timestamp, position in _counted(scenario, topic):
            assert count is not None
            rows[row].append(Record(row.encode(), count.encode(), timestamp, position, number))
    changes = []
    for row, records in rows.items():
        join = LookupJoin(_encoded_pair, scenario.topology["type"], lambda left: left.key, shared_keys=True)
        for record in sorted(records, key=lambda record: record.position):
            changes += [renamed(change, row) for change in join.advance(record.position, [record])]
    return core_run(changes)


def _encoded_pair(left: bytes | None, right: bytes | None) -> str:
    return _pair(None if left is None else left.decode(), None if right is None else right.decode())


def _pair(left: Any, right: Any) -> str:
    return f"({'null' if left is None else left},{'null' if right is None else right})"


class _WindowedCount(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """The windowed count of a topic."""

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        self._topology = topology

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        counts: PCollection[Any] = (
            rows
            | "Record" >> beam.Map(_timed)
            | WindowedAggregate(
                _window_fn(self._topology),
                initial=0,
                add=lambda count, value: count + 1,
                grace=Duration(micros=self._topology["grace_ms"] * 1000),
                sequence_by=lambda key, value: value[0],
            )
        )
        return counts


def _timed(row: dict[str, Any]) -> Any:
    return TimestampedValue((row["key"], (row["position"], row["value"])), Timestamp(micros=row["ts"] * 1000))


def _window_fn(topology: Topology) -> WindowFn:
    size, advance = (Duration(micros=1000 * topology.get(name, topology["size_ms"])) for name in ("size_ms", "advance_ms"))
    return SlidingWindows(size, advance) if "advance_ms" in topology else FixedWindows(size)


def _named(table: PCollection[Any]) -> Streams:
    return Streams(
        changes=table | "Text" >> beam.Map(lambda change: renamed(change, name_of(change.key))).with_output_types(Change),
        rows=table | LatestTable() | "Row" >> beam.MapTuple(lambda row, value: (name_of(row), str(value))),
    )


def _count_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    return _named(inputs["in"] | _WindowedCount(topology))


def _join_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = (inputs[topic] | topic.title() >> _WindowedCount(topology) for topic in ("left", "right"))
    return _named((left, right) | TableTableJoin(_pair, how=topology["type"]))


COUNT = Operator(
    topics=("in",),
    kind=lambda topology: next((name for name in ("suppress", "emit_on_close") if topology.get(name)), ""),
    kernels=lambda scenario, values: _count_reference(scenario),
    reference=_count_reference,
    pipeline=_count_pipeline,
    branch=lambda topology: (topology["size_ms"], topology.get("advance_ms"), topology["grace_ms"]),
    rule=table_rules.windowed_counts,
    judge=judge_windowed,
)
JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=lambda scenario, values: _join_reference(scenario),
    reference=_join_reference,
    pipeline=_join_pipeline,
    branch=lambda topology: (topology["type"], topology["size_ms"], topology["grace_ms"]),
    rule=table_rules.windowed_counts,
    judge=judge_windowed,
)
