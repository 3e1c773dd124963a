"""ReadParquet: reads Parquet files as Arrow tables, without a Python object for each row.

    batches = pipeline | ReadParquet("changes/*.parquet")       # PCollection[pyarrow.Table]
    _ = tables | WriteParquet("out/enriched")                   # out/enriched-00000-of-00004.parquet, ...

Beam's own transforms do the same in more steps, and steps take most of the time of a small job on Spark.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.errors import InputError
from beam_joins.pipelines.base.lakes import require_plain
from beam_joins.pipelines.base.paths import files_at, none_at, require_file_system, require_seen
from beam_joins.pipelines.base.spread import Spread
from beam_joins.pipelines.formats.parquet import opened, require_held
from beam_joins.pipelines.results.paths_in_use import reads_files
from beam_joins.pipelines.systems.files.parquet_run import SUFFIX, without_run
from beam_joins.transforms.connect import checks
from beam_joins.transforms.connect.files import cause
from beam_joins.transforms.connect.runs import KeptSignatures
from beam_joins.transforms.connect.tables import as_arrow, plain_schema
from beam_joins.values.schema_union import common_schema

_FOOTERS = 16  # read at a time


class ReadParquet(beam.PTransform[PBegin, PCollection[pa.Table]]):
    """Reads Parquet files, one row group at a time, as a ``PCollection[pyarrow.Table]``. The columns are known when the
    pipeline is built.

    * ``path``: a path, a glob or a folder, on any filesystem that Beam knows.
    * ``columns``: the columns to read, by default all.

    Files may have different columns: the table has all of them, null where a file has none. Raises :class:`InputError` at
    construction if no file matches; and when applied, for a file in another format, for a column that no file has, for one
    column of types without a common type, and if the same pipeline writes a result in the place of a file that is read.

    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file, beam.Pipeline() as pipeline:
    ...     pq.write_table(pa.table({"id": [1, 2], "name": ["Ann", "Bob"]}), file.name)
    ...     _ = pipeline | ReadParquet(file.name, columns=["name"]) | beam.Map(lambda rows: print(rows.to_pylist()))
    [{'name': 'Ann'}, {'name': 'Bob'}]
    """

    def __init__(self, path: str, *, columns: Sequence[str] | None = None) -> None:
        super().__init__()
        checks.text("path", path, "a path or a glob")
        if isinstance(columns, str):
            raise ValueError(f"columns={columns!r}: give a list of column names")
        self._columns = None if columns is None else checks.columns("columns", columns, none=True)
        require_file_system("ReadParquet", path)
        try:
            files, is_folder = files_at(path)
        except OSError as error:
            raise InputError(f"cannot look for {path}: {cause(error)}") from error
        require_plain(path, [file.path for file in files])
        self._path = path
        self._sizes = {file.path: file.bytes for file in files if not is_folder or file.path.endswith(SUFFIX)}
        self.paths = list(self._sizes)
        if not self.paths:
            raise InputError(none_at(path))

    @property
    def bytes(self) -> int:
        """The size of what will be read, before compression."""
        return sum(_bytes(path, self._columns) for path in self.paths)

    @property
    def schema(self) -> pa.Schema:
        """The columns that will be read, of the types that all files have in common."""
        with ThreadPoolExecutor(_FOOTERS) as pool:
            schemas = list(pool.map(_schema, self.paths))
        try:
            schema = common_schema(map(plain_schema, schemas), of="files")
        except ValueError as error:
            raise InputError(f"{self.paths[0]} and others: {error}") from error
        if self._columns is None:
            return schema
        if missing := [name for name in self._columns if name not in schema.names]:
            raise InputError(f"{self.paths[0]} has no column {missing[0]!r}; it has {', '.join(schema.names)}")
        return pa.schema([schema.field(name) for name in self._columns])

    def expand(self, begin: PBegin) -> PCollection[pa.Table]:
        """Apply the transform."""
        reads_files(begin.pipeline, self._path, self.paths)
        groups = begin | "Row groups" >> Spread(partial(_row_groups, self._sizes), tuple[str, int])
        batches: PCollection[pa.Table] = groups | "Read" >> beam.ParDo(_Read(self._columns)).with_output_types(pa.Table)
        return as_arrow(batches, self.schema, size=self.bytes)


def _schema(path: str) -> pa.Schema:
    with _opened(path) as parquet:
        return parquet.schema_arrow


def _row_groups(sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for path, size in sizes.items():
        with _opened(path, size) as parquet:
            yield from ((path, group) for group in range(parquet.num_row_groups))


def _bytes(path: str, columns: list[str] | None) -> int:
    with _opened(path) as parquet:
        footer = parquet.metadata
    groups = (footer.row_group(i) for i in range(footer.num_row_groups))
    chunks = (group.column(i) for group in groups for i in range(group.num_columns))
    return sum(chunk.total_uncompressed_size for chunk in chunks if columns is None or chunk.path_in_schema.split(".")[0] in columns)


class _Read(KeptSignatures):
    def __init__(self, columns: list[str] | None) -> None:
        self._columns = columns

    def process(self, element: tuple[str, int]) -> Iterator[pa.Table]:
        path, group = element
        with _opened(path) as parquet:
            require_held(path, parquet, [group], self._columns)
            yield without_run(parquet.read_row_group(group, columns=self._columns))


@contextmanager
def _opened(path: str, size: int = 0) -> Iterator[pq.ParquetFile]:
    """The file, of so many bytes or more."""
    try:
        require_seen(path, size)
        with opened(path) as parquet:
            yield parquet
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause(error)}") from error
    except ValueError as error:
        raise InputError(f"{path} {error}") from error
