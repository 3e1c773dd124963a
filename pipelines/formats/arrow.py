"""Reads and writes Arrow IPC files, which are Feather version 2, by record batches; a growing file is read once it is whole."""

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.formats.changelog_columns import Unit
from beam_joins.pipelines.formats.columnar import (
    RECORDS,
    RowsWriter,
    StructEncoder,
    column_rows,
    readable,
    readable_schema,
    require_names,
    row_dicts,
    rows_of_table,
    unit_of,
)
from beam_joins.pipelines.formats.file_format import FileFormat
from beam_joins.pipelines.formats.file_parts import PLACES, File, FormatReader, Growing, NotWhole, Part, Whole
from beam_joins.pipelines.formats.first_bytes import foreign_file
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.transforms.connect.files import open_file

_MAGIC: Final = b"ARROW1"


class ArrowReader(FormatReader):
    """Reads Arrow files."""

    name = "arrow"
    columnar = True

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By record batches."""
        with opened(file.path) as batches:
            return [(number, number + 1) for number in range(batches.num_record_batches)]

    def unit(self, file: File, column: str) -> Unit | None:
        """The unit of a column of timestamps."""
        return unit_of(arrow_schema(file.path), column)

    def schema(self, file: File) -> pa.Schema:
        """The columns of the file's schema."""
        return arrow_schema(file.path)

    def types(self, file: File) -> list[tuple[str, str]]:
        """The columns of the file's schema, and their types."""
        return [(field.name, str(field.type)) for field in arrow_schema(file.path)]

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The rows."""
        left = file.look_bytes or file.bytes
        with opened(file.path) as batches:
            for number in range(batches.num_record_batches):
                batch = _batch(batches, number)
                for start in range(0, len(batch), 1_000):
                    some = batch.slice(start, 1_000)
                    left -= some.nbytes if file.look_bytes else 0
                    if left < 0:
                        return
                    yield from row_dicts(readable(some))

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The rows of a record batch, some at a time."""
        with opened(part.file.path) as batches:
            batch = _batch(batches, part.start)
        if plan is not None and (columns := plan.needed(batch.schema.names)) is not None:
            batch = batch.select(columns)
        for start in range(0, len(batch), RECORDS):
            some = readable(batch.slice(start, RECORDS), None if plan is None else plan.typed)
            begin = part.first_place + start
            yield column_rows(some, pa.array(np.arange(begin, begin + len(some))), plan)

    def where(self, part: Part, place: int) -> str:
        """The number of the row in its record batch."""
        return f"row {place % PLACES + 1:,} of record batch {part.start + 1:,}"


def whole_arrow(file: Growing) -> Iterator[Whole]:
    """Record batches, once the footer is there; the place is the number of a record batch."""
    with open_file(file.path) as begun:
        head = begun.read(len(_MAGIC))
        begun.seek(max(len(head), begun.seek(0, io.SEEK_END) - len(_MAGIC)))
        if _MAGIC.startswith(head) and begun.read() != _MAGIC:
            raise NotWhole
    with opened(file.path) as batches:
        for number in range(file.place, batches.num_record_batches):
            table = pa.Table.from_batches([_batch(batches, number)])
            names = table.column_names
            table = table if file.columns is None else table.select([name for name in file.columns if name in names])
            yield number + 1, partial(rows_of_table, table, number * PLACES)


def arrow_schema(path: str) -> pa.Schema:
    """The columns of a file; raises ValueError as :func:`opened` does."""
    with opened(path) as batches:
        return readable_schema(batches.schema)


def record_batches(path: str, numbers: Iterable[int] | None = None) -> Iterator[pa.RecordBatch]:
    """The record batches of a file with these numbers, or all; raises ValueError as :func:`opened` does."""
    with opened(path) as batches:
        for number in range(batches.num_record_batches) if numbers is None else numbers:
            yield _batch(batches, number)


class ArrowEncoder(StructEncoder):
    """Rows of record batches."""

    def writer(self, file: Any) -> RowsWriter:
        """A writer of rows to a file, compressed as Feather does by default."""
        return RowsWriter(file, pa.ipc.new_file(file, self._columns, options=pa.ipc.IpcWriteOptions(compression="lz4")))


@contextmanager
def opened(path: str) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """The file; raises ValueError, a sentence without the path, for a file that is not of Arrow IPC, or has two
    columns of one name.
    """
    file: Any = pa.OSFile(path) if is_local(path) else open_file(path)
    with file:
        try:
            batches = pa.ipc.open_file(file)
            require_names(batches.schema)
            yield batches
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and (error.errno or not is_local(path)):
                raise
            other = foreign_file(path, _MAGIC)
            raise ValueError(other or f"is not an Arrow file, or is damaged ({str(error).splitlines()[0]})") from error


def _batch(batches: pa.ipc.RecordBatchFileReader, number: int) -> pa.RecordBatch:
    batch = batches.get_batch(number)
    batch.validate(full=True)  # lengths and offsets are the file's own, and Arrow follows them
    return batch


FORMAT: Final = FileFormat(reader=ArrowReader(), encoder=ArrowEncoder, growing=whole_arrow)
