"""JSON lines: one object a line. Files are read in parts, by byte offset, and written a part per bundle."""

import gzip
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.changelog_files.exact_json import dumps_line, loads

SUFFIXES: Final = (".jsonl", ".json", ".ndjson")


def open_lines(path: str) -> Any:
    """The file, decompressed as its suffix says; unlike Beam's reader a gzip file that stops short is an error, not its end."""
    if path.endswith(".gz"):
        return gzip.GzipFile(fileobj=FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))
    return FileSystems.open(path)


def read_json_lines(path: str, start: int = 0, stop: int = 0) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Offset and object of every line that begins in ``[start, stop)``, to the end if stop is 0; instead of the object a text that says what is wrong with it.

    Blank lines are skipped. Raises OSError and EOFError for what cannot be read.
    """
    with open_lines(path) as file:
        offset = start
        if start:
            # the line before start, if it ends just there, is what tells that a line begins at start
            file.seek(start - 1)
            offset += len(file.readline()) - 1
        while (not stop or offset < stop) and (line := file.readline()):
            try:
                row = loads(line)
            except ValueError as error:
                if line.strip():
                    yield offset, f"not JSON: {getattr(error, 'msg', error)}"
            else:
                yield offset, row if isinstance(row, dict) else f"not a JSON object but {_short(line)}"
            offset += len(line)


def line_number(path: str, offset: int) -> int:
    """The number, from 1, of the line that begins at the offset."""
    lines = 1
    with open_lines(path) as file:
        while offset > 0 and (data := file.read(min(offset, 1 << 20))):
            lines += data.count(b"\n")
            offset -= len(data)
    return lines


class JsonLinesWriter:
    """Writes rows; times become text, bytes base64."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, row: dict[str, Any]) -> None:
        """Write one line."""
        self._file.write(dumps_line(row))

    def close(self) -> None:
        """Write what is left and close the file."""
        self._file.close()


def _short(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return text if len(text) <= 40 else f"{text[:40]}..."
