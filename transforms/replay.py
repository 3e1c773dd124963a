"""The one engine: route rows to partitions, ship them in blocks, replay a partition in the order of its positions.

Every stateful transform is one or more uses of it:

1. a :class:`Route` puts elements, as records or as columns, into an :class:`Outlet`, each with the routing key by which it meets others;
2. the rows of a partition travel in blocks (:mod:`coders.block`), so that a runner sees few large elements;
3. :class:`Replay`, a stateful DoFn keyed by partition, keeps the blocks in a bag until its event-time timer fires;
4. then it gives them to its operator: one that works on columns (:mod:`transforms.table_form`), or one that feeds a core of
   :mod:`beam_joins` record by record (:mod:`transforms.core_operator`).

What comes out does not depend on the order of arrival, the number of partitions or the runner, since an operator sees all rows of a
routing key in the order of their positions and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
from beam_joins.record import Record
from coders.block import records_in_columns, together, write_block

BLOCK_RECORDS = 4096
BLOCK_ROWS = 1 << 16
PENDING_BYTES = 64 << 20  # wide rows go out before their blocks are full
_EARLIEST, _LATEST, _GLOBAL = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, (GlobalWindow(),)
MAIN, DROPPED = "main", "dropped"


def at(value: Any, micros: int) -> WindowedValue:
    """The element with this event time in microseconds, held within Beam's range, in the global window."""
    timestamped: WindowedValue = create_windowed_value(value, min(max(micros, _EARLIEST), _LATEST), _GLOBAL)
    return timestamped


Output = tuple[str, Any]
"""An element and the name of the output that it goes to."""


class Outlet:
    """Where a route or an operator puts what is to travel on to a replay, and what it drops."""

    def __init__(self, partitions: int, *, keep_dropped: bool = True) -> None:
        self._partitions = partitions
        self._keep_dropped = keep_dropped
        self._records: dict[tuple[str, int], list[Record]] = {}
        self._columns: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        self._pending_bytes = 0
        self._ready: list[Output] = []

    def send(self, to: str, route: bytes, record: Record) -> None:
        """Send a record to the replay named ``to``, where it meets the other records of the routing key ``route``."""
        where = (to, xxhash.xxh3_64_intdigest(route) % self._partitions)
        records = self._records.get(where)
        if records is None:
            records = self._records[where] = []
        records.append(record)
        self._pending_bytes += len(record.key) + len(record.value or b"")
        if len(records) >= BLOCK_RECORDS:
            del self._records[where]
            self._ready.append((to, (where[1], write_block(records_in_columns(records), to))))
        elif self._pending_bytes >= PENDING_BYTES:
            self._ready += [(to, block) for to, block, _ in self.drain()]

    def send_columns(self, to: str, hashes: Any, rows: pa.RecordBatch) -> None:
        """Send rows to the replay named ``to``; ``hashes`` are those of their routing keys, one unsigned integer a row."""
        partitions = (hashes % self._partitions).astype(np.min_scalar_type(self._partitions))
        counts = np.bincount(partitions, minlength=self._partitions).tolist()
        rows = rows.take(pa.array(np.argsort(partitions, kind="stable")))
        start = 0
        for partition, count in enumerate(counts):
            # a partition without rows learns at least what columns there are
            if count or (to, partition) not in self._columns:
                self._columns.setdefault((to, partition), []).append(rows.slice(start, count))
                start += count
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= PENDING_BYTES:
            self._ready += [(to, block) for to, block, _ in self.drain()]

    def drop(self, reason: str, record: Any, timestamp: int) -> None:
        """Count a record that cannot be used, and put it into the output of the dropped ones."""
        Metrics.counter("beam_joins", f"dropped_{reason}").inc()
        if self._keep_dropped:
            self._ready.append((DROPPED, at(Dropped(reason, record, timestamp), timestamp)))

    def drop_rows(self, reason: str, count: int, rows: Callable[[], Iterable[tuple[Any, int]]]) -> None:
        """Count many records, and put them, each with its timestamp, into the output of the dropped ones if there is one."""
        if count:
            Metrics.counter("beam_joins", f"dropped_{reason}").inc(count)
            if self._keep_dropped:
                self._ready += [(DROPPED, at(Dropped(reason, record, timestamp), timestamp)) for record, timestamp in rows()]

    def take(self) -> list[Output]:
        """What is ready to go out: full blocks and dropped records."""
        ready, self._ready = self._ready, []
        return ready

    def drain(self) -> Iterator[tuple[str, tuple[int, bytes], int]]:
        """The blocks that are not full, each with its name and its earliest timestamp."""
        for (to, partition), records in self._records.items():
            yield to, (partition, write_block(records_in_columns(records), to)), min(record.timestamp for record in records)
        for (to, partition), batches in self._columns.items():
            rows = together(to, batches)
            yield to, (partition, write_block(rows, to)), pc.min(rows["timestamp"]).as_py() or 0
        self._records.clear()
        self._columns.clear()
        self._pending_bytes = 0


Rows = Callable[[Any, int, Outlet], None]
"""Puts the rows of an element, whose timestamp in microseconds is given, into the outlet."""


class Operator(Protocol):
    """What one use of the engine does with the rows of a partition."""

    def replay(self, blocks: Iterable[bytes], outlet: Outlet) -> Iterator[Any]:
        """The elements that follow from the blocks of a partition; rows for another replay go into the outlet."""
        ...


class _Emitter:
    """What the DoFns of the engine share: an outlet, and outputs of which the first needs no tag."""

    def __init__(self, outputs: tuple[str, ...], partitions: int) -> None:
        self._main = outputs[0]
        self._keep_dropped = DROPPED in outputs
        self._partitions = partitions

    def outlet(self) -> Outlet:
        return Outlet(self._partitions, keep_dropped=self._keep_dropped)

    def emit(self, outputs: Iterable[Output]) -> list[Any]:
        return [element if to == self._main else TaggedOutput(to, element) for to, element in outputs]


class _RouteDoFn(beam.DoFn):
    def __init__(self, rows: Rows, emitter: _Emitter) -> None:
        self._rows = rows
        self._emitter = emitter

    def start_bundle(self) -> None:
        self._outlet = self._emitter.outlet()

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> list[Any]:
        self._rows(element, timestamp.micros, self._outlet)
        return self._emitter.emit(self._outlet.take())

    def finish_bundle(self) -> list[Any]:
        return self._emitter.emit((to, at(block, micros)) for to, block, micros in self._outlet.drain())


class _UntimedRouteDoFn(_RouteDoFn):
    """For elements that say their time themselves: asking Beam for it costs as much as the rest of this step."""

    def process(self, element: Any) -> list[Any]:  # type: ignore[override]
        self._rows(element, 0, self._outlet)
        return self._emitter.emit(self._outlet.take())


def _replay_dofn(name: str, operator: Operator, emitter: _Emitter) -> beam.DoFn:
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
            outlet = emitter.outlet()
            for element in operator.replay(blocks.read(), outlet):
                yield element
                yield from emitter.emit(outlet.take())
            blocks.clear()
            yield from emitter.emit(outlet.take())
            yield from emitter.emit((to, block) for to, block, _ in outlet.drain())

    return ReplayDoFn()  # type: ignore[no-untyped-call]


class _Stage(beam.PTransform[Any, Any]):
    def __init__(self, outputs: tuple[str, ...], partitions: int, main_type: Any) -> None:
        super().__init__()
        self._names = outputs
        self._main_type = main_type
        self._emitter = _Emitter(outputs, partitions)

    def _outputs(self, pcoll: PCollection[Any], dofn: beam.DoFn) -> dict[str, PCollection[Any]]:
        main, *others = self._names
        # An output that nobody asked for is not declared: on Spark each one costs a pass over what the stage gives.
        run = beam.ParDo(dofn)
        outputs = pcoll | "Run" >> (run.with_outputs(*others, main=main) if others else run)
        named = {tag: outputs[tag] for tag in self._names} if others else {main: outputs}
        for tag, output in named.items():
            if tag != DROPPED:
                output.element_type = self._main_type if tag == MAIN else beam.typehints.KV[int, bytes]
        return named


class Route(_Stage):
    """Elements into blocks of rows, by partition.

    The outputs are a dict: one collection of blocks for each name in ``to``, and the dropped records if ``DROPPED`` is one of them.
    ``timed=False`` says that ``rows`` does not look at the timestamp.
    """

    def __init__(self, rows: Rows, *, to: tuple[str, ...], partitions: int, timed: bool = False) -> None:
        super().__init__(to, partitions, Any)
        self._rows = rows
        self._timed = timed

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """Apply the transform."""
        return self._outputs(pcoll, (_RouteDoFn if self._timed else _UntimedRouteDoFn)(self._rows, self._emitter))


class Replay(_Stage):
    """Blocks, from one collection or several, through an operator.

    The outputs are a dict with the names in ``to``: ``MAIN``, of elements of ``main_type``; ``DROPPED``; any other name is a collection of
    blocks for another replay.
    """

    def __init__(self, operator: Operator, *, partitions: int, to: tuple[str, ...] = (MAIN,), main_type: Any = Any) -> None:
        super().__init__(to, partitions, main_type)
        self._operator = operator

    def expand(self, blocks: Any) -> Any:
        """Apply the transform."""
        together = blocks | "Together" >> beam.Flatten() if len(blocks) > 1 else blocks[0]
        # The full label is unique in a pipeline and the same at every submission; Beam shows it to nobody else.
        name = together.pipeline._current_transform().full_label
        return self._outputs(together, _replay_dofn(name, self._operator, self._emitter))
