"""A command that follows goes on when a store does not answer for a while; which errors say so."""

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from beam_joins import InputError, OutputError, Unavailable
from beam_joins.errors import is_unavailable, kind_of
from beam_joins.pipelines.commands import rounds
from beam_joins.pipelines.commands.command_line import sentence_and_code
from tests.object_store import Forbidden, Store
from tests.pipelines.join_run import LEFT, RIGHT
from tests.pipelines.orders_run import Ran, Run
from tests.pipelines.test_killed_on_a_store import RUNS, arrive, results

FOLLOW = [*RUNS, "--follow", "--whole-files", "--every=20ms"]
LATER = {**RIGHT[0], "name": "later", "lsn": 90, "updated_at": 90}
SUCCEEDED = threading.Event()
"""Whether a round of the command has succeeded: one that fails before is not repeated."""


@pytest.fixture(autouse=True)
def a_round_that_succeeds_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    succeeded = rounds.Attempts.succeeded

    def and_known(attempts: rounds.Attempts) -> None:
        succeeded(attempts)
        SUCCEEDED.set()

    monkeypatch.setattr(rounds.Attempts, "succeeded", and_known)


def followed(beam_joins: Run, world: Callable[[], None], *options: str) -> Ran:
    """What the command says while something happens, after which it is stopped."""

    def happens() -> None:
        try:
            world()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread, before = threading.Thread(target=happens), signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of a command that has ended
    SUCCEEDED.clear()
    thread.start()
    try:
        return beam_joins(*FOLLOW, *options)
    finally:
        thread.join()
        signal.signal(signal.SIGTERM, before)


def wait_for(present: Callable[[], object], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not present():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.005)


def has_ended(store: Store, run: int) -> bool:
    return f"bucket://out/c/changes-{run:06}.jsonl" in store.objects


def world_of(store: Store, outage: Callable[[str, str], None] | None, expected: dict[str, bytes] | None) -> Callable[[], None]:
    """Three rounds; in the second and the third the store may fail."""

    def world() -> None:
        wait_for(lambda: has_ended(store, 1) and SUCCEEDED.is_set())
        with store.before(outage or (lambda operation, path: None)):
            arrive(store, 2, l=LEFT[2:])
            wait_for(lambda: has_ended(store, 2))
            arrive(store, 3, r=[*RIGHT[1:], LATER])
            wait_for(lambda: has_ended(store, 3) and (expected is None or results(store) == expected))
            time.sleep(0.1)

    return world


@pytest.mark.slow
@pytest.mark.parametrize("first", [*(pytest.param(range(n, 200, 8), marks=pytest.mark.sweep) for n in range(8)), (3, 66, 96, 183)])
def test_an_outage_of_the_store_at_any_operation_is_waited_for(
    beam_joins: Run, store: Store, monkeypatch: pytest.MonkeyPatch, first: Sequence[int]
) -> None:
    monkeypatch.setattr(rounds, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(rounds, "_LAST_PAUSE", 0.02)
    arrive(store, 1, l=LEFT[:2], r=RIGHT[:1])
    start = dict(store.objects)
    assert followed(beam_joins, world_of(store, None, None)).code == 0
    expected, lines = results(store), list[int]()
    for number in first:
        store.objects, calls = dict(start), 0

        def outage(operation: str, path: str, number: int = number) -> None:
            nonlocal calls
            calls += 1
            if number <= calls < number + 1 + number % 7:
                raise ConnectionResetError(errno.ECONNRESET, "the store has closed the connection")

        ran = followed(beam_joins, world_of(store, outage, expected))
        assert ran.code == 0, (number, ran)
        assert results(store) == expected, (number, ran)
        assert all("the store has closed the connection" in line for line in ran.err.splitlines()), (number, ran)
        lines.append(len(ran.err.splitlines()))
    assert any(lines)


def test_a_store_that_stays_away_ends_the_command_with_code_1(beam_joins: Run, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_FIRST_PAUSE", 0.05)
    arrive(store, 1, l=LEFT[:2], r=RIGHT[:1])
    away = threading.Event()

    def outage(operation: str, path: str) -> None:
        if away.is_set():
            raise ConnectionResetError(errno.ECONNRESET, "the store has closed the connection")

    def world() -> None:
        wait_for(lambda: has_ended(store, 1) and SUCCEEDED.is_set())
        away.set()
        time.sleep(2)

    with store.before(outage):
        ran = followed(beam_joins, world, "--retry-for=300ms")
    assert ran.code == 1, ran
    *attempts, last = ran.err.splitlines()
    assert attempts
    assert all(line.endswith("(--retry-for)") for line in attempts)
    assert last.endswith("the store has closed the connection")


def test_an_error_that_is_no_outage_ends_the_command_at_once(beam_joins: Run, store: Store) -> None:
    arrive(store, 1, l=LEFT[:2], r=RIGHT[:1])
    refused = threading.Event()

    def refuses(operation: str, path: str) -> None:
        if refused.is_set() and path.startswith("bucket://in"):
            raise Forbidden("you may not")

    def world() -> None:
        wait_for(lambda: has_ended(store, 1) and SUCCEEDED.is_set())
        refused.set()
        time.sleep(2)

    with store.before(refuses):
        ran = followed(beam_joins, world)
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran


class OfBoto(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("An error occurred")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class EndpointConnectionError(Exception):
    """As botocore's, whose class says it."""


def raised(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionRefusedError(), True),
        (TimeoutError("timed out"), True),
        (OfBoto(503), True),
        (OfBoto(403), False),
        (EndpointConnectionError(), True),
        (Forbidden(), False),
        (FileNotFoundError(2, "No such file"), False),
        (OSError("Generic S3 error: error sending request for url"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (ValueError("connection refused"), False),
        (Unavailable("no broker answers"), True),
        (raised(InputError("rows: cannot look for s3://in/*: down"), OfBoto(500)), True),
        (raised(InputError("rows: not JSON"), ValueError("x")), False),
    ],
)
def test_errors_of_servers_and_stores_that_do_not_answer_are_told_from_others(error: Exception, passes: bool) -> None:
    assert is_unavailable(error) == passes
    assert kind_of(error, OutputError) is (Unavailable if passes else OutputError)


def test_a_workers_error_keeps_its_exit_code() -> None:
    said: Any = RuntimeError("Traceback ...\nbeam_joins.errors.Unavailable: no broker answers [while running 'Read']")
    sentence, code = sentence_and_code(said)
    assert (str(sentence), code) == ("no broker answers", 1)
