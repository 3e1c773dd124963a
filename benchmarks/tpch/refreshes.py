"""TPC-H's tables as changelogs that go on with refreshes, as the specification's refresh functions make them: some orders and their
lines are new, as many go.

An order belongs to one of a thousand lots by its place among all. A refresh of n lots inserts the orders of the next n lots, which
were not there from the start, and deletes those of n others.
"""

import shutil
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final

import duckdb

from benchmarks.data.files import written_once
from benchmarks.tpch.changelogs import generate
from benchmarks.tpch.queries import KEYS

LOTS: Final = 1_000
SIZES: Final = (1, 10, 100, 1, 1)
"""The lots of each refresh."""
_FIRST_DELETED: Final = 500
_ORDER: Final = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
_IS_DELETE: Final = "op = 'd'"


def provide_refreshes(scale: float, directory: Path) -> Path:
    """A folder with the changelog of each table, ``TABLE/N.parquet`` for refresh N, 0 for the rows from the start, with the columns
    ``op`` (``u`` or ``d``) and ``seq``, the refresh; made if it is not there yet.

    Raises:
        InputError: ``tpchgen-cli`` is not installed, or refuses the scale.
    """
    return written_once(directory / f"tpch-refreshes-{scale:g}", partial(_write, scale))


def _write(scale: float, folder: Path) -> None:
    generate(folder / "rows", scale, form="parquet", tables=tuple(KEYS))
    with duckdb.connect() as database:
        database.execute(
            f"CREATE TABLE lots AS SELECT o_orderkey AS number, (row_number() OVER (ORDER BY o_orderkey) - 1) % {LOTS} AS lot "
            f"FROM '{folder}/rows/orders.parquet'"
        )
        for table in KEYS:
            _write_changelog(database, table, folder)
    shutil.rmtree(folder / "rows")


def _write_changelog(database: duckdb.DuckDBPyConnection, table: str, folder: Path) -> None:
    (folder / table).mkdir()
    rows = f"'{folder}/rows/{table}.parquet'"
    last = sum(SIZES)

    def put(number: int, *queries: str) -> None:
        database.execute(f"COPY ({' UNION ALL '.join(queries)}) TO '{folder}/{table}/{number}.parquet' (FORMAT parquet)")

    if (order := _ORDER.get(table)) is None:
        put(0, f"SELECT *, 'u' AS op, 0 AS seq FROM {rows}")
        return
    changed = "SELECT r.*, '{op}' AS op, {number} AS seq FROM {rows} r JOIN lots ON {order} = number WHERE {lots}"
    put(0, changed.format(op="u", number=0, rows=rows, order=order, lots=f"lot >= {last}"))
    for number, end in enumerate(accumulate(SIZES), start=1):
        begin = end - SIZES[number - 1]
        inserted = changed.format(op="u", number=number, rows=rows, order=order, lots=f"lot >= {begin} AND lot < {end}")
        lots = f"lot >= {_FIRST_DELETED + begin} AND lot < {_FIRST_DELETED + end}"
        put(number, inserted, changed.format(op="d", number=number, rows=rows, order=order, lots=lots))


def content(table: str, folder: Path, number: int) -> str:
    """The SQL of a table's rows after a refresh."""
    files = f"read_parquet('{folder}/{table}/*.parquet')"
    if table not in _ORDER:
        return f"SELECT * EXCLUDE (op, seq) FROM {files}"
    key = ", ".join(KEYS[table])
    gone = f"SELECT {key} FROM {files} WHERE {_IS_DELETE} AND seq <= {number}"
    return f"SELECT * EXCLUDE (op, seq) FROM {files} WHERE NOT {_IS_DELETE} AND seq <= {number} AND ({key}) NOT IN ({gone})"
