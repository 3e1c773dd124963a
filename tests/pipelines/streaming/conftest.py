"""What the tests of endless jobs run on: Flink, Prism and a Kafka broker. Where one is not to be had, its tests are skipped and say why."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_joins.pipelines.launcher.jars import locked_jars, provide
from beam_joins.pipelines.launcher.java import find_java
from beam_joins.pipelines.launcher.setup_error import RunnerSetupError
from tests.pipelines.streaming.broker import Broker, broker_jars

PRISM = Path("~/.apache_beam/cache/prism/bin/prism").expanduser()


@pytest.fixture(scope="session")
def flink() -> None:
    """Flink's jars are there, and a Java for them."""
    try:
        find_java()
        provide(locked_jars("flink"), of="Flink")
    except RunnerSetupError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def prism() -> str:
    """Beam's Prism, as a program."""
    found = os.environ.get("PRISM") or shutil.which("prism") or (str(PRISM) if PRISM.exists() else None)
    if found is None:
        pytest.skip("there is no prism on the path, and PRISM names none: go install github.com/apache/beam/sdks/v2/go/cmd/prism")
    return found


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker of its own, from the jars of Maven Central."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install 'beam-joins[kafka]'")
    try:
        java, jars = find_java(), broker_jars()
    except RunnerSetupError as error:
        pytest.skip(str(error))
    with Broker.started(java, jars, tmp_path_factory.mktemp("kafka")) as started:
        yield started
