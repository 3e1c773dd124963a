"""Sorts the records of a result: parts sorted by bundle, and their merge into one file.

Changes are in the order of their positions, so that the files of several runs, one after the other, are the
file of one run, byte for byte. The final rows of a table are in the order of the hashes of their keys.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from beam_joins import ChangeBatch
from beam_joins.columns.sorting import combine_chunks, integers
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import Ints
from beam_joins.pipelines.base.paths import is_local, remove
from beam_joins.transforms.connect.files import create_file, open_file

_WINDOW: Final = 1 << 16
"""No more records than these are merged at a time."""
_WINDOWS: Final = 256
_WINDOW_BYTES: Final = (1 << 22, 1 << 28)
"""Parts are merged in about so many windows, within these limits: small ones stay in the caches of a processor."""

_MAPPED_SHARE: Final = 64
_MAPPED_BYTES: Final = 1 << 27
"""Parts are mapped anew when so many bytes of them are merged, a share of all if that is more: what was read of a
mapped file counts as memory of the process.
"""

_LEAST: Final = -(1 << 63)

AT_A_TIME: Final = 8_192
"""So many records are encoded at a time, and a part that is to be merged has no more."""


Encode = Callable[[Any], Iterator[pa.RecordBatch]]
"""Gives the records of an element in their order, some at a time, as :class:`ChangesInOrder` and
:class:`RowsInOrder` do.
"""


@dataclass(frozen=True)
class ChangesInOrder:
    """Encodes batches of changes, some changes at a time, by position; at one position by the hash of the key.

    ``records`` gives the records of changes with their old and new rows, and ``row`` what of the values are the
    rows.
    """

    records: Callable[[ChangeBatch, pa.Array, pa.Array], pa.Array]
    row: Callable[[pa.Array], pa.Array] = lambda values: values

    def __call__(self, batch: ChangeBatch) -> Iterator[pa.RecordBatch]:
        """The records of a batch; old rows are those of the whole batch."""
        rows, hashed = self.row(batch.values), hashes(batch.key).view(np.int64)
        # the changes are sorted, as their records are several times as large
        for some in _some(np.lexsort([hashed, integers(batch.position)])):
            columns = {name: getattr(batch, name).take(some) for name in ("key", "before", "timestamp", "position")}
            changes = ChangeBatch(**columns, new=rows.take(some))
            records = self.records(changes, rows.take(changes.before), changes.new)
            yield _placed(changes.position, pa.array(hashed).take(some), records)


@dataclass(frozen=True)
class RowsInOrder:
    """Encodes batches of rows, as :class:`~beam_joins.LatestTable` gives them, by the hashes of their keys;
    ``records`` gives those of keys and values, and ``row`` what of the values are the rows.
    """

    records: Callable[[pa.Array, pa.Array], pa.Array]
    row: Callable[[pa.Array], pa.Array] = lambda values: values

    def __call__(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The records of a batch."""
        rows, hashed = self.row(batch["value"]), hashes(batch["key"]).view(np.int64)
        for some in _some(np.argsort(hashed)):
            place = pa.array(hashed).take(some)
            yield _placed(place, place, self.records(batch["key"].take(some), rows.take(some)))


def _some(order: Ints) -> Iterator[pa.Array]:
    for start in range(0, len(order), AT_A_TIME):
        yield pa.array(order[start : start + AT_A_TIME])


def _placed(position: pa.Array, hashed: pa.Array, records: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([position, hashed, records], names=["position", "key", "record"])


def ordered(rows: pa.Table) -> pa.Table:
    """Records in their order."""
    by = np.lexsort([integers(rows["key"]), integers(rows["position"])])
    return rows.take(pa.array(by))


def write_pieces(rows: pa.Table, name: str, directory: str) -> Iterator[tuple[str, int]]:
    """Writes sorted records into files for :func:`merge`; gives the path and the number of records of each."""
    for start in range(0, len(rows), AT_A_TIME):
        piece = rows.slice(start, AT_A_TIME)
        path = os.path.join(directory, f"{uuid.uuid4().hex}-{name}.arrow")
        try:
            with create_file(path) as file, pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(piece)
        except BaseException:
            remove(path)  # so that a full disk has room again
            raise
        yield path, len(piece)


def merge(writer: Any, parts: Sequence[str | bytes], *, head: pa.Array | None = None, removes: bool) -> None:
    """Merges sorted parts, files or their content, by a writer of records to a new file, behind the records of its ``head``, and
    closes it. Raises OSError.

    ``removes``: a part is removed once it is in the whole, so that the disk need not hold the result twice.
    """
    try:
        if head is not None:
            writer.write(head)
        windows = _windows(parts)
        with ThreadPoolExecutor(1, thread_name_prefix="merge") as thread:
            ahead = thread.submit(next, windows, None)
            while (window := ahead.result()) is not None:
                ahead = thread.submit(next, windows, None)  # made while this one is written
                records, ended = window
                writer.write(records)
                for part in ended if removes else ():
                    assert isinstance(part, str)
                    remove(part)
    finally:
        writer.close()


def _windows(parts: Sequence[str | bytes]) -> Iterator[tuple[pa.Array, list[str | bytes]]]:
    """The records of all parts in their order, some at a time, with the parts that end with them."""
    if not parts:
        return
    positions, size = list[Ints](), 0
    for part in parts:
        table = _read(part)
        positions.append(np.array(integers(table["position"])))
        size += table.nbytes
    cuts = _cuts(positions, size)
    edges = np.array([[0, *_places(part, each, cuts), len(each)] for part, each in zip(parts, positions, strict=True)])
    tables: dict[int, pa.Table] = {}
    mapped, most_mapped = 0, max(_MAPPED_BYTES, size // _MAPPED_SHARE) if isinstance(parts[0], str) and is_local(parts[0]) else size
    for start, end in zip(edges.T, edges.T[1:], strict=False):
        slices, ended = [], []
        for n in np.flatnonzero(start < end).tolist():
            if n not in tables:
                tables[n] = _read(parts[n])
            slices.append(tables[n].slice(start[n], end[n] - start[n]))
            if end[n] == edges[n, -1]:
                del tables[n]
                ended.append(parts[n])
        if slices:
            records = combine_chunks(ordered(pa.concat_tables(slices))["record"])
            slices.clear()
            mapped += records.nbytes
            if mapped > most_mapped:
                tables.clear()
                mapped = 0
            yield records, ended


def _cuts(positions: Sequence[Ints], size: int) -> list[tuple[int, int]]:
    """Where windows end, as positions and hashes of keys: one position may have more records than a window."""
    together = np.sort(np.concatenate(positions)) if positions else np.zeros(0, np.int64)
    least, largest = _WINDOW_BYTES
    window = min(max(size // _WINDOWS, least), largest)
    most = max(1, min(_WINDOW, window * len(together) // max(1, size)))
    cuts = []
    for position in np.unique(together[most::most]).tolist():
        count = int(np.searchsorted(together, position, "right") - np.searchsorted(together, position))
        pieces = -(-count // most)
        cuts += [(position, _LEAST + (n << 64) // pieces) for n in range(pieces)]
    return cuts


def _places(part: str | bytes, positions: Ints, cuts: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The number of records of a part before each cut."""
    for position, hashed in cuts:
        start = int(np.searchsorted(positions, position))
        if hashed > _LEAST and (stop := int(np.searchsorted(positions, position, "right"))) > start:
            start += int(np.searchsorted(integers(_read(part)["key"])[start:stop], hashed))
        yield start


def _read(part: str | bytes) -> pa.Table:
    if isinstance(part, bytes):
        return pa.ipc.open_file(part).read_all()
    if is_local(part):
        return pa.ipc.open_file(pa.memory_map(part)).read_all()
    with open_file(part) as file:
        return pa.ipc.open_file(file.read()).read_all()
