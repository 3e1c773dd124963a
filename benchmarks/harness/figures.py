"""The arithmetic: from the runs of a contestant in a case to its figure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

BUSY: Final = 0.15
"""A run that others have taken more than this part of the machine from is one to repeat."""

SKIPPED: Final = "skipped"
"""How the trouble of a contestant begins that cannot run on this machine."""

START_NOISE: Final = 0.05
"""A start-up may be off by this part of it at least, since few rounds show little of what it varies by."""


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
    """The least and the most that a value may be."""

    least: float
    most: float


@dataclass
class Measured:
    """What has been measured of a contestant in a case.

    ``runs`` are by size; ``trouble`` says why it has no figure.
    """

    case: str
    contestant: str
    size: int
    starts: list[Run] = field(default_factory=list)
    runs: dict[int, list[Run]] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True)
class Figure:
    """Seconds of start-up, of work beyond it, and of both; peaks of memory in bytes; rows of the result at
    the largest measured size.

    ``measured_at`` are the sizes that have been measured; a figure for another ``size`` is extrapolated.
    ``work_between`` is the least and the most that its work may be.
    """

    case: str
    contestant: str
    size: int
    start: float = 0.0
    work: float = 0.0
    jvm: int = 0
    python: int = 0
    rows: int = 0
    measured_at: tuple[int, ...] = ()
    work_between: Bounds | None = None
    trouble: str = ""

    @property
    def total(self) -> float:
        """Seconds from start to end."""
        return self.start + self.work

    @property
    def skipped(self) -> bool:
        """Whether it could not be measured on this machine."""
        return self.trouble.startswith(SKIPPED)

    @property
    def extrapolated(self) -> bool:
        """Whether the size itself has not been measured."""
        return self.size not in self.measured_at


def figure(measured: Measured) -> Figure:
    """The medians of all runs, at the case's size."""
    if measured.trouble or not measured.runs or not measured.starts:
        return Figure(measured.case, measured.contestant, measured.size, trouble=measured.trouble or "was not measured.")
    start = median(run.seconds for run in measured.starts)
    totals = [(size, median(run.seconds for run in runs)) for size, runs in sorted(measured.runs.items())]
    every = [run for runs in measured.runs.values() for run in runs]
    return Figure(
        measured.case,
        measured.contestant,
        measured.size,
        start=start,
        work=work_seconds(start, totals, measured.size),
        jvm=max(run.jvm for run in every),
        python=max(run.python for run in every),
        rows=measured.rows[totals[-1][0]],
        measured_at=tuple(size for size, _ in totals),
        work_between=work_bounds(measured),
    )


def start_bounds(seconds: Sequence[float]) -> Bounds:
    """What a start-up may take, by its rounds.

    >>> start_bounds([5.0, 6.0, 7.0]), start_bounds([10.0])
    (Bounds(least=5.0, most=7.0), Bounds(least=9.5, most=10.5))
    """
    middle = median(seconds)
    return Bounds(min(*seconds, middle * (1 - START_NOISE)), max(*seconds, middle * (1 + START_NOISE)))


def work_bounds(measured: Measured) -> Bounds:
    """Seconds of work at least, of the fastest run after the slowest start, and at most, of the slowest run
    after the fastest start.
    """
    start = start_bounds([run.seconds for run in measured.starts])
    *smaller, (last, seconds) = [(size, [run.seconds for run in runs]) for size, runs in sorted(measured.runs.items())]
    fast = [*((size, max(each)) for size, each in smaller), (last, min(seconds))]
    slow = [*((size, min(each)) for size, each in smaller), (last, max(seconds))]
    return Bounds(work_seconds(start.most, fast, measured.size), work_seconds(start.least, slow, measured.size))


def work_seconds(start: float, totals: Sequence[tuple[int, float]], size: int) -> float:
    """Seconds of work at a size, from the total seconds at one or two measured ones.

    One smaller size is extrapolated in proportion, two along the line through both. Never less than 0, as on
    data so small that the start is all there is.

    >>> work_seconds(2.0, [(100, 12.0)], 100), work_seconds(2.0, [(10, 3.0)], 100), work_seconds(2.0, [(10, 3.0), (20, 5.0)], 100)
    (10.0, 10.0, 19.0)
    """
    last, seconds = totals[-1]
    if len(totals) > 1 and last < size:
        before, earlier = totals[0]
        work = seconds - start + (seconds - earlier) / (last - before) * (size - last)
    else:
        work = (seconds - start) * size / last
    return max(work, 0.0)


def ratio(ours: float, theirs: float) -> float | None:
    """How many times as long; None where there is nothing to divide by.

    >>> ratio(3.0, 6.0), ratio(1.0, 0.0)
    (0.5, None)
    """
    return ours / theirs if theirs > 0 else None


def disturbed(measured: Sequence[Measured]) -> tuple[int, int]:
    """How many runs shared the machine with something else, and how many there were."""
    runs = [run for each in measured for group in (each.starts, *each.runs.values()) for run in group]
    return sum(run.others > BUSY for run in runs), len(runs)


def rounds_of(measured: Sequence[Measured]) -> tuple[int, int]:
    """How many rounds the figures have, the fewest and the most."""
    rounds = [len(runs) for each in measured if not each.trouble for runs in each.runs.values()]
    return (min(rounds), max(rounds)) if rounds else (0, 0)
