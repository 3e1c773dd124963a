"""The program of the page "Streaming on Flink" runs as it stands there, stops, and goes on."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.page import DOCS, ROOT, blocks

pytestmark = [pytest.mark.flink, pytest.mark.usefixtures("flink")]


@contextmanager
def running(directory: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    [program] = [block.text for block in blocks(DOCS / "streaming_on_flink.md") if block.language == "py"]
    (directory / "follow.py").write_text(program)
    command = [sys.executable, "follow.py", "--parallelism=1", "--python_workers=1", "--flink_memory=1g", *flags]
    log = (directory / "stderr").open("ab")
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
    )
    try:
        yield process
        assert process.wait(60) == 0, (directory / "stderr").read_text()
    finally:
        process.kill()
        process.communicate()
        log.close()


def counts(process: subprocess.Popen[str], number: int) -> list[str]:
    assert process.stdout is not None
    return sorted(process.stdout.readline().strip() for _ in range(number))


def stop(process: subprocess.Popen[str]) -> str:
    """Press Enter; the savepoint that it prints."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    actual = re.fullmatch(r"go on with (--savepoint_path=\S+)\n", process.stdout.readline())
    assert actual
    return actual[1]


def orders(file: Path, *orders: tuple[str, int]) -> None:
    with file.open("a") as lines:
        lines.writelines(json.dumps({"customer": name, "at": at * 1_000_000}) + "\n" for name, at in orders)


def test_the_program_of_the_page_counts_every_order_once_over_two_runs(tmp_path):
    (tmp_path / "orders").mkdir()
    orders(tmp_path / "orders/1.jsonl", ("ann", 10), ("bob", 20), ("ann", 30), ("ann", 70), ("bob", 64))
    with running(tmp_path) as process:
        assert counts(process, 2) == ["0 ann 2", "0 bob 1"]
        savepoint = stop(process)
    orders(tmp_path / "orders/1.jsonl", ("ann", 119))
    orders(tmp_path / "orders/2.jsonl", ("bob", 125))
    with running(tmp_path, savepoint) as process:
        assert counts(process, 2) == ["60 ann 2", "60 bob 1"]
        stop(process)
