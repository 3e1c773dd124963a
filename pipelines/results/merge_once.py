"""MergeOnce: the base of writers that merge all changes of a run in one transaction, which counts once."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from apache_beam.pvalue import PCollection

from beam_joins.coders.block import read_blocks
from beam_joins.columns.sorted_bytes import bytes_order
from beam_joins.columns.sorting import combine_chunks
from beam_joins.errors import InputError, OutputError
from beam_joins.keys.encoded import encoded_keys
from beam_joins.keys.hashes import hashes
from beam_joins.pipelines.base.call_once import CallOnce
from beam_joins.pipelines.formats.output_records import TableRecords, merged_changes
from beam_joins.pipelines.formats.types.target_types import parquet_type
from beam_joins.pipelines.results.run_mark import Mark, MarkFile, NotAsLeft, rows_replaced
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.connect.checks import columns, require_bounded, require_global, require_tables, text
from beam_joins.transforms.connect.runs import before_run, folder_for
from beam_joins.transforms.connect.tables import (
    BlockWriter,
    PlainRows,
    Route,
    TableType,
    begins_anew,
    in_batches,
    last_of_each,
    newest,
    table_type,
)
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace

DELETED: Final = "(deleted)"
"""The column of a change that says whether its row is deleted."""
ATTEMPTS: Final = 12
"""The number of attempts at a merge that others have overtaken."""
_ROWS: Final = "rows"
CHECKSUMS: Final = 1 << 62
"""More than any checksum of changes, which are numbers of 64 bits with a sign elsewhere."""
WAIT: Final = 0.1
"""The longest wait after the first of these attempts, in seconds."""


class MergedTable(Protocol):
    """A table that one process brings up to date, with all changes of a run at once."""

    def exists(self) -> bool:
        """Whether the table is there. Raises InputError if that cannot be told."""

    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        """Creates the table if requested. Raises InputError for a table that rows cannot be merged into, and
        :class:`~beam_joins.pipelines.results.run_mark.NotAsLeft` for one without the mark of the ``last`` run. ``widen``: it is
        of earlier runs, may have more columns, and gets those that it lacks if requested, null in the rows that are there.
        """

    @property
    def records(self) -> TableRecords | None:
        """The records of the file by which the changes are handed over; ``None``: those of a ``"table"``."""

    def merge(self, file: str, *, run: int | None, anew: bool, last: Mark | None = None) -> Mark | None:
        """Merges the changes in an Arrow file, whole or not at all; ``anew``: in place of all rows that are
        there. The same changes of the same run count once; ``None``: a run that stands alone, and is done anew. Gives the
        mark of the run, if it has one; where the table is not made anew, it has to have the mark of the ``last`` one.

        Raises OutputError, and :class:`~beam_joins.pipelines.results.run_mark.NotAsLeft`.
        """


class Overtaken(Exception):
    """Others have written to the table first, or have it open: the merge is done again."""


class LastChanges:
    """The last change of each row: the columns of the table, and whether the row is deleted."""

    def __init__(self, schema: pa.Schema, parts: Iterable[bytes]) -> None:
        self.schema = _with_deleted(schema)
        self._names = schema.names
        self._parts = list(filter(None, parts))

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def checksum(self) -> int:
        """Is the same for the same changes, in whatever order the parts are."""
        return sum(map(xxhash.xxh3_64_intdigest, self._parts)) % CHECKSUMS

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, as often as they are asked for."""
        for part in self._parts:
            with pa.ipc.open_stream(part) as stream:
                yield from stream

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows that are not deleted."""
        return (each.filter(pc.invert(each[DELETED])).select(self._names) for each in self.batches())


class MergedRun(NamedTuple):
    """The run that merges, as a table remembers it; ``number`` is ``None`` for a run that is not remembered.

    ``anew``: its rows are put in place of all rows that are there. ``last`` is the mark of the run that has written to the
    table before.
    """

    application: str
    number: int | None
    checksum: int
    anew: bool
    last: Mark | None = None

    def is_done(self, path: str, number: int | None, checksum: int | None) -> bool:
        """Whether the last run that the table remembers is this one. Raises InputError if it is a later one, and NotAsLeft if it is
        neither this one, which is done again, nor the last one.
        """
        if not self.anew and self.last is not None and number not in (self.number, self.last["run"]):
            has = "no run" if number is None else f"run {number}"
            raise NotAsLeft(path, f"it has had {has} of {self.application!r} as the last one, and not run {self.last['run']}")
        if self.number is not None and number is not None and number > self.number and not self.anew:
            raise InputError(
                f"{path} has had run {number} of {self.application!r}, and this is run {self.number}: begin with an empty "
                "state, or give application= another name"
            )
        return (number, checksum) == (self.number, self.checksum) and not self.anew


class Merged(NamedTuple):
    """The version of a table after a merge, and the number of the last run that it remembers then."""

    version: int
    run: int | None


class KeyedTable(ABC):
    """A table elsewhere whose rows are found by their keys; ``path`` names it in sentences."""

    path: str
    schema: pa.Schema
    """The columns as they are handed to it."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether the table is there. Raises InputError if that cannot be told."""

    @abstractmethod
    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        """Creates the table if requested. Raises InputError for a table that cannot be read or has other columns, and NotAsLeft for
        one that lacks columns which it had in the ``last`` run. ``widen``: it is of earlier runs, may have more columns, and gets
        those that it lacks if requested.
        """

    @abstractmethod
    def merge(self, changes: LastChanges, run: MergedRun) -> Merged:
        """Merges the changes and remembers the run in one transaction, unless ``run.is_done`` or nothing is changed. Creates the
        table if it is not there, and adds columns to a table that remembers an earlier run.

        Raises Overtaken, NotAsLeft and OutputError.
        """

    def _lacking(
        self, there: Mapping[str, object], columns: Mapping[str, object], *, widen: bool, last: Mark | None = None
    ) -> list[str]:
        """The ``columns``, with their types, that the target lacks; ``there`` are its own.

        ``widen``: it may lack columns, and may have more. Raises InputError where names or types differ otherwise, and NotAsLeft
        where one is missing that the ``last`` run has written.
        """
        if gone := [name for name in (last or {}).get("columns", ()) if name in columns and name not in there]:
            raise NotAsLeft(self.path, f"it has no column {', '.join(gone)} any more")
        if not widen and sorted(there) != sorted(columns):
            raise InputError(
                f"{self.path} has the columns {', '.join(there)}, and the table {', '.join(columns)}: write to another one"
            )
        for name, kind in columns.items():
            if there.get(name, kind) != kind:
                raise InputError(f"{self.path}: column '{name}' is {there[name]} there, and {kind} in the table: give it another name")
        return [name for name in columns if name not in there]


class MergeOnce(beam.PTransform[PCollection[Any], PCollection[int]], ABC):
    """Merges the last change of each row into :meth:`into`, by one process and in one transaction a run.

    A run is remembered by ``application``, by default the label of the transform, and its number: with
    ``--beam_joins_state`` that of the run, else the time when the pipeline was built.
    """

    system: str
    """Whose rules the columns follow, in sentences."""

    def __init__(self, key: str | Sequence[str] | None, application: str | None) -> None:
        super().__init__()
        if key is not None:
            columns("key", key)
        if application is not None:
            text("application", application, "a name, or leave it out")
        self._key = key
        self._application = application
        self._built = time.time_ns() // 1_000

    @abstractmethod
    def into(self, rows: PlainRows) -> KeyedTable:
        """The table for these rows. Raises ``ValueError`` for columns that it does not take."""

    def expand(self, pcoll: PCollection[Any]) -> PCollection[int]:
        """Apply the transform."""
        require_global(type(self).__name__, pcoll)
        require_tables(type(self).__name__, pcoll)
        require_bounded(type(self).__name__, "write it in incremental runs, with --beam_joins_state", pcoll)
        folder = folder_for(pcoll)
        application = self._application or pcoll.pipeline.transforms_stack[-1].full_label
        merged = self._merge(table_type(pcoll), application, self._built if folder is None else folder.run)
        anew = begins_anew(pcoll) is not None
        left = None if folder is None else MarkFile.of(folder, f"{merged.into.path}, {application}")
        if folder is not None:
            replaced = rows_replaced(folder, merged.into.path, anew=anew)
            if anew:
                before_run(pcoll.pipeline, replaced.set)
        routed = in_batches(pcoll) | "By key" >> Route(_last_rows, to=(_ROWS,))
        merge = CallOnce(
            lambda written: [merged.merge(written, anew=anew, left=left)], int, each=lambda partition: merged.part(partition[1])
        )
        versions: PCollection[int] = routed[_ROWS] | "Of a partition" >> beam.GroupByKey() | "Merge" >> merge
        return versions

    def merged(self, of_table: TableType) -> MergedTable:
        """The table for one process that merges all changes of a run. Raises ``ValueError``."""
        return _AtOnce(self._merge(of_table, self._application or type(self).__name__, None))

    def _merge(self, of_table: TableType, application: str, number: int | None) -> "MergeOfRun":
        rows = PlainRows(type(self).__name__, of_table, self._key, stored=parquet_type)
        self._require_columns(rows)
        return MergeOfRun(self.into(rows), rows, application, number)

    def _require_columns(self, rows: PlainRows) -> None:
        """Raises ``ValueError`` for a key whose values are not equal to themselves, or have others within, and for names
        that differ in case alone.
        """
        for name in rows.keys:
            kind = rows.schema.field(name).type
            if pa.types.is_floating(kind) or pa.types.is_nested(kind):
                raise ValueError(
                    f"{type(self).__name__}: the key's column '{name}' is {kind}, by which {self.system} finds no row: make the key "
                    "text or a whole number"
                )
        self._require_apart(list(rows.schema))

    def _require_apart(self, fields: Sequence[pa.Field], within: str = "") -> None:
        """Raises ``ValueError`` for columns, also within structs, whose names differ in case alone."""
        names: dict[str, str] = {}
        for field in fields:
            if (other := names.setdefault(field.name.lower(), field.name)) != field.name:
                raise ValueError(
                    f"{type(self).__name__}: the columns '{within}{other}' and '{within}{field.name}' differ in case alone, by which "
                    f"{self.system} tells no columns apart: give one of them another name"
                )
            kind = field.type
            while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
                kind = kind.value_type
            if pa.types.is_struct(kind):
                self._require_apart(list(kind), f"{within}{field.name}.")


@dataclass(frozen=True)
class MergeOfRun:
    """The merge of a run into a table."""

    into: KeyedTable
    rows: PlainRows
    application: str
    number: int | None

    def part(self, blocks: Iterable[bytes]) -> bytes:
        """The last changes of a partition's rows as an Arrow stream, in the order of their keys' encodings,
        however they arrived.
        """
        return self.part_of(read_blocks(blocks)[_ROWS])

    def part_of(self, rows: pa.Table) -> bytes:
        """The last of these changes of each row."""
        schema = self.into.schema
        last = last_of_each(rows)
        last = last.take(pa.array(bytes_order(encoded_keys(combine_chunks(last["key"])))))
        key, value = (combine_chunks(last[name]) for name in ("key", "value"))
        cast = [
            exact_cast(column, field.type, ValuePlace(f"a row for {self.into.path}").within(field.name))
            for column, field in zip(self.rows.columns(key, value), schema, strict=True)
        ]
        batch = pa.record_batch([*cast, value.is_null()], schema=_with_deleted(schema))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def merge(self, written: Iterable[bytes], *, anew: bool = False, left: MarkFile | None = None) -> int:
        """Merges the parts, unless this run has done so, or writes them ``anew``, in place of all rows; gives the version of
        the table. ``left``: where the table has to have the mark that the last run has left, and that of this run is put.
        """
        try:
            version, mark = self.marked(written, anew=anew, last=None if left is None else left.last)
        except NotAsLeft as error:
            raise InputError(f"{error}: write to another table, with an empty state") from error
        if left is not None:
            left.put(mark)
        return version

    def marked(self, written: Iterable[bytes], *, anew: bool, last: Mark | None) -> tuple[int, Mark | None]:
        """The same, beside the mark of this run; raises NotAsLeft for a table without that of the ``last`` one."""
        changes = LastChanges(self.into.schema, written)
        run = MergedRun(self.application, self.number, changes.checksum, anew, None if anew else last)
        for attempt in range(ATTEMPTS):
            try:
                version, last_run = self.into.merge(changes, run)
                mark = {"run": last_run, "version": version, "columns": self.into.schema.names}
                return version, None if last_run is None else mark
            except Overtaken as error:
                if attempt + 1 == ATTEMPTS:
                    raise OutputError(
                        f"cannot write {self.into.path}: others use it at each of {ATTEMPTS} attempts: {first_line(error)}"
                    ) from error
                time.sleep(WAIT * 2 ** min(attempt, 5) * random.random())
        raise AssertionError


@dataclass(frozen=True)
class _AtOnce:
    """All changes of a run, merged by one process."""

    into: MergeOfRun
    records: ClassVar[None] = None

    def exists(self) -> bool:
        return self.into.into.exists()

    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        self.into.into.prepare(create=create, widen=widen, last=last)

    def merge(self, file: str, *, run: int | None, anew: bool, last: Mark | None = None) -> Mark | None:
        rows = list(map(newest, merged_changes(file)))
        into = replace(self.into, number=run)
        _, mark = into.marked([into.part_of(pa.Table.from_batches(rows))] if rows else [], anew=anew, last=last)
        return mark


def first_line(error: BaseException) -> str:
    """The message of an error, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _with_deleted(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field(DELETED, pa.bool_()))


def _last_rows(batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
    rows = last_of_each(newest(batch))
    writer.send(_ROWS, hashes(rows["key"]), rows)
