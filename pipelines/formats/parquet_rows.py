"""Reads and writes Parquet files.

In changelogs times are whole numbers, as they are stored; a growing file is read by row groups once it is
whole.
"""

import io
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.exact_casts import exact_cast
from beam_joins.exact_values import Place
from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.formats.columns import Unit
from beam_joins.pipelines.formats.files import PLACES, File, Growing, NotWhole, Part, Whole
from beam_joins.pipelines.formats.json_text import row_texts, stored
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.record_batch_parser import RawRows, structs_of
from beam_joins.transforms.connect import plain_schema

_RECORDS: Final = 1 << 16
_MAGIC: Final = b"PAR1"


class Parquet:
    """How Parquet files are read: a :class:`~beam_joins.pipelines.formats.files.Source`."""

    suffixes = (".parquet",)

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By row groups."""
        with opened(file.path) as parquet:
            return [(group, group + 1) for group in range(parquet.num_row_groups)]

    def unit(self, file: File, column: str) -> Unit | None:
        """That of a column of timestamps."""
        with opened(file.path) as parquet:
            schema = parquet.schema_arrow
        first = schema.field(column).type if column in schema.names else pa.null()
        unit: Unit | None = first.unit if pa.types.is_timestamp(first) else None
        return unit

    def types(self, file: File) -> list[tuple[str, str]]:
        """Those of its schema."""
        with opened(file.path) as parquet:
            schema = parquet.schema_arrow
        return [(field.name, str(field.type)) for field in (marked(schema.empty_table()).schema if file.is_unmarked else schema)]

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The rows."""
        with opened(file.path) as parquet:
            sizes = [parquet.metadata.row_group(group).total_byte_size for group in range(parquet.num_row_groups)]
            whole = [n for n, size in enumerate(itertools.accumulate(sizes)) if size <= file.look_bytes or not file.look_bytes]
            for batch in parquet.iter_batches(1_000, row_groups=whole):
                yield from _stored(marked(batch) if file.is_unmarked else batch).to_pylist()

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The rows of a row group, some at a time."""
        begin = part.first_place
        with opened(part.file.path) as parquet:
            for raw in parquet.iter_batches(_RECORDS, row_groups=[part.start]):
                batch = raw.cast(plain_schema(raw.schema))
                batch = marked(batch) if part.file.is_unmarked else batch
                places = pa.array(np.arange(begin, begin + len(batch)))
                begin += len(batch)
                yield column_rows(batch, places, reading)

    def where(self, part: Part, place: int) -> str:
        """The number of the row in its row group."""
        return f"row {place % PLACES + 1:,} of row group {part.start + 1:,}"


def column_rows(raw: pa.RecordBatch, places: pa.Array, reading: Reading | None) -> RawRows:
    """The records of a batch of plain types whose columns are all known; raises ValueError for one that does
    not fit the columns that are read.
    """
    batch = pa.record_batch([stored(column) for column in raw.columns], names=raw.schema.names)

    def row(n: int) -> dict[str, Any] | str:
        first: dict[str, Any] = batch.slice(n, 1).to_pylist()[0]
        return first

    if reading is None or not reading.fits(batch.schema.names):
        return RawRows(places, row)
    missing = pa.nulls(len(batch))
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    texts = row_texts(reading.value_of(columns, missing), len(batch)) if "json lines" in reading.forms else None
    structs = None
    if reading.typed is not None:
        values = reading.value_of(dict(zip(raw.schema.names, raw.columns, strict=True)), missing)
        made = [exact_cast(values.get(field.name, missing), field.type, Place("a row", field.name)) for field in reading.typed]
        structs = structs_of(made, reading.typed, len(batch))
    return RawRows(places, row, {name: columns.get(name, missing) for name in reading.names()}, texts, structs=structs)


def marked(rows: Any) -> Any:
    """Rows of a batch or table with their bytes as text; raises ValueError, a sentence, for bytes that are none."""
    for n, field in enumerate(rows.schema):
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            try:
                rows = rows.set_column(n, field.name, rows.column(n).cast(pa.string()))
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"has bytes that are no text in its column '{field.name}', and its text is without the mark of text (STRING), "
                    "as the operation shows, so that the two cannot be told apart: write it with the mark"
                ) from error
    return rows


def _stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    plain = batch.cast(plain_schema(batch.schema))
    return pa.record_batch([stored(column) for column in plain.columns], names=plain.schema.names)


@contextmanager
def opened(path: str) -> Iterator[pq.ParquetFile]:
    """The file; raises ValueError, a sentence without the path, for one that is not of Parquet."""
    file: Any = pa.OSFile(path) if is_local(path) else FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    with file:
        try:
            yield pq.ParquetFile(file, page_checksum_verification=True)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            if isinstance(error, OSError):
                raise
            raise ValueError(f"is not a Parquet file, or is damaged ({str(error).splitlines()[0]})") from error


def whole_parquet(file: Growing) -> Iterator[Whole]:
    """Row groups, once the footer is there; the place is the number of a row group."""
    with FileSystems.open(file.path, compression_type=CompressionTypes.UNCOMPRESSED) as opened:
        size = opened.seek(0, io.SEEK_END)
        opened.seek(max(0, size - len(_MAGIC)))
        if opened.read() != _MAGIC or size <= 2 * len(_MAGIC):
            raise NotWhole
        try:
            groups = pq.ParquetFile(opened)
        except pa.ArrowInvalid as error:
            raise ValueError(f"is no Parquet file: {error}") from error
        columns = None if file.columns is None else [name for name in file.columns if name in groups.schema_arrow.names]
        for group in range(file.place, groups.num_row_groups):
            yield group + 1, groups.read_row_group(group, columns=columns)


def parquet_schema(path: str) -> pa.Schema:
    """The columns of a file; raises ValueError as :func:`opened` does."""
    with opened(path) as parquet:
        return parquet.schema_arrow


class ParquetRecords:
    """Rows as structs."""

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        self._columns = columns

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The rows."""
        return pa.StructArray.from_arrays(columns, fields=list(self._columns))

    def writer(self, file: Any) -> "RowsWriter":
        """What writes rows to a file."""
        return RowsWriter(file, pq.ParquetWriter(file, self._columns))


class RowsWriter:
    """Writes rows that are structs."""

    def __init__(self, file: Any, writer: Any) -> None:
        self._file = file
        self._writer = writer

    def write(self, rows: pa.StructArray) -> None:
        """Write rows."""
        self._writer.write_batch(pa.RecordBatch.from_struct_array(rows))

    def close(self) -> None:
        """Write what is left and close the file."""
        try:
            self._writer.close()
        finally:
            self._file.close()
