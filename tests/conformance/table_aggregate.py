"""``table_aggregate``: a table grouped by what is not its key."""

from collections import defaultdict
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins import (
    AggregateTable,
    Change,
    CountTable,
    LatestTable,
    ReduceTable,
)
from beam_joins.record import Record
from tests.conformance import table_rules
from tests.conformance.aggregate_judge import judge_aggregate
from tests.conformance.answer import Run
from tests.conformance.cores import core_run, core_table, renamed
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import Scenario
from tests.conformance.tables import ChangelogTable
from tests.reference.aggregate import ADD, SUBTRACT, GroupAggregate
from tests.reference.recomputed import null_fk


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


def _reference(scenario: Scenario) -> Run:
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
            changes += [renamed(change, group) for change in groups[group].advance(position, records)]
    return core_run(changes)


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


OPERATOR = Operator(
    topics=("in",),
    kind=lambda topology: topology["agg"],
    kernels=lambda scenario, values: _reference(scenario),
    reference=_reference,
    pipeline=_pipeline,
    branch=lambda topology: topology["agg"],
    rule=table_rules.aggregate,
    judge=judge_aggregate,
)
