"""The page "The command line" is executed from top to bottom: its files are written, its commands run, and what it shows is what comes out."""

import re
import shlex
from pathlib import Path

import pytest

from beam_joins.pipelines.command import programs
from tests.docs.page import DOCS, blocks

PAGE = DOCS / "command_line.md"
SECONDS = re.compile(r"^(  (?:start-up|starting the runner|run|finishing|all) +)[\d.]+$", re.MULTILINE)
NAMED = re.compile(r"`([\w.]+\.(?:jsonl|csv|toml))`")


def test_what_the_page_shows_is_what_the_commands_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    commands = shown = 0
    printed = ""
    for block in blocks(PAGE):
        above = "\n".join(lines[: block.line - 1]).rstrip().rpartition("\n\n")[2]
        if block.language == "sh":
            program, *arguments = shlex.split(block.text.replace("\\\n", ""))
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
    assert (commands, shown) == (4, 6)
