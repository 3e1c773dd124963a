"""Two DoFns that read a source: :class:`Follow`, splittable, without an end, and :class:`ReadToEnd`, up to
the end that the source has when the run begins.
"""

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.pvalue import PCollection
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins.coders.values import ValueCoder
from beam_joins.errors import InputError
from beam_joins.pipelines.changelogs.event_time import EventTime, KeepsEventTime
from beam_joins.transforms.connect.runs import KeptSignatures

Place: TypeAlias = Any
"""The place up to which a source is read: any value of Python's own types that has an order, the later the larger."""
Range: TypeAlias = tuple[Place, Place | None]
"""Where to begin, and where the end is; ``None``: there is none."""

_BUNDLE_SECONDS: Final = 1.0
_BUNDLE_ROWS: Final = 100_000
_PAUSE_MICROS: Final = 250_000
_PAUSE: Final = Duration(micros=_PAUSE_MICROS)
_AFTER_MICROS: Final = 30_000
"""The delay after quarters of seconds of the clock at which a source is read again, in microseconds: ticks of event
time end just before whole seconds, and the watermark that shows their end must have come.
"""
_SILENT_SECONDS: Final = 60.0
_TRACKER: Final = beam.DoFn.RestrictionParam()
_ESTIMATOR: Final = beam.DoFn.WatermarkEstimatorParam()


class Timed(NamedTuple):
    """An element and its event time in microseconds; that of a batch is the smallest of its rows."""

    value: Any
    micros: int


class ReadPiece(NamedTuple):
    """Some elements, the place after them, their largest event time (``None`` if there are no elements), and
    the number of rows.
    """

    after: Place
    elements: list[Timed]
    largest: int | None
    rows: int


class ReadSource(Protocol):
    """A source that can be read to its present end or followed."""

    def range(self, element: Any) -> Range:
        """The places at which reading begins and ends."""

    def pieces(self, element: Any, place: Place, end: Place | None) -> Iterator[ReadPiece]:
        """The elements that exist from the place on, in order.

        Before the end it may stop anywhere.
        """

    def close(self) -> None:
        """Closes the open files and connections."""


class OpenEnded(RestrictionTracker):
    """Tracks a range of places without an end; a claim is the place after a piece.

    It checkpoints and never splits what lies ahead.
    """

    def __init__(self, restriction: Range) -> None:
        self._start, self._end = restriction
        self._at = self._start
        self._given_back = False

    def current_restriction(self) -> Range:
        """The range, up to the checkpoint if there has been one."""
        return self._start, (self._at if self._given_back else self._end)

    def try_claim(self, position: Place) -> bool:
        """Claims the elements before a place; false after a checkpoint."""
        if self._given_back:
            return False
        self._at = position
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[Range, Range] | None:
        """Splits for a checkpoint, at a fraction of 0."""
        if fraction_of_remainder != 0 or self._given_back:
            return None
        self._given_back = True
        return (self._start, self._at), (self._at, self._end)

    def check_done(self) -> bool:
        """Raises ``ValueError`` if the range was left without a checkpoint."""
        if not self._given_back:
            raise ValueError(f"the source was left at {self._at!r} without a checkpoint")
        return True

    def current_progress(self) -> RestrictionProgress:
        """Done or not; the remaining work is unknown."""
        return RestrictionProgress(completed=float(self._given_back), remaining=float(not self._given_back))

    def is_bounded(self) -> bool:
        """False: the range has no end."""
        return False


class Follow(beam.DoFn, RestrictionProvider, KeepsEventTime):
    """A splittable DoFn that emits the elements of a source with their event times, and its watermark.

    After a second or 100,000 rows it gives the rest back, as no runner sees the watermark before. Where it has
    read all that is there, it comes again after a quarter of a second. It waits for that itself at the begin of
    a bundle, for all its elements together: Flink's runner takes a pause of less than a second for none, and
    asked eighty times a second, which cost more than the join of what was read. Nor does it come more often, as
    Flink's runner keeps a few kilobytes of each time (https://github.com/apache/beam/issues/27648).
    """

    def __init__(self, source: ReadSource, event_time: EventTime) -> None:
        self._source = source
        self.event_time = event_time
        self._has_read_all, self._again = False, 0

    def initial_restriction(self, element: Any) -> Range:
        """The whole range of the source."""
        return self._source.range(element)

    def create_tracker(self, restriction: Range) -> OpenEnded:
        """The tracker of a range."""
        return OpenEnded(restriction)

    def restriction_size(self, element: Any, restriction: Range) -> int:
        """Unknown: a constant."""
        return 1

    def restriction_coder(self) -> Coder:
        """The coder of places and pairs of them."""
        return ValueCoder()

    def truncate(self, element: Any, restriction: Range) -> Range | None:
        """Ends the range when a job is drained."""
        return None

    def start_bundle(self) -> None:
        """Wait, unless there is more to read, or the runner has waited."""
        wait = self._again - time.time_ns() // 1000
        if self._has_read_all and wait > 0:
            time.sleep(min(wait, _PAUSE_MICROS) / 1e6)
        self._has_read_all = True

    def finish_bundle(self) -> None:
        """Determine when to read again."""
        pauses = (time.time_ns() // 1000 - _AFTER_MICROS) // _PAUSE_MICROS + 1
        self._again = pauses * _PAUSE_MICROS + _AFTER_MICROS

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: Any,
        tracker: Any = _TRACKER,
        estimator: Any = _ESTIMATOR,
    ) -> Iterator[Any]:
        """Emits the elements that exist, for a second at most."""
        (place, _), until, rows = tracker.current_restriction(), time.monotonic() + _BUNDLE_SECONDS, 0
        for piece in self._source.pieces(element, place, None):
            if not tracker.try_claim(piece.after):
                return
            if piece.largest is not None:
                estimator.saw(piece.largest)
            yield from map(_timestamped, piece.elements)
            rows += piece.rows
            if rows >= _BUNDLE_ROWS or time.monotonic() >= until:
                self._has_read_all = False
                tracker.defer_remainder()
                return
        tracker.defer_remainder(_PAUSE)

    def teardown(self) -> None:
        """Close the source."""
        self._source.close()


class ReadToEnd(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """Reads bounded sources, each in one piece: emits their elements with their event times.

    A splittable DoFn would give the rest back after some time. The direct runner takes that for two bounded
    inputs and fires the timers behind it between them. The ends are determined once, before a shuffle, so
    that a bundle that is retried reads the same range.
    """

    def __init__(self, source: ReadSource) -> None:
        super().__init__()
        self._source = source

    def expand(self, names: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        source = self._source
        ranges = names | "Range" >> beam.Map(lambda name: (name, source.range(name)))
        elements: PCollection[Any] = ranges | "Spread" >> beam.Reshuffle() | "To the end" >> beam.ParDo(_ReadToEnd(source))
        return elements


class _ReadToEnd(KeptSignatures):
    def __init__(self, source: ReadSource) -> None:
        self._source = source

    def process(self, element: tuple[Any, Range]) -> Iterator[Any]:
        name, (place, end) = element
        came = time.monotonic()
        while place < end:
            for piece in self._source.pieces(name, place, end):
                place = piece.after
                yield from map(_timestamped, piece.elements)
                came = time.monotonic()
            if time.monotonic() - came > _SILENT_SECONDS:
                raise InputError(
                    f"{name}: read up to {place!r} of {end!r}, and nothing more has come for {_SILENT_SECONDS:.0f} seconds"
                )

    def teardown(self) -> None:
        self._source.close()


def _timestamped(element: Timed) -> TimestampedValue[Any]:
    return TimestampedValue(element.value, Timestamp(micros=element.micros))


def read_with(source: ReadSource, event_time: EventTime, *, follow: bool) -> beam.PTransform[PCollection[Any], PCollection[Any]]:
    """The transform that reads a source for each element: without end, or up to its present end."""
    return beam.ParDo(Follow(source, event_time)) if follow else ReadToEnd(source)
