"""SIGINT and SIGTERM at any moment of a run: it ends in a sentence, or whole, and nothing is left."""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.machine import Started
from tests.pipelines.writers import COMMANDS

pytestmark = pytest.mark.faults
CHOSEN = random.Random(23)
MOMENTS = [(CHOSEN.choice(list(COMMANDS)), CHOSEN.choice([signal.SIGINT, signal.SIGTERM]), CHOSEN.random()) for _ in range(4)]


def listens(run: Started) -> bool:
    """Whether the process has handlers of its own for both signals."""
    status = Path(f"/proc/{run.driver.pid}/status").read_text()
    caught = int(status.split("SigCgt:")[1].split()[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def lasts(run: Started) -> float:
    begin = time.monotonic()
    assert run.end().code == 0
    return time.monotonic() - begin


@pytest.mark.parametrize(
    "runner",
    [
        [],
        pytest.param(["--python_workers=2"], marks=pytest.mark.sweep),
        pytest.param(["--runner=SparkRunner"], marks=[pytest.mark.spark, pytest.mark.sweep]),
    ],
    ids=["here", "workers", "spark"],
)
def test_a_run_that_is_told_to_end_at_any_moment_does_and_the_next_one_is_right(
    start: Callable[..., Started], require_whole_or_nothing: Callable[[str], None], clear: Callable[[], None], runner: list[str]
) -> None:
    seconds = lasts(start("alone", *runner))
    clear()
    for command, number, moment in MOMENTS:
        run = start(command, *runner)
        assert run.once(lambda: listens(run))  # noqa: B023, called at once
        time.sleep(moment * seconds)
        run.driver.send_signal(number)
        ended = run.end()
        if ended.code != 0:
            # at the very end the process listens no more, as its results are there
            assert ended.code in (128 + number, -number), ended
            assert ended.sentences == (
                [] if ended.code < 0 else ["python -m beam_joins.pipelines.orders: interrupted; no results were written"]
            ), ended
        require_whole_or_nothing(command)
        clear()
