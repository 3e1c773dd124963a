"""The one engine: route rows to partitions, ship them in blocks, replay a partition in the order of its
positions.

Every stateful transform is one or more uses of it:

1. a :class:`Route` puts batches into a :class:`~beam_joins.transforms.engine.blocks.block_writer.BlockWriter`, each
   row with the hash of the key by which it meets others (single elements become batches first:
   :mod:`beam_joins.transforms.engine.stages.routed_records`);
2. the rows of a partition travel in blocks (:mod:`beam_joins.coders.block`), so that a runner sees few large
   elements;
3. :class:`Replay` has a partition's blocks wait for each other in the bag state of a stateful DoFn, keyed by
   partition, until its event-time timer fires;
4. then it gives them to its operator, which calls a kernel of :mod:`beam_joins`.

The output does not depend on the order of arrival, the number of partitions or the runner, since an operator
sees all rows of a routing key in the order of their positions and nothing else.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PCollection
from apache_beam.utils.timestamp import Timestamp

from beam_joins.elements.change import Dropped
from beam_joins.transforms.engine.blocks.block_writer import BAD, DROPPED, MAIN, BlockWriter, timestamped
from beam_joins.transforms.engine.blocks.emitter import Emitter
from beam_joins.transforms.engine.blocks.observed_kinds import Check
from beam_joins.transforms.engine.construction.fingerprints import label_of
from beam_joins.transforms.engine.construction.kept_signatures import KeptSignatures
from beam_joins.transforms.engine.resumed.resumed_turn import ResumedTurn, observed
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from beam_joins.transforms.engine.stages.partitions import CORES, growing_partitions, partition_count, range_count
from beam_joins.transforms.engine.stages.replay_options import (
    ReplayOptions,
    blocks_for,
    folder_for,
    groups_blocks,
    memory_for,
    take_note_of_pickles,
)
from beam_joins.transforms.engine.turns.bounded_replay import GroupedTurns, OnlyTurn, Released, stateful_dofn
from beam_joins.transforms.engine.turns.operator import Operator
from beam_joins.transforms.engine.turns.partition_turn import PartitionTurn
from beam_joins.transforms.engine.turns.parts import Parts
from beam_joins.transforms.engine.turns.stepped_turn import SteppedTurn, is_in_steps
from beam_joins.transforms.engine.turns.ticks import Ticks, only_turn, stages_above, ticks_behind
from beam_joins.transforms.engine.unbounded.tick_turns import Turns, turn_dofn


def element_time(timestamp: Timestamp) -> int:
    """The event time of an element in microseconds, cut to the millisecond as Beam cuts it between stages:
    towards 1970.

    Within a fused stage an element still has its microseconds, so a result that depended on them would depend
    on the shape of the pipeline.

    >>> element_time(Timestamp(micros=1_999)), element_time(Timestamp(micros=-1_999))
    (1000, -1000)
    """
    micros = int(timestamp.micros)
    return micros // 1000 * 1000 if micros >= 0 else -(-micros // 1000 * 1000)


RowRouter = Callable[[Any, int, BlockWriter], None]
"""Puts the rows of an element, whose timestamp in microseconds is given, into the writer; 0 is given where it
does not look at it.
"""


class BundleDoFn(KeptSignatures):
    """A DoFn with one writer for a bundle; the writer is flushed at the end of the bundle."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def with_emitter(self, emitter: Emitter) -> Self:
        """The same with another emitter."""
        other = copy.copy(self)
        other._emitter = emitter
        return other

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return self._emitter.outputs

    def start_bundle(self) -> None:
        """Begin with an empty writer."""
        self._writer = self._emitter.writer()

    def finish_bundle(self) -> list[Any]:
        """Give the rest of the writer's blocks."""
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


class Stage(beam.PTransform[Any, Any]):
    """A step of the engine: its outputs are a dict with the given names."""

    _refers = True
    """Whether references may travel in place of blocks, as a :class:`Replay` reads them."""

    def __init__(self, outputs: tuple[str, ...], main_type: Any, size: int | None = None) -> None:
        super().__init__()
        self._names = outputs
        self._main_type = main_type
        self._size = size

    def _emitter(self, pcoll: PCollection[Any]) -> Emitter:
        take_note_of_pickles(pcoll)
        partitions = self._partitions(pcoll)  # first of all, as it attaches a folder for the state
        folder = blocks_for(pcoll) if self._refers and pcoll.is_bounded else None
        # the parts of a state are as many as ranges, and each of them costs every later run
        ranges = range_count(partitions, self._size) if folder_for(pcoll) is None else 1
        return Emitter(self._names, partitions, folder, ranges)

    def _partitions(self, pcoll: PCollection[Any]) -> int:
        asked_for, folder = pcoll.pipeline.options.view_as(ReplayOptions).beam_joins_partitions, folder_for(pcoll)
        if folder is not None:
            return folder.partition_count(
                asked_for, partition_count(growing_partitions(self._size) if asked_for is None else asked_for)
            )
        if asked_for is None and pcoll.pipeline.options.view_as(StandardOptions).streaming:
            asked_for = CORES  # each turn sends blocks from every partition to every other
        return partition_count(asked_for, self._size)

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

    The outputs are a dict: one collection of blocks for each name in ``to``, and the dropped or bad records
    if ``DROPPED`` or ``BAD`` is one. ``timed=False`` says that ``rows`` does not look at the timestamp.
    ``records`` that each has its turn by its own, and not by that in which it was made. ``size`` is the
    number of bytes that go to the replay, from all routes to it, where it is known.
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


class InlineRoute(Route):
    """A route whose blocks travel as they are: to a reader that is no :class:`Replay`."""

    _refers = False


class Replay(Stage):
    """Blocks, from one collection or several, through an operator.

    The outputs are a dict with the names in ``to``: ``MAIN``, of elements of ``main_type``; ``DROPPED``;
    ``BAD``; any other name is a collection of blocks for another replay. ``check`` gets what the writers
    noted of the whole input (:mod:`beam_joins.transforms.engine.blocks.observed_kinds`). ``gives_all`` says that the operator
    gives all that it remembers, so that partitions without rows have a turn too. ``to_all`` are the inputs of
    which every partition has all rows. ``tables``, ``by_time`` and ``closes`` are those of
    :class:`~beam_joins.transforms.engine.unbounded.tick_turns.Turns`. ``size`` is that of a :class:`Route`.
    ``stored`` are the columns of the inputs whose rows the state has, in the order of its fields, of those that may be of wider
    types than in earlier runs (``value``, ``key``, ``reference``, ``group``): rows that these stored get them. Empty: the state
    has no rows. ``None``: rows have the same columns in all runs.
    ``from_records``: records are among the inputs, and late behind the frontier also where the state is rebuilt.
    """

    def __init__(
        self,
        operator: Operator,
        *,
        to: tuple[str, ...] = (MAIN,),
        main_type: Any = Any,
        check: Check | None = None,
        gives_all: bool = False,
        to_all: tuple[str, ...] = (),
        tables: tuple[str, ...] = (),
        by_time: bool = False,
        closes: int | None = None,
        size: int | None = None,
        stored: Mapping[str, pa.Schema] | None = None,
        from_records: bool = False,
    ) -> None:
        super().__init__(to, main_type, size)
        self._operator = operator
        self._stored = stored
        self._from_records = from_records
        self._check = check
        self._gives_all = gives_all
        self._to_all = to_all
        self._turns: dict[str, Any] = {"tables": tables, "by_time": by_time, "closes": closes}

    def expand(self, blocks: Any) -> Any:
        """Apply the transform."""
        folder = folder_for(blocks[0])
        if folder is not None:
            if not all(each.is_bounded for each in blocks):
                raise ValueError("--beam_joins_state is for bounded runs, one after the other: leave it out with unbounded input")
            return self._resumed(blocks, folder)
        together = _together(blocks)
        if is_in_steps(together.pipeline):
            return self._outputs(together, SteppedTurn(self._operator, self._check, self._names, gives_all=self._gives_all))
        emitter = self._emitter(together)
        parts = self._parts(together)
        partition = PartitionTurn(self._operator, self._check, emitter, parts)
        if together.is_bounded:
            return self._released(together, label_of(together.pipeline), OnlyTurn(partition), emitter)
        remember = round(1_000_000 * together.pipeline.options.view_as(ReplayOptions).beam_joins_remember_deletes)
        options = {"check": self._check, "read": parts.read, "remember_deletes": remember, **self._turns}
        turns = Turns(partition.replayed, ticks_behind(together), **options)
        return self._outputs(together, turn_dofn(label_of(together.pipeline), turns))

    def _parts(self, pcoll: PCollection[Any]) -> Parts:
        return Parts(memory_for(pcoll), blocks_for(pcoll), self._to_all)

    def _resumed(self, blocks: Any, folder: StateFolder) -> Any:
        pipeline = blocks[0].pipeline
        label, seconds = label_of(pipeline), pipeline.options.view_as(ReplayOptions).beam_joins_remember_deletes
        memory = folder.memory(label, seconds, self._stored, from_records=self._from_records)
        if self._gives_all:
            every = pipeline | "Every partition" >> beam.Create(memory.elements).with_output_types(beam.typehints.KV[int, bytes])
            blocks = (*blocks, every)
        together = _together(blocks)
        emitter = self._emitter(together)
        operator, parts = observed(self._operator, memory), self._parts(together)
        partition = PartitionTurn(operator, self._check, emitter, parts, calls_always=self._gives_all)
        return self._released(together, label, ResumedTurn(memory, partition, parts.memory), emitter)

    def _released(self, together: PCollection[Any], label: str, turn: Released, emitter: Emitter) -> Any:
        """The results of the only turns of partitions."""
        fires = only_turn(together)
        if not groups_blocks(together):
            return self._outputs(together, stateful_dofn(label, turn, fires, emitter))
        grouped = together | "Wait" >> beam.GroupByKey()
        return self._outputs(grouped, GroupedTurns(turn, fires, emitter))


def _together(blocks: Any) -> PCollection[Any]:
    together: PCollection[Any] = blocks | "Together" >> beam.Flatten() if len(blocks) > 1 else blocks[0]
    return together
