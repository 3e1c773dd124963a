"""WritePostgres: merges tables into PostgreSQL by key and position, with psycopg (``pip install
'beam-joins[postgres]'``).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection, PDone

from beam_joins.errors import InputError
from beam_joins.pipelines.base.call_once import CallOnce
from beam_joins.pipelines.formats.output_records import merged_changes
from beam_joins.pipelines.results.merge_once import MergedTable
from beam_joins.pipelines.results.run_mark import Mark, MarkFile, NotAsLeft, RunMark, rows_replaced
from beam_joins.pipelines.results.table_columns import TableColumns
from beam_joins.pipelines.systems.postgres.postgres_forms import require_names
from beam_joins.pipelines.systems.postgres.postgres_table import PostgresTable, checked_conninfo
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.connect.checks import choice, columns, flag, require_global, require_tables, text
from beam_joins.transforms.connect.runs import KeptSignatures, StateFolder, before_run, folder_for, label_of
from beam_joins.transforms.connect.tables import TableType, begins_anew, in_batches, table_type

__all__ = ["WritePostgres"]

Existing = Literal["refuse", "keep"]
_BYTES = 16 << 20  # so much is merged in one transaction
_REMEDY: Final = "--beam_joins_read_again makes it anew, or begin with an empty table and an empty state"


class WritePostgres(beam.PTransform[PCollection[Any], PDone]):
    """Merges a table, as batches of changes or single changes, into a table of PostgreSQL, which keeps each row as of its
    largest position: all changes of a run in one transaction.

    A change is merged only where the row there has a smaller position, so that the table ends as if each change had arrived once, in
    order, also where the transaction is repeated. A deleted row stays, with null values and ``deleted`` true, since an
    older change may still arrive; the view leaves it out. The changes of unbounded input are merged as they come, by several workers,
    in transactions of at most 16 MiB: readers see some of them before others.

    With a state a run refuses a table that is not as the last run has left it, as one that was restored. Where the table begins
    anew, as the pipeline has changed, rows of earlier runs that are not merged again are deleted in the same transaction.

    * ``conninfo``: what psycopg connects with, a string of ``name=value`` or a URL. It is part of the
      pipeline: keep the password in ``PGPASSWORD`` or a ``.pgpass`` file of the workers.
    * ``table``: the name of the table, or SCHEMA.NAME.
    * ``key``: the name of the column of the key; of several, one for each part of it. They are a primary key
      or have a unique index.
    * ``schema``: the columns of key and values. By default those of a table with typed columns; a value
      without columns is in ``value``.
    * ``position``: the column with the position of a row's last change.
    * ``deleted``: the column that is true for deleted rows.
    * ``create``: ``True`` creates the table where it is not there, and the view ``{table}_live`` of the rows that
      are not deleted, where nothing has that name; with ``--beam_joins_state`` later runs add columns that it lacks.
    * ``existing``: what a first run, with a new ``--beam_joins_state``, does with rows that the table has:
      ``"refuse"`` them, as those that were deleted meanwhile would stay, or ``"keep"`` them and merge.

    Raises ``ValueError`` at construction for a wrong option, and
    :class:`~beam_joins.InputError`, a ``ValueError`` too, when it is applied: if
    PostgreSQL does not answer, or the table is not there, lacks a column or the unique index, or has a column
    of values that cannot be null. Raises OutputError in the run for a value that does not fit its column,
    when PostgreSQL does not answer for some seconds, and for a row that another transaction keeps locked:
    each of five attempts waits for it for 30 seconds, or as long as ``lock_timeout`` says in ``options`` of
    ``conninfo`` or for the role.

    >>> WritePostgres("dbname=shop", "enriched", key=[])
    Traceback (most recent call last):
    ValueError: key=[]: give the name of a column, or several
    """

    def __init__(
        self,
        conninfo: str,
        table: str,
        *,
        key: str | Sequence[str],
        schema: pa.Schema | None = None,
        position: str = "position",
        deleted: str = "deleted",
        create: bool = False,
        existing: Existing = "refuse",
    ) -> None:
        super().__init__()
        if not isinstance(table, str) or not 1 <= len([part for part in table.split(".") if part]) == table.count(".") + 1 <= 2:
            raise ValueError(f"table={table!r}: give the name of a table, or SCHEMA.NAME")
        names = columns("key", key)
        text("position", position, "the name of a column")
        text("deleted", deleted, "the name of a column")
        flag("create", create)
        choice("existing", existing, Existing)
        if schema is not None and not isinstance(schema, pa.Schema):
            raise ValueError(f"schema={schema!r}: give a pyarrow.Schema")
        if len({*names, position, deleted}) < len(names) + 2:
            raise ValueError(f"key={key!r}, position={position!r}, deleted={deleted!r}: give each column a name of its own")
        require_names(table, [*names, position, deleted], has_view=create)
        self._conninfo, self._table, self._key, self._schema = checked_conninfo(conninfo), table, names, schema
        self._position, self._deleted, self._create = position, deleted, create
        self._existing = existing

    def expand(self, table: PCollection[Any]) -> PDone:
        """Apply the transform."""
        require_tables("WritePostgres", table)
        if table.is_bounded:
            require_global("WritePostgres", table)
        into = self._into(table_type(table), in_one=table.is_bounded)
        state, anew = folder_for(table), begins_anew(table)
        if state is not None and not state.is_new and self._create and anew is None and not into.exists():
            raise InputError(
                f"the table {self._table} is not there, and would lack what the runs before with {state.files.root} have written: "
                "begin with an empty state"
            )
        replaced = None if state is None else rows_replaced(state, self._table, anew=anew is not None)
        left = None if state is None else MarkFile.of(state, f"{self._table}, {label_of(table.pipeline)}")
        last = None if left is None or anew is not None else left.last
        try:
            into.prepare(create=self._create, widen=self._create and state is not None and not state.is_new, last=last)
        except NotAsLeft as error:
            raise InputError(f"{error}: {_REMEDY}") from error
        if state is not None and state.is_new:
            self._begin(state, into)
        if anew is not None:
            if replaced is not None:
                before_run(table.pipeline, replaced.set)
            before_run(table.pipeline, partial(into.begin_anew, anew))
        batches = in_batches(table)
        if not table.is_bounded:
            _ = batches | "Merge" >> beam.ParDo(_MergeBundles(into))
            return PDone(table.pipeline)
        run = _MergeRun(replace(into, is_marked=left is not None), left, anew)
        _ = batches | "Merge" >> CallOnce(run.merge, None, each=run.lines)
        return PDone(table.pipeline)

    def merged(self, of_table: TableType) -> MergedTable:
        """The table for one process that merges all changes of a run in one transaction. Raises ``ValueError``."""
        return _InOne(replace(self._into(of_table, in_one=True), is_marked=True, lines_come_later=True))

    def _into(self, of_table: TableType, *, in_one: bool) -> PostgresTable:
        columns = TableColumns(of_table, self._key, self._schema)
        if reserved := {self._position, self._deleted} & {*columns.values.names}:
            raise ValueError(
                f"the values have a column {', '.join(sorted(reserved))}: give position= or deleted= another name, or "
                "the column itself (--select, or MapTable)"
            )
        has_view = self._create
        return PostgresTable(self._conninfo, self._table, columns, self._position, self._deleted, in_one=in_one, has_view=has_view)

    def _begin(self, state: StateFolder, into: PostgresTable) -> None:
        """A first run begins with an empty table, or repeats a first run that was not committed."""
        begun = RunMark(state, "begun", self._table)
        if self._existing == "refuse" and not begun.is_set and into.has_rows():
            raise InputError(
                f"the table {self._table} has rows, which no run with the state {state.files.root} has written, so that rows deleted "
                "meanwhile would stay: empty the table, give the state of the runs before, or say existing='keep'"
            )
        begun.set()


@dataclass(frozen=True)
class _InOne:
    """All changes of a run, merged in one transaction."""

    into: PostgresTable
    records: ClassVar[None] = None

    def exists(self) -> bool:
        return self.into.exists()

    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        self.into.prepare(create=create, widen=widen, last=last)

    def merge(self, file: str, *, run: int | None, anew: bool, last: Mark | None = None) -> Mark:
        try:
            return self.into.merge(_Lines(self.into, file), anew=anew, last=last)  # which counts once, as positions say
        finally:
            self.into.close()


@dataclass(frozen=True)
class _Lines:
    """The lines of the changes in a file, some at a time, as often as they are asked for."""

    into: PostgresTable
    file: str

    def __iter__(self) -> Iterator[bytes]:
        return (self.into.lines(self.into.columns.of(batch)) for batch in merged_changes(self.file))


@dataclass(frozen=True)
class _MergeRun:
    """The merge of a run, whose lines workers make; ``anew`` is the position at which the table begins anew."""

    into: PostgresTable
    left: MarkFile | None
    anew: int | None

    def lines(self, batch: ChangeBatch) -> bytes:
        """The lines of a batch."""
        return self.into.lines(self.into.columns.of(batch))

    def merge(self, lines: Iterable[bytes]) -> tuple[()]:
        """Merge all lines, and leave the mark of the run."""
        last = None if self.left is None or self.anew is not None else self.left.last
        try:
            mark = self.into.merge(lines, last=last, replaces=self.anew)
        except NotAsLeft as error:
            raise InputError(f"{error}: {_REMEDY}") from error
        finally:
            self.into.close()
        if self.left is not None:
            self.left.put(mark)
        return ()


class _MergeBundles(KeptSignatures):
    """Merges the changes of bundles as they come."""

    def __init__(self, into: PostgresTable) -> None:
        self._into = into

    def start_bundle(self) -> None:
        self._lines: list[bytes] = []
        self._bytes = 0

    def process(self, element: ChangeBatch) -> None:
        lines = self._into.lines(self._into.columns.of(element))
        self._lines.append(lines)
        self._bytes += len(lines)
        if self._bytes >= _BYTES:
            self._flush()

    def finish_bundle(self) -> None:
        self._flush()

    def teardown(self) -> None:
        self._into.close()

    def _flush(self) -> None:
        lines, self._lines, self._bytes = b"".join(self._lines), [], 0
        if lines:
            self._into.merge([lines])
