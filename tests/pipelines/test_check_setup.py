"""What a runner needs is looked at before a run, and nothing is started for that."""

import socket

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.pipelines.runners import job_server, reachable
from beam_joins.pipelines.runners.runner_setup import setup_of
from beam_joins.pipelines.runners.setup_error import RunnerSetupError


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_server.JobServer, "__init__", None)


def shown(*flags: str) -> list[str]:
    return list(setup_of(PipelineOptions(list(flags))))


@pytest.mark.parametrize(
    ("runner", "master"), [("SparkRunner", "--spark_master_url=local[3]"), ("FlinkRunner", "--flink_master=[local]")]
)
def test_a_runner_on_this_machine_says_versions_java_jars_and_workers(runner: str, master: str) -> None:
    versions, java, jars, where, workers = shown(f"--runner={runner}", master, "--python_workers=3", "--jar_cache_dir=/nowhere")
    assert versions.startswith("Python 3.")
    assert "apache-beam" in versions
    assert java.startswith("Java 1")
    assert "0 of 1" in jars
    assert "fetched first" in jars
    assert where == f"master {master.partition('=')[2]}"
    assert workers == "3 Python workers, forked by this program"


def test_all_that_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "_ENDPOINT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    flags = [f"--spark_master_url=spark://127.0.0.1:{port}", "--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"]
    with pytest.raises(
        RunnerSetupError, match=rf"No Spark master answers at 127.0.0.1:{port}.* No worker pool answers at localhost:{port}"
    ):
        shown("--runner=SparkRunner", *flags)
