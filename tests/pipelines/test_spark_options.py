"""What `runner` refuses before it starts anything, and what it leaves alone."""

import socket
import sys
import tempfile

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from beam_joins import runner
from beam_joins.cores import usable_cores
from beam_joins.pipelines.runners.spark_options import master_url, spark_server
from beam_joins.pipelines.runners.spark_server import SPARK, spark_master
from beam_joins.pipelines.spark import RunnerSetupError


def start(*flags: str) -> None:
    with runner(PipelineOptions(["--runner=SparkRunner", *flags])):
        pytest.fail("it started")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--spark_master_url=yarn", r"yarn is not one of local\[\*\], local\[N\] or spark://HOST:PORT"),
        ("--spark_master_url=local[0]", r"local\[0\] is not one of"),
        ("--spark_master_url=spark://somewhere", "spark://HOST:PORT"),
        ("--driver_memory=2", "a number with a unit k, m, g or t"),
        ("--spark_conf=parallelism=2", r"spark\.KEY=VALUE"),
        ("--python_workers=0", "1 or more"),
        ("--spark_log=/no/such/directory/log", "cannot be written"),
    ],
)
def test_a_wrong_option_is_one_sentence_that_lists_the_choices(flag, message):
    with pytest.raises(RunnerSetupError, match=message):
        start(flag)


@pytest.mark.process
@pytest.mark.gate
def test_a_master_that_does_not_answer_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        port = taken.getsockname()[1]
        with pytest.raises(RunnerSetupError, match=rf"No Spark master answers at 127\.0\.0\.1:{port} \("):
            start(f"--spark_master_url=spark://127.0.0.1:{port}")


@pytest.mark.process
def test_a_run_that_is_refused_leaves_no_log(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(RunnerSetupError):
        start("--spark_master_url=spark://127.0.0.1:1")
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_elsewhere_without_a_worker_pool_is_told_how_to_start_one():
    with pytest.raises(RunnerSetupError, match=r"runners\.workers .* --environment_type=EXTERNAL"):
        start("--spark_master_url=spark://192.0.2.77:7077")


@pytest.mark.parametrize("flags", [["--runner=DirectRunner"], ["--runner=SparkRunner", "--job_endpoint=embed"]])
def test_options_for_another_runner_or_job_server_pass_unchanged(flags):
    options = PipelineOptions(flags)
    with runner(options) as same:
        assert same is options
        assert same.view_as(PortableOptions).environment_type is None


def test_a_star_is_all_cores_of_this_machine():
    assert spark_master("local[*]").url == f"local[{usable_cores()}]"
    assert spark_master("local").cores == 1


def test_a_setting_of_the_user_stands_behind_those_that_are_always_made(tmp_path):
    options = spark_server(PipelineOptions(["--runner=SparkRunner", "--spark_conf=spark.kryoserializer.buffer.max=64m"]))
    jvm, _ = SPARK.arguments(options, tmp_path)
    assert [setting for setting in jvm if "buffer.max" in setting][1:] == ["-Dspark.kryoserializer.buffer.max=64m"]


@pytest.mark.parametrize(("flags", "url"), [([], "local[*]"), (["--spark_master_url=local[4]"], "local[4]")])
def test_options_without_flags_are_those_of_the_command_line(monkeypatch, flags, url):
    monkeypatch.setattr(sys, "argv", ["job.py", *flags])
    assert master_url(PipelineOptions()) == url
