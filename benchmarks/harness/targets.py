"""What has been promised, and whether it is kept."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from benchmarks.harness.figures import Bounds, Figure, ratio
from benchmarks.harness.lineup import COMMANDS, DICTS, OURS, OURS_DIRECT, OURS_DIRECT_RECORDS, OURS_RECORDS, PYSPARK, STATEFUL
from benchmarks.harness.noise import Verdict, bounds, ratio_bounds, too_short, verdict

Figures = Mapping[tuple[str, str], Figure]
"""Figures by case and contestant."""

KAFKA_STREAMS_PER_SECOND: Final = 22_000
"""Updates of the left table per second of Kafka Streams 4.3.1's foreign-key join on one core: quoted, not run
here.
"""

RATIOS: Final = (
    *((case, OURS, 0.5) for case in ("fk-uniform", "fk-zipf")),
    *((case, OURS_RECORDS, 0.67) for case in ("fk-uniform", "fk-zipf")),
    *((case, OURS_DIRECT, 0.3) for case in ("fk-uniform", "fk-zipf")),
    *((case, OURS_DIRECT_RECORDS, 0.6) for case in ("fk-uniform", "fk-zipf")),
    *((case, OURS, 1.0) for case in ("fk-final", "tables", "streams")),
    *(("tables-four-10M", contestant, 0.6) for contestant in (OURS, OURS_DIRECT)),
    *((case, contestant, 0.6) for case in ("many-few", "many-hot", "many-few-10M") for contestant in (OURS, OURS_DIRECT)),
    *(("fk-records", contestant, 1.0) for contestant in DICTS),
    *(("fk-wide-10M", contestant, 0.6) for contestant in (OURS, OURS_DIRECT)),
    *(("fk-wide-large-10M", contestant, 0.8) for contestant in (OURS, OURS_DIRECT)),
    *(
        (case, contestant, limit)
        for case in ("orders-json", "orders-latest")
        for contestant, limit in zip(COMMANDS, (1.0, 0.8), strict=True)
    ),
    *(("orders-parquet", contestant, 0.5) for contestant in COMMANDS),
)
"""Case, contestant, and the most that its time may be of PySpark SQL's."""


class Target(NamedTuple):
    """A promise: ``work`` and ``total`` are the values by work time and by total time, ``most`` whether
    ``limit`` is an upper one.

    ``between`` is what the value by work time may be, ``None`` if work of 0 seconds is part of it; ``short``
    is true if some of its work cannot be told from what a start-up varies by.
    """

    meaning: str
    limit: float
    work: float | None
    total: float | None
    most: bool = True
    between: Bounds | None = None
    short: bool = False

    @property
    def verdict(self) -> Verdict:
        """Whether the work time keeps it."""
        return "not measured" if self.total is None else verdict(self.between, self.limit, most=self.most, short=self.short)


def targets(figures: Figures) -> Iterator[Target]:
    """All promises with their values."""
    for case, contestant, limit in RATIOS:
        yield _compared(f"{case}: {contestant} / {PYSPARK}", limit, figures, (case, contestant), (case, PYSPARK))
    yield _compared(f"fk-zipf / fk-uniform: {OURS}", 1.3, figures, ("fk-zipf", OURS), ("fk-uniform", OURS))
    for case in ("tables-per-key", "changelog-per-key"):
        yield _compared(f"{case}: {STATEFUL} / {OURS}", 100, figures, (case, STATEFUL), (case, OURS), most=False)
    ours = _good(figures, ("fk-uniform", OURS))
    meaning = f"fk-uniform: left updates per second, {OURS} (5 x Kafka Streams 4.3.1's {KAFKA_STREAMS_PER_SECOND:,}, quoted)"
    one_second = Figure("", "", 1, work=1.0)
    yield _target(meaning, 5 * KAFKA_STREAMS_PER_SECOND, one_second, ours, times=ours.size if ours else 1, most=False)


def _compared(
    meaning: str, limit: float, figures: Figures, one: tuple[str, str], other: tuple[str, str], *, most: bool = True
) -> Target:
    return _target(meaning, limit, _good(figures, one), _good(figures, other), most=most)


def _target(meaning: str, limit: float, above: Figure | None, below: Figure | None, *, times: int = 1, most: bool = True) -> Target:
    if above is None or below is None:
        return Target(meaning, limit, None, None, most)
    work, total = (
        None if value is None else value * times for value in (ratio(above.work, below.work), ratio(above.total, below.total))
    )
    between = ratio_bounds(bounds(above), bounds(below)) if above.work > 0 and below.work > 0 else None
    if between is not None:
        between = Bounds(between.least * times, between.most * times)
    return Target(meaning, limit, work, total, most, between, too_short(above) or too_short(below))


def _good(figures: Figures, key: tuple[str, str]) -> Figure | None:
    figure = figures.get(key)
    return figure if figure and not figure.trouble else None
