"""Joins that never end, on a cluster whose processes die, written to PostgreSQL: it holds what a bounded run
gives, no row missing, doubled or stale.
"""

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import psycopg
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import CountTable, ForeignKeyJoin, SumTable, TableToChanges, runner
from beam_joins.io import WritePostgres
from beam_joins.pipelines.flink import FlinkJob, flink_job
from beam_joins.pipelines.runners.jars import locked_jars, provide
from beam_joins.pipelines.runners.java import find_java
from tests.pipelines.streaming.cluster import FlinkCluster, flink_cluster
from tests.pipelines.streaming.jobs import FIRST, MANY_RESTARTS, Append, python_workers, wait_until, written
from tests.pipelines.streaming.shop import SIDES, tables_of, write

pytestmark = [pytest.mark.flink, pytest.mark.usefixtures("flink")]

FLAGS = (
    "--runner=FlinkRunner",
    "--streaming",
    "--checkpointing_interval=500",
    "--parallelism=2",
    "--python_workers=2",
    "--beam_joins_partitions=3",
    MANY_RESTARTS,
)
PIECES = [range(start, start + 100) for start in range(0, 1_800, 100)]
SCHEMA = {
    "joined": pa.schema([("id", pa.int64()), ("text", pa.string())]),
    "counts": pa.schema([("id", pa.int64()), ("count", pa.int64())]),
    "sums": pa.schema([("id", pa.int64()), ("sum", pa.int64())]),
}
Rows = dict[tuple[str, int], tuple[int, Any]]
"""The position and value of the last change of each row, by table and key."""


def results(pipeline: beam.Pipeline, folder: Path, *, follow: bool) -> dict[str, Any]:
    """A join, and what would be larger if a row had come twice."""
    orders, customers = tables_of(pipeline, folder, follow=follow)
    joiner = lambda order, customer: f"{order['n']} {customer['name']}"  # noqa: E731
    return {
        "joined": (orders, customers) | ForeignKeyJoin(joiner, foreign_key="by"),
        "counts": orders | CountTable(group_by="by"),
        "sums": orders | SumTable(group_by="by", of="n"),
    }


def last(folder: Path) -> None:
    """A row on each side an hour later, that is in no result: with it the watermark passes all others."""
    for side in SIDES:
        rows = [{"id": -1, "by": None, "n": 0, "name": "", "op": "u", "at": FIRST + 3_600_000_000}]
        (folder / f"{side}-last").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / f"{side}-last").rename(folder / side / "last.jsonl")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder, out = tmp_path_factory.mktemp("bounded"), tmp_path_factory.mktemp("bounded-out")
    write(folder, range(PIECES[-1].stop), "all")
    last(folder)
    with beam.Pipeline(options=PipelineOptions(["--runner=DirectRunner"])) as pipeline:
        for name, table in results(pipeline, folder, follow=False).items():
            changes = table | f"Changes of {name}" >> TableToChanges()
            told = changes | f"Told {name}" >> beam.Map(lambda change, name: [name, change.key, change.position, change.new], name)
            _ = told | f"Append {name}" >> beam.ParDo(Append(out))
    actual: Rows = {}
    for name, key, position, value in sorted(written(out), key=lambda change: change[2]):
        actual[name, key] = position, value
    assert any(value is None for _, value in actual.values())
    return actual


@pytest.fixture(scope="module")
def cluster(flink: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    with flink_cluster(find_java(), provide(locked_jars("flink"), of="Flink"), tmp_path_factory.mktemp("cluster")) as started:
        yield started


class Run:
    """A job that follows a folder into which the pieces come one by one, and writes to a database of its own."""

    def __init__(self, postgres: str, cluster: FlinkCluster, tmp_path: Path) -> None:
        name = f"d{uuid.uuid4().hex}"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        self.database = postgres.replace("dbname=postgres", f"dbname={name}")
        self.flags = [*FLAGS, f"--flink_master={cluster.address}"]
        self._into = tmp_path / "in"
        self._into.mkdir()
        self._pieces = iter(enumerate(PIECES))

    def started(self, on_flink: PipelineOptions) -> FlinkJob:
        pipeline = beam.Pipeline(options=on_flink)
        for name, table in results(pipeline, self._into, follow=True).items():
            _ = table | f"Write {name}" >> WritePostgres(self.database, name, key="id", schema=SCHEMA[name], create=True)
        return flink_job(pipeline.run(), on_flink)

    def feed(self, pieces: int) -> None:
        """Let some more come, until what is made of them is written."""
        before = self.reached()
        for number, piece in (next(self._pieces) for _ in range(pieces)):
            write(self._into, piece, f"{number:03}")
            time.sleep(0.1)
        wait_until(lambda: self.reached() > before)

    def reached(self) -> int:
        """The largest position in the tables."""
        return max((position for position, _ in self.positions().values()), default=0)

    def positions(self) -> Rows:
        actual: Rows = {}
        with psycopg.connect(self.database, autocommit=True) as connection:
            for name in SCHEMA:
                for key, value, position, deleted in connection.execute(f"SELECT * FROM {name}"):
                    assert deleted == (value is None)
                    actual[name, key] = position, value
        return actual

    def ends_with(self, expected: Rows) -> None:
        for number, piece in self._pieces:
            write(self._into, piece, f"{number:03}")
        last(self._into)
        wait_until(lambda: self.positions() == expected)


@pytest.fixture
def run(postgres: str, cluster: FlinkCluster, tmp_path: Path) -> Run:
    return Run(postgres, cluster, tmp_path)


@pytest.mark.sweep
def test_python_workers_that_are_killed_in_the_midst_leave_no_trace_in_the_tables(run: Run, expected: Rows) -> None:
    with runner(PipelineOptions(run.flags)) as on_flink:
        job = run.started(on_flink)
        for _ in range(2):
            run.feed(5)
            workers = python_workers()
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda killed=workers: len(python_workers() - killed) == 2)
        run.ends_with(expected)
        job.cancel()


@pytest.mark.sweep
def test_a_task_manager_that_is_killed_in_the_midst_leaves_no_trace_in_the_tables(
    run: Run, cluster: FlinkCluster, expected: Rows
) -> None:
    with runner(PipelineOptions(run.flags)) as on_flink:
        job = run.started(on_flink)
        run.feed(9)
        workers = python_workers()
        cluster.lose_the_task_manager()
        wait_until(lambda: len(python_workers() - workers) == 2)
        run.ends_with(expected)
        job.cancel()


@pytest.mark.sweep
def test_a_job_that_is_cancelled_goes_on_from_a_savepoint_before_into_the_same_tables(
    run: Run, tmp_path: Path, expected: Rows
) -> None:
    with runner(PipelineOptions(run.flags)) as on_flink:
        job = run.started(on_flink)
        run.feed(6)
        savepoint = job.savepoint(str(tmp_path / "savepoints"))
        run.feed(6)  # what it writes now it writes once more when it goes on
        job.cancel()
    with runner(PipelineOptions([*run.flags, f"--savepoint_path={savepoint}"])) as on_flink:
        job = run.started(on_flink)
        run.ends_with(expected)
        job.cancel()
