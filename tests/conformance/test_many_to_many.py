"""The join by any equality in the recorded scenarios of foreign-key joins: its pairs are the rows of those."""

from collections.abc import Iterable
from typing import Any

import pytest

from beam_joins import Change
from beam_joins.functions.marked_functions import keys_of
from beam_joins.kernels.many_to_many import ManyToManyState, many_to_many_step
from beam_joins.kernels.overlap import Joined
from beam_joins.kernels.overlap_events import Shape
from beam_joins.kernels.references import looking_up, rejoined, subscriptions
from tests.conformance.files import SCENARIOS, read_scenarios
from tests.conformance.foreign_key_join import replayed
from tests.conformance.kernels import cuts_of, recorded_joiner, right_rows, table_of, texts
from tests.conformance.scenario import Scenario
from tests.conformance.values import pair_of
from tests.reference.operators import changes_of
from tests.reference.recomputed import rows_of_changes

JOINS = [scenario for scenario in read_scenarios(SCENARIOS) if scenario.op == "fk_join"]


def pairs(scenario: Scenario, cuts: list[int]) -> list[Change[Any, Any]]:
    """The changes of the join with the right rows' keys as their join keys."""
    shape, state = Shape(scenario.topology["type"], result="both_keys", many=True), ManyToManyState()
    changes: list[Change[Any, Any]] = []

    def step(left: Any, right: Any) -> Iterable[Joined]:
        nonlocal state
        state = yield from many_to_many_step(state, left, right, recorded_joiner("typed"), shape)

    for left, right in zip(*(table_of(scenario, topic, "typed", cuts) for topic in ("left", "right")), strict=True):
        asking = subscriptions(left, keys_of("foreign_key", "reference", left.values), shape)
        rows = right_rows(right)
        for joined in step(asking, looking_up(rows, rows["key"])):
            changes += texts(joined.changes, rejoined(joined.halves), shown=pair_of, name=lambda pair: pair)
    return changes


@pytest.mark.parametrize("runs", [1, pytest.param(3, marks=pytest.mark.sweep)])  # histories that are cut have a test of the kernel
def test_the_pairs_are_the_rows_that_kafka_streams_has(runs: int) -> None:
    assert len(JOINS) > 100
    for scenario in JOINS:
        # what the cores give is held against the recorded answers by another test
        expected = changes_of(replayed(scenario).outputs)
        actual = pairs(scenario, cuts_of(scenario, runs))
        for position in sorted({change.position for change in (*expected, *actual)}):
            rows = {key.decode(): value for key, value in rows_of_changes(expected, position).items()}
            met = {pair.foreign_key: value for pair, value in rows_of_changes(actual, position).items()}
            assert met == rows, (scenario.name, position)
