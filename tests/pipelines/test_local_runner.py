"""The local runner gives what Beam's direct runner gives, in one process and in several, and says the same of what is wrong."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.metrics.metric import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.pvalue import AsDict, AsList, AsSingleton
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import FixedWindows, GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins import LatestTable, LocalRunner, TableFromChangelog, cores
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.runners.local import local_runner, worker_processes
from beam_joins.pipelines.runners.runner_setup import workers_for
from beam_joins.pipelines.spark import JobFailed, RunnerSetupError
from beam_joins.transforms.engine.stages import replay_options
from tests.pipelines.orders_run import ENVIRONMENT, Run, inputs, write
from tests.pipelines.streaming.test_bounded_on_runners import EVENTS, reprs, written_on
from tests.transforms.all_builds import all_of_them
from tests.transforms.unbounded_runs import bounded, elements_of

LOCAL = "--runner=beam_joins.LocalRunner"
WORKERS = "--python_workers=2"


@pytest.mark.process
def test_every_transform_and_every_kind_of_join_in_one_job(tmp_path: Path) -> None:
    expected = reprs(elements_of(FnApiRunner(), bounded, EVENTS, all_of_them))
    options = PipelineOptions([LOCAL, WORKERS, "--beam_joins_partitions=5"])
    assert written_on(options, all_of_them, tmp_path) == expected


@pytest.mark.process
@pytest.mark.gate
def test_a_command_writes_the_same_bytes_and_the_same_summary(run: Run, small: SampleFiles) -> None:
    one, several = (run(*inputs(small), f"--output={n}.jsonl", "--json=-", f"--python_workers={n}") for n in (1, 2))
    assert one.code == several.code == 0, several.err
    assert Path("1.jsonl").read_bytes() == Path("2.jsonl").read_bytes()


@pytest.mark.process
def test_runs_that_go_on_write_the_same_bytes(beam_joins: Run) -> None:
    rows = [{"id": n % 50, "v": n, "op": "u", "lsn": n, "updated_at": n} for n in range(300)]
    for n in (1, 2):
        Path(f"in{n}").mkdir()
        for part in range(2):
            write(f"in{n}/{part}.jsonl", *rows[150 * part : 150 * part + 150])
            options = ("--state-dir", f"state{n}", "--changes", f"changes{n}", "--latest", f"now{n}.jsonl", f"--python_workers={n}")
            ran = beam_joins("table", "--input", f"in{n}", "--key", "id", *options)
            assert ran.code == 0, ran.err
    assert Path("now1.jsonl").read_bytes() == Path("now2.jsonl").read_bytes()
    assert [path.read_bytes() for path in sorted(Path("changes1").iterdir())] == [
        path.read_bytes() for path in sorted(Path("changes2").iterdir())
    ]


@pytest.mark.process
def test_a_bad_record_is_the_same_sentence(beam_joins: Run) -> None:
    write("rows.jsonl", {"id": 1, "op": "u", "lsn": 1, "updated_at": 1}, {"id": 2, "op": "u", "lsn": "x", "updated_at": 1})
    one, several = (
        beam_joins("table", "--input", "rows.jsonl", "--key", "id", "--latest", "now.jsonl", f"--python_workers={n}") for n in (1, 2)
    )
    assert (one.code, one.err) == (several.code, several.err)
    assert "rows.jsonl, line 2: column 'lsn' is not a whole number: 'x'" in several.err


@pytest.mark.process
def test_a_program_says_nothing_about_the_connections_between_its_processes(small: SampleFiles, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "beam_joins.pipelines.orders", *inputs(small), f"--latest={tmp_path}/now.jsonl", WORKERS]
    talkative = ENVIRONMENT | {"GRPC_TRACE": "api"}  # without it gRPC tells of some connections that end
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=talkative)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.process
def test_a_program_starts_without_packages_that_it_does_not_use(small: SampleFiles, tmp_path: Path) -> None:
    names = "{'pandas', 'google.cloud.storage', 'apitools'}"
    program = (
        f"import sys; from beam_joins.pipelines.commands import programs; sys.exit(programs.main() or len({names} & {{*sys.modules}}))"
    )
    command = [sys.executable, "-c", program, "orders", *inputs(small), f"--latest={tmp_path}/now.jsonl"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (ran.returncode, ran.stderr) == (0, "")


def _fail(row: Any) -> Any:
    return row[1] / 0


def _end(row: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.process
@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (_fail, r"the job failed in step .*: *\n.*\n.*row\[1\] / 0[\s\S]*ZeroDivisionError: division by zero"),
        (_end, "worker process ended"),
    ],
)
def test_a_job_that_fails_or_loses_a_worker_ends_in_a_sentence_and_leaves_its_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Any, sentence: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    options = PipelineOptions([LOCAL, WORKERS])
    with pytest.raises(JobFailed, match=sentence) as failed, beam.Pipeline(options=options) as p:
        rows = p | beam.Create([(n, n) for n in range(100)])
        _ = rows | TableFromChangelog() | LatestTable() | beam.Map(function)
    assert [path for path in tmp_path.iterdir() if path.name.startswith("beam")] == [failed.value.log]


@pytest.mark.parametrize(
    "flags",
    [
        ["--runner=SparkRunner"],
        ["--runner=DirectRunner", "--python_workers=1"],
        ["--streaming"],
        ["--runner=beam_joins.LocalRunner", "--streaming"],
    ],
)
def test_other_options_are_left_as_they_are(flags: list[str]) -> None:
    asked = PipelineOptions(flags)
    with workers_for(asked) as options:
        assert options is asked


def test_beams_own_workers_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    replay_options._warn_of.cache_clear()
    p = beam.Pipeline(options=PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"]))
    _ = p | beam.Create([("k", 1)]) | TableFromChangelog() | LatestTable()
    assert [record.message for record in caplog.records if "LocalRunner" in record.message] == [
        "--direct_running_mode=multi_processing: Beam's runner may lose large elements between stages without a word: use"
        " --runner=beam_joins.LocalRunner"
    ]


def test_the_cores_are_those_of_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    monkeypatch.setattr(cores, "_QUOTA", tmp_path / "cpu.max")
    assert cores.usable_cores() == 8
    for quota, expected in (("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1)):
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
        assert cores.usable_cores() == expected


def test_the_local_runner_with_one_worker_runs_in_this_process_and_leaves_its_options_alone() -> None:
    with beam.Pipeline(options=PipelineOptions([LOCAL, "--python_workers=1"])) as p:
        process = p | beam.Create([("k", 1)]) | TableFromChangelog() | LatestTable() | beam.Map(lambda row: os.getpid())
        assert_that(process, equal_to([os.getpid()]))
    assert p.options.view_as(StandardOptions).runner == "beam_joins.LocalRunner"


def test_the_local_runner_refuses_unbounded_input_when_the_pipeline_is_built() -> None:
    p = beam.Pipeline("beam_joins.LocalRunner")
    with pytest.raises(ValueError, match="got unbounded input, and the LocalRunner reads bounded input: use PrismRunner, or"):
        _ = p | PeriodicImpulse() | beam.Map(lambda time: (time, 1)) | TableFromChangelog()


def test_no_worker_is_refused() -> None:
    with (
        pytest.raises(RunnerSetupError, match="--python_workers=0 is not a number of processes"),
        workers_for(PipelineOptions(["--python_workers=0"])),
    ):
        pytest.fail("it started")


class _Lives(beam.DoFn):
    """Notes what is called, in an object that is pickled with it."""

    def __init__(self) -> None:
        self.called = list[str]()

    def setup(self) -> None:
        self.called.append("setup")

    def start_bundle(self) -> None:
        self.called.append("start_bundle")

    def process(self, element: int, add: int, timestamp: Any = beam.DoFn.TimestampParam) -> Any:
        yield element + add
        yield beam.pvalue.TaggedOutput("times", int(timestamp.micros))
        yield beam.pvalue.TaggedOutput("nobody", element)

    def finish_bundle(self) -> Any:
        yield beam.pvalue.TaggedOutput("called", WindowedValue(tuple(self.called), MAX_TIMESTAMP, [GlobalWindow()]))


class _Range(RestrictionProvider):
    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def split(self, element: int, restriction: OffsetRange) -> Any:
        return restriction.split(2)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()


_RANGE = beam.DoFn.RestrictionParam(_Range())
_ROWS = beam.DoFn.StateParam(BagStateSpec("rows", VarIntCoder()))


class _Halves(beam.DoFn):
    """Gives the numbers of a range, and leaves those behind each that is even for later."""

    def process(self, element: int, range: Any = _RANGE) -> Any:
        number = range.current_restriction().start
        while range.try_claim(number):
            yield element, number
            number += 1
            if number % 2:
                range.defer_remainder()
                return


def _of_all_kinds(p: beam.Pipeline) -> dict[str, Any]:
    numbers = p | beam.Create(range(10)) | "At" >> beam.Map(lambda n: TimestampedValue(n, n))
    lived = numbers | "Lives" >> beam.ParDo(_Lives(), 100).with_outputs("times", "called", main="main")
    respread = numbers | beam.Reshuffle() | "Time" >> beam.Map(lambda n, t=beam.DoFn.TimestampParam: (n, int(t.micros)))
    grouped = numbers | beam.WithKeys(lambda n: n % 3) | beam.GroupByKey()
    windowed = numbers | beam.WindowInto(FixedWindows(5)) | "Spread windows" >> beam.Reshuffle()
    right = p | "Right" >> beam.Create([(n, str(n)) for n in range(5)])
    most = right | "To one" >> beam.WithKeys(None) | "Together" >> beam.GroupByKey() | beam.MapTuple(lambda _, rows: max(rows))
    looked_up = numbers | "Look up" >> beam.Map(lambda n, of: (n, of.get(n)), AsDict(right))
    beside = numbers | "Beside" >> beam.Map(lambda n, every, one: (n, len(every), one), AsList(numbers), one=AsSingleton(most))
    chained = numbers | "Chained" >> beam.Map(lambda n, all_beside: (n, sorted(all_beside)), AsList(beside))
    summed = numbers | "Sum by" >> beam.WithKeys(lambda n: n % 2) | beam.CombinePerKey(sum)
    counted = numbers | beam.combiners.Count.Globally()
    parts = p | "Ranges" >> beam.Create([4, 3]) | beam.ParDo(_Halves())
    lines = p | beam.io.ReadFromText(__file__) | "Lines" >> beam.combiners.Count.Globally()
    nothing = p | "Nothing" >> beam.Create([]) | "Keyed" >> beam.WithKeys(1) | "No groups" >> beam.GroupByKey()
    return {
        **{name: lived[name] for name in ("main", "times", "called")},
        "respread": respread,
        "grouped": grouped | beam.MapTuple(lambda key, numbers: (key, sorted(numbers))),
        "windows": windowed | "Window" >> beam.Map(lambda n, w=beam.DoFn.WindowParam: (n, int(w.start))),
        "flattened": (looked_up, beside, chained, summed, counted, parts, lines, nothing) | beam.Flatten(),
    }


def _written(runner: Any, folder: Path, *flags: str) -> dict[str, list[str]]:
    with beam.Pipeline(runner=runner, options=PipelineOptions(list(flags))) as p:
        for name, collection in _of_all_kinds(p).items():
            _ = collection | f"Write {name}" >> beam.Map(_append, str(folder / name))
    return {path.name: sorted(path.read_text().splitlines()) for path in sorted(folder.iterdir())}


def _append(element: Any, path: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{element!r}\n")


@pytest.mark.process
@pytest.mark.gate
def test_functions_of_all_kinds_get_what_the_direct_runner_gives_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "beam_joins")
    written = {}
    for name, runner, *flags in (
        ("direct", FnApiRunner()),
        ("here", LocalRunner(), "--python_workers=1"),
        ("two", LocalRunner(), WORKERS),
    ):
        (tmp_path / name).mkdir()
        written[name] = _written(runner, tmp_path / name, *flags)
    assert written["here"] == written["direct"]
    called = {name: each.pop("called") for name, each in written.items()}
    assert written["two"] == written["direct"]
    assert set(called["two"]) == {"('setup', 'start_bundle')"}
    assert not [record for record in caplog.records if "Beam's direct runner" in record.message]


class _Remembering(beam.DoFn):
    def process(self, element: Any, rows: Any = _ROWS) -> Any:
        rows.add(element[1])
        return [element]


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (beam.WindowInto(FixedWindows(5)) | beam.GroupByKey(), "GroupByKey groups by windows"),
        (beam.ParDo(_Remembering()), "ParDo(_Remembering) has state"),
    ],
)
def test_a_pipeline_of_other_kinds_is_left_to_the_direct_runner(transform: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "beam_joins")
    with beam.Pipeline(runner=LocalRunner()) as p:
        keyed = p | beam.Create([(1, 2)]) | transform | beam.Keys()
        assert_that(keyed, equal_to([1]))
    (record,) = [record for record in caplog.records if "Beam's direct runner" in record.message]
    assert reason in record.message


def _count(row: int) -> int:
    Metrics.counter("tests", "rows").inc()
    Metrics.distribution("tests", "numbers").update(row)
    return row


@pytest.mark.process
def test_metrics_are_those_of_the_direct_runner() -> None:
    queried = []
    for runner, *flags in ((FnApiRunner(),), (LocalRunner(), "--python_workers=1"), (LocalRunner(), WORKERS)):
        p = beam.Pipeline(runner=runner, options=PipelineOptions(flags))
        _ = p | beam.Create(range(100)) | beam.Reshuffle() | "Count" >> beam.Map(_count)
        found = p.run().metrics().query(MetricsFilter().with_namespace("tests"))
        queried.append([(kind, str(each.key), str(each.committed)) for kind, of in found.items() for each in of])
    assert queried[0] == queried[1] == queried[2]
    assert len(queried[0]) == 2


def _pids(*flags: str, rows: int = 4, seconds: float = 0.0) -> list[int]:
    """The processes that the rows of a pipeline have come to."""

    def pid(row: int) -> Iterator[str]:
        time.sleep(seconds)
        yield f"{os.getpid()}\n"

    with tempfile.TemporaryDirectory() as folder:
        with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(list(flags))) as p:
            rows_of = p | beam.Create(range(rows)) | beam.Reshuffle() | beam.FlatMap(pid)
            _ = rows_of | beam.Map(lambda line: Path(folder, str(uuid.uuid4())).write_text(line))
        return [int(path.read_text()) for path in Path(folder).iterdir()]


@pytest.mark.process
def test_a_pipeline_begins_in_this_process_and_all_workers_take_over_in_the_middle_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_runner, "usable_cores", lambda: 2)
    monkeypatch.setattr(local_runner, "_ALONE_SECONDS", {True: 60.0, False: 60.0})
    assert set(_pids()) == {os.getpid()}
    monkeypatch.setattr(local_runner, "_ALONE_SECONDS", {True: 0.0, False: 0.0})
    pids = _pids(rows=200, seconds=0.05)
    assert len(pids) == 200
    assert len({*pids} - {os.getpid()}) == 2


@pytest.mark.process
def test_what_one_process_makes_while_others_take_over_is_grouped_with_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_runner, "usable_cores", lambda: 2)
    monkeypatch.setattr(local_runner, "_ALONE_SECONDS", {True: 0.2, False: 0.2})

    def slow(row: int) -> tuple[int, int]:
        time.sleep(0.02)
        return row % 3, row

    with beam.Pipeline(runner=LocalRunner()) as p:
        rows = p | beam.Create(range(300)) | beam.Reshuffle() | beam.Map(slow) | beam.GroupByKey()
        summed = rows | beam.MapTuple(lambda key, numbers: (key, sum(numbers)))
        assert_that(summed, equal_to([(key, sum(range(key, 300, 3))) for key in range(3)]))


@pytest.mark.process
@pytest.mark.parametrize("fails_in", ["this process", "the others"])
def test_a_job_fails_in_whichever_process_its_function_raises(monkeypatch: pytest.MonkeyPatch, fails_in: str) -> None:
    monkeypatch.setattr(local_runner, "usable_cores", lambda: 2)
    monkeypatch.setattr(local_runner, "_ALONE_SECONDS", {True: 0.5, False: 0.5})
    here = os.getpid()

    def fail(row: int) -> None:
        time.sleep(2.0 if row == 0 else 0.05)
        if (os.getpid() == here) == (fails_in == "this process"):
            raise ZeroDivisionError(f"of row {row}")

    with pytest.raises(JobFailed, match="ZeroDivisionError: of row"), beam.Pipeline(runner=LocalRunner()) as p:
        _ = p | beam.Create(range(200)) | beam.Reshuffle() | beam.Map(fail)


@pytest.mark.process
@pytest.mark.parametrize("alone", [0.0, 60.0])
def test_a_fresh_worker_that_ends_before_it_can_work_fails_the_job_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, alone: float
) -> None:
    monkeypatch.setattr(local_runner, "usable_cores", lambda: 2)
    monkeypatch.setattr(local_runner, "_ALONE_SECONDS", {True: alone, False: alone})
    monkeypatch.setattr(worker_processes, "fork_is_safe", lambda: False)
    monkeypatch.setattr(worker_processes, "_FRESH", "raise SystemExit(1)")
    if alone:
        assert set(_pids()) == {os.getpid()}
        return
    with pytest.raises(JobFailed, match="worker process ended"):
        _pids(rows=200, seconds=0.05)


@pytest.mark.process
@pytest.mark.parametrize("flags", ["", WORKERS])
def test_a_program_with_other_threads_runs_in_fresh_processes(tmp_path: Path, flags: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import os, sys, threading, apache_beam as beam
from beam_joins import LocalRunner
from beam_joins.pipelines.runners.local import local_runner
local_runner.usable_cores = lambda: 2
local_runner._ALONE_SECONDS = dict.fromkeys((True, False), 0)
class Point:
    def __init__(self, x): self.x = x
def written(x):
    import time; time.sleep(0.1)
    sys.stdout.write(f"x {{x}}\\n")
if __name__ == "__main__":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    options = beam.options.pipeline_options.PipelineOptions({[flags] if flags else []})
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        points = p | beam.Create([Point(1), Point(2)] * 30) | beam.Reshuffle() | beam.Map(lambda point: point.x)
        _ = points | beam.Map(written)
"""
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (sorted(ran.stdout.splitlines()), ran.stderr) == (["x 1"] * 30 + ["x 2"] * 30, "")


def test_keys_without_one_encoding_are_grouped_only_where_the_options_allow_it() -> None:
    def grouped(*flags: str) -> None:
        with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--python_workers=1", *flags])) as p:
            rows = p | beam.Create([(1j, 3), (1j, 4)]) | beam.GroupByKey() | beam.MapTuple(lambda _, numbers: sorted(numbers))
            assert_that(rows, equal_to([[3, 4]]))

    grouped("--allow_non_deterministic_key_coders")
    with pytest.raises(JobFailed, match="in step 'Create/Map\\(decode\\)':[^$]*Unable to deterministically encode"):
        grouped()
