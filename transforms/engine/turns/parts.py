"""A partition that is too large for a turn, in parts: each has the rows of a range of places."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.coders.block import concat_batches, read_block, read_blocks
from beam_joins.columns.sorting import combine_chunks, valid
from beam_joins.keys.hashes import Hashes, hashes
from beam_joins.keys.key_columns import Ints
from beam_joins.keys.opaque import VALUES
from beam_joins.transforms.engine.blocks.block_files import BlockFolder, reference_of
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.places import ALL_PLACES, SPACE, PlaceRange, places

TURN_FACTOR: Final = 10
"""The memory of a turn as a multiple of the bytes of its rows: it sorts, joins and gives them."""
STATE_FACTOR: Final = 4
"""The most bytes of the state that rows meet, as a multiple of the bytes of the rows."""
FAN_OUT: Final = 16
"""The number of parts that rows of unknown size are split into."""
_MOST_PARTS: Final = 256
_ONE_KEY: Final = 0.9  # a part with so much of what was split has a key, or rows of all parts, that cannot be split
_PARTS: Final = "parts"
ROUTED_BY: Final = ("reference", "group", "key")
"""The columns by which rows meet others; the first that the rows have counts."""


class Held(NamedTuple):
    """A part of the state, for the places from the end of the part before up to ``end``: its size in bytes,
    and the least number of ``pieces`` to split it into.
    """

    end: int
    bytes: int = 0
    pieces: int = 1


class StatePart(NamedTuple):
    """The rows of a part by their inputs: those with places from the end of the part before up to ``end``."""

    end: int
    rows: dict[str, pa.Table]


NOTHING_HELD: Final = (Held(SPACE),)


class Parts:
    """Gives the rows of a partition, all at once or one part after another.

    ``memory`` is the bytes that a turn may take; ``folder`` the folder of the blocks that travel as
    references; ``to_all`` the inputs whose rows are all in every partition.
    """

    def __init__(self, memory: int, folder: BlockFolder | None, to_all: tuple[str, ...] = ()) -> None:
        self.memory = memory
        self._most_bytes = memory // TURN_FACTOR
        self._folder = folder
        self._to_all = to_all

    def read(self, block: bytes) -> bytes:
        """The block, if it is one or a reference to one."""
        return block if self._folder is None else self._folder.read(block)

    def of(self, blocks: Iterable[bytes], held: Sequence[Held] = NOTHING_HELD) -> Iterator[StatePart]:
        """The rows of a partition, from the first place to the last; each part of the state has parts of rows
        of its own.
        """
        if self._folder is None:
            yield from self._split(blocks, None, 0, held)
            return
        references = list(blocks)
        if (ranges := _ranges(references)) and held == NOTHING_HELD and os.path.isdir(self._folder.path):
            yield from self._of_ranges(references, ranges)
        else:
            yield from self._split(references, self._size(references), 0, held)
        if self._folder.frees:
            self._folder.free(references)

    def _of_ranges(self, blocks: Sequence[bytes], ends: Sequence[int]) -> Iterator[StatePart]:
        """The rows of blocks that are of ranges up to these places; rows of other blocks are put to them."""
        of_ranges, others = dict[int, list[bytes]](), list[bytes]()
        for block in blocks:
            of_block = _range(block)
            (of_ranges.setdefault(of_block.end, []) if of_block.of == len(ends) else others).append(block)
        yield from self._each_part(_read(map(self.read, others)), 0, ends, NOTHING_HELD, of_ranges)

    def _size(self, blocks: Iterable[bytes]) -> int | None:
        """The bytes of rows; ``None`` where many are in blocks that do not say it, and are perhaps compressed."""
        unknown = sum(len(block) for block in blocks if reference_of(block) is None)
        return None if unknown > self._most_bytes // FAN_OUT else _rows_bytes(blocks)

    def _split(self, blocks: Iterable[bytes], size: int | None, begin: int, held: Sequence[Held]) -> Iterator[StatePart]:
        """``size`` is that of the rows, where it is known, whose places are from ``begin`` on."""
        blocks = iter(blocks)
        batches: dict[str, list[pa.RecordBatch]] = {}
        if size is None or size <= self._most_bytes:
            seen = 0
            for name, rows in _read(map(self.read, blocks)):
                batches.setdefault(name, []).append(rows)
                seen += rows.nbytes
                if size is None and seen > self._most_bytes:
                    break
            else:
                size = seen
        ends = self._ends(begin, held, size)
        if len(ends) == 1:
            yield StatePart(ends[0], {name: concat_batches(name, batches.pop(name)) for name in list(batches)})
            return
        with ExitStack() as stack:
            folder = self._folder
            if folder is None or not os.path.isdir(folder.path):
                folder = BlockFolder(stack.enter_context(tempfile.TemporaryDirectory(prefix="beam_joins-parts-")), frees=True)
            parts = Parts(self.memory, folder, self._to_all)
            yield from parts._each_part(_all(batches, _read(map(self.read, blocks))), begin, ends, held)

    def _ends(self, begin: int, held: Sequence[Held], size: int | None) -> list[int]:
        """The ends of parts, so that none takes more memory than a turn may."""
        ends = list[int]()
        places = held[-1].end - begin
        for end, bytes_held, pieces in held:
            if size is None:
                several = FAN_OUT // len(held)
            else:
                rows = size * (end - begin) / places
                several = int(-(-(rows + min(bytes_held, STATE_FACTOR * rows)) // self._most_bytes))
            several = max(1, pieces, min(several, _MOST_PARTS // len(held)))
            ends += [begin + (end - begin) * (n + 1) // several for n in range(several)]
            begin = end
        return ends

    def _each_part(
        self,
        batches: Iterable[tuple[str, pa.RecordBatch]],
        begin: int,
        ends: Sequence[int],
        held: Sequence[Held],
        of_ends: Mapping[int, list[bytes]] = MappingProxyType({}),
    ) -> Iterator[StatePart]:
        """The parts up to each end: the blocks that are there for it, and its rows of the batches."""
        folder = self._folder
        assert folder is not None
        file = folder.file()
        path, parts = file.path, [list[bytes]() for _ in ends]
        writer = BlockWriter(len(ends), file=file, travels=False)
        total = sum(map(_rows_bytes, of_ends.values()))
        for name, rows in batches:
            total += rows.nbytes
            if name in self._to_all:
                writer.send_to_all(_PARTS, rows, name)
            else:
                writer.send(name, np.searchsorted(ends, places_of(rows), side="right"), rows)
            for _, element in writer.pop_ready():
                number, block = element.value
                parts[number].append(block)
        for _, (number, block), _ in writer.flush():
            parts[number].append(block)
        try:
            for end, written in zip(ends, parts, strict=True):
                part = [*of_ends.get(end, ()), *written]
                size = _rows_bytes(part)
                of_part = next(each for each in held if end <= each.end)
                if self._most_bytes < size < _ONE_KEY * total:
                    yield from self._split(part, size, begin, [of_part._replace(end=end, pieces=1)])
                elif part:
                    yield StatePart(end, read_blocks(map(self.read, part)))
                folder.free(written)
                written.clear()
                begin = end
        finally:
            with suppress(FileNotFoundError):
                os.remove(path)


def places_of(rows: pa.RecordBatch | pa.Table) -> Ints:
    """The places of rows by the hashes of their columns."""
    return places(routed_by(rows))


def _range(block: bytes) -> PlaceRange:
    return ALL_PLACES if (reference := reference_of(block)) is None else reference.range


def _ranges(blocks: Iterable[bytes]) -> list[int]:
    """The ends of the ranges of blocks; none where all blocks are of all places."""
    count = max((_range(block).of for block in blocks), default=1)
    return [PlaceRange(number, count).end for number in range(count)] if count > 1 else []


def _rows_bytes(blocks: Iterable[bytes]) -> int:
    return sum(len(block) if (reference := reference_of(block)) is None else reference.rows_bytes for block in blocks)


def _read(blocks: Iterable[bytes]) -> Iterator[tuple[str, pa.RecordBatch]]:
    return map(read_block, blocks)


def _all(batches: dict[str, list[pa.RecordBatch]], rest: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for name in list(batches):
        for rows in batches.pop(name):
            yield name, rows
    yield from rest


def routed_by(rows: pa.RecordBatch | pa.Table) -> Hashes:
    """The hashes by which rows meet others: those of their references, their groups or their keys."""
    by = next(name for name in ROUTED_BY if name in rows.schema.names)
    column = combine_chunks(rows.column(by))
    if by != "reference" or not column.null_count:
        return hashes(column)
    key = combine_chunks(rows.column("key"))
    # the key of a stream's record is not compared: a record that looks nothing up may be anywhere
    otherwise: Any = np.zeros(len(rows), np.uint64) if key.type == VALUES else hashes(key)
    return np.where(valid(column), hashes(column), otherwise)
