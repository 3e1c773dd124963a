"""The grid of event time on which the partitions of unbounded input have their turns, and the stages that
wait for each other on it.

A row's turn comes with the end of the tick that its timestamp lies in. The results of a turn go on with that
end as Beam's timestamp, and have their turn at the next stage for the same tick: there the timers stand a
millisecond later for each stage above, so that all stages above have had theirs: a runner may fire a timer as
soon as the watermark has reached it, which the timers of the stages above hold back no longer than to their
own time.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PCollection
from apache_beam.utils.timestamp import Timestamp

from beam_joins.columns.sorting import combine_chunks, integers, valid
from beam_joins.errors import InputError
from beam_joins.kernels.stream_time import ALWAYS
from beam_joins.keys.key_columns import Ints
from beam_joins.transforms.engine.blocks.block_writer import END, TURN, all_timestamped, timestamped

TICK_SECONDS = 1.0
_LEAST_SECONDS = 0.1
_STAGE = 1000
"""The delay, in microseconds, of a stage's timers behind those of the stage above."""
_EARLY = 20 * _STAGE
"""The microseconds by which ticks end before multiples of their length: Flink cuts the watermarks of sources
to whole seconds, and one of them should let all stages of a tick have their turn.
"""


class TickOptions(PipelineOptions):
    """The pipeline option ``--beam_joins_tick``."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--beam_joins_tick",
            type=float,
            default=TICK_SECONDS,
            metavar="SECONDS",
            help="how many seconds of event time of unbounded input have their turn together; more of them cost less "
            "for each row, and results"
            f" come later (default: {TICK_SECONDS:g})",
        )


class Ticks(NamedTuple):
    """The length of a tick and the delay of a stage's timers, in microseconds."""

    micros: int
    lag: int = 0

    def ends(self, timestamps: Ints) -> Ints:
        """The ends of the ticks that times lie in.

        >>> Ticks(1_000_000).ends(np.array([0, 999_999, 1_000_000, -1])).tolist()
        [980000, 1980000, 1980000, 980000]
        """
        return ((np.minimum(timestamps, ALWAYS - self.micros - _EARLY) + _EARLY) // self.micros + 1) * self.micros - _EARLY

    def number(self, end: int) -> int:
        """The number of the tick with this end, one more than that of the tick before.

        >>> Ticks(1_000_000).number(5_980_000)
        6
        """
        return (end + _EARLY) // self.micros

    def turn_of(self, micros: int) -> int | None:
        """The end of the tick whose turn has given an element with this time; ``None`` for one of bounded
        input, at the end of all time.
        """
        return None if micros >= END else self.number(micros) * self.micros - _EARLY

    def fires_at(self, due: int) -> int:
        """The time of the timer of a tick, and of the results of its turn.

        >>> Ticks(1_000_000, lag=3000).fires_at(4_980_000)
        4983000
        """
        return min(due, END) + self.lag

    def dues(self, rows: pa.RecordBatch) -> Ints:
        """The ends of the ticks in which rows have their turn."""
        ends = self.ends(integers(rows.column("timestamp")))
        if TURN not in rows.schema.names:
            return ends
        turn = combine_chunks(rows.column(TURN))
        return np.where(valid(turn), integers(turn.fill_null(0)), ends)


def tick_micros(pipeline: Pipeline) -> int:
    """The length of a tick of a pipeline; raises ``ValueError`` for a length that makes no sense."""
    seconds: float = pipeline.options.view_as(TickOptions).beam_joins_tick
    if not math.isfinite(seconds) or seconds < _LEAST_SECONDS:
        raise InputError(f"--beam_joins_tick={seconds:g}: give {_LEAST_SECONDS:g} seconds or more")
    return round(seconds * 1000) * 1000


def ticks_behind(pcoll: PCollection[Any]) -> Ticks:
    """The ticks of a stage whose input this is."""
    return Ticks(tick_micros(pcoll.pipeline), _STAGE * stages_above(pcoll, WaitingDoFn))


def only_turn(pcoll: PCollection[Any]) -> Timestamp:
    """The time of the timers of a stage that has one turn, at the end of all input, and whose input this is."""
    return Timestamp(micros=END + _STAGE * stages_above(pcoll, WaitingDoFn))


def at_event_time(pcoll: PCollection[Any]) -> Callable[[Any, int], Any]:
    """The function that gives an element, made of one of this collection, its event time: of unbounded input
    the element keeps that of the turn, as the watermark has passed its own.
    """
    return timestamped if pcoll.is_bounded else lambda element, micros: element


def at_event_times(pcoll: PCollection[Any]) -> Callable[[Iterable[Any], pa.Array], Iterator[Any]]:
    """The same for many elements and the column of their event times."""
    return all_timestamped if pcoll.is_bounded else lambda elements, micros: (element for element in elements)


class WaitingDoFn(beam.DoFn):
    """A DoFn whose partitions wait for their turn: the only one, or one of many."""


class TurnDoFn(WaitingDoFn):
    """A DoFn whose partitions have many turns."""


def stages_above(pcoll: PCollection[Any], kind: type[WaitingDoFn] = TurnDoFn) -> int:
    """The largest number of stages with such a DoFn that an element can have passed."""
    counts: dict[Any, int] = {}

    def of(each: Any) -> int:
        if each not in counts:
            producer = each.producer
            above = 0 if producer is None else max(map(of, producer.inputs), default=0)
            transform = None if producer is None else producer.transform
            counts[each] = above + (isinstance(transform, beam.ParDo) and isinstance(transform.fn, kind))
        return counts[each]

    return of(pcoll)
