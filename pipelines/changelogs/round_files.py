"""Writes the files of a round of reading a slot or a topic, which several workers read: one series of files for each table
or partition.
"""

import os
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar
from uuid import uuid4

from apache_beam.io.filesystem import CompressionTypes

from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import is_local, remove
from beam_joins.transforms.connect.files import create_file


class RoundFile(Protocol):
    """Writes a file of a series."""

    def takes(self, of: Any) -> bool:
        """Whether the next records can be in this file."""

    def close(self) -> int:
        """Close the file; returns its size."""


W = TypeVar("W", bound=RoundFile)


class LinesFile:
    """Writes lines of JSON into a file, which it closes; ``path`` is that of the file."""

    def __init__(self, file: Any, path: str, of: Any = None) -> None:
        self._file, self._path, self._size = file, path, 0

    def takes(self, of: Any) -> bool:
        """Always: it is read in parts."""
        return True

    def write(self, line: bytes) -> None:
        """Write a line."""
        with writing(self._path):
            self._file.write(line + b"\n")
        self._size += len(line) + 1

    def close(self) -> int:
        """Close the file; returns its size."""
        with writing(self._path):
            self._file.close()
        return self._size


class RoundFiles(Generic[W]):
    """Writes files into a new folder below ``folder``, with ``opened``, given a file, its path and what it is ``of``."""

    def __init__(self, folder: str, opened: Callable[[Any, str, Any], W], suffix: str) -> None:
        self._folder, self._opened, self._suffix = os.path.join(folder, uuid4().hex[:12]), opened, suffix
        self._written: dict[str, list[tuple[str, int]]] = {}
        self._numbers: dict[str, int] = {}
        self._open: dict[str, tuple[W, str]] = {}

    def to(self, series: str, of: Any = None) -> W:
        """The writer of the last file of a series; a new file where the last one does not take records of ``of``."""
        if series in self._open:
            file, _ = self._open[series]
            if file.takes(of):
                return file
            self._close(series)
        files = self._written.setdefault(series, [])
        name = f"{self._numbers.setdefault(series, len(self._numbers)):03d}-{len(files):06d}{self._suffix}"
        path = os.path.join(self._folder, name)
        with writing(path):
            if is_local(path):
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
            opened = self._opened(create_file(path, CompressionTypes.UNCOMPRESSED), path, of)
        self._open[series] = opened, path
        return opened

    def mark(self) -> dict[str, int]:
        """The number of files of each series; later records are in other files."""
        self._close_all()
        return {series: len(files) for series, files in self._written.items()}

    def discard(self, mark: dict[str, int]) -> None:
        """Remove the files written behind a mark."""
        self._close_all()
        for series, files in self._written.items():
            count = mark.get(series, 0)
            for path, _ in files[count:]:
                remove(path)
            del files[count:]

    def drop(self, series: str) -> None:
        """Remove the files of a series."""
        if series in self._open:
            self._close(series)
        for path, _ in self._written.pop(series, []):
            remove(path)

    def close(self) -> dict[str, list[tuple[str, int]]]:
        """The paths and sizes of the files of each series, in their order."""
        self._close_all()
        return {series: files for series, files in self._written.items() if files}

    def pattern(self) -> str:
        """A glob of all files, which are whole then."""
        self._close_all()
        return os.path.join(self._folder, f"*{self._suffix}")

    def _close_all(self) -> None:
        for series in list(self._open):
            self._close(series)

    def _close(self, series: str) -> None:
        file, path = self._open.pop(series)
        self._written[series].append((path, file.close()))
