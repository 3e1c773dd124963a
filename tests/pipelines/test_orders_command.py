"""python -m pipelines.orders as a program: its results appear whole or not at all, its options, its progress."""

import io
import itertools
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.commands import programs
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles, write_sample
from tests.pipelines.orders_run import ENVIRONMENT, Run, inputs, nothing_is_left, one_sentence


def test_a_failed_run_leaves_earlier_results_as_they_were(run: Run, with_bad_lines: list[object]) -> None:
    Path("out").mkdir()
    Path("out/e.jsonl").write_text("before")
    assert run(*with_bad_lines).code == 2
    assert [(path.name, path.read_text()) for path in Path("out").iterdir()] == [("e.jsonl", "before")]


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_and_leaves_nothing(own_directory: Path, number: signal.Signals) -> None:
    files = write_sample(Path("in"), orders=60_000, customers=6_000)
    files.orders.write_bytes(files.orders.read_bytes() * 15)  # for a run that is still there when it is interrupted
    command = [sys.executable, "-m", "beam_joins.pipelines.orders", *map(str, inputs(files)), "--output", "out/e.jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as running:
        give_up = time.monotonic() + 60
        while not list(Path().glob("out/.beam_joins-*")) and time.monotonic() < give_up:
            time.sleep(0.05)
        time.sleep(1.5)  # into the middle of the run
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (128 + number, "")
    assert err == "python -m beam_joins.pipelines.orders: interrupted; no results were written\n"
    assert nothing_is_left(Path("out"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "e.txt"], "--output: e.txt must end in .avro"),
        (["--output", "in"], "must end in"),
        (["--output", "in/o.jsonl/e.jsonl"], "cannot make the directory in/o.jsonl"),
        (["--output", "in/o.jsonl"], "is an input"),
        (["--output", "x.jsonl", "--latest", "x.jsonl"], "give them different names"),
        (["--output", "x.jsonl", "--latest", "./x.jsonl"], "give them different names"),
    ],
)
def test_a_result_that_cannot_be_written_is_refused_before_anything_runs(
    run: Run, small: SampleFiles, options: list[str], message: str
) -> None:
    Path("in").mkdir()
    for name, file in (("o", small.orders), ("c", small.customers)):
        Path(f"in/{name}.jsonl").write_bytes(file.read_bytes())
    assert message in one_sentence(run("--orders", "in/o.jsonl", "--customers", "in/c.jsonl", *options))
    assert sorted(path.name for path in Path("in").iterdir()) == ["c.jsonl", "o.jsonl"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "link/o-00000-of-00001.jsonl"], "link/o-00000-of-00001.jsonl is an input"),
        (["--output", "in/o.jsonl"], "which in/o.jsonl would replace as a part of an earlier result, is an input"),
        (["--latest", "link/o.jsonl"], "which link/o.jsonl would replace as a part of an earlier result, is an input"),
        (["--output", "in/x.jsonl", "--latest", "link/x.jsonl"], "give them different names"),
    ],
)
def test_a_result_never_takes_the_place_of_an_input_or_of_the_other_result(
    run: Run, small: SampleFiles, options: list[str], message: str
) -> None:
    Path("in").mkdir()
    Path("link").symlink_to("in")
    names = ["c.jsonl", "o-00000-of-00001.jsonl"]
    for name, file in zip(names, (small.customers, small.orders), strict=True):
        Path("in", name).write_bytes(file.read_bytes())
    assert message in one_sentence(run("--orders", "in/o-*.jsonl", "--customers", "in/c.jsonl", *options))
    assert sorted(path.name for path in Path("in").iterdir()) == names


def test_a_misspelt_option_is_refused(run: Run) -> None:
    ran = run("--ordrs", "x.jsonl")
    assert ran.code == 2
    assert "unknown option: --ordrs" in ran.err


def test_an_unknown_runner_is_refused(run: Run, small: SampleFiles) -> None:
    assert "Unexpected pipeline runner: SprakRunner" in one_sentence(
        run(*inputs(small), "--output", "e.jsonl", "--runner=SprakRunner")
    )


def test_only_one_of_the_two_inputs_is_refused(run: Run) -> None:
    assert "give both --orders and --customers" in one_sentence(run("--orders", "x.jsonl"))


def test_beams_and_sparks_options_are_known(run: Run, small: SampleFiles) -> None:
    ran = run(*inputs(small), "--output", "e.jsonl", "--direct_num_workers=1", "--driver_memory=2g", "--spark_master_url=local[2]")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(("latest", "rows"), [("latest.jsonl", 3), ("latest.avro", 0)])
def test_the_summary_ends_with_the_first_final_rows_of_json_lines(run: Run, small: SampleFiles, latest: str, rows: int) -> None:
    _, shown, below = run(*inputs(small), "--latest", latest).out.partition(f"first rows in {latest}\n")
    assert bool(shown) == bool(rows)
    assert [line.strip() for line in below.splitlines()] == (Path(latest).read_text().splitlines()[:rows] if rows else [])


def test_help_has_examples_and_names_every_option(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    for word in (
        "examples:",
        "--orders-key",
        "--orders-apply-as-upserts",
        "--customers-key",
        "--on-bad-record",
        "--runner",
        "--min-amount",
    ):
        assert word in ran.out


@pytest.mark.process
@pytest.mark.gate
def test_as_a_program_a_bad_record_shows_no_stack_trace(with_bad_lines: list[object]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "beam_joins.pipelines.orders", *map(str, with_bad_lines)],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    assert "o.jsonl, line 6: not JSON" in ran.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_phase_without_a_detail_has_no_thread_that_forbids_a_fork() -> None:
    terminal = Terminal()
    before = threading.active_count()
    with Progress(terminal).phase("starting the runner"):
        assert threading.active_count() == before
    assert terminal.getvalue() == ""


def test_a_phase_that_comes_twice_is_timed_as_one() -> None:
    progress = Progress(io.StringIO(), clock=itertools.count().__next__)
    for _ in range(2):
        with progress.phase("start-up"):
            pass
    assert progress.seconds["start-up"] == 2


def test_where_there_is_no_terminal_nothing_is_shown_but_phases_are_timed() -> None:
    stream = io.StringIO()
    progress = Progress(stream, clock=itertools.count().__next__)
    with progress.phase("run"):
        pass
    assert stream.getvalue() == ""
    assert progress.seconds["run"] == 1


@pytest.mark.process
@pytest.mark.gate
@pytest.mark.parametrize("module", ["orders", "join", "table", "demo", "sample", "commands.programs"])
@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("--on-bad-record=ignore", 2)])
@pytest.mark.each_value
def test_help_and_wrong_arguments_come_without_beam_and_arrow(module: str, argument: str, code: int) -> None:
    script = f"""
import sys
from beam_joins.pipelines.{module} import main
try:
    main([{argument!r}])
except SystemExit as ended:
    print(ended.code, sorted({{"apache_beam", "pyarrow", "numpy", "grpc"}} & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert ran.stdout.splitlines()[-1] == f"{code} []"


def test_the_command_without_a_program_lists_the_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        programs.main([])
    assert ended.value.code == 2
    assert "name a program: join, table, run, orders, slot, state, explain, demo, sample" in capsys.readouterr().err
