"""The files that can be followed: what of a file is whole, from a place in it on."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.sources.follow import Piece
from beam_joins.pipelines.sources.rows import Rows

_CHUNK: Final = 4 << 20
_MAGIC: Final = b"PAR1"
Read = Callable[["Part", Rows], Iterator[Piece]]


class Part(NamedTuple):
    """A file from a place in it on. ``is_whole``: nothing more will be written into it."""

    path: str
    place: int
    is_whole: bool


class NotWhole(Exception):
    """The file ends within a line, a block or its footer, and more may come."""


def json_lines(part: Part, rows: Rows) -> Iterator[Piece]:
    """Whole lines; the place is a byte. What is behind the last newline of a file that is whole is a line if it is a whole object."""
    with _opened(part.path) as file:
        at, rest = part.place, b""
        file.seek(at)
        while chunk := file.read(_CHUNK):
            rest += chunk
            cut = rest.rfind(b"\n") + 1
            if cut:
                at += cut
                yield rows.of_lines((part.path, at), rest[:cut])
                rest = rest[cut:]
    if rest.strip():
        if not part.is_whole or not _is_object(rest):
            raise NotWhole
        yield rows.of_lines((part.path, at + len(rest)), rest)


def avro(part: Part, rows: Rows) -> Iterator[Piece]:
    """Whole blocks; the place is the byte behind a block."""
    with _opened(part.path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        with _may_be_cut_off():
            blocks = fastavro.block_reader(file)
        file.seek(part.place or file.tell())
        while file.tell() < size:
            with _may_be_cut_off():
                block: Any = next(blocks)
                records = list(block)
            yield rows.of_dicts((part.path, block.offset + block.size), records)


def parquet(part: Part, rows: Rows) -> Iterator[Piece]:
    """Row groups, once the footer is there; the place is the number of a row group."""
    with _opened(part.path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - len(_MAGIC)))
        if file.read() != _MAGIC or size <= 2 * len(_MAGIC):
            raise NotWhole
        try:
            groups = pq.ParquetFile(file)
        except pa.ArrowInvalid as error:
            raise InputError(f"is no Parquet file: {error}") from error
        for group in range(part.place, groups.num_row_groups):
            table = groups.read_row_group(group, columns=None if rows.schema is None else _there(groups, rows.schema))
            yield rows.of_table((part.path, group + 1), table)


FORMATS: Final[dict[str, Read]] = {
    ".jsonl": json_lines,
    ".json": json_lines,
    ".ndjson": json_lines,
    ".avro": avro,
    ".parquet": parquet,
}
"""By the ends of files' names."""


def format_of(path: str) -> Read:
    """How a file is read. Raises InputError that lists the choices.

    >>> format_of("orders.parquet").__name__
    'parquet'
    """
    for suffix, read in FORMATS.items():
        if path.endswith(suffix):
            return read
    raise InputError(f"{path} does not end with one of {', '.join(FORMATS)}")


def _there(file: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name in file.schema_arrow.names]


def _opened(path: str) -> Any:
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


@contextmanager
def _may_be_cut_off() -> Iterator[None]:
    try:
        yield
    except (ValueError, EOFError, StopIteration) as error:
        raise NotWhole from error


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
