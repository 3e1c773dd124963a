"""Parquet files as tables in columns, and back: no row becomes a Python object, and no batch goes through the runner on its way to a file.

    batches = pipeline | ReadParquet("changes/*.parquet")       # PCollection[pyarrow.Table]
    _ = tables | WriteParquet("out/enriched")                   # out/enriched-00000-of-00004.parquet, ...

Beam's own transforms do the same; these read and write in fewer steps, which on Spark are what a small job waits for.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.pipelines.changelog_files.tally import at_bundle_end
from beam_joins.pipelines.command.input_error import InputError

_RAW = CompressionTypes.UNCOMPRESSED


class ReadParquet(beam.PTransform[PBegin, PCollection[pa.Table]]):
    """The rows of Parquet files, a row group at a time: ``PCollection[pyarrow.Table]``.

    ``pattern`` is a path or a glob on any file system that Beam knows; ``columns`` are those to read, by default all. Raises
    :class:`InputError` at construction if no file matches, and in the run for a file that is no Parquet file.
    """

    def __init__(self, pattern: str, *, columns: Sequence[str] | None = None) -> None:
        super().__init__()
        self._columns = None if columns is None else list(columns)
        self._paths = sorted(file.path for match in FileSystems.match([pattern]) for file in match.metadata_list)
        if not self._paths:
            raise InputError(f"there is no file {pattern}")

    @property
    def bytes(self) -> int:
        """The size of what will be read, before compression."""
        return sum(_bytes(path, self._columns) for path in self._paths)

    def expand(self, begin: PBegin) -> PCollection[pa.Table]:
        """Apply the transform."""
        columns = self._columns
        batches: PCollection[pa.Table] = (
            begin
            | "Files" >> beam.Create(self._paths, reshuffle=False)
            | "Row groups" >> beam.FlatMap(_row_groups)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.MapTuple(lambda path, group: _read(path, group, columns)).with_output_types(pa.Table)
        )
        return batches


class WriteParquet(beam.PTransform[PCollection[Any], PCollection[str]]):
    """Arrow tables or record batches of one schema into files ``{prefix}-00000-of-00004.parquet``; gives their paths.

    One file a bundle. The files get their names when all are whole; what a failed attempt left has another name. ``schema`` is what the
    rows are cast to, by default that of the first.
    """

    def __init__(self, prefix: str, *, schema: pa.Schema | None = None, compression: str = "snappy") -> None:
        super().__init__()
        self._prefix = prefix
        self._write = _WriteBundle(prefix, schema, compression)

    def expand(self, batches: PCollection[Any]) -> PCollection[str]:
        """Apply the transform."""
        prefix = self._prefix
        names: PCollection[str] = (
            batches
            | "Write" >> beam.ParDo(self._write).with_output_types(tuple[int, str])
            | "All" >> beam.GroupByKey()
            | "Name" >> beam.FlatMapTuple(lambda _, paths: _named(prefix, paths)).with_output_types(str)
        )
        return names


class _WriteBundle(beam.DoFn):
    def __init__(self, prefix: str, schema: pa.Schema | None, compression: str) -> None:
        self._prefix = prefix
        self._schema = schema
        self._compression = compression

    def start_bundle(self) -> None:
        self._writer: pq.ParquetWriter | None = None

    def process(self, element: pa.Table | pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([element]) if isinstance(element, pa.RecordBatch) else element
        if self._schema is not None:
            rows = rows.cast(self._schema)
        if self._writer is None:
            self._path = f"{self._prefix}-{uuid.uuid4().hex}.unfinished"
            self._file = FileSystems.create(self._path, compression_type=_RAW)
            # a dictionary of whole numbers that hardly repeat costs time and saves nothing
            worth = [field.name for field in rows.schema if not pa.types.is_integer(field.type)]
            self._writer = pq.ParquetWriter(self._file, rows.schema, compression=self._compression, use_dictionary=worth)
        self._writer.write_table(rows)

    def finish_bundle(self) -> Iterator[Any]:
        if self._writer is not None:
            self._writer.close()
            self._file.close()
            yield at_bundle_end((0, self._path))


def _row_groups(path: str) -> list[tuple[str, int]]:
    with _opened(path) as file:
        return [(path, group) for group in range(_parquet(path, file).num_row_groups)]


def _bytes(path: str, columns: list[str] | None) -> int:
    with _opened(path) as file:
        footer = _parquet(path, file).metadata
    groups = (footer.row_group(i) for i in range(footer.num_row_groups))
    chunks = (group.column(i) for group in groups for i in range(group.num_columns))
    return sum(chunk.total_uncompressed_size for chunk in chunks if columns is None or chunk.path_in_schema.split(".")[0] in columns)


def _read(path: str, group: int, columns: list[str] | None) -> pa.Table:
    with _opened(path) as file:
        return _parquet(path, file).read_row_group(group, columns=columns)


def _opened(path: str) -> Any:
    # Arrow reads a local file itself: through Python each read would take the interpreter's lock
    return FileSystems.open(path, compression_type=_RAW) if "://" in path else pa.OSFile(path)


def _parquet(path: str, file: Any) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} is no Parquet file: {error}") from error


def _named(prefix: str, paths: Iterable[str]) -> list[str]:
    unfinished = sorted(paths)
    names = [f"{prefix}-{number:05d}-of-{len(unfinished):05d}.parquet" for number in range(len(unfinished))]
    there = [name for name in names if FileSystems.exists(name)]
    if there:
        FileSystems.delete(there)
    FileSystems.rename(unfinished, names)
    return names
