"""A file of a changelog and its parts, which are read side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import pyarrow as pa
from apache_beam.coders import registry

from beam_joins.coders.values import ValueCoder
from beam_joins.pipelines.changelog_files.columns import Unit
from beam_joins.pipelines.changelog_files.layout import Layout
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading

Format = Literal["avro", "json lines", "parquet", "csv", "debezium", "debezium avro", "debezium parquet", "wal2json", "maxwell"]
PLACES: Final = 1 << 40
"""A place is the number of its part times this, and the place in the part."""


@dataclass(frozen=True, kw_only=True)
class File:
    """A file: ``path`` is absolute, for workers with another working directory; ``shown`` is as the user knows it; ``written`` as in ``Found``.

    ``unit`` is what the file itself says that its times count, ``layout`` what a CSV file has. Of a file of envelopes the rows of one ``table`` are
    read, by its full name or the last part of it (empty: all rows), ``key`` are the columns of its primary key, and ``columns`` those that its rows are known to have. Whoever looks at its records reads
    ``look_bytes`` at most (0: no limit).
    """

    path: str
    bytes: int
    shown: str
    format: Format
    unit: Unit | None = None
    layout: Layout = ()
    table: str = ""
    key: tuple[str, ...] = ()
    columns: pa.Schema | None = None
    written: int = 0
    look_bytes: int = 0


@dataclass(frozen=True)
class Part:
    """The records of a file that begin in ``[start, stop)``; stop 0: all that follow. ``number`` is that of the part among all of a changelog."""

    number: int
    file: File
    start: int
    stop: int

    @property
    def first_place(self) -> int:
        """The place of what the part begins with."""
        return self.number * PLACES


registry.register_coder(Part, ValueCoder)


class Source(Protocol):
    """How the files of a format are read. Its functions raise ValueError, one sentence without the path, OSError and EOFError."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What the names of its files end in."""

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """Where the parts of a file of about so many bytes begin and end."""

    def unit(self, file: File, column: str) -> Unit | None:
        """What the file says that a column of times counts."""

    def types(self, file: File) -> list[tuple[str, str]]:
        """The columns that the file itself names, and their types."""

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records of a file, one by one; what is no record is left out."""

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The records of a part; without ``reading`` all of them are to be read one by one."""

    def where(self, part: Part, place: int) -> str:
        """Where in its file a record is, for people."""
