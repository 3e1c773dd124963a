"""Reads and writes Parquet files by row groups; a growing file is read once it is whole."""

import io
import itertools
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.formats.changelog_columns import Columns, Unit
from beam_joins.pipelines.formats.columnar import (
    RECORDS,
    RowsWriter,
    StructEncoder,
    column_rows,
    marked,
    readable,
    readable_schema,
    require_names,
    row_dicts,
    rows_of_table,
    unit_of,
)
from beam_joins.pipelines.formats.csv_schema import Layout
from beam_joins.pipelines.formats.file_format import FileFormat
from beam_joins.pipelines.formats.file_parts import PLACES, File, FormatReader, Growing, NotWhole, Part, Storage, Whole
from beam_joins.pipelines.formats.first_bytes import foreign_file
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.transforms.connect.files import open_file
from beam_joins.transforms.connect.tables import plain_schema

_MAGIC: Final = b"PAR1"
_INT96: Final = "INT96"


class ParquetReader(FormatReader):
    """Reads Parquet files."""

    name = "parquet"
    columnar = True

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By row groups."""
        with opened(file.path, file.storage) as parquet:
            return [(group, group + 1) for group in range(parquet.num_row_groups)]

    def unit(self, file: File, column: str) -> Unit | None:
        """The unit of a column of timestamps."""
        with opened(file.path) as parquet:
            return unit_of(parquet.schema_arrow, column)

    def schema(self, file: File) -> pa.Schema:
        """The columns of the file's schema."""
        with opened(file.path) as parquet:
            schema = plain_schema(readable_schema(parquet.schema_arrow))
        return marked(schema.empty_table()).schema if file.is_unmarked else schema

    def described(self, file: File, columns: Columns, remembered: Layout) -> File:
        """The file, whose bytes are text where the operation is bytes: a writer that does not mark that marks no text."""
        return replace(file, is_unmarked=dict(self.types(file)).get(columns.delete or "") == "binary")

    def types(self, file: File) -> list[tuple[str, str]]:
        """The columns of the file's schema, and their types."""
        with opened(file.path) as parquet:
            schema = parquet.schema_arrow
        return [(field.name, str(field.type)) for field in (marked(schema.empty_table()).schema if file.is_unmarked else schema)]

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The rows."""
        with opened(file.path) as parquet:
            sizes = [parquet.metadata.row_group(group).total_byte_size for group in range(parquet.num_row_groups)]
            whole = [n for n, size in enumerate(itertools.accumulate(sizes)) if size <= file.look_bytes or not file.look_bytes]
            require_held(file.path, parquet, whole)
            for batch in parquet.iter_batches(1_000, row_groups=whole):
                rows = readable(batch)
                yield from row_dicts(marked(rows) if file.is_unmarked else rows)

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The rows of a row group, some at a time."""
        begin = part.first_place
        with opened(part.file.path) as parquet:
            columns = None if plan is None else plan.needed(parquet.schema_arrow.names)
            require_held(part.file.path, parquet, [part.start], columns)
            for raw in parquet.iter_batches(RECORDS, row_groups=[part.start], columns=columns):
                batch = readable(raw, None if plan is None else plan.typed)
                batch = marked(batch) if part.file.is_unmarked else batch
                places = pa.array(np.arange(begin, begin + len(batch)))
                begin += len(batch)
                yield column_rows(batch, places, plan)

    def where(self, part: Part, place: int) -> str:
        """The number of the row in its row group."""
        return f"row {place % PLACES + 1:,} of row group {part.start + 1:,}"


@contextmanager
def opened(path: str, storage: Storage | None = None, **options: Any) -> Iterator[pq.ParquetFile]:
    """The file, read with these options of pyarrow; raises ValueError, a sentence without the path, for a file that is not of Parquet,
    or has two columns of one name. Pages that carry a checksum are compared with it.
    """
    file: Any
    if storage is not None:
        file = storage.open(path)
    elif is_local(path):
        file = pa.OSFile(path)  # through Python each read would take the interpreter's lock
    else:
        file = open_file(path)
    with file:
        try:
            parquet = pq.ParquetFile(file, page_checksum_verification=True, **options)
            require_names(parquet.schema_arrow)
            yield parquet
        except (pa.ArrowException, UnicodeDecodeError) as error:
            if isinstance(error, OSError):
                raise
            other = foreign_file(path, _MAGIC) if storage is None else ""
            raise ValueError(other or f"is not a Parquet file, or is damaged ({str(error).splitlines()[0]})") from error


def whole_parquet(file: Growing) -> Iterator[Whole]:
    """Row groups, once the footer is there; the place is the number of a row group."""
    with open_file(file.path) as growing:
        size = growing.seek(0, io.SEEK_END)
        growing.seek(max(0, size - len(_MAGIC)))
        if growing.read() != _MAGIC or size <= 2 * len(_MAGIC):
            raise NotWhole
    with opened(file.path) as parquet:
        names = parquet.schema_arrow.names
        columns = None if file.columns is None else [name for name in file.columns if name in names]
        for group in range(file.place, parquet.num_row_groups):
            require_held(file.path, parquet, [group], file.columns)
            yield group + 1, partial(rows_of_table, parquet.read_row_group(group, columns=columns), group * PLACES)


def require_held(
    path: str,
    parquet: pq.ParquetFile,
    groups: list[int],
    columns: Collection[str] | None = None,
    storage: Storage | None = None,
) -> None:
    """Raises ValueError, a sentence without the path, for a time of 96 bits that nanoseconds in 64 bits do not
    hold, which would be read as another one.
    """
    leaves = [parquet.schema.column(n) for n in range(len(parquet.schema))]
    names = [leaf.path for leaf in leaves if leaf.physical_type == _INT96]
    names = [name for name in names if columns is None or any(f"{name}.".startswith(f"{column}.") for column in columns)]
    if not names:
        return
    nanos = parquet.read_row_groups(groups, columns=names)
    with opened(path, storage, coerce_int96_timestamp_unit="us") as other:
        micros = other.read_row_groups(groups, columns=names)
    for name, column in zip(micros.column_names, micros.columns, strict=True):
        is_read = columns is None or name in columns
        if is_read and not nanos.column(name).cast(column.type, safe=False).equals(column):
            raise ValueError(
                f"has a time in column '{name}' (INT96) that nanoseconds in 64 bits do not hold, which end in 2262: write it as a"
                " timestamp in microseconds"
            )


class ParquetEncoder(StructEncoder):
    """Rows of row groups."""

    def writer(self, file: Any) -> RowsWriter:
        """A writer of rows to a file."""
        return RowsWriter(file, pq.ParquetWriter(file, self._columns))


FORMAT: Final = FileFormat(reader=ParquetReader(), encoder=ParquetEncoder, growing=whole_parquet)
