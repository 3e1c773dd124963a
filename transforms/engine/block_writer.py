"""Where a route or an operator puts its rows: into blocks, one for each partition of the replay that they go to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue
from apache_beam.utils.windowed_value import create as create_windowed_value

from beam_joins.change import Dropped
from beam_joins.coders.block import concat_batches, records_in_columns, write_block
from beam_joins.keys.kinds import OF_PARTS, kind
from beam_joins.record import Record
from beam_joins.transforms.engine.notes import write_note

BLOCK_RECORDS = 4096
PENDING_BYTES = 64 << 20  # wide rows go out before their blocks are full
_EARLIEST, _LATEST, _GLOBAL = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, (GlobalWindow(),)
MAIN, DROPPED, BAD = "main", "dropped", "bad"


def timestamped(value: Any, micros: int) -> WindowedValue:
    """The element with this event time in microseconds, held within Beam's range, in the global window."""
    timestamped: WindowedValue = create_windowed_value(value, min(max(micros, _EARLIEST), _LATEST), _GLOBAL)
    return timestamped


Output = tuple[str, Any]
"""An element and the name of the output that it goes to."""


class BlockWriter:
    """Where a route or an operator puts what is to travel on to a replay, and what it drops."""

    def __init__(self, partitions: int, *, keep_dropped: bool = True) -> None:
        self._partitions = partitions
        self._keep_dropped = keep_dropped
        self._records: dict[tuple[str, int], list[Record]] = {}
        self._columns: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        self._pending_bytes = 0
        self._noted: dict[str, set[str]] = {}
        self._noted_tags: dict[str, set[bytes]] = {}
        self._ready: list[Output] = []

    def noted(self, to: str) -> set[str]:
        """What was noted of the rows for the replay input ``to`` (:mod:`beam_joins.transforms.engine.notes`); add to it."""
        return self._noted.setdefault(to, set())

    def note_key(self, to: str, encoded: bytes) -> None:
        """Note the kind of a key in its canonical encoding."""
        tags = self._noted_tags.setdefault(to, set())
        tag = encoded[:1]
        if tag not in tags:
            if tag not in OF_PARTS:
                tags.add(tag)
            self.noted(to).add(kind(encoded))

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
            self._ready += [(to, block) for to, block, _ in self.flush()]

    def send_columns(self, to: str, hashes: Any, rows: pa.RecordBatch) -> None:
        """Send rows to the replay named ``to``; ``hashes`` are those of their routing keys, one unsigned integer a row."""
        partitions = (hashes % self._partitions).astype(np.min_scalar_type(self._partitions))
        counts = np.bincount(partitions, minlength=self._partitions).tolist()
        rows = rows.take(pa.array(np.argsort(partitions, kind="stable")))
        start = 0
        for partition, count in enumerate(counts):
            batches = self._columns.setdefault((to, partition), [])
            # an empty batch gives each partition the schema
            if count or all(batch.schema != rows.schema for batch in batches):
                batches.append(rows.slice(start, count))
                start += count
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= PENDING_BYTES:
            self._ready += [(to, block) for to, block, _ in self.flush()]

    def drop(self, reason: str, record: Any, timestamp: int) -> None:
        """Count a record that cannot be used, and put it into the output of the dropped ones."""
        Metrics.counter("beam_joins", f"dropped_{reason}").inc()
        if self._keep_dropped:
            self._ready.append((DROPPED, timestamped(Dropped(reason, record, timestamp), timestamp)))

    def drop_rows(self, reason: str, count: int, rows: Callable[[], Iterable[tuple[Any, int]]]) -> None:
        """Count many records, and put them, each with its timestamp, into the output of the dropped ones if there is one."""
        if count:
            Metrics.counter("beam_joins", f"dropped_{reason}").inc(count)
            if self._keep_dropped:
                self._ready += [(DROPPED, timestamped(Dropped(reason, record, timestamp), timestamp)) for record, timestamp in rows()]

    def bad(self, elements: Iterable[Any]) -> None:
        """Put elements into the output of what functions have raised for."""
        self._ready += [(BAD, element) for element in elements]

    def pop_ready(self) -> list[Output]:
        """What is ready to go out: full blocks, dropped records, bad ones."""
        ready, self._ready = self._ready, []
        return ready

    def flush(self) -> Iterator[tuple[str, tuple[int, bytes], int]]:
        """The blocks that are not full, each with its name and its earliest timestamp, and the notes."""
        for (to, partition), records in self._records.items():
            yield to, (partition, write_block(records_in_columns(records), to)), min(record.timestamp for record in records)
        for (to, partition), batches in self._columns.items():
            rows = concat_batches(to, batches)
            yield to, (partition, write_block(rows, to)), pc.min(rows["timestamp"]).as_py() or 0
        for to, noted in self._noted.items():
            if noted:
                yield to, (0, write_note(to, noted)), _EARLIEST
        self._noted.clear()
        self._noted_tags.clear()
        self._records.clear()
        self._columns.clear()
        self._pending_bytes = 0
