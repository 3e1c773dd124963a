"""The turn of a partition: its rows through the operator, and the notes of the whole input through the check."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from time import perf_counter_ns
from typing import Any, Protocol

import pyarrow as pa

from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.emitter import Emitter
from beam_joins.transforms.engine.blocks.metrics import ROWS_IN, ROWS_OUT, TURN_MICROS, count, rows_of
from beam_joins.transforms.engine.blocks.observed_kinds import Check, NoteReader
from beam_joins.transforms.engine.turns.operator import Operator, Turn
from beam_joins.transforms.engine.turns.parts import NOTHING_HELD, Held, Parts, StatePart


class States(Protocol):
    """The state of a partition, by the places of rows; turns come in the order of places."""

    @property
    def held(self) -> Sequence[Held]:
        """The parts of the state before the first turn."""

    def up_to(self, end: int) -> Any:
        """The state of the places up to ``end`` that have not had a turn."""

    def remember(self, end: int, state: Any) -> None:
        """Keep the state of these places after their turn."""


class NoStates:
    """The states of a partition that has none."""

    held: Sequence[Held] = NOTHING_HELD

    def up_to(self, end: int) -> None:
        """Nothing."""

    def remember(self, end: int, state: Any) -> None:
        """Do nothing."""


class PartitionTurn:
    """A partition's blocks through the operator, and the notes of the whole input through the check."""

    def __init__(self, operator: Operator, check: Check | None, emitter: Emitter, parts: Parts, *, calls_always: bool = False) -> None:
        self._operator = operator
        self._parts = parts
        self._check = check
        self._emitter = emitter
        self._calls_always = calls_always

    def released(self, elements: Iterable[bytes], turn: Turn, writer: BlockWriter, states: States) -> Iterator[Any]:
        """The results of the elements whose turn has come."""
        reader = NoteReader(elements)
        blocks = reader.blocks()
        parts = iter(()) if blocks is None else self._parts.of(blocks, states.held)
        if self._calls_always:
            parts = _with_every(states.held, parts)
        while (part := next(parts, None)) is not None:
            end = part.end
            states.remember(end, (yield from self._replayed(part.rows, turn._replace(state=states.up_to(end)), writer)))
            del part  # not two parts at a time
        if self._check is not None:
            self._check(reader.notes)

    def replayed(self, inputs: dict[str, pa.Table], turn: Turn, tick: int | None) -> Generator[Any, None, Any]:
        """The results of the rows whose turn has come in a tick; returns the next state."""
        writer = self._emitter.writer(tick)
        state = yield from self._replayed(inputs, turn, writer)
        yield from self._emitter.emit((to, block) for to, block, _ in writer.flush())
        return state

    def _replayed(self, inputs: dict[str, pa.Table], turn: Turn, writer: BlockWriter) -> Generator[Any, None, Any]:
        emit = self._emitter.emit
        replayed = self._operator(inputs, writer, turn)
        rows_out, nanos = 0, 0
        while True:
            begin = perf_counter_ns()
            try:
                output = next(replayed)
            except StopIteration as end:
                state = end.value
                break
            finally:
                nanos += perf_counter_ns() - begin
            rows_out += rows_of(output)
            yield output
            yield from emit(writer.pop_ready())
        for metric, value in ((ROWS_IN, sum(map(len, inputs.values()))), (ROWS_OUT, rows_out), (TURN_MICROS, nanos // 1000)):
            count(metric, value)
        yield from emit(writer.pop_ready())
        return state


def _with_every(held: Iterable[Held], parts: Iterator[StatePart]) -> Iterator[StatePart]:
    """The parts, and a part without rows up to the end of each held part of the state that gets none."""
    ends = deque(each.end for each in held)
    for part in parts:
        while ends[0] < part.end:
            yield StatePart(ends.popleft(), {})
        if ends[0] == part.end:
            ends.popleft()
        yield part
        del part
    yield from (StatePart(end, {}) for end in ends)
