"""Reads files of lines in parts by byte offset, many lines at a time."""

import bz2
import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.pipelines.formats.file_parts import PLACES, File, Part
from beam_joins.pipelines.formats.first_bytes import LOOKED_AT, foreign
from beam_joins.pipelines.formats.registry import packed_as
from beam_joins.transforms.connect.files import open_file

BLOCK_BYTES: Final = 4 << 20
LONGEST_LINE: Final = 256 << 20
"""A file that decompresses to gigabytes without a newline fails here, and not for want of memory."""
_NEWLINE: Final = ord("\n")


class Lines(NamedTuple):
    """Where the lines of a block that are not blank begin and end, without space around them; ``cut`` are all
    of them as they are, which of these ``has_text`` says.
    """

    begins: Ints
    ends: Ints
    cut: pa.Array
    has_text: Bools


def open_lines(path: str) -> Any:
    """The file, decompressed as its suffix says; damaged or truncated data raises OSError or EOFError, wherever that
    is in the file, and data of another format ValueError.
    """
    file = open_file(path)
    begin = file.read(LOOKED_AT)
    file.seek(0)
    stream: Any = None
    if begin:
        match packed_as(path):
            case ".gz":
                stream = gzip.GzipFile(fileobj=file)
            case ".bz2":
                stream = _Bzip2(file)
            case ".zst":
                stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
    opened: Any = file if stream is None else io.BufferedReader(_Decompressed(file, stream))
    if sentence := foreign(begin if stream is None else opened.peek(LOOKED_AT)):
        opened.close()
        raise ValueError(sentence)
    return opened


def opened_text(file: File) -> Any:
    """The file as :func:`open_lines` gives it, in UTF-8; text that is not of its encoding raises ValueError."""
    opened = open_lines(file.path)
    return io.BufferedReader(_Transcoded(opened, file.encoding)) if file.encoding else opened


class _Transcoded(io.RawIOBase):
    """A file of text in another encoding, in UTF-8 without a byte order mark."""

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._encoding = file, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b" "
        while not self._ready and data:
            data = self._file.read(1 << 16)
            try:
                self._ready = self._decoder.decode(data, final=not data).encode()
            except UnicodeError as error:
                raise ValueError(f"is not text of the encoding {self._encoding}: {error}") from error
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Decompressed(io.RawIOBase):
    """A compressed file, decompressed by ``stream``."""

    def __init__(self, file: Any, stream: Any) -> None:
        self._file = file
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._stream.readinto(buffer))
        except zlib.error as error:
            raise OSError(str(error)) from error
        except OSError as error:
            if "Truncated" in str(error):  # of Arrow's
                raise EOFError(str(error)) from error
            raise

    def close(self) -> None:
        self._file.close()
        super().close()


class _Bzip2:
    """Decompresses all streams of a file; Python's own reader takes a damaged one behind the first for the
    end of the file.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._stream = bz2.BZ2Decompressor()

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            compressed = b""
            if self._stream.eof:
                compressed = self._stream.unused_data or self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not compressed:
                    return 0
                self._stream = bz2.BZ2Decompressor()
            elif self._stream.needs_input:
                compressed = self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not compressed:
                    raise EOFError("Truncated compressed stream")
            data = self._stream.decompress(compressed, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def next_line(file: Any) -> bytes:
    """The next line of an open file, empty at its end; raises ValueError for one of more than LONGEST_LINE
    bytes.
    """
    line: bytes = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise ValueError(f"has a line of more than {LONGEST_LINE:,} bytes")
    return line


def lines_of(file: File) -> Iterator[bytes]:
    """The lines of a file, from the first; those that end within its ``look_bytes`` if it has such a limit.

    Raises ValueError as :func:`next_line` does.
    """
    with opened_text(file) as opened:
        head = io.BytesIO(_whole_lines_of(opened.read(file.look_bytes), file.look_bytes)) if file.look_bytes else opened
        yield from iter(lambda: next_line(head), b"")  # Beam's compressed files are no iterators


def _whole_lines_of(head: bytes, limit: int) -> bytes:
    return head if len(head) < limit else head[: head.rfind(b"\n") + 1]


def parts_by_bytes(file: File, size: int) -> list[tuple[int, int]]:
    """Where the parts of a file begin and end; a compressed file cannot be cut."""
    if packed_as(file.path):
        return [(0, 0)]
    return [(start, min(start + size, file.bytes)) for start in range(0, file.bytes, size)]


def whole_lines(part: Part) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in a part, BLOCK_BYTES at a time, each block with the place in the part where it
    begins.
    """
    with opened_text(part.file) as file:
        offset = part.start
        if part.start:
            # the line before start, if it ends just there, is what tells that a line begins at start
            if packed_as(part.file.path):
                left = part.start - 1
                while left and (data := file.read(min(left, 1 << 20))):
                    left -= len(data)
            else:
                file.seek(part.start - 1)
            offset += len(next_line(file)) - 1
        while not part.stop or offset < part.stop:
            data = file.read(min(BLOCK_BYTES, part.stop - offset) if part.stop else BLOCK_BYTES)
            if not data:
                return
            if not data.endswith(b"\n"):
                data += next_line(file)
            yield offset - part.start, data
            offset += len(data)


def cut_lines(data: bytes, space: bytes) -> Lines:
    """The lines of a block, without the characters of ``space`` around them."""
    octets = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(octets == _NEWLINE) + 1
    last = [] if not data or data.endswith(b"\n") else [len(data)]
    cuts = np.concatenate([[0], newlines, last]).astype(np.int32)
    cut = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(data)])
    begins, ends = cuts[:-1].astype(np.int64), cuts[1:].astype(np.int64)
    blank = np.isin(np.arange(256), list(space))
    while (spaces := blank[octets[np.maximum(ends, 1) - 1]] & (begins < ends)).any():
        ends -= spaces
    while (spaces := blank[octets[np.minimum(begins, len(octets) - 1)]] & (begins < ends)).any():
        begins += spaces
    has_text = begins < ends
    return Lines(begins[has_text], ends[has_text], cut, has_text)


def line_number(part: Part, place: int) -> str:
    """Where in its file the line of a place is."""
    offset, lines = part.start + place % PLACES, 1
    with opened_text(part.file) as file:
        while offset > 0 and (data := file.read(min(offset, 1 << 20))):
            lines += data.count(b"\n")
            offset -= len(data)
    return f"line {lines:,}"
