"""Computes the watermark of a source: the largest event time less the allowed disorder, or the clock while no
records arrive.
"""

import time
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from apache_beam.coders import Coder
from apache_beam.io.iobase import WatermarkEstimator
from apache_beam.transforms.core import WatermarkEstimatorProvider
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from beam_joins.coders.values import ValueCoder
from beam_joins.options.spans import Span, span_micros

_MILLISECOND: Final = 1_000


class Seen(NamedTuple):
    """The state of a watermark in microseconds: the watermark, and the clock's time of the last element (or
    of the beginning).
    """

    watermark: int | None
    last: int


@dataclass(frozen=True)
class EventTime:
    """Computes the watermark of a source, in microseconds.

    It stands ``out_of_orderness`` behind the largest event time seen. Where nothing has come for
    ``idle_after``, it stands ``out_of_orderness`` behind the clock, if that is later; ``None``: it waits for
    the next element, however long that takes.
    """

    out_of_orderness: int
    idle_after: int | None

    @classmethod
    def of(cls, out_of_orderness: Span, idle_after: Span | None) -> "EventTime":
        """From an option: seconds, a ``timedelta`` or a Beam ``Duration``.

        Raises ``ValueError`` for anything else.

        >>> EventTime.of(1.5, 60)
        EventTime(out_of_orderness=1500000, idle_after=60000000)
        """
        idle = None if idle_after is None else span_micros("idle_after", idle_after)
        return cls(span_micros("out_of_orderness", out_of_orderness), idle)

    def after(self, seen: Seen, largest: int, now: int) -> Seen:
        """The state after elements whose largest event time is ``largest`` arrived at ``now``."""
        return Seen(_later(seen.watermark, largest - self.out_of_orderness), now)

    def at(self, seen: Seen, now: int) -> int | None:
        """The watermark at ``now``; ``None`` if it is not yet known.

        >>> minute = EventTime.of(10, 60)
        >>> minute.at(Seen(5_000_000, last=0), now=59_000_000), minute.at(Seen(5_000_000, last=0), now=60_000_000)
        (5000000, 50000000)
        """
        if self.idle_after is None or now - seen.last < self.idle_after:
            return seen.watermark
        return _later(seen.watermark, now - self.out_of_orderness)


class EventTimeEstimator(WatermarkEstimator):
    """Beam's watermark estimator for :class:`EventTime`.

    Its state goes with the checkpoint of the source; ``saw`` is told of the elements, since a batch has many
    times.
    """

    def __init__(self, event_time: EventTime, seen: Seen) -> None:
        self._event_time = event_time
        self._seen = seen

    def saw(self, largest: int) -> None:
        """Records the largest event time of elements that are about to be emitted."""
        self._seen = self._event_time.after(self._seen, largest, _now())

    def current_watermark(self) -> Timestamp:
        """The watermark, cut to the millisecond, as the times of elements are."""
        watermark = self._event_time.at(self._seen, _now())
        self._seen = self._seen._replace(watermark=watermark)
        if watermark is None:
            return MIN_TIMESTAMP
        return max(MIN_TIMESTAMP, Timestamp(micros=watermark // _MILLISECOND * _MILLISECOND))

    def get_estimator_state(self) -> tuple[int | None, int]:
        """The state for a checkpoint."""
        return self._seen.watermark, self._seen.last

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        """Ignored: :meth:`saw` has the largest event time."""


class KeepsEventTime(WatermarkEstimatorProvider):
    """A splittable DoFn whose watermark is that of ``event_time``."""

    event_time: EventTime

    def initial_estimator_state(self, element: Any, restriction: Any) -> tuple[int | None, int]:
        """The state before the first element."""
        return None, _now()

    def create_watermark_estimator(self, state: tuple[int | None, int]) -> EventTimeEstimator:
        """An estimator that continues from a state."""
        return EventTimeEstimator(self.event_time, Seen(*state))

    def estimator_state_coder(self) -> Coder:
        """The coder of a pair of numbers."""
        return ValueCoder()


def _later(watermark: int | None, other: int) -> int:
    return other if watermark is None else max(watermark, other)


def _now() -> int:
    return time.time_ns() // 1_000
