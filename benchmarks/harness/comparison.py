"""Whether two results have the same rows, each as often, in whatever order: DuckDB counts them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

from benchmarks.contestants.duckdb_sql import connect
from benchmarks.harness.lineup import Retracts
from benchmarks.works import struct

_DIFFERING: Final = """
create temp table differing as
select * exclude side, sum(side) as surplus from (select *, 1 as side from expected union all select *, -1 from came)
group by all having surplus <> 0
"""
_DIGEST: Final = "select count(*), sum(hash({0})::hugeint), bit_xor(hash({0})) from {0}"


@dataclass(frozen=True)
class Comparison:
    """``rows`` is the number of rows that came; ``missing`` and ``extra`` count rows of the reference only
    and of the result only.
    """

    rows: int
    missing: int = 0
    extra: int = 0
    first: str = ""

    @property
    def same(self) -> bool:
        """Whether the rows are the same."""
        return not (self.missing or self.extra or self.first)

    def __str__(self) -> str:
        if self.same:
            return f"{self.rows:,} rows, the same"
        return f"{self.missing:,} missing and {self.extra:,} extra rows, the first {self.first}"


def answer(connection: duckdb.DuckDBPyConnection, query: str, folder: Path) -> dict[str, str]:
    """Write DuckDB's answer to a query into a folder; gives the columns to compare it by, with their SQL types: floating-point
    numbers are compared in seven digits.
    """
    connection.execute(f"create table answer as {query}")
    connection.execute(f"copy answer to '{folder}/part.parquet' (format parquet)")
    types = {name: type_ for name, type_, *_ in connection.execute("describe answer").fetchall()}
    return {name: "float" if type_ == "DOUBLE" else type_ for name, type_ in types.items()}


def compare(reference: Path, result: Path, columns: Mapping[str, str], *, retracts: Retracts = "") -> Comparison:
    """Compare the files under two folders, Parquet or JSON lines, by these columns with their SQL types.

    A result that ``retracts`` has a record for every insert and every delete; its rows are what they come to.
    """
    if not _files(result):
        return Comparison(0, first="is any: there is no file")
    connection = connect()
    try:
        connection.execute(f"create view expected as {_rows(_files(reference), columns)}")
        connection.execute(f"create view came as {_came(_files(result), columns, retracts)}")
        digests = [connection.execute(_DIGEST.format(view)).fetchone() for view in ("expected", "came")]
        if digests[0] is not None and digests[0] == digests[1]:  # to find out what differs takes many times as long
            return Comparison(digests[0][0])
        connection.execute(_DIFFERING)
    except duckdb.Error as error:
        return Comparison(0, first=f"is any: {str(error).splitlines()[0]}")
    missing, extra = (
        _one(connection, f"select coalesce(sum(abs(surplus)), 0) from differing where surplus {sign} 0") for sign in "><"
    )
    return Comparison(_one(connection, "select count(*) from came"), missing, extra, _first(connection, list(columns)))


def _files(folder: Path) -> list[str]:
    """All files but those that a program keeps for itself, such as Spark's ``_SUCCESS`` and checksums;
    however they are called.
    """
    return [str(path) for path in folder.rglob("*") if path.is_file() and path.stat().st_size and path.name[0] not in "._"]


def _rows(files: list[str], columns: Mapping[str, str]) -> str:
    if not _is_parquet(files[0]):
        return f"from {_json(files, columns)}"
    chosen = ", ".join(f'cast("{name}" as {type_}) as "{name}"' for name, type_ in columns.items())
    return f"select {chosen} from read_parquet({files})"


def _came(files: list[str], columns: Mapping[str, str], retracts: Retracts) -> str:
    if retracts == "debezium":
        records = _json(files, {"op": "string", "before": struct(columns), "after": struct(columns)})
        return f"select unnest(after) from {records} where op = 'c' except all select unnest(before) from {records} where op = 'd'"
    if retracts == "diff":
        records = _json(files, {**columns, "diff": "bigint"})
        return " except all ".join(f"select * exclude diff from {records} where diff = {diff}" for diff in (1, -1))
    return _rows(files, columns)


def _json(files: list[str], columns: Mapping[str, str]) -> str:
    types = ", ".join(f"'{name}': '{type_}'" for name, type_ in columns.items())
    return f"read_json({files}, format = 'newline_delimited', columns = {{{types}}})"


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _first(connection: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> str:
    differing = "select if(surplus > 0, 'missing', 'extra') as what, * exclude surplus from differing"
    rows = connection.execute(f"select * from ({differing}) order by columns(* exclude what), what desc limit 1").fetchall()
    if not rows:
        return ""
    what, *values = rows[0]
    return f"{what}: " + ", ".join(f"{column}={value}" for column, value in zip(columns, values, strict=True))


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
    return int(rows[0][0])
