"""What the tests of endless jobs run on: Flink, Prism and a Kafka broker.

Where one is not to be had, its tests are skipped and say why.
"""

from collections.abc import Iterator

import pytest

from beam_joins.pipelines.runners.jars import locked_jars, provide
from beam_joins.pipelines.runners.java import find_java
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from tests.pipelines.streaming.broker import Broker, broker_jars
from tests.pipelines.streaming.kafka_streams import KafkaStreams


@pytest.fixture(scope="session")
def flink() -> None:
    """Flink's jars are there, and a Java for them."""
    try:
        find_java()
        provide(locked_jars("flink"), of="Flink")
    except RunnerSetupError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker of its own, from the jars of Maven Central."""
    try:
        java, jars = find_java(), broker_jars()
    except RunnerSetupError as error:
        pytest.skip(str(error))
    with Broker.started(java, jars, tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture(scope="session")
def streams(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaStreams]:
    """Kafka Streams with the broker."""
    with KafkaStreams.started(find_java(), broker_jars(), broker.address, tmp_path_factory.mktemp("streams")) as started:
        yield started
