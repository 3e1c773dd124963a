"""The joins of tables that never end, on Flink: they give what bounded runs give, stop and go on, and outlive
their workers.
"""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import ForeignKeyJoin, TableToChanges, runner
from beam_joins.pipelines.flink import flink_job
from tests.pipelines.streaming.jobs import FIRST, MANY_RESTARTS, STEP, Append, kill, wait_until, written
from tests.pipelines.streaming.shop import tables_of, write

pytestmark = [pytest.mark.flink, pytest.mark.usefixtures("flink")]

FLAGS = (
    "--runner=FlinkRunner",
    "--flink_memory=1g",
    "--streaming",
    "--checkpointing_interval=500",
    "--parallelism=2",
    "--python_workers=2",
)


def joined(pipeline: beam.Pipeline, folder: Path, out: Path, *, follow: bool) -> None:
    """Append [key, old, new, position] for each change of the join."""
    join = tables_of(pipeline, folder, follow=follow) | ForeignKeyJoin(
        lambda order, customer: f"{order['n']} {customer['name']}", foreign_key="by"
    )
    changes = join | TableToChanges() | beam.Map(lambda change: [change.key, change.old, change.new, change.position])
    _ = changes | "Append" >> beam.ParDo(Append(out))


def bounded(tmp_path: Path, numbers: range) -> list[Any]:
    """What a bounded run makes of the same rows."""
    folder, out = tmp_path / "bounded", tmp_path / "bounded-out"
    for each in (folder, out):
        each.mkdir()
    write(folder, numbers, "a")
    with beam.Pipeline(options=PipelineOptions(["--runner=DirectRunner"])) as pipeline:
        joined(pipeline, folder, out, follow=False)
    return sorted(written(out), key=place)


def place(change: list[Any]) -> tuple[int, int]:
    return change[3], change[0]


def in_time(changes: list[Any], numbers: range) -> list[Any]:
    """Those that the watermark has passed when the rows are all there, each once: it stays 30 seconds behind
    the last row, and a tick more.
    """
    until = FIRST + numbers[-1] * STEP - 32_000_000
    distinct = {json.dumps(change): change for change in changes if change[3] < until}
    return sorted(distinct.values(), key=place)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where rows come from and go to."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    return tmp_path / "in", tmp_path / "out"


@pytest.mark.sweep
def test_a_join_that_is_stopped_goes_on_from_its_savepoint_and_gives_every_change_once(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    into, out = folders
    expected = bounded(tmp_path, range(2_000))
    savepoint: list[str] = []
    for numbers, name in ((range(1_000), "a"), (range(1_000, 2_000), "b")):
        write(into, numbers, name)
        with runner(PipelineOptions([*FLAGS, *(f"--savepoint_path={path}" for path in savepoint)])) as on_flink:
            pipeline = beam.Pipeline(options=on_flink)
            joined(pipeline, into, out, follow=True)
            result = pipeline.run()
            job = flink_job(result, on_flink)
            wait_until(lambda numbers=numbers: in_time(written(out), numbers) == in_time(expected, numbers) != [])
            savepoint = [job.stop(str(tmp_path / "savepoints"))]
            assert result.wait_until_finish() == "DONE"
    # stopped and started, nothing came twice
    assert len(in_time(expected, range(2_000))) == len(
        [change for change in written(out) if change in in_time(expected, range(2_000))]
    )


@pytest.mark.sweep
def test_a_join_outlives_its_workers_and_gives_no_change_another_value(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    into, out = folders
    expected = bounded(tmp_path, range(2_000))
    write(into, range(1_000), "a")
    flags = (*FLAGS, MANY_RESTARTS, "--flink_state_backend=rocksdb", f"--flink_checkpoints={tmp_path / 'checkpoints'}")
    with runner(PipelineOptions(list(flags))) as on_flink:
        pipeline = beam.Pipeline(options=on_flink)
        joined(pipeline, into, out, follow=True)
        result = pipeline.run()
        job = flink_job(result, on_flink)
        wait_until(lambda: in_time(written(out), range(1_000)) == in_time(expected, range(1_000)) != [])
        wait_until(lambda: any((tmp_path / "checkpoints").rglob("_metadata")))
        kill(int(file.stem) for file in out.glob("*.out"))  # named by the processes that wrote them
        write(into, range(1_000, 2_000), "b")
        # a sink that is not transactional may have a change twice, and then the same twice: by key and
        # position each has one value
        wait_until(lambda: in_time(written(out), range(2_000)) == in_time(expected, range(2_000)))
        job.cancel()
