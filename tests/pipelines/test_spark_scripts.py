"""Jobs on Spark as programs of their own: behind a dead proxy, two in one script, and what stays in the
temporary folder.
"""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.pipelines.orders_run import ENVIRONMENT

pytestmark = pytest.mark.spark

NOBODY = "http://127.0.0.1:9"
PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
TWO_JOBS = """
import dataclasses, sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from beam_joins import runner

print("the script runs", flush=True)

@dataclasses.dataclass(frozen=True)
class Point:
    x: int

def scaled(point):
    return Point(point.x * FACTOR)

FACTOR = 10
for number in range(1, 3):
    with runner(PipelineOptions(["--runner=SparkRunner", "--spark_master_url=local[1]", "--spark_log=spark.log"])) as options:
        with beam.Pipeline(options=options) as pipeline:
            pipeline | beam.Create([Point(number)]) | beam.Map(scaled) | beam.Reshuffle() | beam.Map(print)
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    directory = tmp_path / "temporary"
    directory.mkdir()
    return directory


def run(*command: str, directory: Path, temporary: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "TMPDIR": str(temporary), **more}
    return subprocess.run(
        [sys.executable, *command], cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=200
    )


def commands() -> str:
    """The command lines of all processes."""
    actual = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            actual.append(process.read_bytes().decode())
    return " ".join(actual)


def test_the_orders_of_the_sample_run_behind_a_dead_proxy_and_leave_nothing_in_the_temporary_folder(tmp_path, temporary):
    dead = dict.fromkeys([*PROXIES, *map(str.upper, PROXIES)], NOBODY) | {"GRPC_PROXY_EXP": NOBODY.removeprefix("http://")}
    dead |= {
        "no_proxy": "",
        "JAVA_TOOL_OPTIONS": "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9",
    }
    ran = run("-m", "beam_joins.pipelines.orders", "--runner=SparkRunner", directory=tmp_path, temporary=temporary, **dead)
    assert ran.returncode == 0, ran.stderr
    assert "records in" in ran.stdout
    assert (tmp_path / "orders-out" / "latest.jsonl").stat().st_size > 0
    assert list(temporary.iterdir()) == []


@pytest.mark.sweep
def test_two_jobs_in_one_script_without_a_guard_run_once_each_with_functions_and_classes_of_the_script(tmp_path, temporary):
    (tmp_path / "two_jobs.py").write_text(TWO_JOBS)
    ran = run("two_jobs.py", directory=tmp_path, temporary=temporary)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["the script runs", "Point(x=10)", "Point(x=20)"]
    assert (tmp_path / "spark.log").stat().st_size > 0
    assert list(temporary.iterdir()) == []


@pytest.mark.gate
def test_inputs_that_are_not_there_are_one_sentence_and_end_the_jvm_that_was_started_early(tmp_path, temporary):
    flags = ["--orders=no.jsonl", "--customers=no.jsonl", "--runner=SparkRunner"]
    ran = run("-m", "beam_joins.pipelines.orders", *flags, directory=tmp_path, temporary=temporary)
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) == 1
    assert list(temporary.iterdir()) == []
    assert f"{temporary}/beam-spark-" not in commands()
