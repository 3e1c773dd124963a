"""What has been promised, and whether it is kept."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from benchmarks.harness.figures import Figure, ratio
from benchmarks.harness.lineup import OURS, OURS_DIRECT, OURS_DIRECT_RECORDS, OURS_RECORDS, PYSPARK, STATEFUL

Figures = Mapping[tuple[str, str], Figure]
"""Figures by case and contestant."""

KAFKA_STREAMS_PER_SECOND: Final = 22_000
"""Updates of the left table per second of Kafka Streams 4.3.1's foreign-key join on one core: quoted, not run here."""

RATIOS: Final = (
    *((case, OURS, 0.5) for case in ("fk-uniform", "fk-zipf")),
    *((case, OURS_RECORDS, 1.0) for case in ("fk-uniform", "fk-zipf")),
    *((case, OURS_DIRECT, 0.3) for case in ("fk-uniform", "fk-zipf")),
    *((case, OURS_DIRECT_RECORDS, 0.8) for case in ("fk-uniform", "fk-zipf")),
    *((case, OURS, 1.0) for case in ("fk-final", "tables", "streams")),
)
"""Case, contestant, and the most that its time may be of PySpark SQL's."""


class Target(NamedTuple):
    """A promise: ``work`` and ``total`` are the values by work time and by total time, ``most`` whether ``limit`` is an upper one."""

    meaning: str
    limit: float
    work: float | None
    total: float | None
    most: bool = True

    @property
    def kept(self) -> bool | None:
        """Whether the work time keeps it; None when it has not been measured."""
        if self.work is None:
            return None
        return self.work <= self.limit if self.most else self.work >= self.limit


def targets(figures: Figures) -> Iterator[Target]:
    """All promises with their values."""
    for case, contestant, limit in RATIOS:
        yield _compared(f"{case}: {contestant} / {PYSPARK}", limit, figures, (case, contestant), (case, PYSPARK))
    yield _compared(f"fk-zipf / fk-uniform: {OURS}", 1.3, figures, ("fk-zipf", OURS), ("fk-uniform", OURS))
    for case in ("tables-per-key", "changelog-per-key"):
        yield _compared(f"{case}: {STATEFUL} / {OURS}", 100, figures, (case, STATEFUL), (case, OURS), most=False)
    ours = _good(figures, ("fk-uniform", OURS))
    per_second = [ratio(ours.size, seconds) if ours else None for seconds in ((ours.work, ours.total) if ours else (0.0, 0.0))]
    meaning = f"fk-uniform: left updates per second, {OURS} (5 x Kafka Streams 4.3.1's {KAFKA_STREAMS_PER_SECOND:,}, quoted)"
    yield Target(meaning, 5 * KAFKA_STREAMS_PER_SECOND, per_second[0], per_second[1], most=False)


def _compared(
    meaning: str, limit: float, figures: Figures, one: tuple[str, str], other: tuple[str, str], *, most: bool = True
) -> Target:
    above, below = _good(figures, one), _good(figures, other)

    def of(seconds: Callable[[Figure], float]) -> float | None:
        return ratio(seconds(above), seconds(below)) if above and below else None

    return Target(meaning, limit, of(lambda figure: figure.work), of(lambda figure: figure.total), most)


def _good(figures: Figures, key: tuple[str, str]) -> Figure | None:
    found = figures.get(key)
    return found if found and not found.trouble else None
