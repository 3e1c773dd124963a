"""WriteDelta: keeps a Delta Lake table equal to a table, by one merge a run, which is applied once."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

import pyarrow as pa

from beam_joins.errors import OutputError, kind_of
from beam_joins.extras import missing
from beam_joins.pipelines.formats.types.target_types import target_type
from beam_joins.pipelines.results.merge_once import (
    DELETED,
    KeyedTable,
    LastChanges,
    Merged,
    MergedRun,
    MergeOnce,
    Overtaken,
    first_line,
)
from beam_joins.pipelines.results.paths_in_use import writes_files
from beam_joins.pipelines.results.run_mark import Mark, NotAsLeft
from beam_joins.transforms.connect.checks import text
from beam_joins.transforms.connect.tables import PlainRows

_ALL: Final = frozenset({"", "None", "[]", "true", '["true"]'})
"""The predicates of commits that are about all rows."""


class WriteDelta(MergeOnce):
    """Merges a table into a Delta Lake table: inserts, updates and deletes rows there, so that it holds what
    the table holds. Gives the version of the Delta table.

    All changes of a run are one merge, one version of the Delta table, which is created if it is missing. The last change
    of each row counts. Without ``--beam_joins_state`` each run must read the whole changelog: a delete of a row that the run
    has not read changes nothing. Where the table begins anew, as the pipeline has changed, the run replaces all rows.

    * ``path``: a folder, or an address that the package ``deltalake`` knows (``s3://...``).
    * ``storage_options``: the options of ``deltalake`` for such an address.
    * ``key``: how the columns of the key are named there; by default as those that it was made of, ``key``
      where there was one. A column of the value with such a name gives way to it.
    * ``application``: the name of these runs in Delta's log (the ``appId`` of a transaction identifier), by default the
      label of the transform.

    A run counts once. The version of its transaction identifier is the number of the run with
    ``--beam_joins_state``, else the time when the pipeline was built: a bundle that is tried again, and a run
    that is repeated with the same records after a failure, find it in the log and write nothing. A run that is repeated
    with more records merges them all. Others may write to the Delta table at the same time: a merge after which another
    writer has committed first is computed again.

    Raises ``ValueError`` at construction without the package (``pip install 'beam-joins[delta]'``) or for a
    wrong option; when applied for a table of Python objects, for unbounded input, and for a column of a type
    that Delta does not have. In the run :class:`~beam_joins.InputError` if the Delta table has other columns, or had a
    later run of the same application; OutputError if it cannot be written. A table that an earlier run of the
    application has written gets the columns that it lacks.
    """

    system = "Delta"

    def __init__(
        self,
        path: str,
        *,
        key: str | Sequence[str] | None = None,
        application: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(key, application)
        text("path", path, "the path of a folder")
        if not (storage_options is None or isinstance(storage_options, Mapping)):
            raise ValueError(f"storage_options={storage_options!r}: give settings by their names, or None")
        if find_spec("deltalake") is None:
            raise missing("delta")
        self._path = path
        self._storage = dict(storage_options or {})

    def expand(self, table: Any) -> Any:
        """Apply the transform. Raises InputError where the pipeline reads the Delta table."""
        writes_files(table.pipeline, self._path, [self._path])
        return super().expand(table)

    def into(self, rows: PlainRows) -> KeyedTable:
        """The Delta table for these rows. Raises ``ValueError`` for a column of a type that Delta does not have."""
        return DeltaTableOfRows(self._path, self._storage, rows)


class DeltaTableOfRows(KeyedTable):
    """A Delta table. Its log remembers runs as transaction identifiers."""

    def __init__(self, path: str, storage: dict[str, str], rows: PlainRows) -> None:
        self.path = path
        self.schema = pa.schema([(field.name, target_type("delta", field.name, field.type)) for field in rows.schema])
        self._storage = storage
        self._rows = rows

    def exists(self) -> bool:
        """Whether the Delta table is there."""
        from deltalake import DeltaTable  # noqa: PLC0415  # an extra

        return bool(DeltaTable.is_deltatable(self.path, self._storage))

    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        """Creates the Delta table, or adds columns to it, if requested; raises InputError for a table that cannot be read or has
        other columns, and NotAsLeft for one whose rows have been replaced since the ``last`` run.
        """
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        try:
            table = self._table(create=create)
            self._require_history(table, last)
            self._fitting(table, create=create, widen=widen, last=last)
        except (DeltaError, OSError) as error:
            raise kind_of(error)(f"cannot write {self.path}: {first_line(error)}") from error

    def merge(self, changes: LastChanges, run: MergedRun) -> Merged:
        """Merges the changes as one version of the Delta table."""
        from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415

        try:
            return self._merged(changes, run)
        except CommitFailedError as error:
            raise Overtaken(first_line(error)) from error
        except (DeltaError, OSError) as error:
            raise kind_of(error, OutputError)(f"cannot write {self.path}: {first_line(error)}") from error

    def _table(self, *, create: bool) -> Any:
        """The Delta table."""
        from deltalake import DeltaTable  # noqa: PLC0415

        if create and not self.exists():
            DeltaTable.create(self.path, self.schema, mode="ignore", storage_options=self._storage)
        return DeltaTable(self.path, storage_options=self._storage)

    def _fitting(self, table: Any, *, create: bool, widen: bool, last: Mark | None) -> Any:
        """The Delta table with these columns, which are added if requested; raises InputError for other ones."""
        from deltalake import Schema  # noqa: PLC0415

        # lists there have items of another name
        there = {field.name: target_type("parquet", field.name, field.type) for field in pa.schema(table.schema())}
        lacking = self._lacking(there, {field.name: field.type for field in self.schema}, widen=widen, last=last)
        if not lacking or not create:
            return table
        table.alter.add_columns(list(Schema.from_arrow(pa.schema([self.schema.field(name) for name in lacking])).fields))
        return self._table(create=False)

    def _require_history(self, table: Any, last: Mark | None) -> None:
        """Raises NotAsLeft if the rows that the ``last`` run has left have been replaced since: a table that is restored remembers
        all runs.
        """
        if last is None:
            return
        version, now = last["version"], int(table.version())
        if now < version:
            raise NotAsLeft(self.path, f"it has the version {now}, and had {version}")
        counts = now
        for each in table.history(now - version) if now > version else []:  # the last one first
            if not version < each["version"] <= counts:
                continue
            operation, back = each["operation"], str(each.get("operationParameters", {}).get("version", ""))
            if operation == "RESTORE" and back.isdigit() and int(back) >= version:
                counts = int(back)
            elif operation == "RESTORE" or _replaces_all(each):
                raise NotAsLeft(self.path, f"its rows have been replaced ({operation}, version {each['version']})")

    def _merged(self, changes: LastChanges, run: MergedRun) -> Merged:
        from deltalake import CommitProperties, Transaction, write_deltalake  # noqa: PLC0415

        name, rows = run.application, f"{run.application}: rows"
        table = self._table(create=True)
        is_done = run.is_done(self.path, table.transaction_version(name), table.transaction_version(rows))
        self._require_history(table, run.last)
        widen = run.number is not None and table.transaction_version(name) is not None
        table = self._fitting(table, create=True, widen=widen, last=run.last)
        remembered = [] if run.number is None else [Transaction(name, run.number), Transaction(rows, run.checksum)]
        properties = CommitProperties(app_transactions=remembered)
        if run.anew:
            there = pa.RecordBatchReader.from_batches(self.schema, changes.rows())
            write_deltalake(table, there, mode="overwrite", schema_mode="merge", commit_properties=properties)
        elif changes and not is_done:
            equal = "IS NOT DISTINCT FROM" if self._rows.nullable_key else "="
            columns = {_quoted(column): f"s.{_quoted(column)}" for column in self.schema.names}
            (
                table.merge(
                    pa.RecordBatchReader.from_batches(changes.schema, changes.batches()),
                    " AND ".join(f"(t.{_quoted(column)} {equal} s.{_quoted(column)})" for column in self._rows.keys),
                    source_alias="s",
                    target_alias="t",
                    commit_properties=properties,
                )
                .when_matched_delete(f"s.{_quoted(DELETED)}")
                .when_matched_update(columns)
                .when_not_matched_insert(columns, predicate=f"NOT s.{_quoted(DELETED)}")
                .execute()
            )
        return Merged(int(table.version()), table.transaction_version(name))


def _replaces_all(commit: Mapping[str, Any]) -> bool:
    """Whether a commit takes away all rows that were there."""
    operation, parameters = commit["operation"], commit.get("operationParameters", {})
    is_of_all = str(parameters.get("predicate", "")) in _ALL
    return "REPLACE" in operation or (is_of_all and (parameters.get("mode") == "Overwrite" or operation in ("DELETE", "TRUNCATE")))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
