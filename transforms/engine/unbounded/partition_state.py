"""The state of a partition between its turns, in the state of its DoFn: tables that are never written again,
and a description of those in use.

A turn adds the sorted runs that it has made and leaves the others where they are. When less than half of the
stored bytes are in use, the tables in use are written again. A worker keeps the state of a partition that it
last read or wrote, and uses it as long as the description in the state is the same.
"""

import json
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from beam_joins.coders.snapshot import NO_SNAPSHOT, Snapshot, files_of, read_snapshot, tables_of, write_snapshot
from beam_joins.transforms.engine.blocks.metrics import count_state

_NAME = 16  # Arrow reads what begins at a multiple of 8 bytes without copying it
_SPARE = 1 << 20


class PartitionHeld(NamedTuple):
    """The state of a partition: that of its operator, the largest position that had its turn, and the end of
    its latest tick.
    """

    snapshot: Snapshot = NO_SNAPSHOT
    frontier: int | None = None
    tick: int | None = None
    written: bytes = b""

    @property
    def state(self) -> Any:
        """The state of the operator."""
        return self.snapshot.state


class PartitionMemory:
    """Reads and writes the states of partitions; ``state`` is the state of one value, ``tables`` the bag of
    the tables.
    """

    def __init__(self) -> None:
        self._held: dict[int, PartitionHeld] = {}

    def read(self, partition: int, state: Any, tables: Any) -> PartitionHeld:
        """Read the state of the partition."""
        written = state.read() or b""
        held = self._held.get(partition)
        if held is None or held.written != written:
            held = self._held[partition] = _read(written, tables) if written else PartitionHeld()
        return held

    def write(self, partition: int, held: PartitionHeld, before: PartitionHeld, state: Any, tables: Any) -> None:
        """Write the new state of the partition."""
        lying = json.loads(before.written)["bytes"] if before.written else 0

        def put(content: pa.Buffer) -> str:
            nonlocal lying
            name = uuid4().hex[:_NAME]
            tables.add(name.encode() + content.to_pybytes())
            lying += content.size
            return name

        described = write_snapshot(held.state, put, before.snapshot)
        size: int = sum(file["bytes"] for file in files_of(described))
        if lying > 2 * size + _SPARE:
            tables.clear()
            lying = 0
            described = write_snapshot(held.state, put)
        files = {id(table): (table, file) for table, file in zip(tables_of(held.state), files_of(described), strict=True)}
        of = {"state": described, "frontier": held.frontier, "tick": held.tick, "bytes": lying, "written": uuid4().hex}
        written = json.dumps(of).encode()
        state.write(written)
        self._held[partition] = PartitionHeld(Snapshot(held.state, files), held.frontier, held.tick, written)
        count_state(held.state, described)


def _read(written: bytes, tables: Any) -> PartitionHeld:
    state = json.loads(written)
    contents = {bytes(each[:_NAME]).decode(): pa.py_buffer(each).slice(_NAME) for each in tables.read()}
    snapshot = read_snapshot(state["state"], lambda names: map(contents.__getitem__, names))
    return PartitionHeld(snapshot, state["frontier"], state["tick"], written)
