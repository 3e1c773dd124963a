"""Whatever process of a run is killed, the run says so in a sentence or is as if it had not been, and the
next one is right.
"""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.machine import Started, hidden, results
from tests.pipelines.writers import COMMANDS, WRITERS

pytestmark = pytest.mark.faults
ORDERS = "python -m beam_joins.pipelines.orders: "
SPARK = ["--runner=SparkRunner", "--driver_memory=1g"]
WORKERS = ["--python_workers=2"]
MOMENTS = random.Random(11)
Start = Callable[..., Started]


def a_worker(run: Started) -> Any:
    return run.workers()[0]


def the_jvm(run: Started) -> Any:
    return run.java()


@pytest.mark.spark
@pytest.mark.each_value
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("killed", "message"),
    [(a_worker, "a Python worker process ended in the middle of the job"), (the_jvm, "Spark's JVM ended in the middle of the job")],
)
def test_a_job_on_spark_that_loses_a_process_fails_in_a_sentence_and_the_next_run_is_right(
    start: Start, require_whole_or_nothing: Callable[[str], None], command: str, killed: Callable[[Started], Any], message: str
) -> None:
    run = start(command, *SPARK)
    assert run.once(run.workers)
    time.sleep(MOMENTS.random())
    killed(run).kill()
    ended = run.end()
    assert ended.code in (0, 1), ended
    assert ended.sentences == [] if ended.code == 0 else ended.sentences[0].startswith(ORDERS + message), ended
    assert len(ended.sentences) == ended.code
    require_whole_or_nothing(command)


@pytest.mark.sweep
@pytest.mark.parametrize("command", COMMANDS)
def test_a_job_that_loses_one_of_its_own_workers_fails_in_a_sentence_and_the_next_run_is_right(
    start: Start, require_whole_or_nothing: Callable[[str], None], command: str
) -> None:
    run = start(command, *WORKERS)
    assert run.once(run.workers)
    time.sleep(MOMENTS.random() / 5)
    for worker in run.workers()[:1]:
        worker.kill()
    ended = run.end()
    assert (ended.code, len(ended.sentences)) in ((0, 0), (1, 1)), ended
    assert ended.code == 0 or ended.sentences[0].startswith(f"{ORDERS}a Python worker process ended in the middle of the job"), ended
    require_whole_or_nothing(command)


@pytest.mark.parametrize(
    ("writer", "runner"),
    [
        *((name, []) for name in WRITERS),
        *(pytest.param(name, WORKERS, marks=pytest.mark.sweep) for name in COMMANDS),
        *(pytest.param(name, SPARK, marks=[pytest.mark.spark, pytest.mark.sweep]) for name in COMMANDS),
    ],
)
def test_a_run_whose_own_process_is_killed_takes_all_others_with_it_and_the_next_run_is_right(
    start: Start, require_whole_or_nothing: Callable[..., None], writer: str, runner: list[str]
) -> None:
    run = start(writer, *runner)
    assert run.once(run.is_writing)
    run.driver.kill()
    assert run.end().code == -9
    require_whole_or_nothing(writer, killed=True)


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("at", ["state/runs/000002-*/*.arrow", "out/**/.beam_joins-*/*"])
def test_a_run_that_makes_the_result_anew_and_is_killed_is_repeated_to_the_same_results(start: Start, at: str) -> None:
    writer, changed = WRITERS["with a state"], ["--min-amount", "30", "--beam_joins_changed=rebuild"]
    made_anew = writer._replace(arguments=[*writer.arguments, *changed])
    assert writer.run() == 0
    before = results()
    for name in ("state", "out"):
        shutil.copytree(name, f"{name} before")
    assert made_anew.run() == 0
    expected = results()
    assert expected != before
    for name in ("state", "out"):
        shutil.rmtree(name)
        shutil.move(f"{name} before", name)
    run = start("with a state", *changed)
    assert run.once(lambda: any(Path().glob(at)))
    run.driver.kill()
    assert run.end().code == -9
    assert results() == before
    assert made_anew.run() == 0
    assert (results(), hidden()) == (expected, [])
