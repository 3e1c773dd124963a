"""WriteParquet: writes tables in columns into Parquet files, which appear together when all are complete."""

import os
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.pvalue import PCollection

from beam_joins.errors import InputError
from beam_joins.keys.opaque import is_opaque
from beam_joins.pipelines.base.call_once import CallOnce
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import absolute, remove, require_file_system
from beam_joins.pipelines.formats.parquet import opened
from beam_joins.pipelines.results.counts import at_bundle_end
from beam_joins.pipelines.results.paths_in_use import writes_files
from beam_joins.pipelines.results.publication import Move, Publication, part_name, parts_of
from beam_joins.pipelines.systems.files.parquet_run import RUN, SUFFIX, run_of
from beam_joins.transforms.connect.checks import text
from beam_joins.transforms.connect.files import create_file, exists
from beam_joins.transforms.connect.runs import KeptSignatures, folder_for
from beam_joins.transforms.connect.tables import batches_of_rows
from beam_joins.values.schema_union import common_schema, conformed

_RAW = CompressionTypes.UNCOMPRESSED


class WriteParquet(beam.PTransform[PCollection[Any], PCollection[str]]):
    """Writes Arrow tables, record batches or rows with a Beam schema into files ``{path}-00000-of-00004.parquet``; gives
    their paths.

    * ``path``: what the paths of the files begin with, on any filesystem that Beam knows.
    * ``schema``: the columns that the rows are cast to, by name, a ``pyarrow.Schema``. By default those that all batches
      have in common: a column that a batch lacks is null, one that is null throughout a batch has the type of the others.
    * ``compression``: ``"snappy"``, the default, ``"gzip"``, ``"zstd"``, ``"lz4"``, ``"brotli"`` or ``"none"``.

    A bundle writes one file. The files get their names when all are whole, and those of an earlier result of the same
    path go; until then they lie in a hidden directory beside them. What a run that fails leaves there is removed by the
    next run with the path. In the files' metadata ``beam_joins.run`` says which run has written them.

    Raises :class:`InputError` when it is applied: if the pipeline reads a file that would be replaced or removed, or
    with a state one of the result of a later run, or writes to the path already. In the run: for a column of two types (give
    ``schema``), for values that ``schema`` cannot hold or columns that it does not name, and when another run
    writes to the same path or has taken it over (a file ``.{path}.lock`` says which; a run of this
    machine that has ended, or an earlier one of the same process, is given up). Raises OutputError if a file
    cannot be written.
    """

    def __init__(self, path: str, *, schema: pa.Schema | None = None, compression: str = "snappy") -> None:
        super().__init__()
        if schema is not None and not isinstance(schema, pa.Schema):
            raise ValueError(f"schema={schema!r}: give a pyarrow.Schema")
        text("path", path, "what the paths of the files begin with")
        if not isinstance(compression, str) or not (compression == "none" or pa.Codec.is_available(compression)):
            raise ValueError(f"compression={compression!r}: give snappy, gzip, zstd, lz4, brotli or none")
        self.path = path
        self._schema = schema
        self._compression = compression

    def expand(self, batches: PCollection[Any]) -> PCollection[str]:
        """Apply the transform."""
        require_file_system("WriteParquet", self.path)
        with writing(self.path):
            earlier = parts_of(self.path, SUFFIX)
        of_run = None if folder_for(batches) is None else part_name(self.path, 0, 1, SUFFIX)
        writes_files(batches.pipeline, self.path, earlier, of_run)
        if (of_rows := batches_of_rows(batches, "Columns")) is not None:
            batches = of_rows
        result = _Result(self.path, self._schema, self._compression)
        names: PCollection[str] = batches | "Write" >> beam.ParDo(_WriteBundle(result)) | "Name" >> CallOnce(result.publish, str)
        return names


class _Result:
    """The result that a run writes to a path."""

    def __init__(self, prefix: str, schema: pa.Schema | None, compression: str) -> None:
        self.prefix = prefix
        self.path = absolute(prefix)
        self.publication = Publication(self.path, in_workers=True)
        self.schema = schema
        self._compression = compression

    def writer(self, schema: pa.Schema) -> tuple[str, Any, pq.ParquetWriter]:
        """A new file in the hidden directory: its path, the file, and what writes to it."""
        path = os.path.join(self.publication.attempt(self.path), f"{uuid.uuid4().hex}{SUFFIX}")
        file = create_file(path, _RAW)
        # a dictionary of whole numbers that hardly repeat costs time and saves nothing
        worth = [field.name for field in schema if not pa.types.is_integer(field.type)]
        named = schema.with_metadata({**(schema.metadata or {}), RUN: self.publication.run})
        return path, file, pq.ParquetWriter(file, named, compression=self._compression, use_dictionary=worth)

    def publish(self, parts: Iterable[tuple[str, bytes]]) -> list[str]:
        """Give the parts of this run their names; gives these."""
        written = sorted((path, pa.ipc.read_schema(pa.py_buffer(schema))) for path, schema in parts)
        names = [part_name(self.prefix, number, len(written), SUFFIX) for number in range(len(written))]
        targets = [absolute(name) for name in names]
        with writing(self.prefix):
            if written and self._published(written[0][0], targets):
                self.publication.release()  # an attempt before this one has named them, and its success was not heard of
                return names
            if written:
                self.publication.require_held()
            with self.publication:  # a run without rows has not claimed the prefix
                schema = self.schema or (_in_common([schema for _, schema in written]) if written else None)
                sources = [path if have.equals(schema) else self._rewritten(path, schema) for path, have in written]
                self.publication.publish(list(map(Move, sources, targets)), parts_of(self.path, SUFFIX))
        return names

    def _published(self, source: str, targets: list[str]) -> bool:
        """Whether this run's files have their names already, and there is nothing newer of it to name."""
        return (
            not (self.publication.is_held() and exists(source))
            and parts_of(self.path, SUFFIX) == set(targets)
            and all(run_of(target) == self.publication.run for target in targets)
        )

    def _rewritten(self, path: str, schema: pa.Schema) -> str:
        again, file, writer = self.writer(schema)
        with opened(path) as parquet, file, writer:
            for group in range(parquet.num_row_groups):
                writer.write_table(_fitted(parquet.read_row_group(group), schema))
        return again


def _in_common(schemas: list[pa.Schema]) -> pa.Schema:
    """The columns of all files, whichever bundles they are of: the widest first, then by what they are."""
    ordered = sorted(schemas, key=lambda schema: (-len(schema), str(schema.remove_metadata())))
    try:
        return common_schema(ordered, widen=False, remedy="give schema= to say which it is")
    except ValueError as error:
        raise InputError(str(error)) from error


def _fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    for name in rows.column_names:
        if name not in schema.names:
            raise InputError(f"the batches have a column '{name}' that schema= does not name: add it, or leave it out of the batches")
    try:
        return conformed(rows, schema, "a batch")
    except (ValueError, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{str(error).splitlines()[0]}: the batches do not fit schema=") from error


class _WriteBundle(KeptSignatures):
    """Writes one batch while the next one is made: Arrow encodes and compresses without Python's lock."""

    def __init__(self, result: _Result) -> None:
        self._result = result

    def setup(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="write-parquet")

    def start_bundle(self) -> None:
        self._writers: list[tuple[str, Any, pq.ParquetWriter]] = []
        self._written: Future[None] | None = None

    def process(self, element: pa.Table | pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([element]) if isinstance(element, pa.RecordBatch) else element
        for field in rows.schema:
            if is_opaque(field.type):
                raise InputError(
                    f"the column '{field.name}' is of Python objects (opaque), made of single elements or by a function "
                    "of one record: give the transform that"
                    " made them schema=, the columns of its result"
                )
        with self._whole():
            if self._result.schema is not None:
                rows = _fitted(rows, self._result.schema)
            self._wait()
            self._written = self._thread.submit(self._writer_of(rows.schema).write_table, rows)

    def finish_bundle(self) -> Iterator[Any]:
        with self._whole():
            self._wait()
            for _, file, writer in self._writers:
                writer.close()
                file.close()
        for path, _, writer in self._writers:
            yield at_bundle_end((path, writer.schema.serialize().to_pybytes()))

    def teardown(self) -> None:
        self._thread.shutdown()

    def _wait(self) -> None:
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def _writer_of(self, schema: pa.Schema) -> pq.ParquetWriter:
        """The writer of this schema; a bundle has one file for each that its batches have."""
        for _, _, writer in self._writers:
            if writer.schema.equals(schema):
                return writer
        if not self._writers:
            self._result.publication.claim()
        self._writers.append(self._result.writer(schema))
        return self._writers[-1][2]

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """If the block fails nothing of this bundle is left, so that a full disk has room again."""
        try:
            with writing(self._result.prefix):
                yield
        except BaseException:
            with suppress(Exception):
                self._wait()
            for path, file, writer in self._writers:
                with suppress(Exception):
                    writer.close()
                writer.is_open = False  # or it would try again when it is collected
                with suppress(Exception):
                    file.close()
                remove(path)
            self._writers = []
            raise
