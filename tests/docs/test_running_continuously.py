"""The page "Running continuously" is executed: its files arrive, its command runs, and what it shows is what
comes out.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import DOCS, ROOT, Block, blocks

PAGE = DOCS / "running_continuously.md"
SECONDS = re.compile(r", [\d.]+ s$")


def named_blocks() -> list[tuple[str | None, Block]]:
    """Each block with the last path that the paragraph before it names, where it is JSON."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    actual = []
    for block in blocks(PAGE):
        above = "\n".join(lines[: block.line - 1]).rstrip().rpartition("\n\n")[2]
        paths = re.findall(r"`((?:in|out)/[\w/.-]+\.jsonl)`", above)
        actual.append((paths[-1] if block.language == "json" else None, block))
    return actual


@pytest.mark.process
@pytest.mark.parametrize("runner", ["DirectRunner", pytest.param("SparkRunner", marks=[pytest.mark.spark, pytest.mark.sweep])])
def test_what_the_page_shows_is_what_a_day_gives(tmp_path: Path, runner: str) -> None:
    (command,) = [block.text for _, block in named_blocks() if block.language == "sh"]
    program, *arguments = shlex.split(command.replace("\\\n", ""))
    assert (program, arguments[0], arguments[-2:]) == ("beam-joins", "orders", ["--every", "5s"])
    arguments = [f"--runner={runner}" if each.startswith("--runner") else each for each in arguments[:-2]]
    for side in ("orders", "customers"):
        (tmp_path / "in" / side).mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-m", "beam_joins", *arguments, "--every", "200ms", "--whole-files"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stdout is not None
        try:
            for path, block in named_blocks():
                if path is None and block.text.startswith("stopped"):
                    running.send_signal(signal.SIGTERM)
                if path is None and block.language == "text":
                    assert SECONDS.sub("", running.stdout.readline().strip()) == SECONDS.sub("", block.text.strip())
                elif path is not None and path.startswith("in/"):
                    part = tmp_path / "in" / "part"
                    part.write_text(block.text)
                    part.rename(tmp_path / path)
                elif path is not None:
                    assert sorted((tmp_path / path).read_text().splitlines()) == sorted(block.text.splitlines())
            assert running.wait(60) == 0
        finally:
            running.kill()
