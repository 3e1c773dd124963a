"""``table_aggregate``: a table grouped by what is not its key."""

from collections import defaultdict
from typing import Any

from beam_joins.functions.marked_functions import keys_of
from beam_joins.functions.user_functions import Functions
from beam_joins.kernels import totals
from beam_joins.kernels.aggregate import AggregateState, members, step
from beam_joins.kernels.fold import Fold
from beam_joins.tables.arrangement import Arrangement
from tests.conformance import table_rules
from tests.conformance.aggregate_judge import judge_aggregate
from tests.conformance.answer import Run
from tests.conformance.cores import core_run, core_table, renamed
from tests.conformance.kernels import table_of, texts
from tests.conformance.operators import Cuts, Operator
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values
from tests.reference.aggregate import ADD, SUBTRACT, GroupAggregate
from tests.reference.recomputed import null_fk
from tests.reference.record import Record


def group_of(value: str) -> str | None:
    """The group of a value ``group|number``."""
    return null_fk(value.partition("|")[0])


def number_of(value: str) -> str:
    """What is aggregated of a value ``group|number``."""
    return value.partition("|")[2]


def plus(aggregate: str, value: str) -> str:
    """An aggregate with a value more."""
    return f"{aggregate}+{number_of(value)}"


def minus(aggregate: str, value: str) -> str:
    """An aggregate with a value less."""
    return f"{aggregate}-{number_of(value)}"


def _reference(scenario: Scenario) -> Run:
    def new_group() -> GroupAggregate[Any]:
        kind = scenario.topology["agg"]
        if kind == "count":
            return GroupAggregate(int, lambda count, value: count + 1, lambda count, value: count - 1)
        return GroupAggregate(
            (lambda: None) if kind == "reduce" else str,
            lambda aggregate, value: number_of(value.decode()) if aggregate is None else plus(aggregate, value.decode()),
            lambda aggregate, value: minus(aggregate, value.decode()),
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


def _kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
    counts = scenario.topology["agg"] == "count"
    changes, state = [], Arrangement() if counts else AggregateState()
    for table in table_of(scenario, "in", values, cuts):
        groups = keys_of("group_by", "reference", table.values)
        if counts:
            batch, state = totals.step(state, members(table, groups, {}, keyed=False))
        else:
            batch, state = step(state, members(table, groups, {"value": table.values}), _FOLDS[scenario.topology["agg"]])
        changes += texts(batch, shown=str)
    return core_run(changes)


_FOLDS = {
    "reduce": Fold(
        Functions("reduce"),
        lambda: None,
        lambda aggregate, row: number_of(row["text"]) if aggregate is None else plus(aggregate, row["text"]),
        lambda aggregate, row: minus(aggregate, row["text"]),
    ),
    "aggregate": Fold(
        Functions("aggregate"),
        str,
        lambda aggregate, row: plus(aggregate, row["text"]),
        lambda aggregate, row: minus(aggregate, row["text"]),
    ),
}

OPERATOR = Operator(
    topics=("in",),
    kind=lambda topology: topology["agg"],
    kernels=_kernels,
    reference=_reference,
    rule=table_rules.aggregate,
    judge=judge_aggregate,
)
