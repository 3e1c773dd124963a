"""What a page of the documentation holds that can be executed: result tables, examples, links."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
README = ROOT / "README.md"
FOR_DEVELOPERS = [
    ROOT / page for page in ("ARCHITECTURE.md", "benchmarks/README.md", "tests/conformance/README.md", "tests/reference/README.md")
]
"""Pages beside the code, whose tables, examples and pictures are executed too."""

_MARK = re.compile(r"<!-- executed: (.+?) -->")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Table(NamedTuple):
    """A result table: ``<!-- executed: name mode mode -->`` says what computes it, one mode for each of its
    last columns.

    The first column says where a row stands, the last ones what comes out there, those between what comes in.
    """

    page: str
    line: int
    name: str
    modes: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the columns that say what comes in."""
        return self.header[1 : -len(self.modes)]

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}: {self.name}"


def tables(path: Path) -> list[Table]:
    """The executed tables of a page."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_table(path, lines, number, mark[1]) for number, line in enumerate(lines) if (mark := _MARK.fullmatch(line.strip()))]


def _table(path: Path, lines: list[str], number: int, mark: str) -> Table:
    name, *modes = mark.split()
    written = []
    for line in lines[number + 1 :]:
        if not line.startswith("|"):
            break
        written.append(tuple(cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")))
    page = path.relative_to(ROOT).as_posix()
    where = f"{page}, line {number + 1}"
    assert len(written) > 2, f"{where}: no table follows the mark"
    header, _, *rows = written
    assert modes, f"{where}: the mark names no mode"
    assert len(header) > len(modes), f"{where}: more modes than columns"
    for i, row in enumerate(rows):
        assert len(row) == len(header), f"{where}: row {i + 1} has {len(row)} cells, its header has {len(header)}"
    assert len({row[0] for row in rows}) == len(rows), f"{where}: two rows begin with the same cell"
    return Table(page, number + 1, name, tuple(modes), header, tuple(rows))


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def blocks(path: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        yield Block(fence[1], fence[2], text.count("\n", 0, fence.start()) + 1)


def links(path: Path) -> Iterator[tuple[str, str]]:
    """The links of a page to files of this repository: path and anchor."""
    for link in _LINK.findall(_FENCE.sub("", path.read_text(encoding="utf-8"))):
        if "://" not in link:
            target, _, anchor = link.partition("#")
            yield target, anchor


def pictures(path: Path) -> list[str]:
    """The paths of the pictures of a page."""
    return _PICTURE.findall(path.read_text(encoding="utf-8"))


def words(paths: Iterable[Path]) -> int:
    """How many words the pages have, with their tables and examples: what ``wc -w`` counts."""
    return sum(len(path.read_text(encoding="utf-8").split()) for path in paths)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as they are made on GitHub."""
    headings = _HEADING.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
