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
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import xxhash
from apache_beam.coders import BytesCoder
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PCollection, TaggedOutput
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.change import Dropped
from beam_joins.record import Core, Record
from coders.block import read_block, write_block

DEFAULT_PARTITIONS = 16
"""Enough for the cores of one machine; a partition's records must fit into a worker's memory, so take more for large tables."""

BLOCK_RECORDS = 4096
MAIN, DROPPED = "main", "dropped"


class Routed(NamedTuple):
    """A record on its way to the replay named ``to``, where it meets the other records of the routing key ``route``."""

    to: str
    route: bytes
    record: Record


def partition_count(partitions: int | None) -> int:
    """The given number of partitions or the default; raises ``ValueError`` if it is not a positive int."""
    if partitions is None:
        return DEFAULT_PARTITIONS
    if not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1:
        raise ValueError(f"partitions={partitions!r}: give a positive whole number, such as {DEFAULT_PARTITIONS}")
    return partitions


def to_timestamp(micros: int) -> Timestamp:
    """Microseconds as Beam's timestamp, held within Beam's range."""
    return Timestamp(micros=min(max(micros, MIN_TIMESTAMP.micros), MAX_TIMESTAMP.micros))


class _Outlet:
    """What a route or a core gives, as outputs of a DoFn: routed records in blocks, dropped ones counted and tagged, others as they are."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._pending: dict[tuple[str, int], list[Record]] = {}

    def emit(self, items: Iterable[Any]) -> Iterator[Any]:
        pending, partitions = self._pending, self._partitions
        for item in items:
            if type(item) is Routed:
                to, route, record = item
                where = (to, xxhash.xxh3_64_intdigest(route) % partitions)
                records = pending.get(where)
                if records is None:
                    records = pending[where] = []
                records.append(record)
                if len(records) >= BLOCK_RECORDS:
                    del pending[where]
                    yield TaggedOutput(to, (where[1], write_block(records)))
            elif type(item) is Dropped:
                Metrics.counter("beam_joins", f"dropped_{item.reason}").inc()
                yield TaggedOutput(DROPPED, item)
            else:
                yield item

    def drain(self) -> Iterator[tuple[str, tuple[int, bytes], int]]:
        for (to, partition), records in self._pending.items():
            yield to, (partition, write_block(records)), min(record.timestamp for record in records)
        self._pending.clear()


class _RouteDoFn(beam.DoFn):
    def __init__(self, rows: Callable[[Any, int], Iterable[Any]], partitions: int) -> None:
        self._rows = rows
        self._partitions = partitions

    def start_bundle(self) -> None:
        self._outlet = _Outlet(self._partitions)

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        return self._outlet.emit(self._rows(element, timestamp.micros))

    def finish_bundle(self) -> Iterator[Any]:
        for to, block, micros in self._outlet.drain():
            yield TaggedOutput(to, WindowedValue(block, to_timestamp(micros), (GlobalWindow(),)))


class Operator:
    """What one use of the engine does with the records of a partition: how it reads them, its core, and what follows from its outputs."""

    def core(self) -> Core[Any, Any]:
        """A core for one routing key."""
        raise NotImplementedError

    def route(self, record: Record) -> bytes:
        """The routing key of a record: by default its key."""
        return record.key

    def read(self, record: Record) -> Any:
        """A record as the core's event: by default itself."""
        return record

    def write(self, output: Any) -> Iterable[Any]:
        """A core's output as items: :class:`Routed` records, :class:`Dropped` ones, or elements of the main output."""
        raise NotImplementedError

    def replay(self, records: Sequence[Record], ends: Iterable[int]) -> Iterator[Any]:
        """Feed ordered records to cores; ``ends`` are the indices at which a routing key's records end."""
        at = 0
        for end in ends:
            core = self.core()
            while at < end:
                start, position = at, records[at].position
                while at < end and records[at].position == position:
                    at += 1
                for output in core.advance(position, [self.read(record) for record in records[start:at]]):
                    yield from self.write(output)


def order(blocks: Iterable[bytes], route: Callable[[Record], bytes]) -> tuple[list[Record], list[int]]:
    """The records of blocks by (routing key, position, input), and the indices at which each routing key's records end."""
    records: list[Record] = []
    positions, inputs = [], []
    for block in blocks:
        batch = read_block(block)
        records.extend(map(Record, *(column.to_pylist() for column in batch.columns)))
        positions.append(batch.column("position").to_numpy())
        inputs.append(batch.column("input").to_numpy())
    if not records:
        return [], []
    codes: dict[bytes, int] = {}
    routes = np.fromiter((codes.setdefault(route(record), len(codes)) for record in records), np.int64, len(records))
    by = np.lexsort((np.concatenate(inputs), np.concatenate(positions), routes))
    return [records[i] for i in by.tolist()], np.cumsum(np.bincount(routes)).tolist()


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
        ) -> None:
            blocks.add(element[1])
            timer.set(window.max_timestamp())

        @on_timer(timer_spec)
        def replay(self, blocks: Any = beam.DoFn.StateParam(blocks_spec)) -> Iterator[Any]:
            records, ends = order(blocks.read(), operator.route)
            blocks.clear()
            outlet = _Outlet(partitions)
            yield from outlet.emit(operator.replay(records, ends))
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

    ``rows(element, timestamp in microseconds)`` gives the :class:`Routed` records of an element, and :class:`Dropped` ones. The outputs are
    a dict: one collection of blocks for each name in ``to``, and ``"dropped"``.
    """

    def __init__(self, rows: Callable[[Any, int], Iterable[Any]], *, to: tuple[str, ...], partitions: int) -> None:
        super().__init__(to, Any)
        self._rows = rows
        self._partitions = partitions

    def expand(self, pcoll: PCollection[Any]) -> dict[str, PCollection[Any]]:
        """Apply the transform."""
        return self._outputs(pcoll, _RouteDoFn(self._rows, self._partitions))


class Replay(_Stage):
    """Blocks, from one collection or several, through an operator's core.

    The outputs are a dict: ``"main"``, of elements of ``main_type``, ``"dropped"``, and one collection of blocks for each name in ``to``.
    """

    def __init__(self, operator: Operator, *, partitions: int, to: tuple[str, ...] = (), main_type: Any = Any) -> None:
        super().__init__(to, main_type)
        self._operator = operator
        self._partitions = partitions

    def expand(self, blocks: Sequence[PCollection[Any]]) -> dict[str, PCollection[Any]]:
        """Apply the transform."""
        together = blocks | "Together" >> beam.Flatten() if len(blocks) > 1 else blocks[0]
        # The full label is unique in a pipeline and the same at every submission; Beam shows it to nobody else.
        name = together.pipeline._current_transform().full_label
        return self._outputs(together, _replay_dofn(name, self._operator, self._partitions))
