"""python -m pipelines.orders --follow: a run whenever files have arrived, until a signal."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles, write_sample
from tests.pipelines.history import BOTH, arrive, changes, cut, records, tree
from tests.pipelines.naive_orders import in_order
from tests.pipelines.orders_run import ENVIRONMENT, Run, changes_in, naive

COMMAND = [sys.executable, "-m", "beam_joins.pipelines.orders", *BOTH, "--follow"]


@contextmanager
def following(*options: str) -> Iterator[subprocess.Popen[str]]:
    """The command at work; it is stopped by the test, or killed at its end."""
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as running:
        try:
            yield running
        finally:
            running.kill()


def line_of(running: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert running.stdout is not None
    return running.stdout.readline()


def wait_for(present: Callable[[], object], seconds: float = 90) -> None:
    give_up = time.monotonic() + seconds
    while not present():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.02)


@pytest.mark.process
@pytest.mark.parametrize("options", [["--every", "0.2"], pytest.param(["--whole-files", "--every", "200ms"], marks=pytest.mark.sweep)])
def test_files_that_arrive_are_read_in_rounds_until_a_signal_comes(
    own_directory: Path, small: SampleFiles, options: list[str]
) -> None:
    for side in ("orders", "customers"):
        Path("in", side).mkdir(parents=True)
    with following(*options) as running:
        for number, piece in enumerate(cut(small, 3), 1):
            arrive(number, piece)
            message = line_of(running)
            assert message.startswith(f"run {number}: 2 files, {sum(map(len, piece.values())):,} records, "), message
            assert ", 0 late, " in message
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (0, "stopped after 3 runs; the results are in out/changes and out/latest.jsonl\n", "")
    answer = naive(small)
    assert changes_in(changes()) == in_order(answer.changes)
    assert sorted(map(json.dumps, records(Path("out/latest.jsonl")))) == sorted(map(json.dumps, answer.latest.values()))


@pytest.mark.process
def test_a_round_that_fails_says_why_and_ends_it_and_the_next_start_goes_on(own_directory: Path, run: Run, small: SampleFiles) -> None:
    first, second = cut(small, 2)
    arrive(1, first)
    with following("--whole-files", "--every", "100ms") as running:
        assert line_of(running).startswith("run 1: 2 files")
        present = tree()
        Path("in/customers/.002.jsonl").write_text("{oops\n")
        Path("in/customers/.002.jsonl").rename("in/customers/002.jsonl")
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (2, "")
    assert err.splitlines()[-1].startswith(
        "python -m beam_joins.pipelines.orders: customers: in/customers/002.jsonl, line 1: not JSON"
    )
    assert tree() == present
    arrive(2, second)
    assert run(*BOTH).code == 0
    assert changes_in(changes()) == in_order(naive(small).changes)


@pytest.mark.sweep
def test_the_first_signal_waits_for_the_round_and_the_second_gives_it_up(own_directory: Path, run: Run) -> None:
    files = write_sample(Path("sample"), orders=60_000, customers=6_000)
    arrive(1, cut(files, 1)[0])
    for signals in (1, 2):
        with following("--whole-files") as running:
            wait_for(lambda: list(Path("out").glob("changes/.beam_joins-*")))
            time.sleep(0.5)
            for _ in range(3 - signals):
                running.send_signal(signal.SIGINT)
                time.sleep(0.3)
            out, err = running.communicate(timeout=120)
        assert running.returncode == 0, err
        if signals == 1:
            assert (out, err) == ("", "python -m beam_joins.pipelines.orders: interrupted; no results were written\n")
            assert tree() == {}
        else:
            assert out.splitlines()[-1] == "stopped after 1 run; the results are in out/changes and out/latest.jsonl"
            assert changes_in(changes()) == in_order(naive(files).changes)


@pytest.mark.process
def test_a_path_where_no_file_is_yet_is_told_once(own_directory: Path) -> None:
    for side in ("orders", "customers"):
        Path("in", side).mkdir(parents=True)
    with following("--orders", "in/new.jsonl", "--every", "50ms") as running:
        assert line_of(running) == "orders: there is no file in/new.jsonl: waiting for it\n"
        time.sleep(0.5)
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=60) == ("stopped after 0 runs; no results were written\n", "")
