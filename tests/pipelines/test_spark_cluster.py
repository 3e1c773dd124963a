"""On a standalone cluster, a master and two workers, one of them with two executors, jobs give byte for byte
what the direct runner gives.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import ForeignKeyJoin, TableTableJoin, runner
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles, write_sample
from tests.pipelines.orders_run import ENVIRONMENT
from tests.pipelines.spark_cluster import SparkCluster, spark_cluster
from tests.transforms.resumed_jobs import both, history, typed

pytestmark = pytest.mark.spark

EXECUTORS = [
    "--spark_conf=spark.executor.cores=1",
    "--spark_conf=spark.executor.memory=500m",
    "--spark_conf=spark.driver.host=127.0.0.1",
    "--python_workers=1",
    # they live for one job: what the second compiler costs does not come back
    "--spark_conf=spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
]
ON_SPARK = ["--runner=SparkRunner", "--beam_joins_partitions=8", *EXECUTORS]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def orders(folder: Path, files: SampleFiles, master: str | None, *options: object) -> subprocess.Popen[str]:
    """The command, on a cluster or without one."""
    folder.mkdir(exist_ok=True)
    inputs = ["--orders", files.orders, "--customers", files.customers, "--latest", "now.jsonl", *options]
    if master:
        inputs += [f"--spark_master_url={master}", *ON_SPARK]
    command = [sys.executable, "-m", "beam_joins.pipelines.orders", *inputs]
    return subprocess.Popen(
        list(map(str, command)), cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def done(process: subprocess.Popen[str]) -> None:
    message, _ = process.communicate(timeout=600)
    assert process.returncode == 0, message


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and "state" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.sweep
def test_tasks_that_run_twice_write_nothing_twice(cluster: SparkCluster, small: SampleFiles, tmp_path: Path) -> None:
    """Spark starts copies of tasks that take longer than others; here of nearly all of them."""
    twice = {"speculation": "true", "interval": "10ms", "multiplier": "1", "quantile": "0.01", "minTaskRuntime": "1ms"}
    settings = [
        f"--spark_conf=spark.speculation{'' if name == 'speculation' else f'.{name}'}={value}" for name, value in twice.items()
    ]
    log, left = tmp_path / "spark.log", ("--output", "changes.jsonl", "--how", "left")
    done(orders(tmp_path / "cluster", small, cluster.url, *left, *settings, f"--spark_log={log}"))
    done(orders(tmp_path / "local", small, None, *left))
    assert "as speculatable because" in log.read_text()
    assert contents(tmp_path / "cluster") == contents(tmp_path / "local") != {}


@pytest.mark.sweep
def test_a_run_that_goes_on_writes_the_same_bytes(cluster: SparkCluster, tmp_path: Path) -> None:
    for name, master in (("cluster", cluster.url), ("local", None)):
        for day in (1, 2):
            files = write_sample(tmp_path / f"day-{day}", orders=500 * day, customers=50, seed=day)
            done(orders(tmp_path / name, files, master, "--changes", "changes", "--state-dir", "state"))
    assert contents(tmp_path / "cluster") == contents(tmp_path / "local") != {}


@pytest.mark.sweep
def test_a_chain_of_three_joins_gives_the_same_changes(cluster: SparkCluster, tmp_path: Path) -> None:
    actual = {}
    for name, flags in (("cluster", [f"--spark_master_url={cluster.url}", *ON_SPARK]), ("local", [])):
        out = tmp_path / name
        with runner(PipelineOptions(flags)) as options, beam.Pipeline(options=options) as pipeline:
            left, right = (typed(pipeline, side, history(3, 400)) for side in ("left", "right"))
            one = (left, right) | "one" >> ForeignKeyJoin(both, foreign_key="by", how="left")
            two = (one, left) | "two" >> TableTableJoin(both, how="outer")
            three = (two, right) | "three" >> ForeignKeyJoin(both, foreign_key=lambda key, value: "abcd"[key % 4], how="right")
            lines = three | beam.FlatMap(lambda batch: map(repr, batch))
            _ = lines | beam.io.WriteToText(str(out))
        actual[name] = sorted(line for part in tmp_path.glob(f"{name}-*") for line in part.read_text().splitlines())
    assert actual["cluster"] == actual["local"] != []


@pytest.mark.sweep
def test_a_worker_machine_that_dies_in_mid_run_changes_nothing(tmp_path: Path) -> None:
    files = write_sample(tmp_path / "files", orders=20_000, customers=5_000, seed=9)
    done(orders(tmp_path / "local", files, None, "--output", "changes.jsonl"))
    with spark_cluster(tmp_path, workers=2) as cluster:
        running = orders(tmp_path / "cluster", files, cluster.url, "--output", "changes.jsonl")
        killed = threading.Event()

        def kill_when_it_works() -> None:
            until = time.monotonic() + 120
            while time.monotonic() < until and running.poll() is None:
                works = [executor for executor in (tmp_path / "work-0").glob("*/*/stderr") if "Running task" in executor.read_text()]
                if works:
                    time.sleep(1)
                    for executor in children(cluster.workers[0].pid):
                        os.kill(executor, signal.SIGKILL)
                    cluster.workers[0].kill()
                    killed.set()
                    return
                time.sleep(0.05)

        killer = threading.Thread(target=kill_when_it_works)
        killer.start()
        done(running)
        killer.join()
    assert killed.is_set()
    assert contents(tmp_path / "cluster") == contents(tmp_path / "local") != {}


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
