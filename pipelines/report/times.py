"""How many changes there were when, by event time: counts in buckets that grow wider as more of them are needed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from beam_joins import ChangeBatch
from beam_joins.keys.columns import Ints
from beam_joins.pipelines.changelog_files.reading import TIME
from beam_joins.pipelines.changelog_files.tally import at_bundle_end
from beam_joins.pipelines.report.figure import TIMES, Figure
from beam_joins.sorting import integers

_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000
WIDTHS: Final = (
    *(1_000, 100_000, _SECOND, 10 * _SECOND, 60 * _SECOND, 600 * _SECOND),
    *(_HOUR, 6 * _HOUR, _DAY, 10 * _DAY, 100 * _DAY, 1000 * _DAY, 10_000 * _DAY),
)
"""Widths of buckets in microseconds; each divides the next one, so that counts can be added up."""
MOST_BUCKETS: Final = 2_000


class TimeCounts(NamedTuple):
    """Counts by bucket, whose number times the width is where it begins, in microseconds since 1970."""

    width: int
    counts: Mapping[int, int]

    def wider(self, width: int) -> "TimeCounts":
        """The same in buckets of another width, which this one divides."""
        wider: dict[int, int] = {}
        for bucket, count in self.counts.items():
            at = bucket * self.width // width
            wider[at] = wider.get(at, 0) + count
        return TimeCounts(width, wider)


NO_TIMES: Final = TimeCounts(WIDTHS[0], {})


def counted(times: Ints) -> TimeCounts:
    """The counts of event times in microseconds, in the narrowest buckets that are not too many.

    >>> counted(np.array([0, 500, 1_000])).counts
    {0: 2, 1: 1}
    """
    for width in WIDTHS:
        buckets, counts = np.unique(times // width, return_counts=True)
        if len(buckets) <= MOST_BUCKETS or width == WIDTHS[-1]:
            break
    return TimeCounts(width, dict(zip(buckets.tolist(), counts.tolist(), strict=True)))


def added(several: Iterable[TimeCounts]) -> TimeCounts:
    """The sum of counts, in buckets that are not too many.

    >>> added([TimeCounts(1_000, {0: 2, 99: 1}), TimeCounts(100_000, {0: 5, 1: 1})])
    TimeCounts(width=100000, counts={0: 8, 1: 1})
    """
    given = list(several)
    width = max((each.width for each in given), default=WIDTHS[0])
    while True:
        sums: dict[int, int] = {}
        for each in given:
            for bucket, count in each.wider(width).counts.items():
                sums[bucket] = sums.get(bucket, 0) + count
        if len(sums) <= MOST_BUCKETS or width == WIDTHS[-1]:
            return TimeCounts(width, sums)
        width = WIDTHS[WIDTHS.index(width) + 1]


class CountTimes(beam.DoFn):
    """Batches of records or of changes to one :class:`Figure` a bundle."""

    def __init__(self, place: str) -> None:
        self._place = place

    def start_bundle(self) -> None:
        """Count from nothing."""
        self._counts = NO_TIMES

    def process(self, element: pa.RecordBatch | ChangeBatch) -> None:
        """Count the rows of a batch."""
        times = element.timestamp if isinstance(element, ChangeBatch) else element.column(TIME)
        self._counts = added([self._counts, counted(integers(times.drop_null()))])

    def finish_bundle(self) -> Iterator[Any]:
        """Say the counts."""
        if self._counts.counts:
            yield at_bundle_end(Figure(TIMES, self._place, [self._counts.width, list(self._counts.counts.items())]))


def times_in(figures: Iterable[Figure], place: str) -> TimeCounts:
    """The counts of a place that a run has brought home."""
    return added(
        TimeCounts(figure.content[0], dict(figure.content[1])) for figure in figures if (figure.what, figure.place) == (TIMES, place)
    )
