"""The one engine: route rows to partitions, ship them in blocks, replay a partition in the order of its positions.

Every stateful transform is one or more uses of it:

1. a :class:`Route` puts batches into a :class:`~beam_joins.transforms.engine.block_writer.BlockWriter`, each row with the hash of the key by which
   it meets others (single elements become batches first: :mod:`beam_joins.transforms.engine.records`);
2. the rows of a partition travel in blocks (:mod:`beam_joins.coders.block`), so that a runner sees few large elements;
3. :class:`Replay` has a partition's blocks wait for each other in the bag state of a stateful DoFn, keyed by partition, until its
   event-time timer fires;
4. then it gives them to its operator, which calls a kernel of :mod:`beam_joins`.

What comes out does not depend on the order of arrival, the number of partitions or the runner, since an operator sees all rows of a
routing key in the order of their positions and nothing else.
"""

from collections.abc import Callable, Generator, Iterable
from time import perf_counter_ns
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PCollection
from apache_beam.utils.timestamp import Timestamp

from beam_joins.change import Dropped
from beam_joins.coders.block import read_blocks
from beam_joins.transforms.engine.block_writer import BAD, DROPPED, MAIN, BlockWriter, timestamped
from beam_joins.transforms.engine.emitter import Emitter
from beam_joins.transforms.engine.metrics import ROWS_IN, ROWS_OUT, TURN_MICROS, count, rows_of
from beam_joins.transforms.engine.notes import Check, NoteReader
from beam_joins.transforms.engine.operator import Operator, Turn
from beam_joins.transforms.engine.partitions import CORES, partition_count
from beam_joins.transforms.engine.replay_options import ReplayOptions, folder_for, take_note_of_pickles
from beam_joins.transforms.engine.resumed import ResumedTurn, observed
from beam_joins.transforms.engine.state_folder import StateFolder
from beam_joins.transforms.engine.ticks import Ticks, only_turn, stages_above, ticks_behind
from beam_joins.transforms.engine.transform import fingerprint
from beam_joins.transforms.engine.turns import Turns, turn_dofn
from beam_joins.transforms.engine.waiting import OnlyTurn, stateful_dofn


def element_time(timestamp: Timestamp) -> int:
    """The event time of an element in microseconds, cut to the millisecond as Beam cuts it between stages: towards 1970.

    Within a fused stage an element still has its microseconds, so what reads them would depend on the shape of the pipeline.

    >>> element_time(Timestamp(micros=1_999)), element_time(Timestamp(micros=-1_999))
    (1000, -1000)
    """
    micros = int(timestamp.micros)
    return micros // 1000 * 1000 if micros >= 0 else -(-micros // 1000 * 1000)


RowRouter = Callable[[Any, int, BlockWriter], None]
"""Puts the rows of an element, whose timestamp in microseconds is given, into the writer; 0 is given where it does not look at it."""


class BundleDoFn(beam.DoFn):
    """A DoFn with one writer for a bundle: what has not left it by the end of the bundle leaves then."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def start_bundle(self) -> None:
        """Begin with an empty writer."""
        self._writer = self._emitter.writer()

    def finish_bundle(self) -> list[Any]:
        """Give what is left in the writer."""
        return self._emitter.emit((to, timestamped(block, micros)) for to, block, micros in self._writer.flush())


class _RouteDoFn(BundleDoFn):
    def __init__(self, rows: RowRouter, emitter: Emitter) -> None:
        super().__init__(emitter)
        self._rows = rows

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> list[Any]:
        self._rows(element, element_time(timestamp), self._writer)
        return self._emitter.emit(self._writer.pop_ready())


class _UntimedRouteDoFn(_RouteDoFn):
    """For elements that carry their timestamps: asking Beam for one costs as much as the rest of this step."""

    def process(self, element: Any) -> list[Any]:  # type: ignore[override]
        self._rows(element, 0, self._writer)
        return self._emitter.emit(self._writer.pop_ready())


class _TurnRouteDoFn(_RouteDoFn):
    """For batches that come from turns: their rows are sent with the tick."""

    def __init__(self, rows: RowRouter, emitter: Emitter, ticks: Ticks) -> None:
        super().__init__(rows, emitter)
        self._ticks = ticks

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> list[Any]:
        self._writer.turn = self._ticks.turn_of(timestamp.micros)
        return super().process(element, timestamp)


class _Partition:
    """A partition's blocks through the operator, and the notes of the whole input through the check."""

    def __init__(self, operator: Operator, check: Check | None, emitter: Emitter, *, calls_always: bool = False) -> None:
        self._operator = operator
        self._check = check
        self._emitter = emitter
        self._calls_always = calls_always

    def released(self, elements: Iterable[bytes], turn: Turn, writer: BlockWriter) -> Generator[Any, None, Any]:
        """What follows from the elements that have their turn; returns what is to be remembered, which is ``turn.state`` if none of them holds rows."""
        reader, state = NoteReader(elements), turn.state
        blocks = reader.blocks()
        if blocks is not None or self._calls_always:
            state = yield from self._replayed(read_blocks(blocks or ()), turn, writer)
        if self._check is not None:
            self._check(reader.notes)
        return state

    def replayed(self, inputs: dict[str, pa.Table], turn: Turn, tick: int | None) -> Generator[Any, None, Any]:
        """What follows from the rows that have their turn in a tick; returns what is to be remembered."""
        writer = self._emitter.writer(tick)
        state = yield from self._replayed(inputs, turn, writer)
        yield from self._emitter.emit((to, block) for to, block, _ in writer.flush())
        return state

    def _replayed(self, inputs: dict[str, pa.Table], turn: Turn, writer: BlockWriter) -> Generator[Any, None, Any]:
        emit = self._emitter.emit
        replayed = self._operator(inputs, writer, turn)
        given, nanos = 0, 0
        while True:
            begin = perf_counter_ns()
            try:
                output = next(replayed)
            except StopIteration as end:
                state = end.value
                break
            finally:
                nanos += perf_counter_ns() - begin
            given += rows_of(output)
            yield output
            yield from emit(writer.pop_ready())
        for metric, value in ((ROWS_IN, sum(map(len, inputs.values()))), (ROWS_OUT, given), (TURN_MICROS, nanos // 1000)):
            count(metric, value)
        yield from emit(writer.pop_ready())
        return state


class Stage(beam.PTransform[Any, Any]):
    """A step of the engine: its outputs are a dict with the given names."""

    def __init__(self, outputs: tuple[str, ...], main_type: Any, size: int | None = None) -> None:
        super().__init__()
        self._names = outputs
        self._main_type = main_type
        self._size = size

    def _emitter(self, pcoll: PCollection[Any]) -> Emitter:
        take_note_of_pickles(pcoll)
        given, folder = pcoll.pipeline.options.view_as(ReplayOptions).beam_joins_partitions, folder_for(pcoll)
        if folder is not None:
            return Emitter(self._names, folder.partition_count(given, partition_count(given)))
        if given is None and pcoll.pipeline.options.view_as(StandardOptions).streaming:
            given = CORES  # each turn sends blocks from every partition to every other
        return Emitter(self._names, partition_count(given, self._size))

    def _outputs(self, pcoll: PCollection[Any], dofn: beam.DoFn, *side_inputs: Any) -> dict[str, PCollection[Any]]:
        main, *others = self._names
        # Only requested outputs are declared: Spark writes the output of a stage that has several to disk.
        run = beam.ParDo(dofn, *side_inputs)
        outputs = pcoll | "Run" >> (run.with_outputs(*others, main=main) if others else run)
        named = {tag: outputs[tag] for tag in self._names} if others else {main: outputs}
        for tag, output in named.items():
            if tag != BAD:
                output.element_type = {MAIN: self._main_type, DROPPED: Dropped}.get(tag, beam.typehints.KV[int, bytes])
        return named


class Route(Stage):
    """Batches into blocks of rows, by partition.

    The outputs are a dict: one collection of blocks for each name in ``to``, and the dropped or bad records if ``DROPPED`` or ``BAD`` is one.
    ``timed=False`` says that ``rows`` does not look at the timestamp. ``records`` that each has its turn by its own, and not by that in which it was made. ``size`` is the number of bytes that go to the replay, from all routes to it,
    where it is known.
    """

    def __init__(
        self, rows: RowRouter, *, to: tuple[str, ...], timed: bool = False, records: bool = False, size: int | None = None
    ) -> None:
        super().__init__(to, Any, size)
        self._rows = rows
        self._timed = timed
        self._records = records

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """Apply the transform."""
        emitter = self._emitter(pcoll)
        if not self._records and stages_above(pcoll):
            return self._outputs(pcoll, _TurnRouteDoFn(self._rows, emitter, ticks_behind(pcoll)))
        return self._outputs(pcoll, (_RouteDoFn if self._timed else _UntimedRouteDoFn)(self._rows, emitter))


class Replay(Stage):
    """Blocks, from one collection or several, through an operator.

    The outputs are a dict with the names in ``to``: ``MAIN``, of elements of ``main_type``; ``DROPPED``; ``BAD``; any other name is a collection of
    blocks for another replay. ``check`` gets what the writers noted of the whole input (:mod:`beam_joins.transforms.engine.notes`).
    ``gives_all`` says that the operator gives all that it remembers, so that partitions without rows have a turn too. ``tables``,
    ``by_time`` and ``closes`` are those of :class:`~beam_joins.transforms.engine.turns.Turns`.
    """

    def __init__(
        self,
        operator: Operator,
        *,
        to: tuple[str, ...] = (MAIN,),
        main_type: Any = Any,
        check: Check | None = None,
        gives_all: bool = False,
        tables: tuple[str, ...] = (),
        by_time: bool = False,
        closes: int | None = None,
    ) -> None:
        super().__init__(to, main_type)
        self._operator = operator
        self._check = check
        self._gives_all = gives_all
        self._turns: dict[str, Any] = {"tables": tables, "by_time": by_time, "closes": closes}

    def expand(self, blocks: Any) -> Any:
        """Apply the transform."""
        folder = folder_for(blocks[0])
        if folder is not None:
            if not all(each.is_bounded for each in blocks):
                raise ValueError("--beam_joins_state is for bounded runs, one after the other: leave it out with unbounded input")
            return self._resumed(blocks, folder)
        together = _together(blocks)
        emitter = self._emitter(together)
        partition = _Partition(self._operator, self._check, emitter)
        if together.is_bounded:
            return self._outputs(together, stateful_dofn(_label(together), OnlyTurn(partition.released), only_turn(together), emitter))
        remember = round(1_000_000 * together.pipeline.options.view_as(ReplayOptions).beam_joins_remember_deletes)
        turns = Turns(partition.replayed, ticks_behind(together), check=self._check, remember_deletes=remember, **self._turns)
        return self._outputs(together, turn_dofn(_label(together), turns))

    def _resumed(self, blocks: Any, folder: StateFolder) -> Any:
        pipeline = blocks[0].pipeline
        label, seconds = _label(blocks[0]), pipeline.options.view_as(ReplayOptions).beam_joins_remember_deletes
        memory = folder.memory(label, fingerprint(pipeline), seconds)
        if self._gives_all:
            every = pipeline | "Every partition" >> beam.Create(memory.elements).with_output_types(beam.typehints.KV[int, bytes])
            blocks = (*blocks, every)
        together = _together(blocks)
        emitter = self._emitter(together)
        partition = _Partition(observed(self._operator, memory), self._check, emitter, calls_always=self._gives_all)
        return self._outputs(together, stateful_dofn(label, ResumedTurn(memory, partition.released), only_turn(together), emitter))


def _together(blocks: Any) -> PCollection[Any]:
    together: PCollection[Any] = blocks | "Together" >> beam.Flatten() if len(blocks) > 1 else blocks[0]
    return together


def _label(pcoll: PCollection[Any]) -> str:
    # The full label is unique in a pipeline and the same at every submission; Beam shows it to nobody else.
    return str(pcoll.pipeline._current_transform().full_label)
