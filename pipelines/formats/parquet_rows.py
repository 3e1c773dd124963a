"""Reads Parquet files.

In changelogs timestamps are microseconds, dates and UUIDs text; a growing file is read by row groups once it is
whole.
"""

import datetime as dt
import io
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.arrow_types import plain_type, python_list, without_uuids
from beam_joins.exact_casts import as_plain, exact_cast
from beam_joins.exact_values import Place
from beam_joins.pipelines.base.paths import is_local
from beam_joins.pipelines.formats.columns import Unit
from beam_joins.pipelines.formats.files import PLACES, File, Growing, NotWhole, Part, Whole
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.record_batch_parser import RawRows, fitting_rows, structs_of
from beam_joins.pipelines.formats.types.json_text import at_any_depth, is_nested, objects, texts_without_units, without_units

_RECORDS: Final = 1 << 16
_MAGIC: Final = b"PAR1"
_INT96: Final = "INT96"
_FIRST_DAY: Final = pa.scalar(dt.date.min, pa.date32())
_LAST_DAY: Final = pa.scalar(dt.date.max, pa.date32())


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
            return unit_of(parquet.schema_arrow, column)

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
            require_held(file.path, parquet, whole)
            for batch in parquet.iter_batches(1_000, row_groups=whole):
                rows = readable(batch)
                yield from row_dicts(marked(rows) if file.is_unmarked else rows)

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The rows of a row group, some at a time."""
        begin = part.first_place
        with opened(part.file.path) as parquet:
            columns = None if reading is None else reading.needed(parquet.schema_arrow.names)
            require_held(part.file.path, parquet, [part.start], columns)
            for raw in parquet.iter_batches(_RECORDS, row_groups=[part.start], columns=columns):
                batch = readable(raw, None if reading is None else reading.typed)
                batch = marked(batch) if part.file.is_unmarked else batch
                places = pa.array(np.arange(begin, begin + len(batch)))
                begin += len(batch)
                yield column_rows(batch, places, reading)

    def where(self, part: Part, place: int) -> str:
        """The number of the row in its row group."""
        return f"row {place % PLACES + 1:,} of row group {part.start + 1:,}"


def rows_of_table(table: pa.Table, first_place: int, reading: Reading | None) -> Iterator[RawRows]:
    """The rows of a table, some at a time; the places begin with the first."""
    for raw in table.to_batches(_RECORDS):
        batch = readable(raw, None if reading is None else reading.typed)
        yield column_rows(batch, pa.array(np.arange(first_place, first_place + len(batch))), reading)
        first_place += len(batch)


def column_rows(raw: pa.RecordBatch, places: pa.Array, reading: Reading | None) -> RawRows:
    """The records of a batch of plain types whose columns are all known."""

    @cache
    def plain_rows() -> pa.RecordBatch:
        return _without_units(raw)

    @cache
    def python_rows() -> list[dict[str, Any]]:
        return python_list(raw.to_struct_array())

    def row(n: int) -> dict[str, Any] | str:
        one: dict[str, Any] = plain_rows().slice(n, 1).to_pylist()[0]
        return faults.get(n, one)

    faults: dict[int, str] = {}
    if reading is None or not reading.fits(raw.schema.names):
        return RawRows(places, row)
    missing = pa.nulls(len(raw))
    columns = dict(zip(raw.schema.names, raw.columns, strict=True))
    texts = None
    if "json lines" in reading.forms:
        shown = {name: _named(column, name, texts_without_units) for name, column in columns.items()}
        texts = objects(reading.value_of(shown, missing), len(raw))
    structs, sure = None, None
    if reading.typed is not None:
        structs, faults = fitting_rows(partial(_structs, reading.value_of(columns, missing), reading.typed), reading.typed, len(raw))
        sure = np.array([n not in faults for n in range(len(raw))], np.bool_) if faults else None
    read = {name: columns.get(name, missing) for name in reading.names()}
    return RawRows(places, row, read, texts, sure, structs=structs, value=lambda n: python_rows()[n])


def _structs(values: Mapping[str, pa.Array], typed: pa.Schema, start: int, stop: int) -> pa.StructArray:
    """Some rows in typed columns; raises ValueError, a sentence, for one that does not fit."""
    made = []
    for field in typed:
        column = values[field.name].slice(start, stop - start) if field.name in values else pa.nulls(stop - start)
        made.append(exact_cast(column, field.type, Place("a row", field.name)))
    return structs_of(made, typed, stop - start)


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


def row_dicts(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a batch of plain types, one by one: timestamps as microseconds, dates as dates, at any depth."""
    yield from _without_units(batch).to_pylist()


def _without_units(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        _named(column, name, lambda column: at_any_depth(column, _value_column))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def readable(batch: pa.RecordBatch, typed: pa.Schema | None = None) -> pa.RecordBatch:
    """The batch in plain types, UUIDs as text, but in columns that are to be of UUIDs."""
    kept = {field.name for field in typed or () if without_uuids(field.type) != field.type}
    columns = [
        exact_cast(as_plain(column), plain if name in kept else without_uuids(plain), Place("a column"))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        for plain in [plain_type(column.type)]
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def readable_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a file as they are read: UUIDs as text."""
    return pa.schema([field.with_type(without_uuids(field.type)) for field in schema])


def require_names(fields: Iterable[pa.Field], within: str = "") -> None:
    """Raises ValueError, a sentence without the path, for two columns of one name, of which one would be lost."""
    names = set[str]()
    for field in fields:
        path = f"{within}{field.name}"
        if field.name in names:
            raise ValueError(f"has two columns '{path}', where each has a name of its own: give one of them another")
        names.add(field.name)
        if is_nested(field.type):
            require_names([field.type.field(n) for n in range(field.type.num_fields)], f"{path}.")


def unit_of(schema: pa.Schema, column: str) -> Unit | None:
    """What a column counts as event time or sequence: microseconds where its type is of times; None where that says nothing.

    Raises ValueError, a sentence without the path, for times of day and durations.
    """
    kind = schema.field(column).type if column in schema.names else pa.null()
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        raise no_instants(column, str(kind))
    return "us" if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else None


def no_instants(column: str, kind: str) -> ValueError:
    """What is raised for a column of times of day or durations as event time or sequence."""
    what = "durations" if kind.startswith("duration") else "times of day"
    return ValueError(f"has {what} in column '{column}' ({kind}): take a column with the date as well")


def _value_column(column: pa.Array) -> pa.Array:
    """The column as Python holds it: as :func:`without_units` says, but dates that Python has as dates."""
    kind = column.type
    if not pa.types.is_date(kind):
        return without_units(column)
    days = column.cast(pa.date32())
    within = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
    return days if pc.all(within).as_py() is not False else without_units(column)


def _named(column: pa.Array, name: str, made: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What a function makes of a column; its ValueError names the column."""
    try:
        return made(column)
    except ValueError as error:
        if isinstance(error, pa.ArrowException):
            raise
        raise ValueError(f"column '{name}' {error}") from None


@contextmanager
def opened(path: str, **options: Any) -> Iterator[pq.ParquetFile]:
    """The file, read with these options of pyarrow; raises ValueError, a sentence without the path, for one that is not of Parquet,
    or has two columns of one name.
    """
    file: Any = pa.OSFile(path) if is_local(path) else FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    with file:
        try:
            parquet = pq.ParquetFile(file, page_checksum_verification=True, **options)
            require_names(parquet.schema_arrow)
            yield parquet
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
        require_names(groups.schema_arrow)
        columns = None if file.columns is None else [name for name in file.columns if name in groups.schema_arrow.names]
        for group in range(file.place, groups.num_row_groups):
            require_held(file.path, groups, [group], file.columns)
            yield group + 1, partial(rows_of_table, groups.read_row_group(group, columns=columns), group * PLACES)


def parquet_schema(path: str) -> pa.Schema:
    """The columns of a file; raises ValueError as :func:`opened` does."""
    with opened(path) as parquet:
        return readable_schema(parquet.schema_arrow)


def require_held(path: str, parquet: pq.ParquetFile, groups: list[int], columns: Collection[str] | None = None) -> None:
    """Raises ValueError, a sentence without the path, for a time of 96 bits that nanoseconds in 64 bits do not
    hold, which would be read as another one.
    """
    leaves = [parquet.schema.column(n) for n in range(len(parquet.schema))]
    names = [leaf.path for leaf in leaves if leaf.physical_type == _INT96]
    names = [name for name in names if columns is None or any(f"{name}.".startswith(f"{column}.") for column in columns)]
    if not names:
        return
    nanos = parquet.read_row_groups(groups, columns=names)
    with opened(path, coerce_int96_timestamp_unit="us") as other:
        micros = other.read_row_groups(groups, columns=names)
    for name, column in zip(micros.column_names, micros.columns, strict=True):
        is_read = columns is None or name in columns
        if is_read and not nanos.column(name).cast(column.type, safe=False).equals(column):
            raise ValueError(
                f"has a time in column '{name}' (INT96) that nanoseconds in 64 bits do not hold, which end in 2262: write it as a"
                " timestamp in microseconds"
            )
