"""Disks that are full or cannot be written: a sentence, nothing that looks finished, and the next run is right."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import HOW
from tests.faults.machine import PROGRAM, Started, hidden, results

pytestmark = pytest.mark.faults
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""
SMALL = 'mount -t tmpfs -o size="$0",mode=700 tmpfs "$1" && shift && "$@"; code=$?; find out state -type f > tmp/.found 2> /dev/null; exit $code'
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
OWN_MOUNTS = ["unshare", "-rm", "sh", "-c"]
RUNNERS = pytest.mark.parametrize(
    "runner", [["--runner=DirectRunner"], pytest.param(["--runner=SparkRunner"], marks=pytest.mark.spark)], ids=["direct", "spark"]
)
Start = Callable[..., Started]


@pytest.fixture
def own_mounts() -> None:
    try:
        allowed = subprocess.run([*OWN_MOUNTS, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("no mounts of its own for a process: that needs user namespaces")


@pytest.mark.parametrize(
    ("runner", "limit"),
    [
        ("--runner=DirectRunner", 20_000),
        ("--runner=DirectRunner", 400_000),
        pytest.param("--runner=SparkRunner", 400_000, marks=pytest.mark.spark),  # its log is shorter than that
    ],
)
def test_files_that_may_not_grow_end_the_run_in_a_sentence(
    start: Start, require_whole_or_nothing: Callable[[str], None], how: str, limit: int, runner: str
) -> None:
    ended = start(*HOW[how], runner, through=[sys.executable, "-c", LIMITED, str(limit)]).end()
    assert ended.code == 1, ended
    assert len(ended.sentences) == 1, ended
    assert ended.sentences[0].startswith(PROGRAM), ended
    assert "File too large" in ended.sentences[0]
    assert results() == {}
    assert hidden() == []
    require_whole_or_nothing(how)


@RUNNERS
@pytest.mark.parametrize("full", ["out", "state"])
def test_a_full_disk_ends_the_run_in_a_sentence_and_the_next_one_is_right(
    start: Start, require_whole_or_nothing: Callable[[str], None], own_mounts: None, full: str, runner: list[str]
) -> None:
    Path(full).mkdir()
    ended = start(*HOW["with a state"], *runner, through=[*OWN_MOUNTS, SMALL, "300k", full]).end()
    assert ended.code == 1, ended
    assert len(ended.sentences) == 1, ended
    assert ended.sentences[0].startswith(PROGRAM), ended
    assert "No space left on device" in ended.sentences[0], ended
    found = set(Path("tmp/.found").read_text().split())
    assert found <= {"state/lock"}
    Path("tmp/.found").unlink()
    require_whole_or_nothing("with a state")


def test_a_state_directory_that_cannot_be_written_is_said_in_a_sentence(
    start: Start, require_whole_or_nothing: Callable[[str], None], own_mounts: None
) -> None:
    Path("state").mkdir()
    ended = start(*HOW["with a state"], through=[*OWN_MOUNTS, READ_ONLY, "state"]).end()
    assert ended.code == 1, ended
    assert ended.sentences == [f"{PROGRAM}{Path('state/lock').absolute()}: Read-only file system"]
    require_whole_or_nothing("with a state")
