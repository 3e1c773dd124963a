"""Blocks of a partition that wait for each other, grouped, or in the state of a stateful DoFn, keyed by partition, until
its event-time timer fires.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from beam_joins.errors import InputError
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.blocks.emitter import Emitter
from beam_joins.transforms.engine.construction.kept_signatures import KeptSignatures
from beam_joins.transforms.engine.turns.operator import Turn
from beam_joins.transforms.engine.turns.partition_turn import NoStates, PartitionTurn
from beam_joins.transforms.engine.turns.ticks import WaitingDoFn

Released = Callable[[int, Iterable[bytes], BlockWriter], Iterator[Any]]
"""Gives the elements that follow from the blocks of a partition, whose number is given, and puts rows for
other replays into the writer.
"""


_HAD_ITS_TURN: Final = b""
"""Stays in the place of a partition's blocks after its turn; no block is empty."""


class OnlyTurn:
    """The turn of a partition without state."""

    def __init__(self, partition: PartitionTurn) -> None:
        self._partition = partition

    def __call__(self, partition: int, elements: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        """The results of the partition's elements."""
        yield from self._partition.released(elements, Turn(), writer, NoStates())


def stateful_dofn(name: str, released: Released, fires: Timestamp, emitter: Emitter) -> beam.DoFn:
    """A DoFn that keeps the blocks of each partition until this event time; ``name`` is unique in a pipeline."""
    # Beam reads state and timers from the defaults of a class's methods, and two classes of one pipeline must
    # not share their ids: the
    # direct runner would deliver one's timers to the other
    blocks_spec = BagStateSpec(f"blocks of {name}", BytesCoder())
    timer_spec = TimerSpec(f"replay of {name}", TimeDomain.WATERMARK)

    def process(
        self: _Waiting,
        element: tuple[int, bytes],
        blocks: Any = beam.DoFn.StateParam(blocks_spec),
        timer: Any = beam.DoFn.TimerParam(timer_spec),
    ) -> Iterable[Any]:
        return self.wait(element[1], blocks, timer)

    @on_timer(timer_spec)
    def replay(self: _Waiting, partition: Any = beam.DoFn.KeyParam, blocks: Any = beam.DoFn.StateParam(blocks_spec)) -> Iterator[Any]:
        return self.release(partition, blocks)

    made: beam.DoFn = type("Waiting", (_Waiting,), {"process": process, "replay": replay})(name, released, fires, emitter)
    return made


class _Replaying:
    """The base of DoFns that replay partitions: those of a bundle have one writer, so that their blocks are
    few.
    """

    def __init__(self, released: Released, fires: Timestamp, emitter: Emitter) -> None:
        self._released = released
        self._fires = fires
        self._emitter = emitter

    def start_bundle(self) -> None:
        """Begin with an empty writer."""
        self._writer = self._emitter.writer()

    def finish_bundle(self) -> list[Any]:
        """Give the rest of the writer's blocks."""
        return self._emitter.emit((to, timestamped(block, self._fires.micros)) for to, block, _ in self._writer.flush())


class GroupedTurns(_Replaying, KeptSignatures):
    """Replays partitions whose blocks are grouped."""

    def process(self, grouped: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Give the results of a partition's elements."""
        yield from self._released(*grouped, self._writer)


class _Waiting(_Replaying, WaitingDoFn):
    """The base of the DoFns that :func:`stateful_dofn` makes; each is pickled as its arguments, and made
    anew.
    """

    def __init__(self, name: str, released: Released, fires: Timestamp, emitter: Emitter) -> None:
        super().__init__(released, fires, emitter)
        self._name = name

    def __reduce__(self) -> Any:
        return stateful_dofn, (self._name, self._released, self._fires, self._emitter)

    def wait(self, block: bytes, blocks: Any, timer: Any) -> Iterable[Any]:
        blocks.add(block)
        timer.set(self._fires)
        return ()

    def release(self, partition: int, blocks: Any) -> Iterator[Any]:
        elements = iter(blocks.read())
        first = next(elements, None)
        if first != _HAD_ITS_TURN:
            yield from self._released(partition, elements if first is None else chain([first], elements), self._writer)
            blocks.clear()
            blocks.add(_HAD_ITS_TURN)
        elif next(elements, None) is not None:
            raise InputError(
                f"{self._name} got rows after its input had ended: a source upstream is bounded but gave its elements "
                "in parts, and the runner"
                " ended the input between them (a splittable DoFn that defers its remainder does so); read it with an "
                "ordinary DoFn or beam.io"
            )
