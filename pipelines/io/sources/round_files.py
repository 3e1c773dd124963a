"""Writes the files of a round of reading a slot or a topic, which several workers read: lines of JSON, one
series of files for each table or partition.
"""

import os
from typing import Any, Final
from uuid import uuid4

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import is_local, remove

_BYTES: Final = 32 << 20
"""The size of a file; a transaction has its end in the file of its beginning."""
_COMMIT: Final = b'{"action":"C"'


class RoundFiles:
    """Writes files into a new folder below ``folder``; ``table`` is the name of a series."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, uuid4().hex[:12])
        self._written: dict[str, list[tuple[str, int]]] = {}
        self._numbers: dict[str, int] = {}
        self._open: dict[str, tuple[Any, str, list[int]]] = {}

    def write(self, table: str, line: bytes) -> bool:
        """Write a line; whether the file is large enough for its transaction to end."""
        file, path, size = self._open.get(table) or self._next(table)
        with writing(path):
            file.write(line + b"\n")
        size[0] += len(line) + 1
        if size[0] > _BYTES and line.startswith(_COMMIT):
            self._close(table)
        return size[0] > _BYTES

    def mark(self) -> dict[str, int]:
        """What there is now; what is written later is in other files."""
        self._close_all()
        return {table: len(files) for table, files in self._written.items()}

    def discard(self, mark: dict[str, int]) -> None:
        """Remove what was written behind a mark."""
        self._close_all()
        for table, files in self._written.items():
            count = mark.get(table, 0)
            for path, _ in files[count:]:
                remove(path)
            del files[count:]

    def drop(self, table: str) -> None:
        """Remove what was written of a table."""
        if table in self._open:
            self._close(table)
        for path, _ in self._written.pop(table, []):
            remove(path)

    def close(self) -> dict[str, list[tuple[str, int]]]:
        """The paths and sizes of each table's files, in their order."""
        self._close_all()
        return {table: files for table, files in self._written.items() if files}

    def pattern(self) -> str:
        """A glob of all files, which are whole then."""
        self._close_all()
        return os.path.join(self._folder, "*.jsonl")

    def _next(self, table: str) -> tuple[Any, str, list[int]]:
        files = self._written.setdefault(table, [])
        path = os.path.join(self._folder, f"{self._numbers.setdefault(table, len(self._numbers)):03d}-{len(files):06d}.jsonl")
        with writing(path):
            if is_local(path):
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
            file: Any = FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)
        self._open[table] = file, path, [0]
        return self._open[table]

    def _close_all(self) -> None:
        for table in list(self._open):
            self._close(table)

    def _close(self, table: str) -> None:
        file, path, (size,) = self._open.pop(table)
        with writing(path):
            file.close()
        self._written[table].append((path, size))
