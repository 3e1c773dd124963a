"""Reads and writes JSON lines, one object a line: in parts by byte offset, and a part per bundle."""

from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.formats.columns import Unit
from beam_joins.pipelines.formats.files import File, Growing, NotWhole, Part, Whole
from beam_joins.pipelines.formats.json_rows import json_rows
from beam_joins.pipelines.formats.lines import line_number, lines_of, parts_by_bytes, whole_lines
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.pipelines.formats.types.exact_json import object_of
from beam_joins.pipelines.formats.types.json_text import NULL, content_of, iso_texts, joined, nested_texts, objects, texts_of
from beam_joins.pipelines.formats.types.kafka_connect import connect_texts
from beam_joins.pipelines.formats.types.target_types import target_type

_CHUNK: Final = 4 << 20
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""What some writers begin a file of UTF-8 with."""


def objects_in(file: File) -> Iterator[dict[str, Any]]:
    """The objects of a file; lines that are none are left out.

    Raises OSError and EOFError for what cannot be read.
    """
    lines = (line if n else line.removeprefix(BYTE_ORDER_MARK) for n, line in enumerate(lines_of(file)))
    return (row for line in lines if line.strip() and isinstance(row := object_of(line), dict))


class JsonLines:
    """How files of JSON lines are read: a :class:`~beam_joins.pipelines.formats.files.Source`."""

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
            for rows in _lines(data, part.start + place, reading):
                yield rows._replace(places=pc.add(rows.places, part.first_place - part.start))

    def where(self, part: Part, place: int) -> str:
        """The number of the line."""
        return line_number(part, place)


def whole_json(file: Growing) -> Iterator[Whole]:
    """Whole lines; the place is a byte.

    What is behind the last newline of a file that is whole is a line if it is a whole object.
    """
    with FileSystems.open(file.path, compression_type=CompressionTypes.UNCOMPRESSED) as opened:
        at, rest = file.place, b""
        opened.seek(at)
        while chunk := opened.read(_CHUNK):
            rest += chunk
            cut = rest.rfind(b"\n") + 1
            if cut:
                block = partial(_lines, rest[:cut], at)
                at += cut
                yield at, block
                rest = rest[cut:]
    last = rest if at else rest.removeprefix(BYTE_ORDER_MARK)
    if last.strip():
        if not file.is_whole or not isinstance(object_of(last), dict):
            raise NotWhole
        yield at + len(rest), partial(_lines, rest, at)


def _lines(data: bytes, start: int, reading: Reading | None) -> Iterator[RawRows]:
    """The records of lines that begin at a place in their file."""
    lines = data if start else data.removeprefix(BYTE_ORDER_MARK)
    if (rows := json_rows(lines, start + len(data) - len(lines), reading)) is not None:
        yield rows


class JsonRecords:
    """Rows as lines of JSON: with ISO times, or in pairs as Kafka Connect's JsonConverter writes them, with
    their schema.
    """

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        """Raises ``ValueError`` for a column in pairs of a type that Debezium does not have."""
        self._names = columns.names
        self._head = b""
        if pairs:
            fields = target_type("connect", "", pa.struct(list(columns)))["fields"]
            self._head = b'{"schema":' + msgspec.json.encode({"type": "struct", "fields": fields}) + b',"payload":'

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The lines of rows."""
        named, count = dict(zip(self._names, columns, strict=True)), len(columns[0])
        texts = {name: nested_texts(column, connect_texts if self._head else _iso) for name, column in named.items()}
        return joined(self._head, objects(texts, count), b"}\n" if self._head else b"\n", null=NULL)

    def writer(self, file: BinaryIO) -> "JsonLinesWriter":
        """What writes lines to a file."""
        return JsonLinesWriter(file)


def _iso(column: pa.Array) -> pa.Array:
    return texts_of(iso_texts(column))


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
