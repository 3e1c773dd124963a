"""A turn of many, of a stage that is evaluated in this process: its state stays in memory."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pipeline import Pipeline

from beam_joins.coders.block import concat_batches
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter, Where
from beam_joins.transforms.engine.blocks.emitter import Emitter
from beam_joins.transforms.engine.blocks.observed_kinds import Check, read_note
from beam_joins.transforms.engine.turns.operator import Operator, Turn, largest_of
from beam_joins.transforms.engine.turns.partition_turn import PartitionTurn
from beam_joins.transforms.engine.turns.parts import Parts

_IN_STEPS = "_beam_joins_in_steps"


def evaluate_in_steps(pipeline: Pipeline) -> None:
    """Have the stages of a pipeline that never runs be a :class:`SteppedTurn` each."""
    setattr(pipeline, _IN_STEPS, True)


def is_in_steps(pipeline: Pipeline) -> bool:
    """Whether a pipeline never runs, and its stages have a turn in each step."""
    return bool(getattr(pipeline, _IN_STEPS, False))


class StepWriter(BlockWriter):
    """Hands rows on as they are, and counts the records that are dropped by their reasons."""

    def __init__(self, dropped: Counter[str], *, keep_dropped: bool) -> None:
        super().__init__(1, keep_dropped=keep_dropped, travels=False)
        self._dropped = dropped

    def drop_rows(self, reason: str, records: int, rows: Callable[[], Iterable[tuple[Any, int]]]) -> None:
        """Count many records, and put them into the output of the dropped ones, if any."""
        self._dropped[reason] += records
        super().drop_rows(reason, records, rows)

    def _block(self, rows: pa.Table, where: Where) -> Any:
        return where.input, rows


class StepEmitter(Emitter):
    """The writers of a stage in a step; ``dropped`` counts the records that it drops."""

    def __init__(self, outputs: tuple[str, ...]) -> None:
        super().__init__(outputs, 1)
        self.dropped = Counter[str]()

    def writer(self, turn: int | None = None) -> BlockWriter:
        """An empty writer."""
        return StepWriter(self.dropped, keep_dropped=self.keeps_dropped)


class Reached(NamedTuple):
    """What a transform has after a step: the state of its operator, the largest position of rows, the notes on them, and whether
    there was a step.
    """

    state: Any = None
    frontier: int | None = None
    notes: Mapping[str, frozenset[str]] = {}
    has_begun: bool = False


class SteppedTurn(beam.DoFn):
    """The operator of a stage, which has all rows in one partition."""

    def __init__(self, operator: Operator, check: Check | None, outputs: tuple[str, ...], *, gives_all: bool) -> None:
        self._operator, self._check, self._gives_all = operator, check, gives_all
        self.outputs = outputs

    def process(self, element: Any) -> Any:
        """Raise: Beam does not run it."""
        raise AssertionError("the pipeline of steps is not run")

    def step(self, before: Reached, elements: Iterable[Any], emitter: StepEmitter) -> tuple[list[Any], Reached]:
        """The results of the rows of a step, and what the transform has after it. Raises ``ValueError`` if the notes say that the
        result cannot be right.
        """
        rows, notes = dict[str, list[pa.RecordBatch]](), dict(before.notes)
        for _, element in elements:
            if isinstance(element, bytes) and (note := read_note(element)) is not None:
                notes[note[0]] = notes.get(note[0], frozenset()) | frozenset(note[1])
            else:
                rows.setdefault(element[0], []).extend(element[1].to_batches())
        made, state, places = list[Any](), before.state, [before.frontier]
        if rows or self._gives_all:
            inputs = {name: concat_batches(name, batches) for name, batches in rows.items()}
            places.append(largest_of(inputs.values(), "position"))
            turn = Turn(state, before.frontier, None, forgotten=getattr(state, "forgotten", None))
            replayed = PartitionTurn(self._operator, None, emitter, Parts(0, None)).replayed(inputs, turn, None)
            state = _into(made, replayed)
            places.append(getattr(state, "frontier", None))  # late rows are applied behind all others
        if self._check is not None:
            self._check({name: set(noted) for name, noted in notes.items()})
        return made, Reached(state, max((each for each in places if each is not None), default=None), notes, has_begun=True)


def _into(made: list[Any], elements: Generator[Any, None, Any]) -> Any:
    """The result of a generator, whose elements are added to those that are ``made``."""
    while True:
        try:
            made.append(next(elements))
        except StopIteration as end:
            return end.value
