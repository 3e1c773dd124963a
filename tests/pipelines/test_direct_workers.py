"""The direct runner in several processes gives what it gives in one, and says what it would say there."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.periodicsequence import PeriodicImpulse

from beam_joins import LatestTable, LocalRunner, TableFromChangelog, cores
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.runners.direct import direct_runner
from beam_joins.pipelines.runners.direct_channel import Handler
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


def _large(number: int) -> bytes:
    return bytes(300_000) + number.to_bytes(4)


@pytest.mark.process
@pytest.mark.gate
def test_large_elements_reach_the_next_stage_however_long_it_takes_to_send_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam loses some of those that are written while others are sent, after a second by default."""
    monkeypatch.setattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS", 1)
    with beam.Pipeline(LocalRunner(), options=PipelineOptions([WORKERS])) as p:
        halves = [p | f"{n}" >> beam.Create(range(n, 600, 2)) | f"Spread {n}" >> beam.Reshuffle() for n in range(2)]
        large = [half | f"Large {n}" >> beam.Map(_large) for n, half in enumerate(halves)]
        numbers = large | beam.Flatten() | "Number" >> beam.Map(lambda each: str(int.from_bytes(each[-4:])))
        _ = numbers | beam.io.WriteToText(str(tmp_path / "numbers"))
    assert sorted(int(line) for path in tmp_path.iterdir() for line in path.read_text().split()) == list(range(600))


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


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_may_answer_a_request_that_has_failed_with_another_worker() -> None:
    handler = Handler.__new__(Handler)
    handler.control_conn = worker_handlers.ControlConnection()
    asked = handler.control_conn.push(beam_fn_api_pb2.InstructionRequest(instruction_id="bundle"))
    handler.fail("another worker has ended")
    assert asked.get().error == "another worker has ended"
    handler.control_conn.set_input(iter([beam_fn_api_pb2.InstructionResponse(instruction_id="bundle")]))
    handler.control_conn.close()


@pytest.mark.parametrize(
    "flags",
    [
        ["--runner=SparkRunner"],
        ["--python_workers=1"],
        ["--streaming"],
        ["--direct_num_workers=3"],
        ["--direct_running_mode=multi_processing"],
    ],
)
def test_other_options_are_left_as_they_are(flags: list[str]) -> None:
    asked = PipelineOptions(flags)
    with direct_runner(asked) as options:
        assert options is asked
    assert asked.view_as(DirectOptions).direct_num_workers == (3 if "3" in str(flags) else 1)


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
        direct_runner(PipelineOptions(["--python_workers=0"])),
    ):
        pytest.fail("it started")
