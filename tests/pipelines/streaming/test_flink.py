"""Jobs on Flink: bounded ones, endless ones that stop and go on, workers that die, and nothing left behind."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import runner
from beam_joins.io import ReadGrowingFiles
from beam_joins.pipelines.flink import FlinkJob, JobFailed, flink_job
from beam_joins.pipelines.runners.jars import locked_jars, provide
from beam_joins.pipelines.runners.java import find_java
from tests.pipelines.streaming.cluster import flink_cluster
from tests.pipelines.streaming.jobs import MANY_RESTARTS, Append, count_windows, kill, lines, rows_of, wait_until, windows_of, written
from tests.pipelines.test_spark_launcher import SumAtTheEnd, fail, is_alive, keyed

pytestmark = [pytest.mark.flink, pytest.mark.usefixtures("flink")]

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64(), "at": pa.int64()})
ENDLESS = ("--streaming", "--checkpointing_interval=500", "--parallelism=1", "--python_workers=1")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for temporary files of its own, so that what is left behind can be seen."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where rows come from and go to."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    return tmp_path / "in", tmp_path / "out"


def options(*flags: str) -> PipelineOptions:
    return PipelineOptions(["--runner=FlinkRunner", "--flink_memory=1g", *flags])


def started(on_flink: PipelineOptions, into: Path, out: Path) -> tuple[beam.runners.runner.PipelineResult, FlinkJob]:
    """The job that counts the rows of files in windows."""
    pipeline = beam.Pipeline(options=on_flink)
    batches = pipeline | ReadGrowingFiles(f"{into}/*.jsonl", timestamp_by="at", schema=SCHEMA)
    count_windows(batches | beam.FlatMap(rows_of), out)
    result = pipeline.run()
    return result, flink_job(result, on_flink)


@pytest.mark.sweep
def test_a_bounded_job_with_state_and_timers_gives_its_result_and_leaves_nothing_behind(tmp_path, scratch, capfd):
    with runner(options()) as on_flink, beam.Pipeline(options=on_flink) as p:
        rows = p | beam.Create(range(100)) | "Key" >> beam.Map(keyed).with_output_types(tuple[int, int])
        sums = rows | beam.ParDo(SumAtTheEnd()).with_output_types(str)
        sums | beam.io.WriteToText(str(tmp_path / "sums"))
    actual = [line.split() for path in tmp_path.glob("sums-*") for line in path.read_text().splitlines()]
    assert {int(key): int(total) for key, total, _ in actual} == {key: sum(range(key, 100, 4)) for key in range(4)}
    assert not [pid for _, _, pid in actual if is_alive(int(pid))]
    assert list(scratch.iterdir()) == []
    text_of_error = [line for line in capfd.readouterr().err.splitlines() if "classes" not in line and "jars" not in line]
    assert len(text_of_error) == 1, "\n".join(text_of_error)
    assert text_of_error[0].startswith("Flink's log: ")


@pytest.mark.sweep
def test_a_failing_function_is_named_with_its_own_frames_and_the_log(scratch):
    with pytest.raises(JobFailed) as caught, runner(options()) as on_flink, beam.Pipeline(options=on_flink) as p:
        p | beam.Create([1]) | "Share out" >> beam.Map(fail)
    message = str(caught.value)
    assert "in step 'Share out'" in message
    assert "return 1 // (number - number)" in message
    assert "apache_beam" not in message
    assert message.endswith(f"The log is {caught.value.log}.")
    assert list(scratch.iterdir()) == [caught.value.log]


@pytest.mark.sweep
def test_a_job_that_is_stopped_goes_on_from_its_savepoint_with_every_row_once(tmp_path, scratch, folders):
    into, out = folders
    (into / "a.jsonl").write_text(lines(range(1_500)))
    with runner(options(*ENDLESS)) as on_flink:
        result, job = started(on_flink, into, out)
        wait_until(lambda: sorted(written(out)) == windows_of(range(1_500)))
        while_it_runs = job.savepoint(str(tmp_path / "savepoints"))
        assert job.state == "RUNNING"
        savepoint = job.stop(str(tmp_path / "savepoints"))
        assert result.wait_until_finish() == "DONE"
    assert savepoint != while_it_runs
    assert list(scratch.iterdir()) == []
    with (into / "a.jsonl").open("a") as file:
        file.write(lines(range(1_500, 2_000)))
    (into / "b.jsonl").write_text(lines(range(2_000, 3_000)))
    with runner(options(*ENDLESS, f"--savepoint_path={savepoint}")) as on_flink:
        result, job = started(on_flink, into, out)
        wait_until(lambda: sorted(written(out)) == windows_of(range(3_000)))
        job.cancel()
        with pytest.raises(RuntimeError, match="JobCancellationException"):
            result.wait_until_finish()


@pytest.mark.sweep
def test_a_worker_that_is_killed_comes_again_with_the_state_of_the_last_checkpoint(tmp_path, scratch, folders):
    into, out = folders
    pids = tmp_path / "pids"
    pids.mkdir()
    (into / "a.jsonl").write_text(lines(range(1_000)))
    flags = (*ENDLESS, MANY_RESTARTS, "--flink_state_backend=rocksdb", f"--flink_checkpoints={tmp_path / 'checkpoints'}")
    with runner(options(*flags)) as on_flink:
        pipeline = beam.Pipeline(options=on_flink)
        rows = pipeline | ReadGrowingFiles(f"{into}/*.jsonl", timestamp_by="at")
        rows | beam.Map(lambda row: os.getpid()) | "Who" >> beam.ParDo(Append(pids))
        count_windows(rows, out)
        result = pipeline.run()
        job = flink_job(result, on_flink)
        wait_until(lambda: sorted(written(out)) == windows_of(range(1_000)))
        wait_until(lambda: any((tmp_path / "checkpoints").rglob("_metadata")))
        first = set(written(pids))
        kill(first)
        with (into / "a.jsonl").open("a") as file:
            file.write(lines(range(1_000, 2_000)))
        # a sink that is not transactional may have a window twice, and then the same twice
        wait_until(lambda: sorted({str(each): each for each in written(out)}.values()) == windows_of(range(2_000)))
        assert set(written(pids)) > first
        job.cancel()


class FailsAt(beam.DoFn):
    """Fails at a number, as long as a file is there."""

    def __init__(self, number: int, broken: Path) -> None:
        self._number, self._broken = number, broken

    def process(self, row: dict[str, int]) -> Iterator[dict[str, int]]:
        if row["n"] == self._number and self._broken.exists():
            raise ValueError(f"the number {row['n']} cannot be used")
        yield row


def failing(on_flink: PipelineOptions, into: Path, out: Path, broken: Path) -> beam.runners.runner.PipelineResult:
    pipeline = beam.Pipeline(options=on_flink)
    batches = pipeline | ReadGrowingFiles(f"{into}/*.jsonl", timestamp_by="at", schema=SCHEMA)
    count_windows(batches | beam.FlatMap(rows_of) | beam.ParDo(FailsAt(1_200, broken)), out)
    return pipeline.run()


@pytest.mark.parametrize("retention", ["keep", pytest.param("delete", marks=pytest.mark.sweep)])
def test_a_job_that_fails_in_the_middle_keeps_its_newest_checkpoint_and_goes_on_from_it(retention, tmp_path, scratch, folders, capfd):
    into, out = folders
    broken = tmp_path / "broken"
    broken.touch()
    (into / "a.jsonl").write_text(lines(range(1_000)))
    flags = (*ENDLESS, f"--checkpoint_retention={retention}", "--flink_conf=restart-strategy.failure-rate.delay=100 ms")
    with pytest.raises(JobFailed) as caught, runner(options(*flags)) as on_flink:
        result = failing(on_flink, into, out, broken)
        wait_until(lambda: sorted(written(out)) == windows_of(range(1_000)))
        time.sleep(2)  # four checkpoints
        with (into / "a.jsonl").open("a") as file:
            file.write(lines(range(1_000, 2_000)))
        result.wait_until_finish()
    message = str(caught.value)
    assert "the number 1200 cannot be used" in message
    if retention == "delete":
        assert "--savepoint_path" not in message
        assert list(scratch.iterdir()) == [caught.value.log]
        return
    (checkpoints,) = (path for path in scratch.iterdir() if path != caught.value.log)
    assert f"Flink's checkpoints: {checkpoints} (kept if the job fails" in capfd.readouterr().err
    go_on = message.rsplit("when it is run with ", 1)[1]
    assert go_on.startswith(f"--savepoint_path=file://{checkpoints}/")
    broken.unlink()
    goes_on(go_on, into, tmp_path / "again", broken, already=windows_of(range(1_000)))


def goes_on(flag: str, into: Path, out: Path, broken: Path, *, already: list[list[object]]) -> None:
    """The rest of 2,000 rows is counted, and of the windows before nothing comes again."""
    out.mkdir()
    with runner(options(*ENDLESS, flag)) as on_flink:
        result = failing(on_flink, into, out, broken)
        rest = [window for window in windows_of(range(2_000)) if window not in already]
        wait_until(lambda: sorted({str(each): each for each in written(out)}.values()) == rest)
        flink_job(result, on_flink).cancel()


def until_killed(into: str, out: str) -> None:
    """What the process that is killed runs."""
    with runner(options(*ENDLESS)) as on_flink:
        failing(on_flink, Path(into), Path(out), Path(out, "not broken")).wait_until_finish()


@pytest.mark.sweep
def test_a_job_whose_program_is_killed_goes_on_from_its_newest_checkpoint(tmp_path, scratch, folders):
    into, out = folders
    (into / "a.jsonl").write_text(lines(range(1_000)))
    call = f"from {__name__} import until_killed; until_killed({str(into)!r}, {str(out)!r})"
    program = subprocess.Popen([sys.executable, "-c", call], start_new_session=True)
    wait_until(lambda: sorted(written(out)) == windows_of(range(1_000)))
    time.sleep(2)
    program.kill()
    program.wait()
    with (into / "a.jsonl").open("a") as file:
        file.write(lines(range(1_000, 2_000)))
    newest = max(scratch.glob("*-checkpoints/*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime).parent
    goes_on(f"--savepoint_path={newest}", into, tmp_path / "again", tmp_path / "not broken", already=windows_of(range(1_000)))


@pytest.mark.sweep
def test_a_cluster_that_exists_runs_a_job_until_it_is_cancelled_there_and_goes_on_from_a_savepoint(tmp_path, scratch, folders):
    into, out = folders
    (into / "a.jsonl").write_text(lines(range(500)))
    (tmp_path / "cluster").mkdir()
    savepoint: list[str] = []
    with flink_cluster(find_java(), provide(locked_jars("flink"), of="Flink"), tmp_path / "cluster") as cluster:
        for numbers in (range(500), range(1_000)):
            flags = [f"--flink_master={cluster.address}", *(f"--savepoint_path={path}" for path in savepoint)]
            with runner(options(*ENDLESS, *flags)) as on_flink:
                result, job = started(on_flink, into, out)
                wait_until(lambda numbers=numbers: sorted(written(out)) == windows_of(numbers))
                savepoint = [job.savepoint(str(tmp_path / "savepoints"))]
                job.cancel()
                assert job.state == "CANCELED"
                with pytest.raises(RuntimeError, match="JobCancellationException"):
                    result.wait_until_finish()
            (into / "b.jsonl").write_text(lines(range(500, 1_000)))
