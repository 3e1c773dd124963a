"""The turn of a partition: its rows through the operator, and what was noted of the whole input."""

from collections.abc import Generator, Iterable
from time import perf_counter_ns
from typing import Any

import pyarrow as pa

from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.emitter import Emitter
from beam_joins.transforms.engine.metrics import ROWS_IN, ROWS_OUT, TURN_MICROS, count, rows_of
from beam_joins.transforms.engine.notes import Check, NoteReader
from beam_joins.transforms.engine.operator import Operator, Turn
from beam_joins.transforms.engine.parts import Parts


class PartitionTurn:
    """A partition's blocks through the operator, and the notes of the whole input through the check."""

    def __init__(self, operator: Operator, check: Check | None, emitter: Emitter, parts: Parts, *, calls_always: bool = False) -> None:
        self._operator = operator
        self._parts = parts
        self._check = check
        self._emitter = emitter
        self._calls_always = calls_always

    def released(self, elements: Iterable[bytes], turn: Turn, writer: BlockWriter) -> Generator[Any, None, Any]:
        """What follows from the elements that have their turn; returns what is to be remembered, which is
        ``turn.state`` if none of them holds rows.
        """
        reader, state = NoteReader(elements), turn.state
        blocks = reader.blocks()
        if blocks is not None or self._calls_always:
            parts = self._parts.of(blocks or (), splits=turn.is_only and blocks is not None)
            while (inputs := next(parts, None)) is not None:
                state = yield from self._replayed(inputs, turn, writer)
                del inputs  # not two parts at a time
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
