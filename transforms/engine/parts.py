"""A partition that is too large for a turn, in parts: its rows by further bits of the hash by which they were
routed, as if there were more partitions.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from beam_joins.coders.block import concat_batches, read_block, read_blocks
from beam_joins.keys.hashes import Hashes, hashes
from beam_joins.keys.opaque import VALUES
from beam_joins.sorting import combine_chunks, valid
from beam_joins.transforms.engine.block_files import BlockFolder, reference_of
from beam_joins.transforms.engine.block_writer import BlockWriter

TURN_FACTOR: Final = 10
"""How many times the bytes of its rows a turn takes, which sorts, joins and gives them."""
FAN_OUT: Final = 16
"""Into how many parts rows are split of which it is not known how many there are."""
_MOST_PARTS: Final = 256
_ONE_KEY: Final = 0.9  # a part with so much of what was split has a key, or rows of all parts, that cannot be split
_PARTS: Final = "parts"


class Parts:
    """Gives the rows of a partition, all at once or one part after another.

    ``memory`` is how many bytes a turn may take; ``folder`` where the blocks lie that are references;
    ``to_all`` the inputs of which every partition has all rows.
    """

    def __init__(self, memory: int, folder: BlockFolder | None, to_all: tuple[str, ...] = ()) -> None:
        self._most_bytes = memory // TURN_FACTOR
        self._folder = folder
        self._to_all = to_all

    def read(self, block: bytes) -> bytes:
        """The block, if it is one or a reference to one."""
        return block if self._folder is None else self._folder.read(block)

    def of(self, blocks: Iterable[bytes], *, splits: bool) -> Iterator[dict[str, pa.Table]]:
        """The rows of a partition, by their inputs, in one part or, where it ``splits``, in several."""
        if self._folder is None:
            yield from self._split(blocks, 1, None) if splits else [self._whole(blocks)]
            return
        references = list(blocks)
        yield from self._split(references, 1, self._size(references)) if splits else [self._whole(references)]
        if self._folder.frees:
            self._folder.free(references)

    def _size(self, blocks: Iterable[bytes]) -> int | None:
        """The bytes of rows; ``None`` where many are in blocks that do not say it, and are perhaps compressed."""
        unknown = sum(len(block) for block in blocks if reference_of(block) is None)
        return None if unknown > self._most_bytes // FAN_OUT else _rows_bytes(blocks)

    def _whole(self, blocks: Iterable[bytes]) -> dict[str, pa.Table]:
        return read_blocks(map(self.read, blocks))

    def _split(self, blocks: Iterable[bytes], divisor: int, size: int | None) -> Iterator[dict[str, pa.Table]]:
        """``size`` is that of the rows, where it is known; ``divisor`` is how often the hash was divided."""
        several = 1 if size is None else -(-size // self._most_bytes)
        blocks = iter(blocks)
        batches: dict[str, list[pa.RecordBatch]] = {}
        if several <= 1:
            seen = 0
            for name, rows in _read(map(self.read, blocks)):
                batches.setdefault(name, []).append(rows)
                seen += rows.nbytes
                if size is None and seen > self._most_bytes:
                    several = FAN_OUT
                    break
            else:
                yield {name: concat_batches(name, batches.pop(name)) for name in list(batches)}
                return
        with ExitStack() as stack:
            folder = self._folder
            if folder is None or not os.path.isdir(folder.path):
                folder = BlockFolder(stack.enter_context(tempfile.TemporaryDirectory(prefix="beam_joins-parts-")), frees=True)
            parts = Parts(self._most_bytes * TURN_FACTOR, folder, self._to_all)
            yield from parts._each_part(self, batches, blocks, min(several, _MOST_PARTS), divisor)

    def _each_part(
        self,
        whole: "Parts",
        batches: dict[str, list[pa.RecordBatch]],
        blocks: Iterable[bytes],
        several: int,
        divisor: int,
    ) -> Iterator[dict[str, pa.Table]]:
        folder = self._folder
        assert folder is not None
        file = folder.file()
        path, parts = file.path, [list[bytes]() for _ in range(several)]
        writer = BlockWriter(several, file=file, counts=False)
        total = 0
        for name, rows in _all(batches, _read(map(whole.read, blocks))):
            total += rows.nbytes
            if name in self._to_all:
                writer.send_to_all(_PARTS, rows, name)
            else:
                writer.send(name, _further_bits(_routed_by(rows)) // np.uint64(divisor), rows)
            for _, element in writer.pop_ready():
                number, block = element.value
                parts[number].append(block)
        for _, (number, block), _ in writer.flush():
            parts[number].append(block)
        try:
            for part in parts:
                if not part:
                    continue
                size = _rows_bytes(part)
                if self._most_bytes < size < _ONE_KEY * total:
                    yield from self._split(part, divisor * several, size)
                else:
                    yield self._whole(part)
                folder.free(part)
                part.clear()
        finally:
            with suppress(FileNotFoundError):
                os.remove(path)


def _rows_bytes(blocks: Iterable[bytes]) -> int:
    return sum(len(block) if (reference := reference_of(block)) is None else reference.rows_bytes for block in blocks)


def _read(blocks: Iterable[bytes]) -> Iterator[tuple[str, pa.RecordBatch]]:
    return map(read_block, blocks)


def _all(batches: dict[str, list[pa.RecordBatch]], rest: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for name in list(batches):
        for rows in batches.pop(name):
            yield name, rows
    yield from rest


def _further_bits(hashed: Hashes) -> Hashes:
    """Other bits than those by which partitions, and parts of left rows, are chosen."""
    return (hashed * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(16)


def _routed_by(rows: pa.RecordBatch) -> Hashes:
    """The hashes by which rows meet others: of what they look up, of their group or of their key."""
    by = next(name for name in ("reference", "group", "key") if name in rows.schema.names)
    column = combine_chunks(rows.column(by))
    if by != "reference" or not column.null_count:
        return hashes(column)
    key = combine_chunks(rows.column("key"))
    # the key of a stream's record is not compared: what looks nothing up may be anywhere
    otherwise: Any = np.zeros(len(rows), np.uint64) if key.type == VALUES else hashes(key)
    return np.where(valid(column), hashes(column), otherwise)
