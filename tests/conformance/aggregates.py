"""``table_aggregate``, ``windowed_table`` and ``windowed_table_join``: tables grouped, streams counted by window, and two such counts joined."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins import (
    AggregateTable,
    Change,
    CountTable,
    LatestTable,
    ReduceTable,
    TableTableJoin,
    Windowed,
    WindowedAggregate,
)
from beam_joins.record import Record
from tests.conformance import table_rules
from tests.conformance.aggregate_judge import judge_aggregate, judge_windowed, windows_of
from tests.conformance.answer import Run
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import Scenario
from tests.conformance.tables import ChangelogTable, core_run, core_table
from tests.reference.aggregate import ADD, SUBTRACT, GroupAggregate
from tests.reference.lookup_join import LookupJoin
from tests.reference.recomputed import null_fk
from tests.reference.windowed_aggregate import WindowedAggregate as WindowedAggregateCore


def group_of(value: str) -> str | None:
    """The group of a value ``group|number``."""
    return null_fk(value.partition("|")[0])


def number_of(value: str) -> str:
    """What is aggregated of a value ``group|number``."""
    return value.partition("|")[2]


def _plus(aggregate: str, value: str) -> str:
    return f"{aggregate}+{number_of(value)}"


def _minus(aggregate: str, value: str) -> str:
    return f"{aggregate}-{number_of(value)}"


def _numbered_group(key: str, value: str) -> str | None:
    group = group_of(value)
    return None if group is None else f"{key.partition('/')[0]}/{group}"


def _aggregate_core(scenario: Scenario) -> Run:
    def new_group() -> GroupAggregate[Any]:
        kind = scenario.topology["agg"]
        if kind == "count":
            return GroupAggregate(int, lambda count, value: count + 1, lambda count, value: count - 1)
        return GroupAggregate(
            (lambda: None) if kind == "reduce" else str,
            lambda aggregate, value: number_of(value.decode()) if aggregate is None else _plus(aggregate, value.decode()),
            lambda aggregate, value: _minus(aggregate, value.decode()),
        )

    groups: dict[str, GroupAggregate[Any]] = defaultdict(new_group)
    changes = []
    for key, old, new, timestamp, position in sorted(core_table(scenario, "in"), key=lambda change: change.position):
        members: dict[str, list[Record]] = defaultdict(list)
        for value, kind in ((old, SUBTRACT), (new, ADD)):
            group = None if value is None else group_of(value)
            if value is not None and group is not None:
                members[group].append(Record(key.encode(), value.encode(), timestamp, position, kind))
        for group, records in members.items():
            changes += [_as_text(change, group) for change in groups[group].advance(position, records)]
    return core_run(changes)


def _aggregate_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    table = inputs["in"] | ChangelogTable()
    if topology["agg"] == "count":
        aggregated = table | CountTable(group_by=_numbered_group)
    elif topology["agg"] == "reduce":
        # a reduction gives what it takes, here a value with everything before its number gone
        aggregated = table | ReduceTable(
            group_by=_numbered_group,
            add=lambda one, other: f"|{number_of(one)}+{number_of(other)}",
            subtract=lambda one, other: f"|{number_of(one)}-{number_of(other)}",
        )
    else:
        aggregated = table | AggregateTable(group_by=_numbered_group, initial="", add=_plus, subtract=_minus)
    shown = number_of if topology["agg"] == "reduce" else str
    return Streams(
        changes=aggregated | "Text" >> beam.Map(lambda change: _as_text(change, change.key, shown)).with_output_types(Change),
        rows=aggregated | LatestTable() | "Row" >> beam.MapTuple(lambda group, row: (group, shown(row))),
    )


def _as_text(change: Change[Any, Any], key: str, shown: Any = str) -> Change[str, str]:
    _, old, new, timestamp, position = change
    return Change(key, None if old is None else shown(old), None if new is None else shown(new), timestamp, position)


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
                    yield _as_text(output, name_of(Windowed(key.decode(), output.key.window)))


def _windowed_core(scenario: Scenario) -> Run:
    return core_run(list(_counted(scenario, "in")))


def _windowed_join_core(scenario: Scenario) -> Run:
    rows: dict[str, list[Record]] = defaultdict(list)
    for number, topic in enumerate(("left", "right")):
        for row, _, count, timestamp, position in _counted(scenario, topic):
            assert count is not None
            rows[row].append(Record(row.encode(), count.encode(), timestamp, position, number))
    changes = []
    for row, records in rows.items():
        join = LookupJoin(_encoded_pair, scenario.topology["type"], lambda left: left.key, shared_keys=True)
        for record in sorted(records, key=lambda record: record.position):
            changes += [_as_text(change, row) for change in join.advance(record.position, [record])]
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
        changes=table | "Text" >> beam.Map(lambda change: _as_text(change, name_of(change.key))).with_output_types(Change),
        rows=table | LatestTable() | "Row" >> beam.MapTuple(lambda row, value: (name_of(row), str(value))),
    )


def _windowed_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    return _named(inputs["in"] | _WindowedCount(topology))


def _windowed_join_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = (inputs[topic] | topic.title() >> _WindowedCount(topology) for topic in ("left", "right"))
    return _named((left, right) | TableTableJoin(_pair, how=topology["type"]))


AGGREGATE = Operator(
    topics=("in",),
    kind=lambda topology: topology["agg"],
    core=_aggregate_core,
    pipeline=_aggregate_pipeline,
    branch=lambda topology: topology["agg"],
    rule=table_rules.aggregate,
    judge=judge_aggregate,
)
WINDOWED = Operator(
    topics=("in",),
    kind=lambda topology: next((name for name in ("suppress", "emit_on_close") if topology.get(name)), ""),
    core=_windowed_core,
    pipeline=_windowed_pipeline,
    branch=lambda topology: (topology["size_ms"], topology.get("advance_ms"), topology["grace_ms"]),
    rule=table_rules.windowed_counts,
    judge=judge_windowed,
)
WINDOWED_JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    core=_windowed_join_core,
    pipeline=_windowed_join_pipeline,
    branch=lambda topology: (topology["type"], topology["size_ms"], topology["grace_ms"]),
    rule=table_rules.windowed_counts,
    judge=judge_windowed,
)
