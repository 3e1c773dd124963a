"""A format of files: the reader and the encoder of its records, and its properties."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from beam_joins.pipelines.formats.file_parts import FormatReader, Growing, Whole
from beam_joins.pipelines.formats.types.json_text import content_of


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
    place on. ``nests``: columns may be rows. ``of_json``: the JSON text of a row is its record; the times of changes are
    numbers.
    """

    reader: FormatReader
    encoder: Callable[[pa.Schema, bool], RowEncoder]
    growing: Callable[[Growing], Iterator[Whole]] | None = None
    nests: bool = True
    of_json: bool = False
