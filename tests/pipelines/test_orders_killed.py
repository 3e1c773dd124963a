"""python -m pipelines.orders --state-dir killed at any moment: the next run finishes or repeats what it was
at, to the same bytes.
"""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from tests.pipelines.history import BOTH, arrive, cut, tree
from tests.pipelines.orders_run import ENVIRONMENT, Run

COMMAND = [sys.executable, "-m", "beam_joins.pipelines.orders", *BOTH]
DIES = """
import os, sys
from beam_joins.transforms.engine.resumed import commits, state_files
from beam_joins.pipelines.orders import main

number, moves, move, put = int(sys.argv[1]), [], commits.move, state_files.StateFiles.put

def counted(source, target):
    if len(moves) == number:
        os._exit(9)
    moves.append(move(source, target))

def but_the_manifest(self, name, content):
    if name == "manifest.json":
        os._exit(9)
    put(self, name, content)

commits.move = counted
state_files.StateFiles.put = but_the_manifest
main(sys.argv[2:])
"""


@pytest.fixture
def expected(run: Run, small: SampleFiles) -> dict[str, bytes]:
    """The results of two runs that nothing disturbs; the second one is still to be run again."""
    first, second = cut(small, 2)
    arrive(1, first)
    assert run(*BOTH).code == 0
    shutil.copytree("state", "state-1")
    shutil.copytree("out", "out-1")
    arrive(2, second)
    assert run(*BOTH).code == 0
    present = tree()
    back()
    return present


def back() -> None:
    """As it was after the first run."""
    for name in ("state", "out"):
        shutil.rmtree(name)
        shutil.copytree(f"{name}-1", name)


@pytest.mark.process
@pytest.mark.gate
@pytest.mark.parametrize("moves", [0, pytest.param(1, marks=pytest.mark.sweep), pytest.param(2, marks=pytest.mark.sweep)])
def test_a_run_that_dies_between_the_journal_and_the_manifest_is_finished_by_the_next(
    run: Run, small: SampleFiles, expected: dict[str, bytes], moves: int
) -> None:
    died = subprocess.run([sys.executable, "-c", DIES, str(moves), *BOTH], env=ENVIRONMENT, check=False)
    assert died.returncode == 9
    assert Path("state/commit.json").exists()
    ran = run(*BOTH)
    assert (ran.code, ran.out) == (0, "no new files: nothing to do\n"), ran.err
    assert {name: data for name, data in tree().items() if "/." not in name} == expected
    arrive(3, {"orders": cut(small, 2)[1]["orders"][:1], "customers": []})
    assert run(*BOTH).code == 0
    assert not [name for name in tree() if "/." in name], "what the dead run has left is gone"


@pytest.mark.sweep
def test_a_run_that_is_killed_at_any_moment_and_run_again_gives_the_same_bytes(run: Run, expected: dict[str, bytes]) -> None:
    chosen = random.Random(7)
    begin = time.monotonic()
    assert subprocess.run(COMMAND, env=ENVIRONMENT, check=False, capture_output=True).returncode == 0
    lasts = time.monotonic() - begin
    for _ in range(5):
        back()
        with subprocess.Popen(COMMAND, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as running:
            time.sleep(chosen.uniform(0.5, 1) * lasts)  # Beam is imported before that
            running.kill()
        assert run(*BOTH).code == 0
        assert {name: data for name, data in tree().items() if "/." not in name} == expected
