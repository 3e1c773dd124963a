"""A format of files: the reader and the encoder of its records, and its properties."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Protocol

import pyarrow as pa

from beam_joins.pipelines.formats.changelog_columns import Columns, Unit
from beam_joins.pipelines.formats.file_parts import File, Growing, Part, Whole
from beam_joins.pipelines.formats.layout import Layout
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.pipelines.formats.types.json_text import content_of


class FormatReader(ABC):
    """Reads the files of a format.

    Its functions raise ValueError, one sentence without the path, OSError and EOFError.
    """

    may_be_empty: ClassVar[bool] = False
    """Whether a file may be without any byte: it has no rows."""
    expansion: ClassVar[int] = 8
    """The assumed number of bytes of records per byte of a file."""
    untyped_columns: ClassVar[bool] = False
    """Whether files do not say types of columns, and what orders records are numbers."""

    @abstractmethod
    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """Where the parts of a file of about so many bytes begin and end."""

    def unit(self, file: File, column: str) -> Unit | None:
        """The unit of a column of times, as the file says it; None where it says none."""
        return None

    def types(self, file: File) -> list[tuple[str, str]]:
        """The columns that the file itself names, and their types."""
        return []

    @abstractmethod
    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records of a file, one by one; an invalid record is left out."""

    @abstractmethod
    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The records of a part; without ``reading`` all of them are to be read one by one."""

    @abstractmethod
    def where(self, part: Part, place: int) -> str:
        """Where in its file a record is, for people."""


class RowEncoder(Protocol):
    """Encodes rows of certain columns as records."""

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The records of rows."""

    def writer(self, file: Any) -> Any:
        """A writer of records to a file, which it closes."""


class BytesWriter:
    """Writes records that are bytes, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, records: pa.Array) -> None:
        """Write records."""
        self._file.write(content_of(records))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """The functions that read and write the files of a format, and its properties; ``None``: the format has no such
    thing.

    ``encoder`` takes the columns of rows, and whether they are pairs of old and new rows. ``growing`` reads a file from a
    place on. ``schema`` gives the columns that a file states; where these are ``columnar``, a table in Python has its rows in
    them unasked. ``options`` are those that say something of its files: ``schema``, ``delimiter``, ``encoding``; ``described``
    adds to a file what it shows of itself, given the columns that options name, the types that they declare and those
    remembered. ``nests``: columns may be rows.
    ``of_json``: the JSON text of a row is its record; the times of changes are numbers.
    """

    reader: FormatReader
    encoder: Callable[[pa.Schema, bool], RowEncoder]
    growing: Callable[[Growing], Iterator[Whole]] | None = None
    schema: Callable[[str], pa.Schema] | None = None
    columnar: bool = False
    options: tuple[str, ...] = ()
    described: Callable[[File, Columns, Layout], File] | None = None
    nests: bool = True
    of_json: bool = False
