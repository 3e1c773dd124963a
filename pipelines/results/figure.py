"""The figures that a run with a report brings home: changes by event time, references with their work, samples
of records that were not applied. Data alone, without Beam.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from beam_joins.pipelines.formats.changelog_columns import REFERENCE

TIMES: Final = "times"
REFERENCES: Final = "references"
SAMPLE: Final = "sample"
RESULT_TIMES: Final = "result"
"""The place whose times are those of the result; the others are inputs."""
RESULT, LEFT, RIGHT, CHANGED, EXAMPLE = "results", "lefts", "rights", "changed", "example"
"""Columns of a reference: changes of the result; left rows in the end; right rows in the end, one or none;
changes of the right row; the smallest key of a left row that refers so."""
MOST_REFERENCES: Final = 20
"""So many references are named."""
MOST_SAMPLES: Final = 3
MOST_BUCKETS: Final = 2_000
_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000
WIDTHS: Final = (
    *(1_000, 100_000, _SECOND, 10 * _SECOND, 60 * _SECOND, 600 * _SECOND),
    *(_HOUR, 6 * _HOUR, _DAY, 10 * _DAY, 100 * _DAY, 1000 * _DAY, 10_000 * _DAY),
)
"""Widths of buckets in microseconds; each divides the next one, so that counts can be added up."""


class Figure(NamedTuple):
    """One figure: its kind (:data:`TIMES`, :data:`REFERENCES` or :data:`SAMPLE`), the place that it is of, and
    its content as JSON.
    """

    what: str
    place: str
    content: Any


class TimeCounts(NamedTuple):
    """Counts by bucket of event time: the bucket's number times the width (microseconds) is where it begins,
    since 1970.
    """

    width: int
    counts: Mapping[int, int]

    def wider(self, width: int) -> "TimeCounts":
        """The same counts in wider buckets; this width divides theirs."""
        wider: dict[int, int] = {}
        for bucket, count in self.counts.items():
            start = bucket * self.width // width
            wider[start] = wider.get(start, 0) + count
        return TimeCounts(width, wider)


NO_TIMES: Final = TimeCounts(WIDTHS[0], {})


def add_times(several: Iterable[TimeCounts]) -> TimeCounts:
    """The sum of counts, in the narrowest buckets that are at most :data:`MOST_BUCKETS`.

    >>> add_times([TimeCounts(1_000, {0: 2, 99: 1}), TimeCounts(100_000, {0: 5, 1: 1})])
    TimeCounts(width=100000, counts={0: 8, 1: 1})
    """
    addends = list(several)
    width = max((each.width for each in addends), default=WIDTHS[0])
    while True:
        sums: dict[int, int] = {}
        for each in addends:
            for bucket, count in each.wider(width).counts.items():
                sums[bucket] = sums.get(bucket, 0) + count
        if len(sums) <= MOST_BUCKETS or width == WIDTHS[-1]:
            return TimeCounts(width, sums)
        width = WIDTHS[WIDTHS.index(width) + 1]


def times_in(figures: Iterable[Figure], place: str) -> TimeCounts:
    """The counts by event time of one place."""
    return add_times(
        TimeCounts(figure.content[0], dict(figure.content[1])) for figure in figures if (figure.what, figure.place) == (TIMES, place)
    )


def samples_in(figures: Iterable[Figure]) -> dict[tuple[str, str], list[str]]:
    """Sampled records by place and reason, sorted by their texts."""
    samples: dict[tuple[str, str], list[str]] = {}
    for figure in figures:
        if figure.what == SAMPLE:
            reason, records = figure.content
            samples[figure.place, reason] = sorted({*samples.get((figure.place, reason), ()), *records})[:MOST_SAMPLES]
    return samples


class ReferenceCounts(NamedTuple):
    """The counts of the references of all left rows: ``busiest`` and ``missing`` are rows of at most
    :data:`MOST_REFERENCES` references, ``none`` of the left rows without one.

    ``sizes`` has for each power of two how many right rows have at least so many changes of the result, and
    less than twice as many; and how many changes these are.
    """

    busiest: list[dict[str, Any]]
    missing: list[dict[str, Any]]
    none: dict[str, Any] | None
    sizes: dict[int, tuple[int, int]]
    rights_missing: int
    lefts_missing: int


def references_in(figures: Iterable[Figure]) -> ReferenceCounts | None:
    """The counts of all references, which the workers have counted by partition; None if they counted none."""
    parts = [ReferenceCounts(*figure.content) for figure in figures if figure.what == REFERENCES]
    if not parts:
        return None
    sizes: dict[int, tuple[int, int]] = {}
    for part in parts:
        for size, (rights, changes) in part.sizes.items():
            before = sizes.get(int(size), (0, 0))
            sizes[int(size)] = before[0] + rights, before[1] + changes
    return ReferenceCounts(
        sorted((row for part in parts for row in part.busiest), key=lambda row: (-row[RESULT], row[REFERENCE]))[:MOST_REFERENCES],
        sorted((row for part in parts for row in part.missing), key=lambda row: (-row[LEFT], row[REFERENCE]))[:MOST_REFERENCES],
        next((part.none for part in parts if part.none), None),
        sizes,
        sum(part.rights_missing for part in parts),
        sum(part.lefts_missing for part in parts),
    )
