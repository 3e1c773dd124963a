"""WriteDuckLake: keeps a table of a DuckLake equal to a table, by one transaction a run, which is applied once."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pyarrow as pa

from beam_joins.errors import InputError, OutputError, kind_of
from beam_joins.extras import missing, needs
from beam_joins.pipelines.formats.csv_schema import quoted
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
from beam_joins.pipelines.results.run_mark import Mark, NotAsLeft
from beam_joins.transforms.connect.checks import text
from beam_joins.transforms.connect.tables import PlainRows

with needs("ducklake"):
    import duckdb

_RUNS: Final = "beam_joins_runs"
_COLUMNS_OF_RUNS: Final = {"table": "VARCHAR", "application": "VARCHAR", "run": "BIGINT", "rows": "BIGINT"}
_IN_USE: Final = ("Could not set lock on file", "Unique file handle conflict")
_ATTACHING: Final = re.compile(r'^.*Failed to attach DuckLake MetaData .*? at path \+ ".*?"(?=[A-Z])')
_SEE_ALSO: Final = re.compile(r"\. See also https?://\S+$")


class WriteDuckLake(MergeOnce):
    """Merges a table into a table of a DuckLake: inserts, updates and deletes rows there, so that it holds what
    the table holds. Gives the snapshot of the lake.

    All changes of a run are one transaction, one snapshot of the lake; catalog, schema and table are created if they are
    missing. The last change of each row counts. Without ``--beam_joins_state`` each run must read the whole changelog: a
    delete of a row that the run has not read changes nothing. Where the table begins anew, as the pipeline has changed, the
    run replaces all rows.

    * ``catalog``: the file of the lake's catalog, a DuckDB database, which one process at a time has open.
    * ``table``: the name of the table, or SCHEMA.NAME.
    * ``key``: how the columns of the key are named there; by default as those that it was made of, ``key``
      where there was one. A column of the value with such a name gives way to it.
    * ``application``: the name of these runs in the lake's table ``beam_joins_runs``, by default the label of the
      transform.
    * ``data_path``: the folder for the Parquet files of a new lake, by default beside the catalog.

    A run counts once: its number with ``--beam_joins_state``, else the time when the pipeline was built, is stored
    in ``beam_joins_runs`` in the same transaction. A bundle that is tried again, and a run that is repeated with the
    same records after a failure, find it there and write nothing. A run that is repeated with more records merges them all.

    Raises ``ValueError`` at construction for a wrong option, and without DuckDB's extension ``ducklake``, of which
    ``pip install 'beam-joins[ducklake]'`` installs a package, and which DuckDB else downloads; when applied for a table
    of Python objects, for unbounded input, and for a column of a type that DuckLake does not have. In the run
    :class:`~beam_joins.InputError` if the table there has other columns, or had a later run of the same application;
    OutputError if it cannot be written, and if another process has the catalog open for longer than some seconds.
    A table that an earlier run of the application has written gets the columns that it lacks.
    """

    system = "DuckDB"

    def __init__(
        self,
        catalog: str,
        table: str,
        *,
        key: str | Sequence[str] | None = None,
        application: str | None = None,
        data_path: str | None = None,
    ) -> None:
        super().__init__(key, application)
        text("catalog", catalog, "the path of a DuckDB file")
        if re.match(r"\w{2,}:", catalog):
            raise ValueError(f"catalog={catalog!r}: give the path of a DuckDB file; no other catalogs of DuckLake are written")
        if not isinstance(table, str) or not re.fullmatch(r"[^.]+(\.[^.]+)?", table):
            raise ValueError(f"table={table!r}: give the name of a table, or SCHEMA.NAME")
        if data_path is not None:
            text("data_path", data_path, "the path of a folder, or leave it out")
        with duckdb.connect() as connection:
            load(connection)
        self._catalog = catalog
        self._table = table
        self._data_path = data_path

    def into(self, rows: PlainRows) -> KeyedTable:
        """The table for these rows. Raises ``ValueError`` for a column of a type that DuckLake does not have."""
        return LakeTable(self._catalog, self._table, self._data_path, rows)


class LakeTable(KeyedTable):
    """A table of a DuckLake. A table beside it remembers runs."""

    def __init__(self, catalog: str, table: str, data_path: str | None, rows: PlainRows) -> None:
        self.path = f"{catalog}, table {table}"
        self.schema = rows.schema
        self._catalog = catalog
        self._data_path = data_path
        self._rows = rows
        self._types = _types_of(rows.schema)
        self._schema_name, self._name = (f"main.{table}" if "." not in table else table).split(".")
        self._quoted = f"lake.{quoted(self._schema_name)}.{quoted(self._name)}"

    def exists(self) -> bool:
        """Whether the table is there. Raises InputError if DuckDB does not say it."""
        with self._saying(InputError):
            if self._is_new():
                return False
        with self._attached(InputError, create=False) as lake:
            return self._is_there(lake, self._schema_name, self._name)

    def prepare(self, *, create: bool, widen: bool = False, last: Mark | None = None) -> None:
        """Creates catalog and table, or adds columns, if requested; raises InputError for a table that is not there or has
        other columns, and NotAsLeft for one that has been made anew since the ``last`` run.
        """
        with self._attached(InputError, create=create) as lake:
            self._require_same(lake, last)
            self._widen(lake, create=create, widen=widen, last=last)

    def merge(self, changes: LastChanges, run: MergedRun) -> Merged:
        """Merges the changes as one snapshot of the lake."""
        with self._attached(OutputError, create=True) as lake:
            lake.begin()
            remembered = lake.execute(
                f'SELECT run, "rows" FROM lake.{_RUNS} WHERE "table" = ? AND application = ? ORDER BY rowid DESC LIMIT 1',
                [f"{self._schema_name}.{self._name}", run.application],
            ).fetchone()
            is_done = run.is_done(self.path, *(remembered or (None, None)))
            self._require_same(lake, run.last)
            self._widen(lake, create=True, widen=run.number is not None and remembered is not None, last=run.last)
            last_run = None if remembered is None else remembered[0]
            if not is_done and (changes or run.anew):
                self._put(lake, changes, run)
                last_run = run.number
            lake.commit()
            (snapshot,) = lake.execute("SELECT id FROM lake.current_snapshot()").fetchone() or (0,)
            return Merged(int(snapshot), last_run)

    def _require_same(self, lake: duckdb.DuckDBPyConnection, last: Mark | None) -> None:
        """Raises NotAsLeft if the table has been made anew since the ``last`` run."""
        if last is not None:
            named = f"{self._schema_name}.{self._name}".lower()
            since = lake.execute("SELECT changes FROM lake.snapshots() WHERE snapshot_id > ?", [last["version"]]).fetchall()
            if any(named == each.replace('"', "").lower() for (changes,) in since for each in changes.get("tables_created", ())):
                raise NotAsLeft(self.path, "it has been made anew")

    def _put(self, lake: duckdb.DuckDBPyConnection, changes: LastChanges, run: MergedRun) -> None:
        lake.register("changes", pa.Table.from_batches(changes.batches(), changes.schema))
        equal = "IS NOT DISTINCT FROM" if self._rows.nullable_key else "="
        same = " AND ".join(f"t.{quoted(name)} {equal} changes.{quoted(name)}" for name in self._rows.keys)
        lake.execute(f"DELETE FROM {self._quoted}" + ("" if run.anew else f" AS t USING changes WHERE {same}"))
        names = ", ".join(map(quoted, self.schema.names))
        lake.execute(f"INSERT INTO {self._quoted} ({names}) SELECT {names} FROM changes WHERE NOT {quoted(DELETED)}")
        if run.number is not None:
            remembered = [f"{self._schema_name}.{self._name}", run.application, run.number, run.checksum]
            lake.execute(f"INSERT INTO lake.{_RUNS} VALUES (?, ?, ?, ?)", remembered)

    @contextmanager
    def _attached(self, kind: type[InputError], *, create: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to the lake; what is not there is created if requested. Errors of DuckDB are of this kind."""
        with self._saying(kind), duckdb.connect() as lake:
            load(lake)
            is_new = self._is_new()
            options = ["DATA_INLINING_ROW_LIMIT 0", f"CREATE_IF_NOT_EXISTS {is_new}"]
            options += [] if create else ["READ_ONLY"]
            options += [f"DATA_PATH {_text(self._data_path)}"] if is_new and self._data_path is not None else []
            lake.execute(f"ATTACH {_text(f'ducklake:duckdb:{self._catalog}')} AS lake ({', '.join(options)})")
            if create:
                # deletes of one file that are partly rows of the catalog and partly a file have been lost (DuckLake's issue
                # 1084): those of the table are files alone, and of runs no row is deleted
                self._create(lake, "main", _RUNS, _COLUMNS_OF_RUNS, inlined=10)
                self._create(lake, self._schema_name, self._name, self._types, inlined=0)
            yield lake

    def _create(self, lake: duckdb.DuckDBPyConnection, schema: str, name: str, types: dict[str, str], *, inlined: int) -> None:
        if not self._is_there(lake, schema, name):
            columns = ", ".join(f"{quoted(column)} {kind}" for column, kind in types.items())
            lake.execute(f"CREATE SCHEMA IF NOT EXISTS lake.{quoted(schema)}")
            lake.execute(f"CREATE TABLE IF NOT EXISTS lake.{quoted(schema)}.{quoted(name)} ({columns})")
            of = f"schema => {_text(schema)}, table_name => {_text(name)}"
            lake.execute(f"CALL lake.set_option('data_inlining_row_limit', {inlined}, {of})")

    def _is_new(self) -> bool:
        """Whether the catalog is not there, or has been left by a process that ended before there was one in its file."""
        if not Path(self._catalog).exists():
            return True
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH {_text(self._catalog)} AS seen (TYPE duckdb, READ_ONLY)")
            return connection.execute("SELECT 1 FROM duckdb_tables() WHERE database_name = 'seen' LIMIT 1").fetchone() is None

    @staticmethod
    def _is_there(lake: duckdb.DuckDBPyConnection, schema: str, name: str) -> bool:
        tables = lake.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake'").fetchall()
        return [schema.lower(), name.lower()] in [[part.lower() for part in each] for each in tables]

    def _widen(self, lake: duckdb.DuckDBPyConnection, *, create: bool, widen: bool, last: Mark | None) -> None:
        """Raises InputError for a table with other columns; those that it lacks are added if requested."""
        relation = lake.sql(f"FROM {self._quoted}")
        there = dict(zip(relation.columns, map(str, relation.types), strict=True))
        lacking = self._lacking(there, self._types, widen=widen, last=last)
        for name in lacking if create else ():
            lake.execute(f"ALTER TABLE {self._quoted} ADD COLUMN {quoted(name)} {self._types[name]}")

    @contextmanager
    def _saying(self, kind: type[InputError]) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            line = _SEE_ALSO.sub("", _ATTACHING.sub("", first_line(error)))
            if "creating a new DuckLake is explicitly disabled" in line:
                raise InputError(f"{self._catalog} is a DuckDB database without a DuckLake: name another file") from error
            if kind is OutputError and (isinstance(error, duckdb.TransactionException) or any(each in line for each in _IN_USE)):
                raise Overtaken(line) from error
            raise kind_of(error, kind)(f"cannot write {self.path}: {line}") from error


def load(connection: duckdb.DuckDBPyConnection) -> None:
    """Loads the extension from its package of Python, or where DuckDB installs extensions."""
    package = find_spec("duckdb_extension_ducklake")
    files = [] if package is None or package.origin is None else Path(package.origin).parent.rglob(f"v{duckdb.__version__}/*")
    packaged = next((f"LOAD {_text(str(file))}" for file in files), None)
    try:
        connection.execute(packaged or "INSTALL ducklake; LOAD ducklake")
    except duckdb.Error as error:
        raise missing("ducklake", f", whose extension ducklake cannot be loaded ({first_line(error)})") from error


def _types_of(schema: pa.Schema) -> dict[str, str]:
    """The types of columns in SQL.

    Raises ``ValueError`` for a type that DuckDB does not take from Arrow, or does not keep.
    """
    types = {}
    with duckdb.connect() as connection:
        for field in schema:
            try:
                if not _is_kept(field.type):
                    raise duckdb.NotSupportedError
                types[field.name] = str(connection.from_arrow(pa.schema([field]).empty_table()).types[0])
            except duckdb.Error:
                raise ValueError(
                    f"column '{field.name}' is {field.type}, which DuckLake has no type for: leave it out (--select, or MapTable), or "
                    "write another format"
                ) from None
    return types


def _is_kept(kind: pa.DataType) -> bool:
    """Whether DuckDB neither rounds values of a type nor takes them for other ones, and its Parquet writer has the type."""
    if pa.types.is_nested(kind):
        return all(_is_kept(kind.field(place).type) for place in range(kind.num_fields))
    if (pa.types.is_timestamp(kind) and kind.tz is not None) or pa.types.is_time64(kind):
        return str(kind.unit) != "ns"
    return not any(is_of(kind) for is_of in (pa.types.is_duration, pa.types.is_interval, pa.types.is_null))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
