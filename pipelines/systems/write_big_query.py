"""WriteBigQuery: keeps a table of BigQuery equal to a table, by one transaction a run, which is applied once."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_64_hexdigest

from beam_joins.errors import InputError, OutputError, kind_of
from beam_joins.extras import needs
from beam_joins.pipelines.formats.types.target_types import target_type
from beam_joins.pipelines.results.merge_once import KeyedTable, LastChanges, Merged, MergedRun, MergeOnce, Overtaken, first_line
from beam_joins.pipelines.results.run_mark import Mark
from beam_joins.transforms.connect.tables import PlainRows
from beam_joins.values.arrow_types import is_list, without_uuids

with needs("gcp"):
    from google.api_core.exceptions import GoogleAPIError, NotFound, PreconditionFailed, RetryError
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError
    from google.cloud import bigquery
    from google.cloud.bigquery.retry import DEFAULT_RETRY
    from requests.exceptions import RequestException

_FORM: Final = re.compile(r"[a-z][a-z0-9.:-]*[a-z0-9]\.\w+\.[\w -]+")
_ERRORS: Final = (GoogleAPIError, GoogleAuthError, RequestException)
_SECONDS, _SECONDS_OF_A_JOB = 10, 60
"""The time to ask again in where BigQuery does not answer: before the work, and while a job of it runs."""
_RETRY: Final = DEFAULT_RETRY.with_timeout(_SECONDS)
_BRIEFLY: Final[Any] = {"retry": _RETRY, "timeout": _SECONDS}
_UNTIL_EXPIRED: Final = timedelta(days=1)
_RUNS: Final = (("application", "STRING"), ("id", "STRING"), ("run", "INTEGER"), ("checksum", "INTEGER"), ("merges", "INTEGER"))
_DELETED: Final = "deleted"
_BEHIND: Final = "another merge has been first"
_DECIMALS: Final = ("NUMERIC", "BIGNUMERIC")
_LOAD: Final = {
    "sourceFormat": "PARQUET",
    "createDisposition": "CREATE_NEVER",
    "writeDisposition": "WRITE_EMPTY",
    "parquetOptions": {"enableListInference": True},
    "decimalTargetTypes": _DECIMALS,
    "columnNameCharacterMap": "V2",  # letters that are not of English
}
_LEGACY: Final = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD"}


class WriteBigQuery(MergeOnce):
    """Merges a table into a table of BigQuery: inserts, updates and deletes rows there, so that it holds what the table
    holds. Gives the number of merges that the table there has had.

    All changes of a run are one transaction. They are loaded as a Parquet file into a table beside it, which is removed
    afterwards, or by BigQuery after a day. The table is created if it is missing, its dataset is not. The last change of
    each row counts. Without ``--beam_joins_state`` each run must read the whole changelog: a delete of a row that the run has
    not read changes nothing. Where the table begins anew, as the pipeline has changed, the run replaces all rows.

    * ``table``: PROJECT.DATASET.TABLE. The project also runs the jobs, with Google's application default credentials.
    * ``key``: how the columns of the key are named there; by default as those that it was made of, ``key``
      where there was one. A column of the value with such a name gives way to it.
    * ``application``: the name of these runs in the table ``TABLE_beam_joins_runs``, by default the label of the
      transform.

    A run counts once: its number with ``--beam_joins_state``, else the time when the pipeline was built, is stored
    in ``TABLE_beam_joins_runs`` in the same transaction. A bundle that is tried again, and a run that is repeated with the
    same records after a failure, find it there and write nothing. A run that is repeated with more records merges them all.
    Others may merge into the table at the same time: where BigQuery cancels a transaction, it is done again.

    A null list becomes an empty one, as BigQuery has no other; nulls within lists are refused.

    Raises ``ValueError`` at construction for a wrong option; when applied for a table of Python objects, for unbounded input,
    and for a column of a type or a name that BigQuery does not have. In the run :class:`~beam_joins.InputError` if the table
    there has other columns, or had a later run of the same application; OutputError if it cannot be written. A table that an
    earlier run of the application has written gets the columns that it lacks.
    """

    system = "BigQuery"

    def __init__(self, table: str, *, key: str | Sequence[str] | None = None, application: str | None = None) -> None:
        super().__init__(key, application)
        if not isinstance(table, str) or not _FORM.fullmatch(table):
            raise ValueError(f"table={table!r}: give PROJECT.DATASET.TABLE")
        self._table = table

    def into(self, rows: PlainRows) -> KeyedTable:
        """The table for these rows. Raises ``ValueError`` for a column of a type or a name that BigQuery does not have."""
        return BigQueryTable(self._table, rows)


class _Memory(NamedTuple):
    """What a table remembers of the last run of an application, and the number of its merges by all of them."""

    run: int | None
    checksum: int | None
    merges: int


class BigQueryTable(KeyedTable):
    """A table of BigQuery. A table beside it remembers runs."""

    def __init__(self, table: str, rows: PlainRows) -> None:
        self.path = f"bigquery:{table}"
        self.schema = pa.schema([(field.name, without_uuids(field.type)) for field in rows.schema])
        self._table = table
        self._runs = f"{table}_beam_joins_runs"
        self._rows = rows
        self._fields: list[dict[str, Any]] = target_type("bigquery", "", pa.struct(list(rows.schema)))["fields"]

    def exists(self) -> bool:
        """Whether the table is there. Raises InputError if BigQuery does not say it, or if there is no dataset for it."""
        with self._connected(InputError) as client:
            return self._there(client) is not None

    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        """Creates the table, or adds columns, if requested; raises InputError for a table that is not there or has other columns."""
        with self._connected(InputError) as client:
            self._fitting(client, self._there(client, create=create), create=create, widen=widen, last=last)

    def merge(self, changes: LastChanges, run: MergedRun) -> Merged:
        """Merges the changes in one transaction; the version is the number of merges."""
        with self._connected(OutputError) as client:
            there = self._there(client, create=True)
            assert there is not None
            memory = self._memory(client, there, run)
            is_done = run.is_done(self.path, memory.run, memory.checksum)
            self._fitting(client, there, create=True, widen=run.number is not None and memory.run is not None, last=run.last)
            if is_done or not (changes or run.anew):
                return Merged(memory.merges, memory.run)
            with self._loaded(client, there, changes) as loaded:
                self._transact(client, there, run, memory, loaded)
            return Merged(memory.merges + 1, run.number)

    def _there(self, client: bigquery.Client, *, create: bool = False) -> bigquery.Table | None:
        """The table, which is created if requested."""
        try:
            return client.get_table(self._table, **_BRIEFLY)
        except NotFound:
            dataset = self._table.rpartition(".")[0]
            try:
                client.get_dataset(dataset, **_BRIEFLY)
            except NotFound as error:
                raise InputError(f"{self.path}: there is no dataset {dataset}, or none that you may see: create it") from error
        return client.create_table(_table(self._table, self._fields), exists_ok=True, **_BRIEFLY) if create else None

    def _fitting(self, client: bigquery.Client, there: bigquery.Table | None, *, create: bool, widen: bool, last: Mark | None) -> None:
        """Raises InputError for a table with other columns; those that it lacks are added if requested."""
        if there is None:
            raise InputError(f"{self.path} is not there")
        if there.table_type not in (None, "TABLE"):
            raise InputError(f"{self.path} is no table but a {there.table_type.lower().replace('_', ' ')}: write to another one")
        fields = {field.name: field.to_api_repr() for field in there.schema}
        columns = {field["name"]: _kind(field) for field in self._fields}
        lacking = self._lacking(
            {name: self._kind_there(field, columns.get(name)) for name, field in fields.items()}, columns, widen=widen, last=last
        )
        if lacking and create:
            added = _table(self._table, [field for field in self._fields if field["name"] in lacking]).schema
            there.schema = [*there.schema, *added]
            client.update_table(there, ["schema"], **_BRIEFLY)

    def _kind_there(self, field: Mapping[str, Any], kind: str | None) -> str:
        """The type of a column there, as text; it is that of the rows, ``kind``, where it holds all of its values."""
        name, type_there = field["name"], _kind(field)
        if name in self._rows.keys and not self._rows.nullable_key:
            type_there = type_there.removesuffix(" NOT NULL")
        if "precision" in field and kind in _DECIMALS:
            stored = self._rows.schema.field(name).type
            precision, scale = int(field["precision"]), int(field.get("scale", 0))
            if stored.scale <= scale and stored.precision - stored.scale <= precision - scale:
                return type_there.replace(_kind({**field, "mode": "NULLABLE"}), kind)
        return type_there

    def _memory(self, client: bigquery.Client, there: bigquery.Table, run: MergedRun) -> _Memory:
        """What the table remembers, and of this application from now on."""
        fields = [{"name": name, "type": kind} for name, kind in _RUNS]
        runs = client.create_table(_table(self._runs, fields), exists_ok=True, **_BRIEFLY)
        rows = list(self._ask(client, runs, f"SELECT id, run, checksum, merges FROM {_quoted(self._runs)}"))
        same, merges = _id(there, run), max((row["merges"] for row in rows), default=0)
        for row in rows:
            if row["id"] == same:
                return _Memory(row["run"], row["checksum"], merges)
        # two processes may both do that: what is true of one of the rows is true of the other one
        new = f"INSERT INTO {_quoted(self._runs)} (application, id, merges) VALUES (@application, '{same}', {merges})"
        self._ask(client, runs, new, application=run.application)
        return _Memory(None, None, merges)

    @contextmanager
    def _loaded(self, client: bigquery.Client, there: bigquery.Table, changes: LastChanges) -> Iterator[str | None]:
        """The table that the changes are loaded into, which nobody else has; none without changes."""
        if not changes:
            yield None
            return
        name = f"{self._table}_beam_joins_{uuid4().hex}"
        table = _table(name, [*({**field, "name": _loaded_name(n)} for n, field in enumerate(self._fields)), _DELETED_FIELD])
        table.expires = datetime.now(UTC) + _UNTIL_EXPIRED
        client.create_table(table, **_BRIEFLY)
        try:
            with tempfile.TemporaryFile() as file:
                self._write(changes, file)
                config: Any = bigquery.LoadJobConfig.from_api_repr({"load": _LOAD})
                job = client.load_table_from_file(
                    file, name, rewind=True, job_config=config, location=there.location, timeout=_SECONDS_OF_A_JOB
                )
                job.result(retry=DEFAULT_RETRY.with_timeout(_SECONDS_OF_A_JOB))
            yield name
        finally:
            with suppress(*_ERRORS):  # it expires
                client.delete_table(name, not_found_ok=True, **_BRIEFLY)

    def _write(self, changes: LastChanges, file: Any) -> None:
        """Writes the changes as a file of Parquet. Raises InputError for a null in a list."""
        names = [*map(_loaded_name, range(len(self.schema))), _DELETED]
        kinds = [field.type for field in changes.schema]
        with pq.ParquetWriter(file, pa.schema(list(zip(names, kinds, strict=True)))) as writer:
            for batch in changes.batches():
                for field, column in zip(batch.schema, batch.columns, strict=True):
                    if _has_null_in_list(column):
                        raise InputError(
                            f"{self.path}: column '{field.name}' has a null in a list, which BigQuery does not store: leave the "
                            "column out, or the null (MapTable)"
                        )
                writer.write_batch(pa.record_batch(batch.columns, names=names))

    def _transact(self, client: bigquery.Client, there: bigquery.Table, run: MergedRun, memory: _Memory, loaded: str | None) -> None:
        """Merges what is loaded, and remembers the run, unless there has been another merge since the table was asked."""
        runs = _quoted(self._runs)
        statements = [
            "BEGIN TRANSACTION",
            f"SELECT CASE WHEN MAX(merges) = {memory.merges} THEN 1 ELSE ERROR('{_BEHIND}') END FROM {runs}",
            # all merges change all of these rows, so that BigQuery lets no two of them be at the same time
            f"UPDATE {runs} SET merges = {memory.merges + 1} WHERE TRUE",
        ]
        if run.number is not None:
            statements.append(f"UPDATE {runs} SET run = {run.number}, checksum = {run.checksum} WHERE id = '{_id(there, run)}'")
        if run.anew:
            statements.append(f"DELETE FROM {_quoted(self._table)} WHERE TRUE")
        if loaded is not None:
            statements.append(self._inserting(loaded) if run.anew else self._merging(loaded))
        self._ask(client, there, ";\n".join([*statements, "COMMIT TRANSACTION", ""]))

    def _inserting(self, loaded: str) -> str:
        columns = {f"`{name}`": _loaded_name(number) for number, name in enumerate(self.schema.names)}
        return (
            f"INSERT INTO {_quoted(self._table)} ({', '.join(columns)}) SELECT {', '.join(columns.values())} FROM {_quoted(loaded)} "
            f"WHERE NOT {_DELETED}"
        )

    def _merging(self, loaded: str) -> str:
        columns = {f"`{name}`": f"s.{_loaded_name(number)}" for number, name in enumerate(self.schema.names)}
        equal = [self._equal(f"t.{name}", columns[name]) for name in (f"`{key}`" for key in self._rows.keys)]
        return (
            f"MERGE INTO {_quoted(self._table)} AS t USING {_quoted(loaded)} AS s ON {' AND '.join(equal)} "
            f"WHEN MATCHED AND s.{_DELETED} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = {value}' for name, value in columns.items())} "
            f"WHEN NOT MATCHED AND NOT s.{_DELETED} THEN INSERT ({', '.join(columns)}) VALUES ({', '.join(columns.values())})"
        )

    def _equal(self, there: str, here: str) -> str:
        """That two columns are equal; IS NOT DISTINCT FROM is no equality by which BigQuery's MERGE finds rows."""
        either_null = f" OR ({there} IS NULL AND {here} IS NULL)" * self._rows.nullable_key
        return f"({there} = {here}{either_null})"

    @staticmethod
    def _ask(client: bigquery.Client, beside: bigquery.Table, query: str, **values: str) -> Iterator[Any]:
        """The rows of a query, which runs where a table is."""
        parameters = [bigquery.ScalarQueryParameter(name, "STRING", value) for name, value in values.items()]
        config = bigquery.QueryJobConfig(query_parameters=parameters)
        job = client.query(query, job_config=config, location=beside.location, **_BRIEFLY)
        return iter(job.result(retry=DEFAULT_RETRY.with_timeout(_SECONDS_OF_A_JOB)))

    @contextmanager
    def _connected(self, kind: type[InputError]) -> Iterator[bigquery.Client]:
        """A client of BigQuery. Errors are of this kind."""
        try:
            credentials = AnonymousCredentials() if "BIGQUERY_EMULATOR_HOST" in os.environ else None  # type: ignore[no-untyped-call]
            with bigquery.Client(project=self._table.rsplit(".", 2)[0], credentials=credentials) as client:
                yield client
        except _ERRORS as error:
            line = _said(error)
            behind = _BEHIND in line or "concurrent update" in line or isinstance(error, PreconditionFailed)
            if behind and kind is OutputError:
                raise Overtaken(line) from error
            raise kind_of(error, kind)(f"cannot write {self.path}: {line}") from error


_DELETED_FIELD: Final = {"name": _DELETED, "type": "BOOLEAN"}


def _id(there: bigquery.Table, run: MergedRun) -> str:
    """Names an application and the table: a table that is created later has another id, and remembers nothing."""
    return xxh3_64_hexdigest(f"{there.created} {run.application}".encode())


def _table(name: str, fields: Sequence[Mapping[str, Any]]) -> bigquery.Table:
    return bigquery.Table(name, schema=[bigquery.SchemaField.from_api_repr(dict(field)) for field in fields])


def _kind(field: Mapping[str, Any]) -> str:
    """The type of a field as text, with what it demands of values.

    >>> _kind({"name": "n", "type": "NUMERIC", "precision": "12", "scale": "2", "mode": "REQUIRED"})
    'NUMERIC(12, 2) NOT NULL'
    """
    kind = _LEGACY.get(field["type"], field["type"])
    if "fields" in field and kind == "RECORD":
        kind += f"<{', '.join(' '.join((each['name'], _kind(each))) for each in field['fields'])}>"
    if digits := [str(field[name]) for name in ("maxLength", "precision", "scale") if name in field]:
        kind += f"({', '.join(digits)})"
    if field.get("collation"):
        kind += f" COLLATE {field['collation']}"
    mode = field.get("mode", "NULLABLE")
    return f"ARRAY<{kind}>" if mode == "REPEATED" else kind + " NOT NULL" * (mode == "REQUIRED")


def _has_null_in_list(column: pa.Array) -> bool:
    """Whether a list has a null, at any depth."""
    if is_list(column.type):
        items = column.flatten()
        return bool(items.null_count) or _has_null_in_list(items)
    return pa.types.is_struct(column.type) and any(map(_has_null_in_list, column.flatten()))


def _loaded_name(number: int) -> str:
    return f"c{number}"


def _quoted(table: str) -> str:
    return ".".join(f"`{part}`" for part in table.rsplit(".", 2))


def _said(error: BaseException) -> str:
    """What BigQuery says, in one line."""
    error = (isinstance(error, RetryError) and error.cause) or error
    errors = getattr(error, "errors", None)
    return errors[0].get("message", first_line(error)).splitlines()[0] if errors and isinstance(errors[0], dict) else first_line(error)
