"""Unbounded input: the partitions of a stateful DoFn have a turn at the end of every tick of event time in
which they have rows.

A partition's rows wait in blocks, each with the rows of one tick. Timers are set when rows arrive, one for
each tick, and not one after the other. When one fires, the rows of its tick have their turn, and those of
earlier ticks before them; with rows that are ordered by a sequence also every waiting row of an input with a
position up to theirs.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from inspect import Parameter, Signature
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import BytesCoder
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.coders.block import concat_batches, read_block, write_block
from beam_joins.kernels.late_placement import behind
from beam_joins.kernels.stream_time import ALWAYS
from beam_joins.transforms.engine.blocks.block_writer import END, TURN, timestamped
from beam_joins.transforms.engine.blocks.observed_kinds import Check, read_note, with_note
from beam_joins.transforms.engine.turns.operator import Turn
from beam_joins.transforms.engine.turns.ticks import Ticks, TurnDoFn
from beam_joins.transforms.engine.unbounded.partition_state import PartitionHeld, PartitionMemory
from beam_joins.transforms.engine.unbounded.tick_buckets import WaitingBlock, Wheel, wheel_specs

_log = logging.getLogger(__name__)

Replayed = Callable[[dict[str, pa.Table], Turn, int | None], Generator[Any, None, Any]]
"""Gives the elements that follow from the rows of a turn, and returns the state; elements for another replay
have their turn there in the given tick.
"""


class Turns(NamedTuple):
    """The turns of a stage.

    ``tables`` are the inputs that are changes of tables, which are applied when they are late. ``by_time``
    says that positions are event times. ``closes`` is how long after its time, in microseconds, a record can
    still meet others; it has a result of its own then; ``None``: there is no such result. ``read`` gives the
    block that a reference of bounded input stands for.
    """

    replayed: Replayed
    ticks: Ticks
    tables: tuple[str, ...] = ()
    by_time: bool = False
    closes: int | None = None
    remember_deletes: int = 0
    check: Check | None = None
    read: Callable[[bytes], bytes] = bytes


def turn_dofn(name: str, turns: Turns) -> beam.DoFn:
    """The DoFn of such a stage; ``name`` is unique in a pipeline."""
    # as in stateful_dofn, the ids of state and timers are those of one stage
    state, bytes_ = beam.DoFn.StateParam, BytesCoder()
    wheel = {f"wheel_{n}": state(spec) for n, spec in enumerate(wheel_specs(name))}
    arrived = state(BagStateSpec(f"blocks of {name}", bytes_))
    notes = state(ReadModifyWriteStateSpec(f"notes of {name}", bytes_))
    value_state = state(ReadModifyWriteStateSpec(f"known of {name}", bytes_))
    tables = state(BagStateSpec(f"tables of {name}", bytes_))
    tick = TimerSpec(f"tick of {name}", TimeDomain.WATERMARK)
    timer, partition, tag = beam.DoFn.TimerParam(tick), beam.DoFn.KeyParam, beam.DoFn.DynamicTimerTagParam

    def process(
        self: _TurnDoFn, element: tuple[int, bytes], arrived: Any = arrived, notes: Any = notes, timer: Any = timer
    ) -> Iterable[Any]:
        return self.wait(element[1], arrived, notes, timer)

    def fire(self: _TurnDoFn, partition: Any, tag: Any, value_state: Any, tables: Any, arrived: Any, **wheel: Any) -> Iterator[Any]:
        turned = Wheel(turns.ticks, int(tag), arrived, tuple(wheel.values()))
        return self.turn(partition, int(tag), turned, value_state, tables)

    # Beam reads from the defaults of parameters what a method takes
    takes = {"partition": partition, "tag": tag, "value_state": value_state, "tables": tables, "arrived": arrived, **wheel}
    named = [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD, default=default) for each, default in takes.items()]
    fire.__signature__ = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *named])  # type: ignore[attr-defined]
    on_timer(tick)(fire)
    made: beam.DoFn = type("Turns", (_TurnDoFn,), {"process": process, "fire": fire})(name, turns)
    return made


class _TurnDoFn(TurnDoFn):
    """The base of the DoFns that :func:`turn_dofn` makes; each is pickled as its name and its turns, and made
    anew.
    """

    def __init__(self, name: str, turns: Turns) -> None:
        self._name = name
        self._turns = turns
        self._memory = PartitionMemory()

    def __reduce__(self) -> Any:
        return turn_dofn, (self._name, self._turns)

    def wait(self, block: bytes, arrived: Any, notes: Any, timer: Any) -> Iterable[Any]:
        if (note := read_note(block)) is not None:
            self._check(note, notes)
            return ()
        turns, dues = self._turns, set[int]()
        for waiting in _by_tick(turns.read(block), turns.ticks):
            arrived.add(waiting.written())
            dues.add(waiting.due)
            if turns.closes is not None:
                dues.add(self._closing(waiting.due))
        for due in dues:
            timer.set(Timestamp(micros=turns.ticks.fires_at(due)), dynamic_timer_tag=str(due))
        return ()

    def _closing(self, due: int) -> int:
        """The end of a tick at which the records of one are closed: by event time, or the end of all input."""
        closes = self._turns.closes or 0
        if not self._turns.by_time or closes >= END - due:
            return ALWAYS
        return int(self._turns.ticks.ends(np.array([due + closes]))[0])

    def _check(self, note: tuple[str, list[str]], notes: Any) -> None:
        check, written = self._turns.check, notes.read()
        if check is None or (value_state := with_note(written, note)) is None:
            return
        notes.write(value_state[0])
        try:
            check(value_state[1])
        except ValueError as error:
            _log.warning("%s: %s (so far: there may be others to come)", self._name, error)

    def turn(self, partition: int, tick: int, wheel: Wheel, value_state: Any, tables: Any) -> Iterator[Any]:
        turns = self._turns
        waiting = wheel.due
        dues = {each.due for each in waiting}
        if turns.closes is not None:
            dues.add(tick)
        if dues:
            before = held = self._memory.read(partition, value_state, tables)
            for due in sorted(dues):
                inputs, waiting = _taken(waiting, due, wheel)
                if inputs or held.state is not None:
                    held = yield from self._turned(held, due, inputs)
            if held is not before:
                self._memory.write(partition, held, before, value_state, tables)
        wheel.write()

    def _turned(self, held: PartitionHeld, due: int, inputs: dict[str, pa.Table]) -> Generator[Any, None, PartitionHeld]:
        turns, last = self._turns, held.tick
        now = due if last is None else max(last, due)
        # a time at the end of a tick is of the next tick
        until = ALWAYS if now == ALWAYS else now - 1 if turns.by_time else None
        closed = last - 1 if turns.by_time and last is not None else None
        placed = behind(held.frontier, [inputs[name] for name in turns.tables if name in inputs])
        inputs |= dict(zip((name for name in turns.tables if name in inputs), placed.tables, strict=True))
        turn = Turn(held.state, held.frontier, until, now - turns.remember_deletes, closed, placed.came_at)
        state = yield from _stamped(turns.replayed(inputs, turn, due), turns.ticks.fires_at(now))
        positions = [_largest(rows) for name, rows in inputs.items() if name not in turns.tables]
        reached = [held.frontier, placed.last, getattr(state, "frontier", None), *positions]
        frontier = max((each for each in reached if each is not None), default=None)
        return PartitionHeld(held.snapshot._replace(state=state), frontier, now)


def _stamped(outputs: Generator[Any, None, Any], micros: int) -> Generator[Any, None, Any]:
    """The outputs with this time, or with their own time if it is later."""
    while True:
        try:
            output = next(outputs)
        except StopIteration as end:
            return end.value
        yield _at(output, micros)


def _by_tick(block: bytes, ticks: Ticks) -> Iterator[WaitingBlock]:
    """The rows of a block by the ticks in which they have their turn."""
    name, rows = read_block(block)
    dues = ticks.dues(rows)
    # what comes from a turn has its own, for its other halves have theirs elsewhere
    in_turn = TURN in rows.schema.names
    distinct = np.unique(dues).tolist()
    for due in distinct:
        some = rows if len(distinct) == 1 else rows.filter(pa.array(dues == due))
        least = ALWAYS if in_turn else pc.min(some.column("position")).as_py()
        yield WaitingBlock(due, least, block if some is rows else write_block(some, name))


def _taken(waiting: list[WaitingBlock], due: int, wheel: Wheel) -> tuple[dict[str, pa.Table], list[WaitingBlock]]:
    """The rows that have their turn in a tick, by their inputs, and the blocks of later ticks up to the one that
    time has reached.
    """
    inputs: dict[str, list[pa.RecordBatch]] = {}
    later: list[WaitingBlock] = []
    reach: int | None = None
    for each in waiting:
        if each.due <= due:
            name, rows = read_block(each.block)
            inputs.setdefault(name, []).append(rows)
            largest = _largest(rows)
            reach = largest if reach is None or (largest is not None and largest > reach) else reach
        else:
            later.append(each)
    if reach is not None:
        kept = [each for each in later if each.least > reach]
        for each in later:
            if each.least <= reach:
                kept += _rest(each, reach, inputs)
        later = kept
        for each in wheel.up_to(reach):
            for rest in _rest(each, reach, inputs):
                wheel.add(rest)
    return {name: _without_turn(concat_batches(name, batches)) for name, batches in inputs.items()}, later


def _rest(waiting: WaitingBlock, reach: int, inputs: dict[str, list[pa.RecordBatch]]) -> Iterator[WaitingBlock]:
    """Adds the rows of a block with positions up to ``reach`` to the inputs, and gives the others."""
    name, rows = read_block(waiting.block)
    comes = pc.less_equal(rows.column("position"), reach)
    inputs.setdefault(name, []).append(rows.filter(comes))
    if len(rest := rows.filter(pc.invert(comes))):
        yield WaitingBlock(waiting.due, pc.min(rest.column("position")).as_py(), write_block(rest, name))


def _without_turn(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([TURN]) if TURN in rows.column_names else rows


def _largest(rows: Any) -> int | None:
    """The largest position of rows that meet others: rows without a key have no position."""
    meets_by = next(name for name in ("reference", "group", "key") if name in rows.schema.names)
    largest: int | None = pc.max(rows["position"].filter(rows[meets_by].is_valid())).as_py()
    return largest


def _at(output: Any, micros: int) -> Any:
    if isinstance(output, TaggedOutput):
        return TaggedOutput(output.tag, _at(output.value, micros))
    if isinstance(output, WindowedValue):
        return timestamped(output.value, max(micros, int(output.timestamp.micros)))
    return timestamped(output, micros)
