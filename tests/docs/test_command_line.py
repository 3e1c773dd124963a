"""The tutorial and the page "The command line" are executed from top to bottom: files are written, commands
run, and what they show is what comes out.
"""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from beam_joins.pipelines.commands import programs
from tests.docs.page import DOCS, blocks

PAGES = {"tutorial.md": (3, 5), "command_line.md": (3, 5)}
"""How many commands each page has, and how much of what comes out it shows."""
INSTALL = ("python3.11 -m venv", "pip install")
SECONDS = re.compile(r"^(  (?:start-up|starting the runner|run|finishing|all) +|.*; )[\d.]+( s)?$", re.MULTILINE)
NAMED = re.compile(r"`([\w./-]+\.(?:jsonl|csv|toml|py))`")


@pytest.mark.parametrize("name", PAGES)
def test_what_the_page_shows_is_what_the_commands_give(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / name
    lines = page.read_text(encoding="utf-8").splitlines()
    commands = shown = 0
    printed = ""
    for block in blocks(page):
        above = "\n".join(lines[: block.line - 1]).rstrip().rpartition("\n\n")[2]
        if block.text.startswith(INSTALL):
            continue
        if block.language == "sh":
            program, *arguments = shlex.split(block.text.replace("\\\n", ""))
            if program == "python":
                runpy.run_path(*arguments)
            else:
                assert (program, programs.main(arguments)) == ("beam-joins", 0)
            printed, _ = capsys.readouterr()
            commands += 1
        elif block.language == "text":
            assert SECONDS.sub(r"\1", printed.strip()) == SECONDS.sub(r"\1", block.text.strip())
            shown += 1
        elif (path := Path(NAMED.findall(above)[-1])).exists():
            assert sorted(path.read_text().splitlines()) == sorted(block.text.splitlines())
            shown += 1
        else:
            path.write_text(block.text)
    assert (commands, shown) == PAGES[name]
