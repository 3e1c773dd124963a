"""The messages of the foreign-key join, held against the recorded traces: the protocol is Kafka's, not only
its result.
"""

from typing import Any

import pytest

from tests.conformance.files import EXPECTED, SCENARIOS, read_documents, read_scenarios
from tests.conformance.foreign_key_join import replayed
from tests.conformance.scenario import Scenario


@pytest.fixture(scope="module")
def traced() -> list[tuple[Scenario, list[list[dict[str, Any]]]]]:
    """Scenarios of plain tables that have a trace, with the messages of each step."""
    scenarios = [scenario for scenario in read_scenarios(SCENARIOS) if scenario.topology.get("trace") and not scenario.retention]
    steps = {document["name"]: document["steps"] for _, document in read_documents(EXPECTED)}
    return [(scenario, [step["trace"] for step in steps[scenario.name]]) for scenario in scenarios]


def test_the_subscriptions_are_those_that_kafka_streams_sends(traced: list[tuple[Scenario, list[list[dict[str, Any]]]]]) -> None:
    """Foreign key, primary key, instruction and time of each, in order.

    Hashes differ: Kafka's are of another algorithm.

    A row of a left join that refers to nothing we answer at once; Kafka sends a subscription of no foreign
    key, which only comes back.
    """
    compared = 0
    for scenario, steps in traced:
        messages = [message for step in steps for message in step if message["msg"] == "subscribe" and message["fk"] is not None]
        recorded = [(message["fk"], message["pk"], message["instruction"], message["ts"]) for message in messages]
        ours = [
            (sent.foreign_key.decode(), sent.primary_key.decode(), sent.instruction.name, sent.timestamp // 1000)
            for sent in replayed(scenario).subscriptions
        ]
        assert ours == recorded, scenario.name
        compared += len(ours)
    assert compared > 150


def test_the_responses_are_those_that_kafka_streams_gives(traced: list[tuple[Scenario, list[list[dict[str, Any]]]]]) -> None:
    """Primary key, right value and time of each, in order, where each record is drained before the next."""
    compared = 0
    for scenario, steps in traced:
        if scenario.has_records_in_flight:
            continue
        messages = [message for step in steps for message in step if message["msg"] == "response"]
        recorded = [(message["pk"], message["fk_value"], message["ts"]) for message in messages]
        ours = [
            (answer.primary_key.decode(), None if answer.value is None else answer.value.decode(), answer.timestamp // 1000)
            for answer in replayed(scenario).responses
        ]
        assert ours == recorded, scenario.name
        compared += len(ours)
    assert compared > 150
