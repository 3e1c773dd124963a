"""Blocks in files of a folder that all workers of a run reach: a runner then shuffles references to blocks,
and its memory does not grow with the input.

A bundle writes its blocks into one new file. A bundle that is run again writes another file, so that the
references that arrive name blocks of their own bundle. On a machine without a local folder blocks travel as they
are. In a store the file is there at the end of its bundle: nobody reads it before.
"""

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import uuid4

from apache_beam.io.filesystem import CompressionTypes

from beam_joins.errors import CorruptData, OutputError
from beam_joins.transforms.engine.blocks.places import ALL_PLACES, PlaceRange
from beam_joins.transforms.engine.files.stored_files import calling, cause, create_file, is_remote, read_range

SMALL_BYTES: Final = 4 << 10
"""A smaller block travels as it is: a file's pages, which are freed as a whole, are as large."""
_MARK = b"\x01"  # neither a block nor a note begins with it
_REFERENCE = Struct(">cQQQHH")  # the mark, where the block begins, its length, the bytes of its rows, its range; then the file's name
_RAW: Final = CompressionTypes.UNCOMPRESSED
_PUNCH_HOLE, _KEEP_SIZE = 2, 1  # of Linux's falloc.h


class Reference(NamedTuple):
    """Where a block lies, the bytes of its rows in memory, and the range of their places."""

    file: str
    offset: int
    length: int
    rows_bytes: int
    range: PlaceRange = ALL_PLACES

    def written(self) -> bytes:
        """The reference as it travels.

        >>> reference = Reference("0a", 4096, 70, 100)
        >>> reference_of(reference.written()) == reference, reference_of(b"a block")
        (True, None)
        """
        return _REFERENCE.pack(_MARK, self.offset, self.length, self.rows_bytes, *self.range) + self.file.encode()


def reference_of(block: bytes) -> Reference | None:
    """The reference that stands for a block; ``None`` for a block."""
    if not block.startswith(_MARK):
        return None
    _, offset, length, rows_bytes, *of_places = _REFERENCE.unpack_from(block)
    return Reference(block[_REFERENCE.size :].decode(), offset, length, rows_bytes, PlaceRange(*of_places))


class BlockFile:
    """The file of one bundle, made with its first block."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._name = uuid4().hex
        self._file: Any = None
        self._end = 0

    @property
    def path(self) -> str:
        """The path of the file, which exists once a block is in it."""
        return os.path.join(self._folder, self._name)

    @property
    def is_remote(self) -> bool:
        """Whether the file is in a store, and not on a disk of this machine or one that is mounted."""
        return is_remote(self._folder)

    def write(self, block: bytes, rows_bytes: int, range: PlaceRange = ALL_PLACES) -> bytes:
        """Write a block. Returns the bytes that travel in its place: a reference to it, or the block itself
        where it is small or the folder is missing. Raises :class:`OutputError`.
        """
        if len(block) < SMALL_BYTES or not self._open():
            return block
        left = memoryview(block)
        with self._writing():
            while left:
                left = left[self._file.write(left) :]
        offset, self._end = self._end, self._end + len(block)
        return Reference(self._name, offset, len(block), rows_bytes, range).written()

    def close(self) -> None:
        """End writing; a block that comes later is in a new file. Raises :class:`OutputError`."""
        if self._file is not None:
            with self._writing():
                self._file.close()
        self._file, self._name, self._end = None, uuid4().hex, 0

    def _open(self) -> bool:
        if self._file is None:
            with self._writing():
                try:
                    self._file = create_file(self.path, _RAW) if is_remote(self.path) else _created(self.path)
                except FileNotFoundError:
                    return False
        return True

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with calling(self._folder):
                yield
        except OSError as error:
            raise OutputError(
                f"cannot write blocks of the shuffle to {self._folder}: {cause(error)}; name a folder with more room"
                " with --beam_joins_blocks=DIR, or let the runner carry them with --beam_joins_blocks=inline"
            ) from error


def _created(path: str) -> Any:
    return open(path, "xb", buffering=0, opener=lambda path, flags: os.open(path, flags, 0o600))


class BlockFolder(NamedTuple):
    """The folder of a run. ``frees`` says that no partition has its turn twice, so that blocks are not needed
    behind it.
    """

    path: str
    frees: bool

    def file(self) -> BlockFile:
        """A file for a bundle."""
        return BlockFile(self.path)

    def read(self, block: bytes) -> bytes:
        """The block, if it is one or a reference to one; raises :class:`~beam_joins.coders.CorruptData` for
        one that is gone.
        """
        if (reference := reference_of(block)) is None:
            return block
        try:
            return read_range(os.path.join(self.path, reference.file), reference.offset, reference.length)
        except FileNotFoundError as error:
            raise CorruptData(
                f"the blocks of this run in {self.path} are gone: something has removed them, or this worker does not reach the folder"
            ) from error

    def free(self, blocks: Iterable[bytes]) -> None:
        """Give the space of blocks back, where the filesystem can do that for a part of a file."""
        if _fallocate is None:
            return
        for reference in filter(None, map(reference_of, blocks)):
            try:
                handle = os.open(os.path.join(self.path, reference.file), os.O_WRONLY)
            except FileNotFoundError:
                continue
            try:
                _fallocate(handle, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(reference.offset), ctypes.c_int64(reference.length))
            finally:
                os.close(handle)


_fallocate = getattr(ctypes.CDLL(None), "fallocate64", None) if sys.platform == "linux" else None
