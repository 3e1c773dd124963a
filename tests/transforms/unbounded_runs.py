"""Histories that come as two unbounded inputs, out of order and with watermarks of their own; and what
transforms make of them, there and as bounded input.
"""

import random
from typing import NamedTuple, Optional

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from tests.programs import needed_prism

SIDES = ("left", "right")
PAIRS = tuple[str, Optional[str]]  # noqa: UP045  Beam knows no other form
_given = []


class Event(NamedTuple):
    """A record of an input, at a time in milliseconds."""

    side: str
    time: int
    key: str
    value: str | None


class Watermark(NamedTuple):
    """The watermark of an input moves to a time in milliseconds."""

    side: str
    time: int


def history(seed, *, events=40, seconds=30, deletes=True):
    """Events of both sides in the order of their times, no two of which have the same key, side and time."""
    rng = random.Random(seed)
    actual = {}
    for _ in range(events):
        side, time, key = rng.choice(SIDES), rng.randrange(seconds * 20) * 50, rng.choice("abcd")
        value = None if deletes and rng.random() < 0.2 else rng.choice("abcd") + str(len(actual))
        actual[side, time, key] = Event(side, time, key, value)
    return sorted(actual.values(), key=lambda event: event.time)


def arrivals(events, seed, *, jitter=4000):
    """The events in an order of arrival, with watermarks that are right: each input's own, with stretches in
    which it does not move and jumps.
    """
    rng = random.Random(seed)
    waiting = sorted(events, key=lambda event: event.time + rng.randrange(jitter))
    steps, last = [], dict.fromkeys(SIDES, -1)
    while waiting:
        steps.append(waiting.pop(0))
        side = rng.choice(SIDES)
        reached = min((event.time for event in waiting if event.side == side), default=None)
        if rng.random() < 0.4 and reached is not None and reached > last[side]:
            last[side] = reached
            steps.append(Watermark(side, reached))
    return steps


def idle(steps, side):
    """The same with an input that goes on, but whose watermark stands still for half of the steps, and then
    jumps.
    """
    moves = [n for n, step in enumerate(steps) if isinstance(step, Watermark) and step.side == side]
    still = moves[len(moves) // 4 : 3 * len(moves) // 4]
    return [step._replace(time=steps[still[0]].time) if n in still else step for n, step in enumerate(steps)]


def with_late(events, seed, *, jitter=4000):
    """The events in an order of arrival in which some come when the watermark has passed them; both inputs
    have one watermark.
    """
    steps = []
    for step in arrivals(events, seed, jitter=jitter):
        steps.append(step)
        if isinstance(step, Event) and len(steps) % 5 == 0:
            reached = max(each.time for each in steps if isinstance(each, Event)) + 500
            steps += [Watermark(side, reached) for side in SIDES]
    return [step for n, step in enumerate(steps) if isinstance(step, Event) or step.time >= _reached(steps[:n])]


def _reached(steps):
    return max((step.time for step in steps if isinstance(step, Watermark)), default=-1)


def one_stream(pipeline, steps):
    """Both inputs of a pipeline, with one watermark, in a given order."""
    stream = TestStream(coder=FastPrimitivesCoder())
    reached = dict.fromkeys(SIDES, -1)
    for step in steps:
        if isinstance(step, Event):
            stream = stream.add_elements([TimestampedValue(step, Timestamp(micros=step.time * 1000))])
            continue
        before, reached[step.side] = min(reached.values()), step.time
        if min(reached.values()) > before:
            stream = stream.advance_watermark_to(Timestamp(micros=min(reached.values()) * 1000))
    both = pipeline | stream.advance_watermark_to_infinity()
    return tuple(both | side >> beam.FlatMap(_pair_of, side).with_output_types(PAIRS) for side in SIDES)


def two_sources(pipeline, steps):
    """Both inputs of a pipeline, each a source with a watermark of its own."""
    return tuple(
        pipeline
        | f"begin {side}" >> beam.Create([[step for step in steps if step.side == side]])
        | f"read {side}" >> beam.ParDo(_Source())
        | side >> beam.FlatMap(_pair_of, side).with_output_types(PAIRS)
        for side in SIDES
    )


class _Steps(beam.RestrictionProvider):
    def initial_restriction(self, steps):
        return OffsetRange(0, len(steps))

    def create_tracker(self, restriction):
        return _Unbounded(restriction)

    def restriction_size(self, steps, restriction):
        return restriction.size()


class _Unbounded(OffsetRestrictionTracker):
    def is_bounded(self):
        return False

    def try_split(self, fraction):
        return super().try_split(0) if fraction == 0 else None


_TRACKER = beam.DoFn.RestrictionParam(_Steps())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class _Source(beam.DoFn):
    """Reads the steps of an input; the runner sees each watermark."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        steps,
        tracker=_TRACKER,
        watermark=_WATERMARK,
    ):
        for n in range(tracker.current_restriction().start, len(steps)):
            if not tracker.try_claim(n):
                return
            step = steps[n]
            if isinstance(step, Watermark):
                watermark.set_watermark(Timestamp(micros=step.time * 1000))
                tracker.defer_remainder(Duration(micros=1000))
                return
            yield TimestampedValue(step, Timestamp(micros=step.time * 1000))


def bounded(pipeline, events):
    """The same inputs, bounded."""
    return tuple(
        pipeline
        | f"create {side}" >> beam.Create([event for event in events if event.side == side])
        | side >> beam.Map(_timed).with_output_types(PAIRS)
        for side in SIDES
    )


def elements_of(runner, read, steps, build, *options):
    """The elements that come out of what ``build`` makes of the inputs, each with its time in milliseconds."""
    _given.clear()
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(list(options)))
    _ = build(*read(pipeline, steps)) | "collect" >> beam.Map(_collect)
    pipeline.run().wait_until_finish()
    return list(_given)


def given_bounded(events, build):
    """What comes out of bounded input."""
    return elements_of(FnApiRunner(), bounded, events, build)


def given_unbounded(runner, read, steps, build, *options):
    """What comes out of unbounded input, on the direct runner's bundle-based engine or on Prism."""
    if runner == "direct":
        return elements_of(BundleBasedDirectRunner(), read, steps, build, "--streaming", *options)
    return given_on_prism(read, steps, build, "--streaming", *options)


def given_on_prism(read, steps, build, *options):
    """What comes out on Prism."""
    prism = [f"--prism_location={needed_prism()}", "--environment_type=LOOPBACK", "--experiments=prism_disable_sdf_split"]
    return elements_of(PrismRunner(), read, steps, build, *prism, *options)


def _pair_of(event, side):
    if event.side == side:
        yield event.key, event.value


def _timed(event):
    return TimestampedValue((event.key, event.value), Timestamp(micros=event.time * 1000))


def _collect(element, timestamp=beam.DoFn.TimestampParam):
    _given.append((element, timestamp.micros // 1000))
