"""The pictures of the pages are what ``beam-joins explain`` draws of the files beside them."""

import re
import shlex
from pathlib import Path

import pytest

from beam_joins.pipelines.commands.explain.command import PROGRAM, main
from tests.docs.page import DOCS, FOR_DEVELOPERS, PAGES, pictures

_PICTURE = re.compile(r"^<!-- explain: (.+) -->\n!\[.+\]\((?:docs/)?(explain/\S+\.svg)\)$", re.MULTILINE)
_SHOWN = re.compile(r"^<!-- explained: (.+) -->\n```text\n(.*?)```$", re.MULTILINE | re.DOTALL)
WITH_PICTURES = [*PAGES, *FOR_DEVELOPERS]
PICTURES = [(page, *actual) for page in WITH_PICTURES for actual in _PICTURE.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "options", "picture"), PICTURES, ids=[picture for _, _, picture in PICTURES])
def test_a_picture_is_what_the_command_above_it_draws(page: Path, options: str, picture: str, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(DOCS)
    assert main([*shlex.split(options), "--svg", str(tmp_path / "new.svg")]) == 0, capsys.readouterr().err
    new = (tmp_path / "new.svg").read_text(encoding="utf-8")
    stale = f"docs/{picture} is stale: in docs/, run {PROGRAM} {options} --svg {picture}"
    assert (DOCS / picture).exists(), stale
    assert (DOCS / picture).read_text(encoding="utf-8") == new, stale


def test_every_drawn_picture_is_in_a_page_with_its_command():
    assert {picture for _, _, picture in PICTURES} == {f"explain/{path.name}" for path in (DOCS / "explain").glob("*.svg")}
    shown = [picture.removeprefix("docs/") for page in WITH_PICTURES for picture in pictures(page) if "explain/" in picture]
    assert sorted(shown) == sorted(picture for _, _, picture in PICTURES)


def test_what_the_command_prints_is_what_its_page_shows(monkeypatch, capsys):
    ((options, shown),) = _SHOWN.findall((DOCS / "explain.md").read_text(encoding="utf-8"))
    monkeypatch.chdir(DOCS)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(shlex.split(options)) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == shown.splitlines()
