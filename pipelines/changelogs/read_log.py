"""The progress of reading: workers append to a small file, which the waiting process reads.

Runners report metrics when a run has ended, or not at all; a file beside the results is there on all of them.
Where workers do not see it there is no progress, and nothing else is different.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from struct import Struct
from typing import Final, NamedTuple

from beam_joins.pipelines.formats.file_parts import Part

_ENTRY: Final = Struct("<qqqq")  # the number of the changelog, of the part, rows, nanoseconds
_DONE: Final = -1
"""In the place of rows: the part has been read."""


class LogEntries(NamedTuple):
    """The log that workers append to, for one changelog: how many rows of each part they have read."""

    path: str
    changelog: int

    @contextmanager
    def of(self, part: Part) -> Iterator["PartEntries"]:
        """Opens the entries of a part; the part counts as read if the block does not fail."""
        entries = PartEntries(self.changelog, part.number)
        with suppress(OSError):
            entries.file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            yield entries
            entries.add(_DONE, 0)
        finally:
            if entries.file is not None:
                os.close(entries.file)


class PartEntries:
    """The entries of one part; ``file`` is None if they cannot be written."""

    def __init__(self, changelog: int, part: int) -> None:
        self._place = changelog, part
        self.file: int | None = None

    def add(self, rows: int, nanoseconds: int) -> None:
        """Adds an entry: so many more rows, read in so many nanoseconds."""
        if self.file is not None:
            with suppress(OSError):
                os.write(self.file, _ENTRY.pack(*self._place, rows, nanoseconds))


class WasRead(NamedTuple):
    """The progress of one changelog: rows and the workers' seconds for them; rows and bytes of parts read
    completely.
    """

    rows: int = 0
    seconds: float = 0.0
    whole_rows: int = 0
    bytes: int = 0


class ReadLog:
    """Reads the log at ``path`` for changelogs with these parts; without ``path`` there is no progress."""

    def __init__(self, path: str | None, parts: Sequence[Sequence[Part]]) -> None:
        self._path = path
        self._bytes = [_bytes_of(each) for each in parts]
        self._first = [each[0].number if each else 0 for each in parts]
        self._done: list[set[int]] = [set() for _ in parts]
        self._rows: list[dict[int, int]] = [{} for _ in parts]
        self._nanoseconds = [0] * len(parts)
        self._offset = 0
        if path is not None:
            with suppress(OSError), open(path, "ab"):
                pass

    @property
    def bytes(self) -> int:
        """The size of all parts."""
        return sum(map(sum, self._bytes))

    def read(self) -> list[WasRead]:
        """The progress of each changelog so far."""
        if self._path is not None:
            with suppress(OSError), open(self._path, "rb") as file:
                file.seek(self._offset)
                content = file.read()
                whole = len(content) // _ENTRY.size * _ENTRY.size
                self._offset += whole
                for changelog, number, rows, nanoseconds in _ENTRY.iter_unpack(content[:whole]):
                    part = number - self._first[changelog] if 0 <= changelog < len(self._first) else -1
                    if not (0 <= changelog < len(self._bytes) and 0 <= part < len(self._bytes[changelog])):
                        self._path = (
                            None  # one was cut off on a full disk, or two machines wrote at once: nothing behind it can be told
                        )
                        break
                    if rows == _DONE:
                        self._done[changelog].add(part)
                    else:
                        self._rows[changelog][part] = self._rows[changelog].get(part, 0) + rows
                        self._nanoseconds[changelog] += nanoseconds
        return [
            WasRead(sum(rows.values()), nanoseconds / 1e9, sum(rows.get(part, 0) for part in done), sum(sizes[part] for part in done))
            for rows, nanoseconds, sizes, done in zip(self._rows, self._nanoseconds, self._bytes, self._done, strict=True)
        ]


def read_said(read: Sequence[WasRead], of_bytes: int, seconds: float) -> str:
    """The progress after so many seconds in words; empty where it is not known. The time left is that of reading: the
    steps behind it report no progress.

    >>> read_said([WasRead(1_000_000, 9.0, 800_000, 50_000_000), WasRead(200_000, 1.0, 200_000, 10_000_000)], 240_000_000, 10.0)
    '1,200,000 of about 4,000,000 rows read (30%), reading: 23 s left'
    >>> read_said([WasRead(200_000, 1.0)], 240_000_000, 2.0)
    '200,000 rows read, 100,000/s'
    >>> read_said([WasRead(200_000, 1.0, 200_000, 5_000)], 5_000, 9.0)
    '200,000 rows read'
    """
    rows, whole_bytes = sum(each.rows for each in read), sum(each.bytes for each in read)
    if not rows:
        return ""
    if whole_bytes >= of_bytes:
        return f"{rows:,} rows read"
    speed = rows / seconds
    if not whole_bytes:
        return f"{rows:,} rows read, {speed:,.0f}/s"
    about = max(rows, round(sum(each.whole_rows for each in read) * of_bytes / whole_bytes / 1000) * 1000)
    return f"{rows:,} of about {about:,} rows read ({rows / about:.0%}), reading: {(about - rows) / speed:.0f} s left"


def _bytes_of(parts: Sequence[Part]) -> list[int]:
    """The size of each part: those of one file are taken for equal where they are not cut by bytes."""
    of_file: dict[str, int] = {}
    for part in parts:
        of_file[part.file.path] = of_file.get(part.file.path, 0) + 1
    return [max(1, part.file.bytes // of_file[part.file.path]) for part in parts]
