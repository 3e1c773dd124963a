"""``windowed_table`` and ``windowed_table_join``: a stream counted by window, and two such counts joined."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from beam_joins import Change, Windowed
from beam_joins.functions.joiner import joiner_in_columns
from beam_joins.functions.user_functions import Functions
from beam_joins.kernels.fold import Fold
from beam_joins.kernels.windowed_aggregate import WindowedAggregateState, step
from beam_joins.keys.key_columns import Ints
from beam_joins.tables.batch import ChangeBatch
from tests.conformance import table_rules
from tests.conformance.aggregate_judge import judge_windowed, windows_of
from tests.conformance.answer import Run
from tests.conformance.cores import core_run, renamed
from tests.conformance.kernels import rows_of, texts
from tests.conformance.operators import Cuts, Operator
from tests.conformance.scenario import Scenario
from tests.conformance.table_table_join import same_key_joined
from tests.conformance.values import Values
from tests.properties.strategies import split
from tests.reference.lookup_join import LookupJoin
from tests.reference.record import Record
from tests.reference.windowed_aggregate import WindowedAggregate as WindowedAggregateCore


def name_of(row: Windowed[str]) -> str:
    """The key of a row of a windowed table as the format has it, ``key@start-end`` in milliseconds."""
    key, (start, end) = row
    return f"{key}@{start // 1000}-{end // 1000}"


def _counted(scenario: Scenario, topic: str) -> Iterator[Change[str, str]]:
    """The windowed count of a topic through the core, one core a source key."""
    topology = scenario.topology
    records = sorted(scenario.records(topic), key=lambda record: (record.key, record.position))
    for key, of_key in groupby(records, key=lambda record: record.key):
        core = WindowedAggregateCore(
            lambda micros: windows_of(topology, micros), int, lambda count, value: count + 1, topology["grace_ms"] * 1000
        )
        for record in of_key:
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
    return pair_of_counts(None if left is None else left.decode(), None if right is None else right.decode())


def pair_of_counts(left: Any, right: Any) -> str:
    """The joined value of two counts."""
    return f"({'null' if left is None else left},{'null' if right is None else right})"


def _batches(scenario: Scenario, topic: str, values: Values, cuts: Cuts) -> Iterator[ChangeBatch]:
    """The windowed count of a topic through the kernel, run by run."""
    topology, state = scenario.topology, WindowedAggregateState()

    def assign(times: Ints) -> tuple[Ints, Ints, Ints]:
        windows = [(i, *window) for i, time in enumerate(times.tolist()) for window in windows_of(topology, time)]
        index, start, end = np.array(windows, np.int64).reshape(-1, 3).T
        return index, start, end

    count = Fold(Functions("count"), int, lambda count, value: count + 1)
    for rows in split(rows_of(scenario, scenario.arrivals(topic), values), cuts):
        actual, state = step(state, rows, assign, count, topology["grace_ms"] * 1000)
        yield actual.changes


def _count_kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
    return core_run(texts(*_batches(scenario, "in", values, cuts), shown=str, name=name_of))


def _join_kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
    counts = zip(*(_batches(scenario, topic, values, cuts) for topic in ("left", "right")), strict=True)
    joined = same_key_joined(counts, joiner_in_columns(pair_of_counts), scenario.topology["type"])
    return core_run(texts(*joined, shown=str, name=name_of))


COUNT = Operator(
    topics=("in",),
    kind=lambda topology: next((name for name in ("suppress", "emit_on_close") if topology.get(name)), ""),
    kernels=_count_kernels,
    reference=_count_reference,
    rule=table_rules.windowed_counts,
    judge=judge_windowed,
)
JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_join_kernels,
    reference=_join_reference,
    rule=table_rules.windowed_counts,
    judge=judge_windowed,
)
