"""Where a route or an operator puts its rows: into blocks, one for each partition of the replay that they go
to.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue
from apache_beam.utils.windowed_value import create as create_windowed_value

from beam_joins.coders.block import Compression, concat_batches, write_block
from beam_joins.columns.sorting import integers
from beam_joins.elements.change import Dropped
from beam_joins.transforms.engine.blocks import metrics
from beam_joins.transforms.engine.blocks.block_files import BlockFile
from beam_joins.transforms.engine.blocks.observed_kinds import write_note
from beam_joins.transforms.engine.blocks.places import ALL_PLACES, PlaceRange, places

PENDING_BYTES = 64 << 20  # the rows that wait in a writer, of all replays and partitions
BLOCK_BYTES = 4 << 20  # a block as large as that does not wait for the others
_EARLIEST, _LATEST, _GLOBAL = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, (GlobalWindow(),)
END = int(GlobalWindow().max_timestamp().micros) // 1_000_000 * 1_000_000 - 60_000_000
"""The event time, in microseconds, of the turns at the end of all input: so long before the end of the global
window that the turns of all stages, one after the other, lie before it.
"""
MAIN, DROPPED, BAD = "main", "dropped", "bad"
TURN = "turn"
"""The column of rows that come from a turn, with the end of its tick."""


def timestamped(value: Any, micros: int) -> WindowedValue:
    """The element with this event time in microseconds, held within Beam's range, in the global window."""
    timestamped: WindowedValue = create_windowed_value(value, min(max(micros, _EARLIEST), _LATEST), _GLOBAL)
    return timestamped


def all_timestamped(values: Iterable[Any], micros: pa.Array) -> Iterator[WindowedValue]:
    """Elements, each with its event time as :func:`timestamped` gives it."""
    # a generator: Beam's check of types at run time takes what else is iterated over to its end
    yield from map(create_windowed_value, values, integers(micros).clip(_EARLIEST, _LATEST).tolist(), repeat(_GLOBAL))


Output = tuple[str, Any]
"""An element and the name of the output that it goes to."""


class Where(NamedTuple):
    """The replay and the partition that a block goes to, the input that its rows are of, and the range of their places."""

    to: str
    partition: int
    input: str
    range: PlaceRange


class _Waiting:
    """Rows that wait until their block is full."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.bytes = 0


class BlockWriter:
    """Collects the output of a route or an operator: rows for replays, dropped records and bad ones.

    With a ``file``, blocks lie in it and references travel; a block has the rows of one of ``ranges`` of places. ``travels=False``
    for blocks that do not leave the turn that writes them.
    """

    def __init__(
        self,
        partitions: int,
        *,
        ranges: int = 1,
        keep_dropped: bool = True,
        turn: int | None = None,
        file: BlockFile | None = None,
        travels: bool = True,
    ) -> None:
        self.turn = turn
        """The end of the tick in which the rows sent had their turn, where the input has ticks
        (:mod:`beam_joins.transforms.engine.turns.ticks`).
        """
        self._partitions, self._ranges = partitions, ranges
        self._keep_dropped = keep_dropped
        self._file = file
        self._travels = travels
        of_block: Compression = "zstd" if file is None or file.is_remote else "lz4"
        self._compression = of_block if travels else None
        self._waiting: dict[Where, _Waiting] = {}
        self._pending_bytes = 0
        self._noted: dict[str, set[str]] = {}
        self._ready: list[Output] = []

    def noted(self, to: str) -> set[str]:
        """The notes on the rows for the replay input ``to`` (:mod:`beam_joins.transforms.engine.blocks.observed_kinds`); add
        to them.
        """
        return self._noted.setdefault(to, set())

    def send(self, to: str, hashes: Any, rows: pa.RecordBatch) -> None:
        """Send rows to the replay named ``to``; ``hashes`` are those of their routing keys, one unsigned
        integer a row.
        """
        if not len(rows):
            return
        if self.turn is not None:
            rows = rows.append_column(TURN, pa.array(np.full(len(rows), self.turn)))
        blocks = hashes % self._partitions
        if self._ranges > 1:
            blocks = blocks.astype(np.int64) * self._ranges + PlaceRange.numbers(places(hashes), self._ranges)
        blocks = blocks.astype(np.min_scalar_type(self._partitions * self._ranges))
        counts = np.bincount(blocks)
        rows = rows.take(pa.array(np.argsort(blocks, kind="stable")))
        each, start = rows.nbytes / len(rows), 0
        for block in np.flatnonzero(counts).tolist():
            some, where = int(counts[block]), Where(to, block // self._ranges, to, PlaceRange(block % self._ranges, self._ranges))
            waiting = self._waiting.setdefault(where, _Waiting())
            waiting.batches.append(rows.slice(start, some))
            waiting.bytes += round(some * each)
            self._pending_bytes += round(some * each)
            start += some
            if waiting.bytes >= BLOCK_BYTES:
                self._leave(where)
        if self._pending_bytes >= PENDING_BYTES:
            for where in list(self._waiting):
                self._leave(where)

    def send_to_all(self, to: str, rows: pa.RecordBatch, input: str) -> None:
        """Send a few rows to all partitions of the replay named ``to``, as an input of another name."""
        for partition in range(self._partitions):
            self._waiting.setdefault(Where(to, partition, input, ALL_PLACES), _Waiting()).batches.append(rows)

    def drop(self, reason: str, record: Any, timestamp: int) -> None:
        """Count a record that cannot be used, and put it into the output of the dropped ones."""
        self.drop_rows(reason, 1, lambda: [(record, timestamp)])

    def drop_rows(self, reason: str, records: int, rows: Callable[[], Iterable[tuple[Any, int]]]) -> None:
        """Count many records, and put them, each with its timestamp, into the output of the dropped ones, if
        any.
        """
        if records:
            metrics.count(metrics.dropped(reason), records)
            if self._keep_dropped:
                self._ready += [(DROPPED, timestamped(Dropped(reason, record, timestamp), timestamp)) for record, timestamp in rows()]

    def bad(self, elements: Iterable[Any]) -> None:
        """Put the elements for which functions have raised into their output."""
        self._ready += [(BAD, element) for element in elements]

    def pop_ready(self) -> list[Output]:
        """Remove and return the outputs that are ready: full blocks, dropped records, bad records."""
        ready, self._ready = self._ready, []
        return ready

    def flush(self) -> Iterator[tuple[str, tuple[int, bytes], int]]:
        """The blocks that are not full, each with its name and its earliest timestamp, and the notes."""
        for where, waiting in self._waiting.items():
            rows = concat_batches(where.input, waiting.batches)
            yield where.to, (where.partition, self._block(rows, where)), _earliest(rows)
        for to, noted in self._noted.items():
            if noted:
                yield to, (0, write_note(to, noted)), _EARLIEST
        self._noted.clear()
        self._waiting.clear()
        self._pending_bytes = 0
        if self._file is not None:
            self._file.close()

    def _leave(self, where: Where) -> None:
        waiting = self._waiting.pop(where)
        self._pending_bytes -= waiting.bytes
        rows = concat_batches(where.input, waiting.batches)
        self._ready.append((where.to, timestamped((where.partition, self._block(rows, where)), _earliest(rows))))

    def _block(self, rows: pa.Table, where: Where) -> bytes:
        block = write_block(rows, where.input, compression=self._compression)
        if self._travels:
            metrics.count(metrics.BLOCK_ROWS, len(rows))
            metrics.count(metrics.BLOCK_BYTES, len(block))
        return block if self._file is None else self._file.write(block, rows.nbytes, where.range)


def _earliest(rows: pa.Table) -> int:
    earliest: int = pc.min(rows["timestamp"]).as_py()
    return min(earliest, END - 1)
