"""The parts of a documentation page that are generated, each between two marks."""

from pathlib import Path
from typing import Final, Literal

Part = Literal["measured", "growth", "load", "settings"]
_MARK: Final = "<!-- {part}: {place} -->"


def replaced(page: str, generated: str, part: Part = "measured") -> str:
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
    return f"{before}{begin}\n\n{generated.rstrip()}\n{end}{after}"


def publish(page: Path, generated: str, part: Part = "measured") -> None:
    """Write a generated part of a page."""
    page.write_text(replaced(page.read_text(encoding="utf-8"), generated, part), encoding="utf-8")
