"""Disks that are full or cannot be written: a sentence, nothing that looks finished, and the next run is
right.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.machine import Ended, Started, hidden, results
from tests.pipelines.writers import COMMANDS, WRITERS

pytestmark = pytest.mark.faults
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""
SMALL = (
    'mount -t tmpfs -o size="$0",mode=700 tmpfs "$1" && shift && "$@"; code=$?; find out state -type f > '
    "tmp/.found 2> /dev/null; exit $code"
)
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
OWN_MOUNTS = ["unshare", "-rm", "sh", "-c"]
SPARK = ["--runner=SparkRunner"]
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
    ("writer", "limit", "runner"),
    [
        *(pytest.param(name, 20_000, [], marks=[] if name == "WriteParquet" else pytest.mark.sweep) for name in WRITERS),
        *((name, 400_000, []) for name in COMMANDS),
        *(
            pytest.param(name, 400_000, SPARK, marks=[pytest.mark.spark, pytest.mark.sweep]) for name in COMMANDS
        ),  # its log is shorter than that
    ],
)
def test_files_that_may_not_grow_end_the_run_in_a_sentence(
    start: Start, require_whole_or_nothing: Callable[[str], None], writer: str, limit: int, runner: list[str]
) -> None:
    ended = start(writer, *runner, through=[sys.executable, "-c", LIMITED, str(limit)]).end()
    require_a_sentence(ended, writer, "File too large")
    assert results() == {}
    assert hidden() == [] or not WRITERS[writer].clears
    require_whole_or_nothing(writer)


@pytest.mark.parametrize(
    ("writer", "full", "runner"),
    [
        *((name, "out", []) for name in WRITERS),
        ("with a state", "state", []),
        pytest.param("with a state", "out", SPARK, marks=[pytest.mark.spark, pytest.mark.sweep]),
        pytest.param("with a state", "state", SPARK, marks=pytest.mark.spark),
    ],
)
def test_a_full_disk_ends_the_run_in_a_sentence_and_the_next_one_is_right(
    start: Start, require_whole_or_nothing: Callable[[str], None], own_mounts: None, writer: str, full: str, runner: list[str]
) -> None:
    Path(full).mkdir()
    ended = start(writer, *runner, through=[*OWN_MOUNTS, SMALL, "300k", full]).end()
    require_a_sentence(ended, writer, "No space left on device")
    actual = set(Path("tmp/.found").read_text().split())
    assert {path for path in actual if WRITERS[writer].clears or "/." not in path} <= {"state/lock"}
    Path("tmp/.found").unlink()
    require_whole_or_nothing(writer)


def test_a_state_directory_that_cannot_be_written_is_said_in_a_sentence(
    start: Start, require_whole_or_nothing: Callable[[str], None], own_mounts: None
) -> None:
    Path("state").mkdir()
    ended = start("with a state", through=[*OWN_MOUNTS, READ_ONLY, "state"]).end()
    assert ended.code == 1, ended
    assert ended.sentences == [f"python -m beam_joins.pipelines.orders: {Path('state/lock').absolute()}: Read-only file system"]
    require_whole_or_nothing("with a state")


def require_a_sentence(ended: Ended, writer: str, message: str) -> None:
    assert ended.code == WRITERS[writer].failed, ended
    assert len(ended.sentences) == 1, ended
    assert ended.sentences[0].startswith(f"python -m {WRITERS[writer].module}: "), ended
    assert message in ended.sentences[0], ended
