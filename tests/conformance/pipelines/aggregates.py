"""Aggregates as pipelines."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins import AggregateTable, Change, CountTable, LatestTable, ReduceTable, TableTableJoin, WindowedAggregate
from tests.conformance.cores import renamed
from tests.conformance.operators import Topology
from tests.conformance.pipelines.operators import Pipeline, Streams
from tests.conformance.pipelines.tables import ChangelogTable
from tests.conformance.table_aggregate import group_of, number_of
from tests.conformance.windowed_table import name_of, pair_of_counts


def _plus(aggregate: str, value: str) -> str:
    return f"{aggregate}+{number_of(value)}"


def _minus(aggregate: str, value: str) -> str:
    return f"{aggregate}-{number_of(value)}"


def _numbered_group(key: str, value: str) -> str | None:
    group = group_of(value)
    return None if group is None else f"{key.partition('/')[0]}/{group}"


def _pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
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
        changes=aggregated | "Text" >> beam.Map(lambda change: renamed(change, change.key, shown)).with_output_types(Change),
        rows=aggregated | LatestTable() | "Row" >> beam.MapTuple(lambda group, row: (group, shown(row))),
    )


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
    return _named((left, right) | TableTableJoin(pair_of_counts, how=topology["type"]))


AGGREGATE = Pipeline(_pipeline, branch=lambda topology: topology["agg"])
COUNT = Pipeline(_count_pipeline, branch=lambda topology: (topology["size_ms"], topology.get("advance_ms"), topology["grace_ms"]))
COUNT_JOIN = Pipeline(_join_pipeline, branch=lambda topology: (topology["type"], topology["size_ms"], topology["grace_ms"]))
