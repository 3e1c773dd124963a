"""Parquet files as changelogs: times as whole numbers, as they are stored."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.changelog_files.columns import Unit
from beam_joins.pipelines.changelog_files.files import PLACES, File, Part
from beam_joins.pipelines.changelog_files.json_text import row_texts, stored
from beam_joins.pipelines.changelog_files.paths import is_local
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading
from beam_joins.transforms.engine.arrow_input import plain_schema

_RECORDS: Final = 1 << 16


class Parquet:
    """How Parquet files are read: a :class:`~beam_joins.pipelines.changelog_files.files.Source`."""

    suffixes = (".parquet",)

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By row groups."""
        with _opened(file.path) as parquet:
            return [(group, group + 1) for group in range(parquet.num_row_groups)]

    def unit(self, file: File, column: str) -> Unit | None:
        """That of a column of timestamps."""
        with _opened(file.path) as parquet:
            schema = parquet.schema_arrow
        found = schema.field(column).type if column in schema.names else pa.null()
        unit: Unit | None = found.unit if pa.types.is_timestamp(found) else None
        return unit

    def types(self, file: File) -> list[tuple[str, str]]:
        """Those of its schema."""
        with _opened(file.path) as parquet:
            return [(field.name, str(field.type)) for field in parquet.schema_arrow]

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The rows."""
        with _opened(file.path) as parquet:
            sizes = [parquet.metadata.row_group(group).total_byte_size for group in range(parquet.num_row_groups)]
            whole = [n for n, size in enumerate(itertools.accumulate(sizes)) if size <= file.look_bytes or not file.look_bytes]
            for batch in parquet.iter_batches(1_000, row_groups=whole):
                yield from _stored(batch).to_pylist()

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The rows of a row group, some at a time."""
        begin = part.first_place
        with _opened(part.file.path) as parquet:
            for given in parquet.iter_batches(_RECORDS, row_groups=[part.start]):
                batch = _stored(given)
                places = pa.array(np.arange(begin, begin + len(batch)))
                begin += len(batch)
                yield column_rows(batch, places, reading)

    def where(self, part: Part, place: int) -> str:
        """The number of the row in its row group."""
        return f"row {place % PLACES + 1:,} of row group {part.start + 1:,}"


def column_rows(batch: pa.RecordBatch, places: pa.Array, reading: Reading | None) -> RawRows:
    """The records of a batch whose columns are all known."""

    def row(n: int) -> dict[str, Any] | str:
        found: dict[str, Any] = batch.slice(n, 1).to_pylist()[0]
        return found

    if reading is None or not reading.fits(batch.schema.names):
        return RawRows(places, row)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    texts = row_texts(reading.value_of(columns, pa.nulls(len(batch))), len(batch))
    return RawRows(places, row, {name: columns.get(name, pa.nulls(len(batch))) for name in reading.names()}, texts)


def _stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    plain = batch.cast(plain_schema(batch.schema))
    return pa.record_batch([stored(column) for column in plain.columns], names=plain.schema.names)


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    file: Any = pa.OSFile(path) if is_local(path) else FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    with file:
        try:
            yield pq.ParquetFile(file)
        except pa.ArrowInvalid as error:
            raise ValueError(f"is not a Parquet file, or is damaged ({str(error).splitlines()[0]})") from error
