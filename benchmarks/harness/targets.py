"""What has been promised of totals, from the start of a program to its end, and whether it is kept."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from benchmarks.harness.figures import Bounds, Figure, Measurement
from benchmarks.harness.lineup import (
    COMMANDS,
    DICTS,
    DUCKDB,
    OURS,
    OURS_DIRECT,
    OURS_DIRECT_RECORDS,
    OURS_RECORDS,
    PYSPARK,
    STATEFUL,
)

Verdict = Literal["kept", "missed", "within noise", "not measured"]

KAFKA_STREAMS_PER_SECOND: Final = 22_000
"""Updates of the left table per second of Kafka Streams 4.3.1's foreign-key join on one core: quoted, not run
here.
"""


class Target(NamedTuple):
    """The most that the total of a contestant may be of a peer's, or the least that the peer's may be of it."""

    case: str
    contestant: str
    peer: str
    limit: float
    most: bool = True


TARGETS: Final = (
    *(Target(case, OURS, PYSPARK, 0.75) for case in ("fk-uniform", "fk-zipf")),
    *(Target(case, OURS_DIRECT, PYSPARK, 0.4) for case in ("fk-uniform", "fk-zipf")),
    *(Target(case, OURS_RECORDS, PYSPARK, 0.8) for case in ("fk-uniform", "fk-zipf")),
    *(Target(case, OURS_DIRECT_RECORDS, PYSPARK, 0.6) for case in ("fk-uniform", "fk-zipf")),
    *(Target(case, OURS, PYSPARK, 0.8) for case in ("fk-final", "tables", "streams")),
    *(Target("tables-four-10M", each, PYSPARK, 0.6) for each in (OURS, OURS_DIRECT)),
    *(Target(case, each, PYSPARK, 0.6) for case in ("many-few", "many-hot", "many-few-10M") for each in (OURS, OURS_DIRECT)),
    *(Target("fk-records", each, PYSPARK, 1.0) for each in DICTS),
    *(Target("fk-short", each, PYSPARK, limit) for each, limit in ((OURS, 0.45), (OURS_DIRECT, 0.3))),
    *(
        target
        for case in ("fk-short-10M", "fk-wide-10M")
        for target in (
            Target(case, OURS, PYSPARK, 0.4),
            Target(case, OURS_DIRECT, PYSPARK, 0.33),
            Target(case, OURS_DIRECT, DUCKDB, 1.5),
        )
    ),
    *(Target("fk-wide-large-10M", each, PYSPARK, 0.35) for each in (OURS, OURS_DIRECT)),
    *(Target("orders-json", each, PYSPARK, limit) for each, limit in zip(COMMANDS, (0.55, 0.4), strict=True)),
    *(Target("orders-latest", each, PYSPARK, 0.8) for each in COMMANDS),
    *(Target("orders-parquet", each, PYSPARK, 0.6) for each in COMMANDS),
    *(Target(case, STATEFUL, OURS, 50, most=False) for case in ("tables-per-key", "changelog-per-key")),
)


class Held(NamedTuple):
    """A target's value, with the least and the most that it was by rounds; ``None`` where it was not measured."""

    meaning: str
    limit: float
    value: float | None
    between: Bounds | None
    most: bool = True

    @property
    def verdict(self) -> Verdict:
        """Whether it is kept or missed by all rounds.

        >>> Held("", 0.5, 0.4, Bounds(0.3, 0.4)).verdict, Held("", 0.5, 0.5, Bounds(0.4, 0.6)).verdict
        ('kept', 'within noise')
        >>> Held("", 50, 40, Bounds(30, 45), most=False).verdict
        'missed'
        """
        if self.between is None:
            return "not measured"
        least, most = self.between
        if (most <= self.limit) if self.most else (least >= self.limit):
            return "kept"
        return "missed" if ((least > self.limit) if self.most else (most < self.limit)) else "within noise"


def held(measured: Mapping[str, Measurement]) -> Iterator[Held]:
    """All targets with their values."""
    figures = {(case, each.contestant): each for case, of_case in measured.items() for each in of_case.figures if not each.trouble}
    for target in TARGETS:
        ours, peer = (figures.get((target.case, name)) for name in (target.contestant, target.peer))
        yield _held(f"{target.case}: {target.contestant} / {target.peer}", target.limit, ours, peer, most=target.most)
    zipf, uniform = (figures.get((case, OURS)) for case in ("fk-zipf", "fk-uniform"))
    yield _held(f"fk-zipf / fk-uniform: {OURS}", 1.3, zipf, uniform)
    meaning = f"fk-uniform: left updates per second, {OURS} (5 x Kafka Streams 4.3.1's {KAFKA_STREAMS_PER_SECOND:,}, quoted)"
    updates = Figure("", 0, totals=(float(uniform.size),)) if uniform else None
    yield _held(meaning, 5 * KAFKA_STREAMS_PER_SECOND, updates, uniform, most=False)


def _held(meaning: str, limit: float, above: Figure | None, below: Figure | None, *, most: bool = True) -> Held:
    if above is None or below is None:
        return Held(meaning, limit, None, None, most)
    between = Bounds(above.between.least / below.between.most, above.between.most / below.between.least)
    return Held(meaning, limit, above.total / below.total, between, most)
