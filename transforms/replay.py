"""The one engine: route records to partitions, ship them in blocks, order them by position, feed the pure core.

Every stateful transform is one or more uses of it:

1. a :class:`Route` turns elements into records, each with the routing key by which it meets the others;
2. the records of a partition travel in blocks (:mod:`coders.block`), so that a runner sees few large elements;
3. :class:`Replay`, a stateful DoFn keyed by partition, keeps the blocks in a bag until its event-time timer fires;
4. then it orders the records by (routing key, position, input) and gives them to the operator's core, routing key by routing key.

What comes out does not depend on the order of arrival, the number of partitions or the runner, since a core sees the records of one
routing key in the order of their positions and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import xxhash
from apache_beam.coders import BytesCoder
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PCollection, TaggedOutput
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue
from apache_beam.utils.windowed_value import create as create_windowed_value

from beam_joins.change import Dropped
from beam_joins.record import Core, Record
from coders.block import read_block, write_block

DEFAULT_PARTITIONS = 16
"""Enough for the cores of one machine; a partition's records must fit into a worker's memory, so take more for large tables."""

BLOCK_RECORDS = 4096
PENDING_BYTES = 64 << 20  # wide records go out before their blocks are full
_EARLIEST, _LATEST, _GLOBAL = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, (GlobalWindow(),)
_RECORD = partial(tuple.__new__, Record)  # Record(...) without a call of a Python function
MAIN, DROPPED = "main", "dropped"


def partition_count(partitions: int | None) -> int:
    """The given number of partitions or the default; raises ``ValueError`` if it is not a positive int."""
    if partitions is None:
        return DEFAULT_PARTITIONS
    if not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1:
        raise ValueError(f"partitions={partitions!r}: give a positive whole number, such as {DEFAULT_PARTITIONS}")
    return partitions


def at(value: Any, micros: int) -> WindowedValue:
    """The element with this event time in microseconds, held within Beam's range, in the global window."""
    timestamped: WindowedValue = create_windowed_value(value, min(max(micros, _EARLIEST), _LATEST), _GLOBAL)
    return timestamped


class Outlet:
    """Where a route or an operator puts what is not an element of its main output: records for another replay, and dropped ones."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._pending: dict[tuple[str, int], list[Record]] = {}
        self._pending_bytes = 0
        self._ready: list[Any] = []

    def send(self, to: str, route: bytes, record: Record) -> None:
        """Send a record to the replay named ``to``, where it meets the other records of the routing key ``route``."""
        where = (to, xxhash.xxh3_64_intdigest(route) % self._partitions)
        records = self._pending.get(where)
        if records is None:
            records = self._pending[where] = []
        records.append(record)
        self._pending_bytes += len(record.key) + len(record.value or b"")
        if len(records) >= BLOCK_RECORDS:
            del self._pending[where]
            self._ready.append(TaggedOutput(to, (where[1], write_block(records))))
        elif self._pending_bytes >= PENDING_BYTES:
            self._ready += [TaggedOutput(to, block) for to, block, _ in self.drain()]

    def drop(self, reason: str, record: Any, timestamp: int) -> None:
        """Count a record that cannot be used, and put it into the output of the dropped ones."""
        Metrics.counter("beam_joins", f"dropped_{reason}").inc()
        self._ready.append(TaggedOutput(DROPPED, at(Dropped(reason, record, timestamp), timestamp)))

    def take(self) -> list[Any]:
        """What is ready to go out: full blocks and dropped records."""
        ready, self._ready = self._ready, []
        return ready

    def drain(self) -> Iterator[tuple[str, tuple[int, bytes], int]]:
        """The blocks that are not full, each with its name and its earliest timestamp."""
        for (to, partition), records in self._pending.items():
            yield to, (partition, write_block(records)), min(record.timestamp for record in records)
        self._pending.clear()
        self._pending_bytes = 0


Rows = Callable[[Any, int, Outlet], None]
"""Puts the records of an element, whose timestamp in microseconds is given, into the outlet."""


class _RouteDoFn(beam.DoFn):
    def __init__(self, rows: Rows, partitions: int) -> None:
        self._rows = rows
        self._partitions = partitions

    def start_bundle(self) -> None:
        self._outlet = Outlet(self._partitions)

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> list[Any]:
        self._rows(element, timestamp.micros, self._outlet)
        return self._outlet.take()

    def finish_bundle(self) -> Iterator[Any]:
        for to, block, micros in self._outlet.drain():
            yield TaggedOutput(to, at(block, micros))


class _UntimedRouteDoFn(_RouteDoFn):
    """For elements that say their time themselves: asking Beam for it costs as much as the rest of this step."""

    def process(self, element: Any) -> list[Any]:  # type: ignore[override]
        self._rows(element, 0, self._outlet)
        return self._outlet.take()


class Operator:
    """What one use of the engine does with the records of a partition: how they are read, their core, and what its outputs become."""

    def core(self) -> Core[Any, Any]:
        """A core for one routing key."""
        raise NotImplementedError

    def routes(self, records: Sequence[Record]) -> Iterable[bytes]:
        """The routing keys of records: by default their keys."""
        return [record.key for record in records]

    def read(self, records: Sequence[Record]) -> Sequence[Any]:
        """Records as the core's events: by default themselves."""
        return records

    def finish(self, core: Any) -> Iterable[Any]:
        """What a core gives when the records of its routing key are at their end: by default nothing."""
        return ()

    def write(self, output: Any, outlet: Outlet) -> Any:
        """A core's output as an element of the main output, or ``None`` if it went into the outlet."""
        raise NotImplementedError

    def replay(self, records: Sequence[Record], ends: Iterable[int], outlet: Outlet) -> Iterator[Any]:
        """Feed ordered records to cores; ``ends`` are the indices at which the records of a routing key end."""
        events, write = self.read(records), self.write
        start = 0
        for end in ends:
            core = self.core()
            while start < end:
                position, following = records[start].position, start + 1
                while following < end and records[following].position == position:
                    following += 1
                for output in core.advance(position, events[start:following]):
                    element = write(output, outlet)
                    if element is not None:
                        yield element
                start = following
            for output in self.finish(core):
                element = write(output, outlet)
                if element is not None:
                    yield element


def order(blocks: Iterable[bytes], routes: Callable[[Sequence[Record]], Iterable[bytes]]) -> tuple[list[Record], list[int]]:
    """The records of blocks by (routing key, position, input), and the indices at which the records of a routing key end."""
    records: list[Record] = []
    positions, inputs = [], []
    for block in blocks:
        batch = read_block(block)
        records.extend(map(_RECORD, zip(*(column.to_pylist() for column in batch.columns), strict=True)))
        positions.append(batch.column("position").to_numpy())
        inputs.append(batch.column("input").to_numpy())
    if not records:
        return [], []
    codes: dict[bytes, int] = {}
    groups = np.fromiter((codes.setdefault(route, len(codes)) for route in routes(records)), np.int64, len(records))
    by = np.lexsort((np.concatenate(inputs), np.concatenate(positions), groups))
    return [records[i] for i in by.tolist()], np.cumsum(np.bincount(groups)).tolist()


def _replay_dofn(name: str, operator: Operator, partitions: int) -> beam.DoFn:
    # Two stateful DoFns of one pipeline must not share ids: the direct runner would deliver one's timers to the other.
    blocks_spec = BagStateSpec(f"blocks of {name}", BytesCoder())
    timer_spec = TimerSpec(f"replay of {name}", TimeDomain.WATERMARK)

    class ReplayDoFn(beam.DoFn):
        def process(
            self,
            element: tuple[int, bytes],
            window: Any = beam.DoFn.WindowParam,
            blocks: Any = beam.DoFn.StateParam(blocks_spec),
            timer: Any = beam.DoFn.TimerParam(timer_spec),
        ) -> Iterable[Any]:
            blocks.add(element[1])
            timer.set(window.max_timestamp())
            return ()

        @on_timer(timer_spec)
        def replay(self, blocks: Any = beam.DoFn.StateParam(blocks_spec)) -> Iterator[Any]:
            records, ends = order(blocks.read(), operator.routes)
            blocks.clear()
            outlet = Outlet(partitions)
            for element in operator.replay(records, ends, outlet):
                yield element
                yield from outlet.take()
            yield from outlet.take()
            for to, block, _ in outlet.drain():
                yield TaggedOutput(to, block)

    return ReplayDoFn()  # type: ignore[no-untyped-call]


class _Stage(beam.PTransform[Any, Any]):
    def __init__(self, to: tuple[str, ...], main_type: Any) -> None:
        super().__init__()
        self._to = to
        self._main_type = main_type

    def _outputs(self, pcoll: PCollection[Any], dofn: beam.DoFn) -> dict[str, PCollection[Any]]:
        outputs = pcoll | "Run" >> beam.ParDo(dofn).with_outputs(DROPPED, *self._to, main=MAIN)
        for to in self._to:
            outputs[to].element_type = beam.typehints.KV[int, bytes]
        outputs[MAIN].element_type = self._main_type
        return {tag: outputs[tag] for tag in (MAIN, DROPPED, *self._to)}


class Route(_Stage):
    """Elements into blocks of records, by partition.

    ``timed=False`` says that ``rows`` does not look at the timestamp. The outputs are a dict: one collection of blocks for each name in
    ``to``, and ``"dropped"``.
    """

    def __init__(self, rows: Rows, *, to: tuple[str, ...], partitions: int, timed: bool = False) -> None:
        super().__init__(to, Any)
        self._rows = rows
        self._timed = timed
        self._partitions = partitions

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """Apply the transform."""
        return self._outputs(pcoll, (_RouteDoFn if self._timed else _UntimedRouteDoFn)(self._rows, self._partitions))


class Replay(_Stage):
    """Blocks, from one collection or several, through an operator's core.

    The outputs are a dict: ``"main"``, of elements of ``main_type``, ``"dropped"``, and one collection of blocks for each name in ``to``.
    """

    def __init__(self, operator: Operator, *, partitions: int, to: tuple[str, ...] = (), main_type: Any = Any) -> None:
        super().__init__(to, main_type)
        self._operator = operator
        self._partitions = partitions

    def expand(self, blocks: Any) -> Any:
        """Apply the transform."""
        together = blocks | "Together" >> beam.Flatten() if len(blocks) > 1 else blocks[0]
        # The full label is unique in a pipeline and the same at every submission; Beam shows it to nobody else.
        name = together.pipeline._current_transform().full_label
        return self._outputs(together, _replay_dofn(name, self._operator, self._partitions))
