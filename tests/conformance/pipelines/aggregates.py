"""Aggregates as pipelines."""

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows, SlidingWindows, WindowFn
from apache_beam.utils.timestamp import Duration

from beam_joins import AggregateTable, CountTable, ReduceTable, TableTableJoin, WindowedAggregate
from tests.conformance.operators import Topology
from tests.conformance.pipelines.operators import Inputs, Pipeline, Streams
from tests.conformance.pipelines.rows import RecordStream, streams_of
from tests.conformance.pipelines.tables import ChangelogTable
from tests.conformance.table_aggregate import minus, number_of, plus
from tests.conformance.values import Values
from tests.conformance.windowed_table import name_of, pair_of_counts

Row = dict[str, Any]


def _aggregate(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    table = inputs["in"] | ChangelogTable()
    if topology["agg"] == "count":
        return streams_of(table | CountTable(group_by="reference"), str)
    if topology["agg"] == "reduce":
        reduced = table | ReduceTable(group_by="reference", add=_reduced(plus), subtract=_reduced(minus))
        return streams_of(reduced, lambda row: number_of(row["text"]))
    aggregated = table | AggregateTable(
        group_by="reference",
        initial="",
        add=lambda aggregate, row: plus(aggregate, row["text"]),
        subtract=lambda aggregate, row: minus(aggregate, row["text"]),
    )
    return streams_of(aggregated, str)


def _reduced(combined: Any) -> Any:
    """A reduction gives what it takes, here a row whose text has everything before its number gone."""

    def reduced(one: Row, other: Row) -> Row:
        return {**one, "text": f"|{combined(number_of(one['text']), other['text'])}"}

    return reduced


class _WindowedCount(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """The windowed count of a topic."""

    def __init__(self, topology: Topology, values: Values) -> None:
        super().__init__()
        self._topology = topology
        self._values: Values = values

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        counts: PCollection[Any] = (
            rows
            | RecordStream(self._values, with_nulls=True)
            | WindowedAggregate(
                _window_fn(self._topology),
                initial=0,
                add=lambda count, value: count + 1,
                grace=Duration(micros=self._topology["grace_ms"] * 1000),
                sequence_by="position",
            )
        )
        return counts


def _window_fn(topology: Topology) -> WindowFn:
    size, advance = (Duration(micros=1000 * topology.get(name, topology["size_ms"])) for name in ("size_ms", "advance_ms"))
    return SlidingWindows(size, advance) if "advance_ms" in topology else FixedWindows(size)


def _count(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    return streams_of(inputs["in"] | _WindowedCount(topology, values), str, name_of)


def _count_join(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    left, right = (inputs[topic] | topic.title() >> _WindowedCount(topology, values) for topic in ("left", "right"))
    return streams_of((left, right) | TableTableJoin(pair_of_counts, how=topology["type"]), str, name_of)


AGGREGATE = Pipeline(_aggregate, branch=lambda topology: topology["agg"])
COUNT = Pipeline(_count, branch=lambda topology: (topology["size_ms"], topology.get("advance_ms"), topology["grace_ms"]))
COUNT_JOIN = Pipeline(_count_join, branch=lambda topology: (topology["type"], topology["size_ms"], topology["grace_ms"]))
