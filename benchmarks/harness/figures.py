"""What is measured: runs, the figures that they make, and the file that keeps the figures of each case."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

FILE: Final = Path(__file__).parents[1] / "figures.json"

SKIPPED: Final = "skipped"
"""How the trouble of a contestant begins that cannot run on this machine."""


@dataclass(frozen=True)
class Run:
    """One run: seconds from start to end of the process, peaks of resident memory in bytes.

    ``jvm`` is the sum over the process tree's JVMs, ``python`` the largest single Python process. ``others``
    is the part of the machine's processor time, from 0 to 1, that went to what is not of this run;
    ``processor`` are the seconds that went to it. ``memory`` is that of all its processes, with pages that they share once.
    """

    seconds: float
    jvm: int
    python: int
    others: float = 0.0
    processor: float = 0.0
    memory: int = 0


class Bounds(NamedTuple):
    """The least and the most that a value was."""

    least: float
    most: float


@dataclass(frozen=True)
class Figure:
    """A contestant in a case: the median seconds of a start-up and of its processors, the seconds of each round from start to end,
    peaks of memory in bytes, and rows of the result.

    ``measured_at`` is the size that was measured; where it is less than ``size``, seconds are extrapolated. ``trouble`` says
    why there is no figure.
    """

    contestant: str
    size: int
    start: float = 0.0
    totals: tuple[float, ...] = ()
    processor: float = 0.0
    jvm: int = 0
    python: int = 0
    rows: int = 0
    measured_at: int = 0
    trouble: str = ""

    @property
    def total(self) -> float:
        """Median seconds from start to end."""
        return median(self.totals)

    @property
    def between(self) -> Bounds:
        """Seconds of the fastest and of the slowest round."""
        return Bounds(min(self.totals), max(self.totals))

    @property
    def skipped(self) -> bool:
        """Whether it could not be measured on this machine."""
        return self.trouble.startswith(SKIPPED)

    @property
    def extrapolated(self) -> bool:
        """Whether the size itself has not been measured."""
        return self.measured_at != self.size


def figure(contestant: str, size: int, starts: Iterable[float], runs: Iterable[Run], *, rows: int, measured_at: int) -> Figure:
    """The figure of start-ups, in seconds, and runs; what a smaller size took beyond its start-up is extrapolated in proportion.

    >>> figure("x", 100, [2.0], [Run(3.0, 0, 5)], rows=7, measured_at=10).totals
    (12.0,)
    """
    start, runs, times = median(starts), tuple(runs), size / measured_at
    return Figure(
        contestant,
        size,
        start,
        tuple(run.seconds if times == 1 else start + (run.seconds - start) * times for run in runs),
        median(run.processor for run in runs) * times,
        max(run.jvm for run in runs),
        max(run.python for run in runs),
        rows,
        measured_at,
    )


@dataclass(frozen=True)
class Measurement:
    """The figures of a case, the machine and versions that they were measured with, and the number of runs that were disturbed."""

    case: str
    machine: str
    figures: tuple[Figure, ...]
    disturbed: int = 0

    def of(self, contestant: str) -> Figure | None:
        """A contestant's figure, unless there is none or it had trouble."""
        return next((each for each in self.figures if each.contestant == contestant and not each.trouble), None)


def kept(file: Path = FILE) -> Mapping[str, Measurement]:
    """The measurements of a file by case, in the order of the file."""
    every = json.loads(file.read_text(encoding="utf-8"))
    return {
        of_case["case"]: Measurement(
            **{**of_case, "figures": tuple(Figure(**{**each, "totals": tuple(each["totals"])}) for each in of_case["figures"])}
        )
        for of_case in every
    }


def keep(measured: Measurement, order: Iterable[str], file: Path = FILE) -> None:
    """Add a measurement to a file, in place of that of its case; ``order`` is that of the cases."""
    every = {**kept(file), measured.case: measured}
    content = [asdict(every[case]) for case in order if case in every]
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
