"""The figures of growing input as a Markdown table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.harness.report import gigabytes, seconds

TOO_SHORT: Final = "too short to tell"
SERIES: Final = {
    "changes": "changes of orders",
    "ids": "number of orders",
    "partitions": "partitions",
    "pairs": "rows of a join key",
}
"""What varies, by the name of its series."""


@dataclass(frozen=True)
class Grown:
    """A point of a series: seconds of start-up and of work, peaks of memory in bytes, of the JVM, of the largest Python process and
    of all processes.

    ``changes`` are those of orders; where pairs vary, those of the result.

    ``too_short`` says that the run took no longer than a start-up may.
    """

    series: str
    value: int
    contestant: str
    changes: int
    start: float = 0.0
    work: float = 0.0
    jvm: int = 0
    python: int = 0
    memory: int = 0
    trouble: str = ""
    too_short: bool = False

    @property
    def per_million(self) -> float:
        """Seconds of work per million changes.

        >>> Grown("changes", 4_000_000, "ours", 4_000_000, work=8.0).per_million
        2.0
        """
        return self.work * 1_000_000 / self.changes


def growth_table(grown: Sequence[Grown]) -> str:
    """One table for all series."""
    times, memory = ("start-up", "work", "work per million changes"), ("JVM, peak", "Python, peak", "all, peak")
    header = ("varied", "value", "contestant", *times, *memory)
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for each in grown:
        cells = [SERIES[each.series], f"{each.value:,}", each.contestant]
        if each.trouble:
            cells += [each.trouble.replace("|", "\\|"), "", "", "", "", ""]
        else:
            jvm = gigabytes(each.jvm) if each.jvm else "-"
            work = [TOO_SHORT] * 2 if each.too_short else [seconds(each.work), seconds(each.per_million)]
            cells += [seconds(each.start), *work, jvm, gigabytes(each.python), gigabytes(each.memory)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
