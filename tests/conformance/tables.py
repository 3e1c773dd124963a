"""``table_filter``, ``table_to_stream`` and ``stream_to_table``: one table, filtered or as it is."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from beam_joins import Change
from beam_joins.kernels.filter import filter_upsert, with_values
from beam_joins.keys.opaque import python_values
from tests.conformance import table_rules
from tests.conformance.answer import Run
from tests.conformance.cores import core_run, core_table
from tests.conformance.kernels import table_of, texts
from tests.conformance.operators import Cuts, Operator, Topology
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values, text_of
from tests.reference.filter import filter_change


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
    """True if Kafka's filter sees only new values: old ones were not requested, or the source is versioned
    (finding 20).
    """
    asked = topology.get("send_old_values") or topology.get("source_materialized")
    return not asked or topology.get("history_retention_ms") is not None


def _kept_by(topology: Topology) -> Callable[[Any, str], bool]:
    keep, negate = predicate(topology), topology.get("not", False)
    return lambda key, value: bool(keep(key, value) != negate)


def _filter_reference(scenario: Scenario) -> Run:
    kept = _kept_by(scenario.topology)
    changes = core_table(scenario, "in")
    filtered = (filter_change(kept, change) for change in changes)
    return _with_raw(scenario, changes, [change for change in filtered if change is not None])


def _filter_kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
    kept = _kept_by(scenario.topology)
    changes, filtered = [], []
    for table in table_of(scenario, "in", values, cuts):
        present = [row is not None and kept(None, text_of(row)) for row in python_values(table.values)]
        changes += texts(table)
        filtered += texts(with_values(table, table.values, np.array(present, np.bool_), keeps_nothing=False))
    return _with_raw(scenario, changes, filtered)


def _with_raw(scenario: Scenario, changes: Sequence[Change[str, str]], filtered: Sequence[Change[str, str]]) -> Run:
    run = core_run(filtered)
    if not old_values_unknown(scenario.topology):
        return run
    upserts = ((change, *filter_upsert(_kept_by(scenario.topology), change.key, change.new)) for change in changes)
    return run._replace(raw=[(change.position, key, value, change.timestamp) for change, key, value in upserts])


def _to_stream_reference(scenario: Scenario) -> Run:
    raw = [(c.position, c.key, c.new, c.timestamp) for c in core_table(scenario, "in")]
    return core_run(core_table(scenario, "in", "updates"))._replace(raw=raw)


def _to_stream_kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
    raw = [(c.position, c.key, c.new, c.timestamp) for c in texts(*table_of(scenario, "in", values, cuts))]
    return core_run(texts(*table_of(scenario, "in", values, cuts, "updates")))._replace(raw=raw)


FILTER = Operator(
    topics=("in",),
    kind=lambda topology: "",
    kernels=_filter_kernels,
    reference=_filter_reference,
    rule=lambda scenario: table_rules.single_table(scenario, _kept_by(scenario.topology)),
    raw_rule=lambda scenario: table_rules.raw_changelog(scenario, _kept_by(scenario.topology)),
    loses_lateness=lambda topology: bool(topology.get("materialized")),
)
TO_STREAM = Operator(
    topics=("in",),
    kind=lambda topology: "",
    kernels=_to_stream_kernels,
    reference=_to_stream_reference,
    rule=table_rules.single_table,
    raw_rule=table_rules.raw_changelog,
)
