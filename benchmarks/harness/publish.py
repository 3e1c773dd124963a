"""The parts of documentation pages that are generated, each between two marks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

from benchmarks.harness.figures import kept
from benchmarks.harness.lineup import CASES
from benchmarks.harness.process import ROOT
from benchmarks.harness.report import first_table, ratio_table, report
from benchmarks.harness.searched import searched, searched_table

Part = Literal["measured", "ratios", "first", "growth", "load", "settings"]
_MARK: Final = "<!-- {part}: {place} -->"
METHOD: Final = ROOT / "benchmarks" / "README.md"


class Generated(NamedTuple):
    """A part of a page and its text."""

    page: Path
    part: Part
    text: str


def generated() -> Iterator[Generated]:
    """All parts that quote the files of figures and settings."""
    measured = kept()
    yield Generated(METHOD, "measured", report(CASES.values(), measured))
    yield Generated(METHOD, "settings", searched_table(searched().values()))
    yield Generated(ROOT / "docs/benchmarks.md", "ratios", ratio_table(CASES.values(), measured))
    for page in ("README.md", "docs/benchmarks.md"):
        yield Generated(ROOT / page, "first", first_table(measured))


def replaced(page: str, text: str, part: Part = "measured") -> str:
    r"""The page with another generated part.

    Raises:
        ValueError: the marks are not there, or not in order.

    >>> print(replaced("a <!-- growth: begin -->old<!-- growth: end --> b", "new", "growth").replace("\n", "/"))
    a <!-- growth: begin -->//new/<!-- growth: end --> b
    """
    begins, ends = (_MARK.format(part=part, place=place) for place in ("begin", "end"))
    before, begin, rest = page.partition(begins)
    _, end, after = rest.partition(ends)
    if not begin or not end:
        raise ValueError(f"the page needs the marks {begins} and {ends}")
    return f"{before}{begin}\n\n{text.rstrip()}\n{end}{after}"


def publish(page: Path, text: str, part: Part) -> None:
    """Write a generated part of a page."""
    page.write_text(replaced(page.read_text(encoding="utf-8"), text, part), encoding="utf-8")


def publish_all() -> None:
    """Write all parts that quote the files of figures and settings."""
    for each in generated():
        publish(each.page, each.text, each.part)


if __name__ == "__main__":
    publish_all()
