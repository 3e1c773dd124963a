"""What is said, in one sentence and in seconds, of a runner that lacks what it needs."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import google.auth
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from google.auth.exceptions import DefaultCredentialsError

from beam_joins import runner
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.runners import reachable
from beam_joins.pipelines.runners.runner_setup import runner_failure
from beam_joins.pipelines.spark import RunnerSetupError
from tests.pipelines.orders_run import ENVIRONMENT, Run, inputs, one_sentence

NO_JOB_SERVER = "No job server answers at {} ({}); start one there, or correct --job_endpoint."
NOT_FETCHED = (
    "Unable to fetch remote job server jar at https://x.test/flink.jar: HTTP Error 404: Not Found. Also failed to fetch from Google "
    "Maven mirror at https://y.test/flink.jar: <urlopen error [Errno -2] Name or service not known>. If no Internet "
    "access at runtime, "
    "stage the jar at /home/me/flink.jar"
)


@pytest.fixture
def silent() -> Iterator[str]:
    """Where something accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where nothing listens."""
    monkeypatch.setattr(reachable, "_ENDPOINT_SECONDS", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_job_endpoint_where_nothing_listens_is_named(run: Run, small: SampleFiles, unused: str) -> None:
    sentence = one_sentence(run(*inputs(small), "--output=e.jsonl", "--runner=PortableRunner", f"--job_endpoint={unused}"))
    assert sentence == NO_JOB_SERVER.format(unused, "Connection refused")


def test_a_job_endpoint_that_says_nothing_is_named_in_the_seconds_that_it_is_given(silent: str) -> None:
    flags = ["--runner=PortableRunner", f"--job_endpoint={silent}", "--job_server_timeout=1"]
    with pytest.raises(RunnerSetupError) as caught, runner(PipelineOptions(flags)):
        pytest.fail("it started")
    assert str(caught.value) == NO_JOB_SERVER.format(silent, "what listens there does not speak gRPC")


@pytest.mark.parametrize("endpoint", ["nonsense", "localhost:99999", ":8099"])
def test_a_job_endpoint_that_is_no_address_is_said_to_be_none(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "_ENDPOINT_SECONDS", 0.2)
    flags = ["--runner=PortableRunner", f"--job_endpoint={endpoint}"]
    with pytest.raises(RunnerSetupError) as caught, runner(PipelineOptions(flags)):
        pytest.fail("it started")
    assert str(caught.value) == NO_JOB_SERVER.format(endpoint, "it is not of the form HOST:PORT")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--runner=Nonsense"], "Unexpected pipeline runner: Nonsense. Valid values are"),
        (["--runner=nonsense.of.Mine"], "--runner=nonsense.of.Mine cannot be imported (No module named 'nonsense')."),
        (["--runner=apache_beam.NoRunner"], "--runner=apache_beam.NoRunner cannot be imported (module 'apache_beam' has no attribute"),
        (["--runner=PortableRunner"], "PortableRunner needs --job_endpoint=HOST:PORT"),
        pytest.param(
            ["--runner=FlinkRunner", "--flink_job_server_jar=no.jar"],
            "FlinkRunner's job server no.jar is neither a file nor a URL",
            marks=pytest.mark.process,
        ),
        pytest.param(
            ["--runner=SparkRunner", "--job_server_java_launcher=/no/java"],
            "--job_server_java_launcher=/no/java is not a program",
            marks=[pytest.mark.process, pytest.mark.gate],
        ),
    ],
)
def test_a_runner_that_cannot_run_is_one_sentence(run: Run, small: SampleFiles, flags: list[str], message: str) -> None:
    assert one_sentence(run(*inputs(small), "--output=e.jsonl", *flags)).startswith(message)


def test_dataflow_without_googles_packages_is_told_how_to_install_them(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    sentence = one_sentence(run(*inputs(small), "--output=e.jsonl", "--runner=DataflowRunner"))
    assert sentence.startswith("DataflowRunner needs Google's packages (")
    assert sentence.endswith("pip install 'apache-beam[gcp]'.")


def test_dataflow_without_credentials_is_told_all_that_it_lacks(run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise DefaultCredentialsError("none")

    monkeypatch.setattr(google.auth, "default", none)
    sentence = one_sentence(run(*inputs(small), "--output=e.jsonl", "--runner=DataflowRunner", "--region=r"))
    assert "DataflowRunner needs Google credentials" in sentence
    assert sentence.endswith("GOOGLE_APPLICATION_CREDENTIALS, and --project, --temp_location.")


@pytest.mark.parametrize(
    "flags", [["--runner=SparkRunner", "--spark_master_url=local[1]"], ["--runner=FlinkRunner"]], ids=["spark", "flink"]
)
@pytest.mark.parametrize(
    ("docker", "reason"),
    [
        (None, "which is not installed"),
        pytest.param(
            "echo 'Cannot connect to the daemon.' >&2; exit 1",
            "which says: Cannot connect to the daemon",
            marks=pytest.mark.process,
        ),
    ],
)
def test_docker_workers_without_docker_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], docker: str | None, reason: str
) -> None:
    if docker:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{docker}\n")
        (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(RunnerSetupError, match=f"DOCKER needs docker on this machine, {reason};"),
        runner(PipelineOptions([*flags, "--environment_type=DOCKER"])),
    ):
        pytest.fail("it started")


class Broken(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "Socket closed"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError(NOT_FETCHED),
            "https://x.test/flink.jar could not be fetched (HTTP Error 404: Not Found); copy it to /home/me/flink.jar",
        ),
        (ValueError("Pipeline has validations errors: \nMissing required option: project.\n"), "Missing required option: project."),
        (RuntimeError("Java must be installed on this system to use this transform/runner."), "needs Java; install a Java 17"),
        (FileNotFoundError(2, "No such file or directory", "java"), "needs Java; install a Java 17"),
        (RuntimeError("Service failed to start up with error 1"), "ended at its start (exit code 1)"),
        (
            RuntimeError("Unable to fetch remote prism binary at https://x.test/p.zip: <urlopen error [Errno -2] no>"),
            "x.test/p.zip (no);",
        ),
        (grpc.FutureTimeoutError(), "does not answer; start a job server yourself"),
        (Broken(), "broke off the connection (UNAVAILABLE: Socket closed)"),
    ],
)
def test_a_failure_of_beams_that_is_known_is_one_sentence_that_names_the_runner(error: Exception, message: str) -> None:
    sentence = runner_failure(error, "SomeRunner")
    assert sentence is not None
    assert sentence.startswith("SomeRunner")
    assert message in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("error", [ValueError("of the job"), RunnerSetupError("no"), FileNotFoundError(2, "No such file", "x")])
def test_another_failure_is_left_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, runner(PipelineOptions(["--runner=DirectRunner"])):
        raise error
    assert caught.value is error


@pytest.mark.process
def test_as_a_program_a_job_endpoint_that_does_not_answer_shows_no_stack_trace(
    own_directory: Path, small: SampleFiles, unused: str
) -> None:
    flags = ["--runner=SparkRunner", f"--job_endpoint={unused}", "--output=e.jsonl"]
    command = [sys.executable, "-m", "pipelines.orders", *map(str, inputs(small)), *flags]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    message = NO_JOB_SERVER.format(unused, "Connection refused")
    assert (ran.returncode, ran.stderr) == (2, f"python -m pipelines.orders: {message}\n")
