"""The formats of files: a row of :data:`FILE_FORMATS` for each."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.pipelines.formats.arrow import ArrowEncoder, ArrowReader, arrow_schema, whole_arrow
from beam_joins.pipelines.formats.avro import AvroEncoder, AvroReader, whole_avro
from beam_joins.pipelines.formats.csv import CsvEncoder, CsvReader
from beam_joins.pipelines.formats.files import Format, Growing, Records, Source, Whole
from beam_joins.pipelines.formats.json_lines import JsonEncoder, JsonLinesReader, whole_json
from beam_joins.pipelines.formats.lines import PACKED
from beam_joins.pipelines.formats.parquet import ParquetEncoder, ParquetReader, parquet_schema, whole_parquet


class FileFormat(NamedTuple):
    """What there is for files of a format; what is ``None`` the format does not have.

    ``source`` reads changelogs, ``whole`` files that grow, and ``schema`` the columns that a file says it
    has. ``records`` writes rows of these columns, or changes in pairs. ``lines`` is what a format of lines is
    called; these may be compressed.
    """

    name: Format
    source: Source
    records: Callable[[pa.Schema, bool], Records]
    whole: Callable[[Growing], Iterator[Whole]] | None = None
    schema: Callable[[str], pa.Schema] | None = None
    lines: str | None = None


FILE_FORMATS: Final = (
    FileFormat("avro", AvroReader(), AvroEncoder, whole_avro),
    FileFormat("json lines", JsonLinesReader(), JsonEncoder, whole_json, lines="JSON lines"),
    FileFormat("parquet", ParquetReader(), ParquetEncoder, whole_parquet, parquet_schema),
    FileFormat("arrow", ArrowReader(), ArrowEncoder, whole_arrow, arrow_schema),
    FileFormat("csv", CsvReader(), CsvEncoder, lines="CSV"),
)
PLAIN_FORMATS: Final = tuple(each.name for each in FILE_FORMATS)
GROWING: Final = tuple(suffix for each in FILE_FORMATS if each.whole is not None for suffix in each.source.suffixes)
"""The suffixes of files that may grow."""


def format_of(what: str, path: str, formats: Sequence[Format] = PLAIN_FORMATS) -> FileFormat:
    """The format, among these, that a path's suffix stands for; raises InputError, naming the suffixes that
    there are.
    """
    possible = [each for each in FILE_FORMATS if each.name in formats]
    for each in possible:
        if _is_of(each, path):
            return each
    suffixes = ", ".join(suffix for each in possible for suffix in each.source.suffixes)
    lines = " and ".join(filter(None, (each.lines for each in possible)))
    raise InputError(f"{what}: {path} must end in {suffixes} ({lines} also with {' or '.join(PACKED)}), which says what format it has")


def has_format(path: str) -> bool:
    """Whether a path's suffix stands for one of the formats."""
    return any(_is_of(each, path) for each in FILE_FORMATS)


def growing_format(path: str) -> FileFormat:
    """The format of a file that may grow; raises InputError that lists the suffixes.

    >>> growing_format("orders.parquet").name
    'parquet'
    """
    for each in FILE_FORMATS:
        if each.whole is not None and path.endswith(each.source.suffixes):
            return each
    raise InputError(f"{path} does not end with one of {', '.join(GROWING)}")


def _is_of(each: FileFormat, path: str) -> bool:
    for packed in PACKED if each.lines else ():
        path = path.removesuffix(packed)
    return path.lower().endswith(each.source.suffixes)
