"""What `runner` refuses before it starts anything, what it leaves alone, and the flags that it always
sets.
"""

import json
import socket
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions

from beam_joins import runner
from beam_joins.cores import usable_cores
from beam_joins.pipelines.flink import FlinkOptions, RunnerSetupError
from beam_joins.pipelines.runners.check_setup import check_setup
from beam_joins.pipelines.runners.flink_options import flink_server
from beam_joins.pipelines.runners.launches import ON_FLINK


def start(*flags: str) -> None:
    with runner(PipelineOptions(["--runner=FlinkRunner", *flags])):
        pytest.fail("it started")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--flink_master=yarn", r"yarn is not one of \[local\], \[auto\] or HOST:PORT"),
        ("--flink_memory=2", "a number with a unit k, m, g or t"),
        ("--flink_conf=parallelism", "KEY=VALUE"),
        ("--flink_state_backend=memory", "memory is not one of hashmap and rocksdb"),
        ("--checkpointing_interval=0", "number of milliseconds, 1 or more"),
        ("--shutdown_sources_after_idle_ms=1000", r"end a job before its sources have begun; give 60000 or more"),
        ("--python_workers=0", "1 or more"),
        ("--flink_log=/no/such/directory/log", "cannot be written"),
    ],
)
def test_a_wrong_option_is_one_sentence_that_lists_the_choices(flag, message):
    with pytest.raises(RunnerSetupError, match=message):
        start(flag)


@pytest.mark.process
@pytest.mark.gate
def test_a_cluster_that_does_not_answer_is_one_sentence_and_leaves_no_log(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        port = taken.getsockname()[1]
        with pytest.raises(RunnerSetupError, match=rf"No Flink master answers at 127\.0\.0\.1:{port} \(.*take --flink_master"):
            start(f"--flink_master=127.0.0.1:{port}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
@pytest.mark.gate
@pytest.mark.parametrize("dry", [False, True])
def test_a_cluster_of_another_version_is_refused_by_its_version(dry):
    with HTTPServer(("127.0.0.1", 0), Overview) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        master = f"--flink_master=127.0.0.1:{server.server_port}"
        with pytest.raises(RunnerSetupError, match=rf"^{master} is a cluster of Flink 2\.0\.0, .* built for 1\.19\.$"):
            if dry:
                list(check_setup(PipelineOptions(["--runner=FlinkRunner", master]), ON_FLINK))
            else:
                start(master)
        server.shutdown()


class Overview(BaseHTTPRequestHandler):
    """As Flink answers."""

    def do_GET(self) -> None:
        content = json.dumps({"taskmanagers": 0, "flink-version": "2.0.0"} if self.path == "/overview" else {}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_cluster_elsewhere_without_a_worker_pool_is_told_how_to_start_one():
    with pytest.raises(RunnerSetupError, match=r"The Flink master 192\.0\.2\.77 .*runners\.workers .*--environment_type=EXTERNAL"):
        start("--flink_master=http://192.0.2.77:8081")


@pytest.mark.parametrize("flags", [["--runner=DirectRunner"], ["--runner=FlinkRunner", "--job_endpoint=embed"]])
def test_options_for_another_runner_or_job_server_pass_unchanged(flags):
    options = PipelineOptions(flags)
    with runner(options) as same:
        assert same is options
        assert same.view_as(PortableOptions).environment_type is None


def test_the_flags_without_which_flink_loses_data_are_always_set():
    options = PipelineOptions(["--runner=FlinkRunner"])
    flink_server(options)
    assert options.view_as(FlinkOptions).finish_bundle_before_checkpointing
    assert options.view_as(FlinkOptions).shutdown_sources_after_idle_ms is None
    assert options.view_as(FlinkRunnerOptions).parallelism == usable_cores()


@pytest.mark.parametrize(
    ("flags", "groups"),
    [
        (["--parallelism=2"], 8),
        (["--parallelism=40"], 40),
        (["--max_parallelism=128"], 128),
        (["--flink_master=flink:8081"], -1),
    ],
)
def test_a_flink_of_this_machine_has_few_key_groups_as_a_source_costs_memory_for_each(flags, groups):
    options = PipelineOptions(["--runner=FlinkRunner", *flags])
    flink_server(options)
    assert options.view_as(FlinkRunnerOptions).max_parallelism == groups


def test_directories_become_settings_of_flink_as_urls(tmp_path):
    flags = [
        f"--flink_checkpoints={tmp_path}/c",
        "--savepoint_path=s3://bucket/s",
        "--flink_state_backend=rocksdb",
        "--flink_conf=a.b=c",
    ]
    assert flink_server(PipelineOptions(["--runner=FlinkRunner", *flags])).settings[1:] == (
        "state.backend.type=rocksdb",
        f"state.checkpoints.dir=file://{tmp_path}/c",
        "execution.savepoint.path=s3://bucket/s",
        "a.b=c",
    )


@pytest.mark.parametrize(
    ("flags", "kept"), [([], True), (["--checkpoint_retention=keep"], True), (["--checkpoint_retention=delete"], False)]
)
def test_the_newest_checkpoint_is_retained_unless_it_is_to_be_deleted(flags, kept):
    settings = flink_server(PipelineOptions(["--runner=FlinkRunner", "--checkpointing_interval=500", *flags])).settings
    assert ("execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION" in settings) == kept
