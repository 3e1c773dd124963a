"""On a standalone cluster, a master and two workers with two executors each, jobs give byte for byte what they give on ``local[2]``."""

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

from beam_joins import ForeignKeyJoin, TableTableJoin
from beam_joins.pipelines.sample import SampleFiles, write_sample
from beam_joins.pipelines.spark import spark_runner
from tests.pipelines.orders_run import ENVIRONMENT
from tests.pipelines.spark_cluster import SparkCluster, spark_cluster
from tests.transforms.resumed_jobs import both, history, typed

pytestmark = pytest.mark.spark

EXECUTORS = [
    "--spark_conf=spark.executor.cores=1",
    "--spark_conf=spark.executor.memory=500m",
    "--spark_conf=spark.driver.host=127.0.0.1",
    "--python_workers=1",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def orders(folder: Path, files: SampleFiles, master: str, *options: object) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    given = [
        "--orders",
        files.orders,
        "--customers",
        files.customers,
        "--latest",
        "now.jsonl",
        *options,
        f"--spark_master_url={master}",
    ]
    command = [
        sys.executable,
        "-m",
        "beam_joins.pipelines.orders",
        "--runner=SparkRunner",
        "--beam_joins_partitions=8",
        *given,
        *EXECUTORS,
    ]
    return subprocess.Popen(
        list(map(str, command)), cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def done(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and "state" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_orders_command_writes_the_same_bytes(cluster: SparkCluster, small: SampleFiles, tmp_path: Path) -> None:
    for name, master in (("cluster", cluster.url), ("local", "local[2]")):
        done(orders(tmp_path / name, small, master, "--output", "changes.jsonl", "--how", "left"))
    assert contents(tmp_path / "cluster") == contents(tmp_path / "local") != {}


def test_tasks_that_run_twice_write_nothing_twice(cluster: SparkCluster, small: SampleFiles, tmp_path: Path) -> None:
    """Spark starts copies of tasks that take longer than others; here of nearly all of them."""
    twice = {"speculation": "true", "interval": "10ms", "multiplier": "1", "quantile": "0.01", "minTaskRuntime": "1ms"}
    settings = [
        f"--spark_conf=spark.speculation{'' if name == 'speculation' else f'.{name}'}={value}" for name, value in twice.items()
    ]
    log = tmp_path / "spark.log"
    done(orders(tmp_path / "cluster", small, cluster.url, "--output", "changes.jsonl", *settings, f"--spark_log={log}"))
    done(orders(tmp_path / "local", small, "local[2]", "--output", "changes.jsonl"))
    assert "as speculatable because" in log.read_text()
    assert contents(tmp_path / "cluster") == contents(tmp_path / "local") != {}


def test_a_run_that_goes_on_writes_the_same_bytes(cluster: SparkCluster, tmp_path: Path) -> None:
    for name, master in (("cluster", cluster.url), ("local", "local[2]")):
        for day in (1, 2):
            files = write_sample(tmp_path / f"day-{day}", orders=500 * day, customers=50, seed=day)
            done(orders(tmp_path / name, files, master, "--changes", "changes", "--state-dir", "state"))
    assert contents(tmp_path / "cluster") == contents(tmp_path / "local") != {}


def test_a_chain_of_three_joins_gives_the_same_changes(cluster: SparkCluster, tmp_path: Path) -> None:
    found = {}
    for name, master in (("cluster", cluster.url), ("local", "local[2]")):
        out = tmp_path / name
        flags = ["--runner=SparkRunner", f"--spark_master_url={master}", "--beam_joins_partitions=8", *EXECUTORS]
        with spark_runner(PipelineOptions(flags)) as options, beam.Pipeline(options=options) as pipeline:
            left, right = (typed(pipeline, side, history(3, 400)) for side in ("left", "right"))
            one = (left, right) | "one" >> ForeignKeyJoin(both, foreign_key="by", how="left")
            two = (one, left) | "two" >> TableTableJoin(both, how="outer")
            three = (two, right) | "three" >> ForeignKeyJoin(both, foreign_key=lambda key, value: "abcd"[key % 4], how="right")
            lines = three | beam.FlatMap(lambda batch: map(repr, batch))
            _ = lines | beam.io.WriteToText(str(out))
        found[name] = sorted(line for part in tmp_path.glob(f"{name}-*") for line in part.read_text().splitlines())
    assert found["cluster"] == found["local"] != []


def test_a_worker_machine_that_dies_in_mid_run_changes_nothing(tmp_path: Path) -> None:
    files = write_sample(tmp_path / "files", orders=60_000, customers=5_000, seed=9)
    done(orders(tmp_path / "local", files, "local[2]", "--output", "changes.jsonl"))
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
