"""JSON lines: one object a line. Files are read in parts, by byte offset, and written a part per bundle."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from beam_joins.pipelines.changelog_files.columns import Unit
from beam_joins.pipelines.changelog_files.exact_json import object_of
from beam_joins.pipelines.changelog_files.files import File, Part
from beam_joins.pipelines.changelog_files.json_rows import json_rows
from beam_joins.pipelines.changelog_files.lines import content_of, line_number, lines_of, parts_by_bytes, whole_lines
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading


def read_objects(path: str) -> Iterator[dict[str, Any]]:
    """The objects of a file; lines that are none are left out. Raises OSError and EOFError for what cannot be read."""
    return objects_in(File(path=path, bytes=0, shown=path, format="json lines"))


def objects_in(file: File) -> Iterator[dict[str, Any]]:
    """The same of a file that may only be looked at."""
    return (row for line in lines_of(file) if line.strip() and isinstance(row := object_of(line), dict))


class JsonLines:
    """How files of JSON lines are read: a :class:`~beam_joins.pipelines.changelog_files.files.Source`."""

    suffixes = (".jsonl", ".json", ".ndjson")

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes."""
        return parts_by_bytes(file, size)

    def unit(self, file: File, column: str) -> Unit | None:
        """Not known."""
        return None

    def types(self, file: File) -> list[tuple[str, str]]:
        """Not known."""
        return []

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The objects."""
        return objects_in(file)

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The lines, some at a time."""
        for place, data in whole_lines(part):
            if (rows := json_rows(data, part.first_place + place, reading)) is not None:
                yield rows

    def where(self, part: Part, place: int) -> str:
        """The number of the line."""
        return line_number(part, place)


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
