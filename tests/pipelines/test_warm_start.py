"""Spark's JVM starts before Beam is imported: when it does, who takes it, and what is left if nobody does."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.pipelines.commands.command_options import parse
from beam_joins.pipelines.orders import ORDERS, main
from beam_joins.pipelines.runners.job_server import JobServer
from beam_joins.pipelines.runners.runner import ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.pipelines.runners.spark_options import spark_server
from beam_joins.pipelines.runners.warm_start import discard, start_early, take


def defaults() -> ServerOptions:
    """The options of a server for a run that names Spark alone."""
    return spark_server(PipelineOptions(["--runner=SparkRunner"]))


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[JobServer]]:
    """The servers that are started, without their JVMs."""
    servers: list[JobServer] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(JobServer, "start", lambda self, offline: servers.append(self))
    yield servers
    discard()


@pytest.mark.parametrize("runner", ["SparkRunner", "spark", "apache_beam.runners.portability.spark_runner.SparkRunner"])
def test_a_run_with_sparks_defaults_takes_the_server_that_was_started_early_and_only_once(
    started: list[JobServer], runner: str
) -> None:
    start_early(runner, ["--beam_joins_partitions=4", "--python_workers=1"])
    assert take(defaults()) is started[0]
    assert take(defaults()) is None


def test_a_run_with_other_options_ends_the_early_server(started: list[JobServer], tmp_path: Path) -> None:
    start_early("SparkRunner", [])
    assert take(spark_server(PipelineOptions(["--runner=SparkRunner", "--driver_memory=1g"]))) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("runner", "flags"),
    [
        (None, []),
        ("DirectRunner", []),
        ("SparkRunner", ["--spark_master_url=spark://elsewhere:7077"]),
        ("SparkRunner", ["--spark_master_url", "local[1]"]),
        ("SparkRunner", ["--driver_memory=1g"]),
        ("SparkRunner", ["--job_endpoint=localhost:8099"]),
        ("SparkRunner", ["--job_server_java_launcher=/no/java"]),
        ("SparkRunner", ["--jar_cache_dir=jars"]),
        ("SparkRunner", ["--environment_type=DOCKER"]),
    ],
)
def test_nothing_starts_early_for_another_runner_or_with_options_of_the_server(
    started: list[JobServer], runner: str | None, flags: list[str]
) -> None:
    start_early(runner, flags)
    assert started == []


def test_parsing_arguments_starts_nothing_nor_do_options_that_are_refused(started: list[JobServer]) -> None:
    assert parse(ORDERS, ["--runner=SparkRunner"]).runner == "SparkRunner"
    assert main(["--runner=SparkRunner", "--follow"]) == 2
    assert started == []


def test_a_server_that_nobody_takes_leaves_nothing_behind(started: list[JobServer], tmp_path: Path) -> None:
    start_early("SparkRunner", [])
    assert len(list(tmp_path.iterdir())) == 2
    discard()
    assert list(tmp_path.iterdir()) == []
    assert take(defaults()) is None


def test_a_server_that_cannot_start_early_is_left_to_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: JobServer, *, offline: bool) -> None:
        assert offline
        raise RunnerSetupError("no Java")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(JobServer, "start", fails)
    start_early("SparkRunner", [])
    assert take(defaults()) is None
    assert list(tmp_path.iterdir()) == []
