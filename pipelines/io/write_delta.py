"""WriteDelta: keeps a Delta Lake table equal to a table, by one merge a run, which is applied once."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch
from beam_joins.coders.block import read_blocks
from beam_joins.errors import InputError, OutputError
from beam_joins.keys.encoded import encoded_keys
from beam_joins.keys.hashes import hashes
from beam_joins.pipelines.base.extras import missing
from beam_joins.pipelines.formats.plain_rows import PlainRows
from beam_joins.pipelines.formats.types.target_types import target_type
from beam_joins.pipelines.io.targets import MergedTable
from beam_joins.sorted_bytes import bytes_order
from beam_joins.sorting import combine_chunks
from beam_joins.transforms.connect import (
    BlockWriter,
    Route,
    TableType,
    columns,
    folder_for,
    in_batches,
    last_of_each,
    newest,
    require_bounded,
    require_global,
    table_type,
    text,
)

_ROWS: Final = "rows"
_DELETED: Final = "(deleted)"
_CHECKSUMS: Final = 1 << 62
ATTEMPTS: Final = 12
"""How often a merge is tried that others have come before."""
_WAIT: Final = 0.1


class WriteDelta(beam.PTransform[PCollection[Any], PCollection[int]]):
    """Merges a table into a Delta Lake table: inserts, updates and deletes rows there, so that it holds what
    the table holds. Gives the version of the Delta table.

    All changes of a run are one merge, one version of the Delta table, which is made if it is not there. The
    last change of each row counts. Without ``--beam_joins_state`` each run has to read the whole changelog: a
    delete of a row that a run does not know changes nothing.

    * ``path``: a folder, or an address that the package ``deltalake`` knows (``s3://...``).
    * ``storage_options``: the options of ``deltalake`` for such an address.
    * ``key``: how the columns of the key are named there; by default as those that it was made of, ``key``
      where there was one. A column of the value with such a name gives way to it.
    * ``application``: what Delta's log names these runs by (the ``appId`` of a transaction identifier), by
      default the label of the transform.

    A run counts once. The version of its transaction identifier is the number of the run with
    ``--beam_joins_state``, else the time when the pipeline was built: a bundle that is tried again, and a run
    that is done again with the same records since it failed afterwards, find it in the log and write nothing.
    A run that is done again with more records merges them all. Others may write to the Delta table at the
    same time: a merge that they come before is done again.

    Raises ``ValueError`` at construction without the package (``pip install 'beam-joins[delta]'``) or for a
    wrong option; when applied for a table of Python objects, for unbounded input, and for a column of a type
    that Delta does not have. In the run :class:`~beam_joins.InputError` if the
    Delta table has other columns, or had a later run of the same application; OutputError if it cannot be
    written.
    """

    def __init__(
        self,
        path: str,
        *,
        key: str | Sequence[str] | None = None,
        application: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        text("path", path, "the path of a folder")
        if key is not None:
            columns("key", key)
        if application is not None:
            text("application", application, "a name, or leave it out")
        if not (storage_options is None or isinstance(storage_options, Mapping)):
            raise ValueError(f"storage_options={storage_options!r}: give settings by their names, or None")
        if find_spec("deltalake") is None:
            raise missing("delta")
        self._path = path
        self._key = key
        self._application = application
        self._storage = dict(storage_options or {})
        self._built = time.time_ns() // 1_000

    def expand(self, pcoll: PCollection[Any]) -> PCollection[int]:
        """Apply the transform."""
        require_global("WriteDelta", pcoll)
        require_bounded("WriteDelta", "write it in incremental runs, with --beam_joins_state", pcoll)
        folder = folder_for(pcoll)
        version = self._built if folder is None else folder.run
        application = self._application or pcoll.pipeline.transforms_stack[-1].full_label
        merged = self._merge(table_type(pcoll), application, version)
        routed = in_batches(pcoll) | "By key" >> Route(_last_rows, to=(_ROWS,))
        begin = pcoll.pipeline | "Begin" >> beam.Create([(0, b"")], reshuffle=False).with_output_types(tuple[int, bytes])
        parts = (
            routed[_ROWS]
            | "Of a partition" >> beam.GroupByKey()
            | "Last" >> beam.MapTuple(lambda _, blocks: (0, merged.part(blocks))).with_output_types(tuple[int, bytes])
        )
        versions: PCollection[int] = (
            (parts, begin)
            | "All" >> beam.Flatten()
            | "Together" >> beam.GroupByKey()
            | "Merge" >> beam.MapTuple(lambda _, written: merged.merge(written)).with_output_types(int)
        )
        return versions

    def merged(self, of_table: TableType) -> MergedTable:
        """The Delta table for one process that merges all changes of a run. Raises ``ValueError``."""
        return _AtOnce(self._merge(of_table, self._application or "WriteDelta", None))

    def _merge(self, of_table: TableType, application: str, version: int | None) -> "_Merge":
        return _Merge(self._path, self._storage, PlainRows("WriteDelta", of_table, self._key), application, version)


class _Merge:
    """What a run does to a Delta table."""

    def __init__(self, path: str, storage: dict[str, str], rows: PlainRows, application: str, version: int | None) -> None:
        self._path = path
        self._storage = storage
        self._rows = rows
        self._application = application
        self._version = version
        self.schema = _delta_schema(rows)
        self._source = self.schema.append(pa.field(_DELETED, pa.bool_()))

    def part(self, blocks: Iterable[bytes]) -> bytes:
        """The last changes of a partition's rows as an Arrow stream, in the order of their keys' encodings,
        however they arrived.
        """
        return self.part_of(read_blocks(blocks)[_ROWS])

    def part_of(self, rows: pa.Table) -> bytes:
        """The last of these changes of each row."""
        last = last_of_each(rows)
        last = last.take(pa.array(bytes_order(encoded_keys(combine_chunks(last["key"])))))
        key, value = (combine_chunks(last[name]) for name in ("key", "value"))
        columns = [column.cast(field.type) for column, field in zip(self._rows.columns(key, value), self.schema, strict=True)]
        batch = pa.record_batch([*columns, value.is_null()], schema=self._source)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._source, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def exists(self) -> bool:
        """Whether the Delta table is there."""
        from deltalake import DeltaTable  # noqa: PLC0415  # an extra

        return bool(DeltaTable.is_deltatable(self._path, self._storage))

    def at_version(self, version: int | None) -> "_Merge":
        """The same for another run."""
        return _Merge(self._path, self._storage, self._rows, self._application, version)

    def merge(self, written: Iterable[bytes], *, anew: bool = False) -> int:
        """Merge the parts, unless this run has done so, or write them ``anew``, in place of all rows; gives the version of
        the Delta table.
        """
        from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415  # an extra

        parts = list(filter(None, written))
        checksum = sum(map(xxhash.xxh3_64_intdigest, parts)) % _CHECKSUMS
        for attempt in range(ATTEMPTS):
            try:
                return self._merged(parts, checksum, anew=anew)
            except CommitFailedError as error:
                if attempt + 1 == ATTEMPTS:
                    raise OutputError(
                        f"cannot write {self._path}: others have written to it {ATTEMPTS} times meanwhile: {_line(error)}"
                    ) from error
                time.sleep(_WAIT * 2 ** min(attempt, 5) * random.random())
            except (DeltaError, OSError) as error:
                raise OutputError(f"cannot write {self._path}: {_line(error)}") from error
        raise AssertionError

    def _table(self, *, create: bool) -> Any:
        """The Delta table, which has these columns."""
        from deltalake import DeltaTable  # noqa: PLC0415

        if create and not self.exists():
            DeltaTable.create(self._path, self.schema, mode="ignore", storage_options=self._storage)
        table = DeltaTable(self._path, storage_options=self._storage)
        self._require_same_columns(pa.schema(table.schema()))
        return table

    def prepare(self, *, create: bool) -> None:
        """Creates the Delta table if requested; raises InputError for one that cannot be read or has other columns."""
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        try:
            self._table(create=create)
        except (DeltaError, OSError) as error:
            raise InputError(f"cannot write {self._path}: {_line(error)}") from error

    def _merged(self, parts: list[bytes], checksum: int, *, anew: bool) -> int:
        from deltalake import CommitProperties, Transaction, write_deltalake  # noqa: PLC0415

        table = self._table(create=True)
        name, rows = self._application, f"{self._application}: rows"
        done = table.transaction_version(name)
        if self._version is not None and done is not None and done > self._version and not anew:
            raise InputError(
                f"{self._path} has had run {done} of {name!r}, and this is run {self._version}: begin with an empty "
                "state, or give application= another name"
            )
        is_done = (done, table.transaction_version(rows)) == (self._version, checksum)
        done_by = [] if self._version is None else [Transaction(name, self._version), Transaction(rows, checksum)]
        properties = CommitProperties(app_transactions=done_by)
        if anew:
            there = pa.RecordBatchReader.from_batches(self.schema, (self._without_deleted(each) for each in _batches(parts)))
            write_deltalake(table, there, mode="overwrite", commit_properties=properties)
        elif parts and not is_done:
            equal = "IS NOT DISTINCT FROM" if self._rows.nullable_key else "="
            columns = {_quoted(column): f"s.{_quoted(column)}" for column in self.schema.names}
            (
                table.merge(
                    pa.RecordBatchReader.from_batches(self._source, _batches(parts)),
                    " AND ".join(f"(t.{_quoted(column)} {equal} s.{_quoted(column)})" for column in self._rows.keys),
                    source_alias="s",
                    target_alias="t",
                    commit_properties=properties,
                )
                .when_matched_delete(f"s.{_quoted(_DELETED)}")
                .when_matched_update(columns)
                .when_not_matched_insert(columns, predicate=f"NOT s.{_quoted(_DELETED)}")
                .execute()
            )
        return int(table.version())

    def _without_deleted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pc.invert(rows[_DELETED])).select(self.schema.names)

    def _require_same_columns(self, existing: pa.Schema) -> None:
        if sorted(existing.names) != sorted(self.schema.names):
            raise InputError(f"{self._path} has the columns {', '.join(existing.names)}, and the table {', '.join(self.schema.names)}")
        for field in self.schema:
            kind = existing.field(field.name).type
            if target_type("parquet", field.name, kind) != field.type:  # of lists whose items may have another name
                raise InputError(f"{self._path}: column '{field.name}' is {kind} there, and {field.type} in the table")


@dataclass(frozen=True)
class _AtOnce:
    """All changes of a run, merged by one process."""

    into: _Merge

    def exists(self) -> bool:
        return self.into.exists()

    def prepare(self, *, create: bool) -> None:
        self.into.prepare(create=create)

    def merge(self, changes: Callable[[], Iterator[ChangeBatch]], *, run: int | None, anew: bool) -> None:
        rows = list(map(newest, changes()))
        into = self.into.at_version(run)
        into.merge([into.part_of(pa.Table.from_batches(rows))] if rows else [], anew=anew)


def _delta_schema(rows: PlainRows) -> pa.Schema:
    """The columns as Delta holds them.

    Raises ``ValueError`` for a key whose values are not equal to themselves, or have others within, and for names
    that differ in case alone.
    """
    for name in rows.keys:
        kind = rows.schema.field(name).type
        if pa.types.is_floating(kind) or pa.types.is_nested(kind):
            raise ValueError(
                f"WriteDelta: the key's column '{name}' is {kind}, by which Delta finds no row: make the key text or a whole number"
            )
    _require_apart(list(rows.schema))
    return pa.schema([(field.name, target_type("delta", field.name, field.type)) for field in rows.schema])


def _require_apart(fields: Sequence[pa.Field], within: str = "") -> None:
    """Raise ``ValueError`` for columns, also within structs, whose names differ in case alone."""
    names: dict[str, str] = {}
    for field in fields:
        if (other := names.setdefault(field.name.lower(), field.name)) != field.name:
            raise ValueError(
                f"WriteDelta: the columns '{within}{other}' and '{within}{field.name}' differ in case alone, by which Delta tells no "
                "columns apart: give one of them another name"
            )
        kind = field.type
        while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            _require_apart(list(kind), f"{within}{field.name}.")


def _last_rows(batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
    rows = last_of_each(newest(batch))
    writer.send(_ROWS, hashes(rows["key"]), rows)


def _batches(parts: list[bytes]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        with pa.ipc.open_stream(part) as stream:
            yield from stream


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
