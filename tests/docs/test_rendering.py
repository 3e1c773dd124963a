"""Tables and lists of pages and of public docstrings are tables and lists on the site, not text."""

import importlib
import inspect
import re
from html.parser import HTMLParser

import pytest
from markdown import Markdown

from docs.roles import markdown
from tests.docs.page import DOCS, FOR_DEVELOPERS, PAGES, README, ROOT

TEXTS = [*PAGES, *FOR_DEVELOPERS, README, ROOT / "CONTRIBUTING.md"]
NAMES = [
    name for page in sorted(DOCS.glob("reference/*.md")) for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
]
_AS_TEXT = re.compile(r"\s*(?:\||[*+-] |\d+[.)] )")


class Paragraphs(HTMLParser):
    """The lines of all paragraphs and items, with code as ``code``."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("br", "img", "hr", "input"):
            self._open.append(tag)
        if tag in ("p", "li"):
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "pre" in self._open or not {"p", "li"} & set(self._open):
            return
        first, *others = ["code"] if "code" in self._open else data.split("\n")
        self.lines[-1] += first
        self.lines += others


def left_as_text(text: str) -> list[str]:
    """The rows of tables and the items of lists that a reader of the site sees as text."""
    paragraphs = Paragraphs()
    paragraphs.feed(Markdown(extensions=["admonition", "md_in_html", "tables", "pymdownx.superfences"]).convert(text))
    return [line for line in paragraphs.lines if _AS_TEXT.match(line)]


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tables_and_lists_of_a_page_render_as_such(page):
    assert left_as_text(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_lists_of_a_public_docstring_render_as_such(name):
    module, _, last = name.rpartition(".")
    public = getattr(importlib.import_module(module), last)
    for each in (public, *(member for key, member in vars(public).items() if key[0] != "_" and inspect.isfunction(member))):
        assert left_as_text(markdown(inspect.getdoc(each) or "")) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |", "| 3 | 4 |"),
        ("| a | | --- | | 1 |", "| a | | --- | | 1 |"),
        ("Options:\n- `one`\n- two", "- code"),
        ("* one\n* two:\n\n  1. three\n\nFour\n* five", "* five"),
    ],
)
def test_a_table_in_two_pieces_and_a_list_without_an_empty_line_are_seen(text, line):
    assert line in left_as_text(text)


def test_tables_lists_and_code_that_render_are_no_text():
    assert (
        left_as_text("| a | b |\n|---|---|\n| `1 \\| 2` | - 2 |\n\nA:\n\n- one\n  two\n- three\n\n```sh\n- a\n| b\n```\n\n`| x`") == []
    )
