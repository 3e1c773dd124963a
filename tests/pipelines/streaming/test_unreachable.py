"""Brokers and registries that cannot be reached: one sentence within ten seconds, and nothing else."""

import logging
import socket
import time
from collections.abc import Callable

import apache_beam as beam
import pytest

from beam_joins.errors import InputError
from beam_joins.io import ReadKafka, ReadKafkaChangeEvents
from beam_joins.pipelines.systems.kafka import topics
from beam_joins.pipelines.systems.kafka.schema_registry import SchemaRegistry, registry_settings

READERS: dict[str, Callable[[str], beam.PTransform]] = {
    "records": lambda address: ReadKafka("orders", bootstrap_servers=address, follow=False),
    "table": lambda address: ReadKafkaChangeEvents("orders", format="debezium", key="id", bootstrap_servers=address, follow=False),
}


@pytest.fixture
def nowhere() -> str:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for as long as a person would."""
    assert 0 < topics._ANSWER_SECONDS < 9
    monkeypatch.setattr(topics, "_ANSWER_SECONDS", 0.2)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("reader", READERS)
def test_a_broker_that_cannot_be_reached_is_one_sentence(
    nowhere: str, reader: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(InputError) as raised, beam.Pipeline() as pipeline:
        _ = pipeline | READERS[reader](nowhere)
    assert str(raised.value) == (
        f"no Kafka broker at {nowhere} says which partitions orders has ({nowhere}/bootstrap: Connect to ipv4#{nowhere} "
        "failed: Connection refused):"
        " see that it runs, that its address and the security settings are right, and that the workers reach it"
    )
    assert (capfd.readouterr().err, caplog.text) == ("", "")


@pytest.mark.usefixtures("at_once")
def test_a_broker_that_does_not_say_where_a_partition_ends_is_one_sentence(nowhere: str, capfd: pytest.CaptureFixture[str]) -> None:
    for follow in (True, False):
        source = topics.Topics({"bootstrap.servers": nowhere}, None, "earliest", follow)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"^no Kafka broker at {nowhere} says where partition 3 of orders ends "):
            source.range(("orders", 3))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"no.such": 1}, 'config= is no configuration of a consumer: No such configuration property: "no.such"'),
        ({"security.protocol": "x"}, 'config= is no configuration of a consumer: Invalid value "x" for configuration property'),
    ],
)
def test_settings_that_are_none_are_one_sentence(nowhere: str, setting: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        topics.partitions_of("orders", {"bootstrap.servers": nowhere, **setting})


def test_a_registry_that_cannot_be_reached_is_one_sentence(nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    settings = registry_settings(f"http://ann:secret@{nowhere}")
    assert (settings["max.retries"] + 1) * settings["timeout"] + 3 * settings["retries.max.wait.ms"] / 1_000 < 10
    with pytest.raises(
        ValueError, match=f"^the registry http://{nowhere} does not give schema 7 .*Connection refused.*: see that"
    ) as raised:
        SchemaRegistry(settings).schema(7)
    assert "\n" not in str(raised.value)
