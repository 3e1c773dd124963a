"""The cases of load: what is read, how it is run, and whether the result is right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.contestants.duckdb_sql import connect, foreign_key
from benchmarks.load.data import (
    FILE_ORDERS,
    Make,
    history,
    hot_customer,
    hot_key,
    large_values,
    many_columns,
    many_files,
    whole,
)
from benchmarks.load.watched import RunFailed, Watched, watched

GB: Final = 1_000_000_000
_SPARK: Final = ("--runner=SparkRunner", "--spark_master_url=local[2]", "--driver_memory=1500m", "--beam_joins_broadcast_bytes=0")
PIECE_PARTITIONS: Final = 32
"""Of a history in pieces; more would be dearer in every piece."""
_NO_DELETES: Final = ("--orders-apply-as-deletes=", "--customers-apply-as-deletes=")
_ABOUT: Final = ("id", "seq", "ts", "deleted")

Run = Callable[[Path, Path, Sequence[str], float], Watched]
"""Runs a case: on the data of a folder, into an empty one, with options of Beam, for so many seconds at most.
"""
Check = Callable[[Path, Path], None]
"""Raises :class:`RunFailed` if the result in the second folder is not that of the data in the first."""


def one_run(data: Path, out: Path, options: Sequence[str], limit: float) -> Watched:
    """The job, once."""
    return watched(["-m", "benchmarks.load.job", f"--data={data}", f"--out={out}", *options], limit=limit)


def piece_by_piece(data: Path, out: Path, options: Sequence[str], limit: float) -> Watched:
    """The job on one piece after the other; each goes on where the last one ended."""
    done: Watched | None = None
    state = [f"--beam_joins_state={out / '_state'}", f"--beam_joins_partitions={PIECE_PARTITIONS}"]
    for piece in sorted(data.iterdir()):
        then = one_run(piece, out / piece.name, [*state, *options], limit)
        done = then if done is None else done + then
    assert done is not None
    return done


def command(data: Path, out: Path, options: Sequence[str], limit: float) -> Watched:
    """The orders command."""
    files = [f"--{name}={data / name}/*.jsonl" for name in ("orders", "customers")]
    arguments = ["-m", "pipelines.orders", *files, *_NO_DELETES, f"--latest={out}/latest.jsonl", *options]
    return watched(arguments, limit=limit)


def same_as_sql(data: Path, out: Path) -> None:
    """Hold the changes against DuckDB's: their number and the sum of the hashes of the rows, in whatever
    order.
    """
    connection = connect()
    connection.execute(f"set memory_limit = '4GB'; set temp_directory = '{out / '_duckdb'}'")
    columns, large = {}, ""
    for name in ("orders", "customers"):
        files = [str(path) for path in data.rglob(f"{name}/*.parquet")]
        schema = pq.read_schema(files[0])
        columns[name] = [column for column in schema.names if column not in _ABOUT]
        # of large values only checksums are sorted and compared
        binary = [field.name for field in schema if pa.types.is_binary(field.type)]
        checksums = f"replace ({', '.join(f'md5({column}) as {column}' for column in binary)})" if binary else ""
        connection.execute(f"create view {name} as select * {checksums} from read_parquet({files})")
        large = large or checksums
    connection.execute(f"create view expected as {foreign_key(columns['orders'], columns['customers'])}")
    connection.execute(f"create view came as select * {large} from read_parquet('{out}/**/part-*.parquet')")
    compared = ["id", "position", "deleted", *columns["orders"], *columns["customers"]]
    expected, came = (_sum(connection, view, compared) for view in ("expected", "came"))
    if expected != came:
        raise RunFailed(f"wrong result: {came[0]:,} changes with the sum {came[1]}, and {expected[0]:,} with {expected[1]} by DuckDB")


def _sum(connection: duckdb.DuckDBPyConnection, view: str, columns: Sequence[str]) -> tuple[Any, ...]:
    listed = ", ".join(f'"{column}"' for column in columns)
    (row,) = connection.execute(f"select count(*), sum(hash({listed})::hugeint) from {view}").fetchall()
    return row


def all_orders(data: Path, out: Path) -> None:
    """Hold the final table against what the files were made of: each order once, in ascending order numbers,
    with its customer's name.
    """
    files = len(list((data / "orders").iterdir()))
    rows = files * FILE_ORDERS
    expected = (rows, sum(range(100, 100 + rows)), files * sum(range(FILE_ORDERS)), rows)
    named = "count_if(customer.name = 'customer ' || customer_id)"
    (came,) = (
        connect()
        .execute(f"select count(distinct order_id), sum(order_id)::bigint, sum(amount)::bigint, {named} from '{out}/latest.jsonl'")
        .fetchall()
    )
    if came != expected:
        raise RunFailed(
            f"wrong result: {came} and not {expected} as number of orders, sum of their numbers, of their amounts, and with a name"
        )


@dataclass(frozen=True)
class Case:
    """A case: ``size`` and ``tiny`` are what ``make`` is given; ``most`` is how many bytes it may have in
    memory.
    """

    meaning: str
    size: int
    tiny: int
    make: Make
    run: Run = one_run
    options: tuple[str, ...] = ()
    check: Check = same_as_sql
    most: float = 0


CASES: Final = {
    "pieces": Case(
        "changes in incremental runs of five million",
        50_000_000,
        2_000,
        history,
        piece_by_piece,
        most=4 * GB,
    ),
    "spark": Case("changes in one run on Spark", 5_000_000, 2_000, whole, options=_SPARK, most=4 * GB),
    "hot-key": Case("changes of one order", 1_000_000, 500, hot_key),
    "hot-customer-copied": Case(
        "orders, nine of ten of one customer; customers are copied to the workers", 1_000_000, 500, hot_customer
    ),
    "hot-customer": Case(
        "orders, nine of ten of one customer; both tables are shuffled",
        1_000_000,
        500,
        hot_customer,
        options=("--beam_joins_broadcast_bytes=0",),
    ),
    "large-values": Case("orders with a value of 10 MB each", 200, 3, large_values),
    "many-columns": Case("orders of 5,000 columns", 10_000, 3, many_columns),
    "many-files": Case(f"files, JSON lines, of {FILE_ORDERS} orders each", 10_000, 5, many_files, command, check=all_orders),
}
"""The cases by name."""
