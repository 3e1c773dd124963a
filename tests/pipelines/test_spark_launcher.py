"""Jobs on Spark: a result, a failure a person can read, and nothing left behind however it ends."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer

from beam_joins import runner
from beam_joins.pipelines.runners.spark_server import SPARK
from beam_joins.pipelines.spark import JobFailed

pytestmark = pytest.mark.spark


class SumAtTheEnd(beam.DoFn):
    """Sum a key's numbers on a timer at the end of the window, and say in which process."""

    NUMBERS = BagStateSpec("numbers", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        numbers=beam.DoFn.StateParam(NUMBERS),
        end=beam.DoFn.TimerParam(END),
        window=beam.DoFn.WindowParam,
    ):
        numbers.add(element[1])
        end.set(window.end)

    @on_timer(END)
    def finish(self, key=beam.DoFn.KeyParam, numbers=beam.DoFn.StateParam(NUMBERS)):
        yield f"{key} {sum(numbers.read())} {os.getpid()}"


class Large(beam.DoFn):
    """Give something large for two outputs, and add a line to a file."""

    def __init__(self, calls: Path) -> None:
        self._calls = calls

    def process(self, number):
        with self._calls.open("a") as calls:
            calls.write(f"{number}\n")
        yield number, bytes(1 << 20)
        yield beam.pvalue.TaggedOutput("others", (number, bytes(1 << 20)))


def keyed(number: int) -> tuple[int, int]:
    return number % 4, number


def fail(number: int) -> int:
    return 1 // (number - number)


def idle_seconds(_: int) -> int:
    return sdk_worker.DEFAULT_BUNDLE_PROCESSOR_CACHE_SHUTDOWN_THRESHOLD_S


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Iterator[Path]:
    """A directory for temporary files of its own, so that what is left behind can be seen."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory


def options(*flags: str) -> PipelineOptions:
    return PipelineOptions(["--runner=SparkRunner", "--spark_master_url=local[2]", "--driver_memory=1g", *flags])


def processes_of(directory: Path) -> list[str]:
    """The command lines that name the directory, as the JVM's do."""
    actual = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"{directory}/beam-spark-" in command:
            actual.append(command)
    return actual


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def left_behind(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("beam-spark-*") if path.is_dir()] + processes_of(directory)


@pytest.mark.parametrize(
    "flags",
    [["--python_workers=2"], ["--environment_type=LOOPBACK"]],
    ids=["workers", "loopback"],
)
@pytest.mark.sweep
def test_a_stateful_job_with_timers_gives_its_result_and_leaves_nothing_running(tmp_path, scratch, capfd, flags):
    with runner(options(*flags)) as on_spark:
        with beam.Pipeline(options=on_spark) as p:
            rows = p | beam.Create(range(100)) | "Key" >> beam.Map(keyed).with_output_types(tuple[int, int])
            sums = rows | beam.ParDo(SumAtTheEnd()).with_output_types(str)
            sums | beam.io.WriteToText(str(tmp_path / "sums"))
        assert processes_of(scratch)
    lines = [line.split() for path in tmp_path.glob("sums-*") for line in path.read_text().splitlines()]
    assert {int(key): int(total) for key, total, _ in lines} == {key: sum(range(key, 100, 4)) for key in range(4)}
    workers = {int(pid) for _, _, pid in lines}
    assert (os.getpid() in workers) == ("--environment_type=LOOPBACK" in flags)
    assert not [pid for pid in workers - {os.getpid()} if is_alive(pid)]
    assert list(scratch.iterdir()) == []
    text_of_error = [line for line in capfd.readouterr().err.splitlines() if "classes" not in line and "jars" not in line]
    assert len(text_of_error) == 1
    assert text_of_error[0].startswith("Spark's log: ")


@pytest.mark.sweep
def test_a_stage_with_two_outputs_that_do_not_fit_into_memory_runs_once(tmp_path):
    calls = tmp_path / "calls"
    with (
        runner(PipelineOptions(["--runner=SparkRunner", "--spark_master_url=local[2]", "--driver_memory=640m"])) as on_spark,
        beam.Pipeline(options=on_spark) as p,
    ):
        large = p | beam.Create(range(200)) | beam.Reshuffle() | beam.ParDo(Large(calls)).with_outputs("others", main="some")
        for name in ("some", "others"):
            sizes = large[name] | f"Shuffle {name}" >> beam.Reshuffle() | f"Sizes of {name}" >> beam.Map(lambda pair: len(pair[1]))
            sizes | f"Write {name}" >> beam.io.WriteToText(str(tmp_path / name))
    assert sorted(map(int, calls.read_text().split())) == list(range(200))
    for name in ("some", "others"):
        assert [line for path in tmp_path.glob(f"{name}-*") for line in path.read_text().split()] == [str(1 << 20)] * 200


@pytest.mark.sweep
def test_a_worker_of_spark_ends_what_it_has_made_of_a_stage_within_seconds(tmp_path):
    with (
        runner(PipelineOptions(["--runner=SparkRunner", "--spark_master_url=local[1]"])) as options,
        beam.Pipeline(options=options) as pipeline,
    ):
        _ = pipeline | beam.Create([0]) | beam.Map(idle_seconds) | beam.io.WriteToText(str(tmp_path / "seconds"))
    (written,) = tmp_path.glob("seconds*")
    assert int(written.read_text()) == SPARK.idle_seconds


@pytest.mark.sweep
def test_a_failing_function_is_named_with_its_own_frames_and_the_log(scratch):
    with (
        pytest.raises(JobFailed) as caught,
        runner(options()) as on_spark,
        beam.Pipeline(options=on_spark) as p,
    ):
        p | beam.Create([1]) | "Share out" >> beam.Map(fail)
    message = str(caught.value)
    assert "in step 'Share out'" in message
    assert "ZeroDivisionError" in message
    assert "return 1 // (number - number)" in message
    assert "apache_beam" not in message
    assert "\tat " not in message
    assert "ZeroDivisionError" in caught.value.log.read_text()
    assert message.endswith(f"The log is {caught.value.log}.")
    assert list(scratch.iterdir()) == [caught.value.log]


SLOW = """
import faulthandler
import signal
import time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from beam_joins import runner

def slow(number):
    print("working", __import__("os").getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    with runner(PipelineOptions(["--runner=SparkRunner", "--spark_master_url=local[1]"])) as options:
        with beam.Pipeline(options=options) as p:
            p | beam.Create([1]) | beam.Map(slow)
"""


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.sweep), signal.SIGKILL], ids=lambda number: number.name
)
def test_an_interrupted_job_takes_everything_with_it(tmp_path, scratch, number):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    errors = tmp_path / "errors"
    with errors.open("wb") as stderr:
        environment = {**os.environ, "PYTHONPATH": path}
        job = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
    try:
        assert job.stdout is not None
        word, worker = job.stdout.readline().split()
        assert word == "working"
        job.send_signal(number)
        try:
            assert job.wait(120) != 0
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGUSR1)  # it writes what each of its threads waits for
            signal.sigtimedwait([], 5)
            pytest.fail(errors.read_text())
        with job.stdout:
            job.stdout.read()  # ends when the last process that could write has ended
        assert not is_alive(int(worker))
        for _ in range(200):
            if not left_behind(scratch):
                break
            signal.sigtimedwait([], 0.1)
        assert left_behind(scratch) == []
    finally:
        job.kill()
        job.wait()
