"""A splittable DoFn that follows what grows: it reads what is there, says how far it is, and comes back for more."""

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins.coders.values import ValueCoder
from beam_joins.pipelines.sources.event_time import EventTime, KeepsEventTime

Place: TypeAlias = Any
"""How far a source is: any value of Python's own types that has an order, the later the larger."""
Range: TypeAlias = tuple[Place, Place | None]
"""Where to begin, and where the end is; ``None``: there is none."""

_BUNDLE_SECONDS: Final = 1.0
_BUNDLE_ROWS: Final = 100_000
_PAUSE: Final = Duration(micros=100_000)
_TRACKER: Final = beam.DoFn.RestrictionParam()
_ESTIMATOR: Final = beam.DoFn.WatermarkEstimatorParam()


class Timed(NamedTuple):
    """An element and its event time in microseconds; that of a batch is the smallest of its rows."""

    value: Any
    micros: int


class Piece(NamedTuple):
    """Some elements, the place behind them, the largest event time of theirs (``None`` if there are no elements), and the number of rows."""

    after: Place
    elements: list[Timed]
    largest: int | None
    rows: int


class Source(Protocol):
    """What can be followed, one for each element that names it."""

    def range(self, element: Any) -> Range:
        """Where to begin and where to end."""

    def pieces(self, element: Any, place: Place, end: Place | None) -> Iterator[Piece]:
        """What is there from the place on, in order, and no more than that. Before the end it may stop anywhere."""

    def close(self) -> None:
        """Give up what is open."""


class OpenEnded(RestrictionTracker):
    """Tracks a range of places: what is claimed is the place behind a piece. It checkpoints and never splits what lies ahead."""

    def __init__(self, restriction: Range) -> None:
        self._start, self._end = restriction
        self._at = self._start
        self._given_back = False

    def current_restriction(self) -> Range:
        """The range, up to the checkpoint if there has been one."""
        return self._start, (self._at if self._given_back else self._end)

    def try_claim(self, position: Place) -> bool:
        """Whether the elements before that place are to be given."""
        if self._given_back:
            return False
        self._at = position
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[Range, Range] | None:
        """A checkpoint, for a fraction of 0."""
        if fraction_of_remainder != 0 or self._given_back or self._is_at_end():
            return None
        self._given_back = True
        return (self._start, self._at), (self._at, self._end)

    def check_done(self) -> bool:
        """Raise ``ValueError`` if it was left before the end and without a checkpoint."""
        if not (self._given_back or self._is_at_end()):
            raise ValueError(f"the source was left at {self._at!r}, before its end {self._end!r}")
        return True

    def current_progress(self) -> RestrictionProgress:
        """Done or not; how much is to come nobody knows."""
        done = self._given_back or self._is_at_end()
        return RestrictionProgress(completed=float(done), remaining=float(not done))

    def is_bounded(self) -> bool:
        """Whether it has an end."""
        return self._end is not None

    def _is_at_end(self) -> bool:
        return self._end is not None and bool(self._at >= self._end)


class Follow(beam.DoFn, RestrictionProvider, KeepsEventTime):
    """Gives the elements of a source with their event times, and its watermark.

    After a second or 100,000 rows it gives the rest back, as no runner sees the watermark before; where nothing is there it comes again after a
    tenth of a second.
    """

    def __init__(self, source: Source, event_time: EventTime) -> None:
        self._source = source
        self.event_time = event_time

    def initial_restriction(self, element: Any) -> Range:
        """All of it."""
        return self._source.range(element)

    def create_tracker(self, restriction: Range) -> OpenEnded:
        """For a part of it."""
        return OpenEnded(restriction)

    def restriction_size(self, element: Any, restriction: Range) -> int:
        """Not known."""
        return 1

    def restriction_coder(self) -> Coder:
        """Of places and pairs of them."""
        return ValueCoder()

    def truncate(self, element: Any, restriction: Range) -> Range | None:
        """When a job is drained nothing more is read."""
        return None

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: Any,
        tracker: Any = _TRACKER,
        estimator: Any = _ESTIMATOR,
    ) -> Iterator[Any]:
        """Give what is there, for a second at most."""
        (place, end), until, rows = tracker.current_restriction(), time.monotonic() + _BUNDLE_SECONDS, 0
        for piece in self._source.pieces(element, place, end):
            if not tracker.try_claim(piece.after):
                return
            place = piece.after
            if piece.largest is not None:
                estimator.saw(piece.largest)
            for value, micros in piece.elements:
                yield TimestampedValue(value, Timestamp(micros=micros))
            rows += piece.rows
            if rows >= _BUNDLE_ROWS or time.monotonic() >= until:
                break
        if end is None or place < end:
            tracker.defer_remainder(None if rows else _PAUSE)

    def teardown(self) -> None:
        """Close the source."""
        self._source.close()
