"""JSON lines: one object a line. Files are read in parts, by byte offset, and written a part per bundle."""

import gzip
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.changelog_files.exact_json import object_of
from beam_joins.pipelines.changelog_files.files import PLACES, File, Part
from beam_joins.pipelines.changelog_files.json_rows import json_rows
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading

PACKED: Final = (".gz", ".bz2", ".zst")
BLOCK_BYTES: Final = 4 << 20


def open_lines(path: str) -> Any:
    """The file, decompressed as its suffix says; unlike Beam's reader a gzip file that stops short is an error, not its end."""
    if path.endswith(".gz"):
        return gzip.GzipFile(fileobj=FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))
    return FileSystems.open(path)


def whole_lines(part: Part) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in a part, BLOCK_BYTES at a time, each block with the place in the part where it begins."""
    with open_lines(part.path) as file:
        offset = part.start
        if part.start:
            # the line before start, if it ends just there, is what tells that a line begins at start
            file.seek(part.start - 1)
            offset += len(file.readline()) - 1
        while not part.stop or offset < part.stop:
            data = file.read(min(BLOCK_BYTES, part.stop - offset) if part.stop else BLOCK_BYTES)
            if not data:
                return
            if not data.endswith(b"\n"):
                data += file.readline()
            yield offset - part.start, data
            offset += len(data)


def line_number(path: str, offset: int) -> int:
    """The number, from 1, of the line that begins at the offset."""
    lines = 1
    with open_lines(path) as file:
        while offset > 0 and (data := file.read(min(offset, 1 << 20))):
            lines += data.count(b"\n")
            offset -= len(data)
    return lines


def read_objects(path: str) -> Iterator[dict[str, Any]]:
    """The objects of a file; lines that are none are left out. Raises OSError and EOFError for what cannot be read."""
    with open_lines(path) as file:
        for line in file:
            if line.strip() and isinstance(row := object_of(line), dict):
                yield row


class JsonLines:
    """How files of JSON lines are read: a :class:`~beam_joins.pipelines.changelog_files.files.Source`."""

    suffixes = (".jsonl", ".json", ".ndjson")

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes; a compressed file cannot be cut."""
        if file.path.endswith(PACKED):
            return [(0, 0)]
        return [(start, min(start + size, file.bytes)) for start in range(0, file.bytes, size)]

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The objects."""
        return read_objects(file.path)

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The lines, some at a time."""
        for place, data in whole_lines(part):
            if (rows := json_rows(data, part.first_place + place, reading)) is not None:
                yield rows

    def where(self, part: Part, place: int) -> str:
        """The number of the line."""
        return f"line {line_number(part.path, part.start + place % PLACES):,}"


class JsonLinesWriter:
    """Writes lines, each with its newline."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, lines: pa.Array) -> None:
        """Write lines of bytes."""
        self._file.write(content_of(lines))

    def close(self) -> None:
        """Write what is left and close the file."""
        self._file.close()


def content_of(lines: pa.Array) -> memoryview:
    """The bytes of an array of bytes, one value after the other, as they lie in memory.

    >>> bytes(content_of(pa.array([b"a", b"bc"]).slice(1)))
    b'bc'
    """
    _, offsets, data = lines.buffers()
    if data is None or not len(lines):
        return memoryview(b"")
    begin, end = (memoryview(offsets).cast("i")[lines.offset + i] for i in (0, len(lines)))
    return memoryview(data)[begin:end]
