"""Objects of a store as files: one is read in ranges as it is asked for, and written in one request if it is small."""

import io
from collections.abc import Callable
from typing import Any, Final, NamedTuple

IN_ONE: Final = 8 << 20
"""The largest number of bytes that one request writes, and that it reads where less is asked for."""


class Range(NamedTuple):
    """A part of an object, and the size of the whole where the store says it."""

    content: bytes
    size: int | None = None


class ObjectReader(io.RawIOBase):
    """An object that is read in ranges, without a buffer; ``get`` gives the bytes from a place up to another one, none behind
    the end.
    """

    mode = "rb"

    def __init__(self, get: Callable[[int, int], Range], size: Callable[[], int]) -> None:
        super().__init__()
        self._get, self._ask_size = get, size
        self._at = 0
        self._size: int | None = None

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read from any place."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, which costs a request if it is behind the end of an object of unknown size."""
        if whence == io.SEEK_END and self._size is None:
            self._size = self._ask_size()
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size or 0}[whence]
        return self._at

    def readall(self) -> bytes:
        """The rest, in large pieces."""
        whole = bytearray()
        while some := self.read(IN_ONE if self._size is None else max(IN_ONE, self._size - self._at)):
            whole += some
        return bytes(whole)

    def readinto(self, buffer: Any) -> int:
        """Read one range into a buffer."""
        if self._size is not None and self._at >= self._size:
            return 0
        content, size = self._get(self._at, self._at + len(buffer))
        self._size = self._at + len(content) if size is None and len(content) < len(buffer) else size
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


class ObjectWriter(io.RawIOBase):
    """An object that is written in one request if it is small, empty ones too, else in parts by ``begin``."""

    mode = "wb"

    def __init__(self, write: Callable[[bytes], None], begin: Callable[[], Any]) -> None:
        super().__init__()
        self._write, self._begin = write, begin
        self._held, self._at = bytearray(), 0
        self._file: Any = None

    def writable(self) -> bool:
        """Whether it can be written."""
        return True

    def tell(self) -> int:
        """The number of bytes that were written."""
        return self._at

    def write(self, data: Any) -> int:
        """Write all bytes."""
        size = memoryview(data).nbytes
        self._at += size
        if self._file is None and len(self._held) + size > IN_ONE:
            self._file, held = self._begin(), bytes(self._held)
            self._file.write(held)
            self._held.clear()
        if self._file is None:
            self._held += memoryview(data).cast("B") if size else b""
        else:
            self._file.write(data)
        return size

    def close(self) -> None:
        """Have the object in the store."""
        if self.closed:
            return
        super().close()
        if self._file is None:
            self._write(bytes(self._held))
        else:
            self._file.close()

    def __del__(self) -> None:
        """An object that was not closed is not written."""
