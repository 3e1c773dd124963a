"""TPC-H's orders and customers as two changelogs: ``python -m benchmarks.tpch.changelogs --scale 0.1 --out DIR``.

The rows are those that ``tpchgen-cli`` (a PyPI package) writes; what happens to them follows from their keys
alone, so the same scale gives the same changelogs every time:

* an order is inserted as open at its order date; it becomes what TPC-H says of it (``P`` some weeks later,
  ``F`` some weeks after that); one in 20 is deleted later;
* a customer is inserted before the first order date, with an account balance of 0, which changes up to three
  times and ends as TPC-H's; one in 50 is deleted, and one in 100 comes back.

``commit`` is the common sequence: day and key. Lines come in the order of TPC-H's rows, which is not that of
their commits.
"""

import argparse
import csv
import datetime as dt
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.sample.sample_files import JsonLines, SampleFiles
from beam_joins.pipelines.results.publication import appear_whole

Row = dict[str, Any]
FIRST_DAY: Final = dt.date(1991, 6, 1)
"""The day on which the first customers come; the first order date is 1992-01-01."""
LAST_ORDER_DATE: Final = dt.date(1998, 8, 2)
OPTIONS: Final = (
    *(
        "--orders-key=o_orderkey",
        "--orders-sequence-by=commit",
        "--orders-timestamp-by=at",
        "--foreign-key=o_custkey",
        "--amount=o_totalprice",
    ),
    *("--customers-key=c_custkey", "--customers-sequence-by=commit", "--customers-timestamp-by=at"),
)
"""The options with which :mod:`beam_joins.pipelines.orders` reads these changelogs."""


def write_tpch(directory: Path, *, scale: float) -> SampleFiles:
    """Write ``orders.jsonl`` and ``customers.jsonl``; either both appear, whole, or neither.

    Raises:
        InputError: ``tpchgen-cli`` is not installed, or refuses the scale; or another run writes the files.
        OSError: the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = SampleFiles(directory / "orders.jsonl", directory / "customers.jsonl")
    with appear_whole(*files) as ((order_file, customer_file), tables):
        generate(tables, scale, form="csv", tables=("orders", "customer"))
        order_lines, customer_lines = JsonLines(order_file), JsonLines(customer_file)
        _write(order_lines, _rows(tables / "orders.csv"), order_changes)
        _write(customer_lines, _rows(tables / "customer.csv"), customer_changes)
    return files


def order_changes(order: Row) -> Iterator[Row]:
    """The changes of one order, from its row in TPC-H.

    >>> row = {"o_orderkey": "7", "o_custkey": "3", "o_orderstatus": "P", "o_totalprice": "9.50", "o_orderdate": "1996-01-10"}
    >>> [(change["op"], change["o_orderstatus"], change["at"]) for change in order_changes(row)]
    [('c', 'O', '1996-01-10T00:00:00Z'), ('u', 'P', '1996-02-14T00:00:00Z')]
    """
    key, day = int(order["o_orderkey"]), dt.date.fromisoformat(order["o_orderdate"])
    row = {**order, "o_orderkey": key, "o_custkey": int(order["o_custkey"]), "o_totalprice": float(order["o_totalprice"])}
    chance = scramble(key)
    yield _change("c", {**row, "o_orderstatus": "O"}, day, key)
    for status in {"O": "", "P": "P", "F": "PF"}[order["o_orderstatus"]]:
        day += dt.timedelta(days=14 + chance % 30)
        yield _change("u", {**row, "o_orderstatus": status}, day, key)
    if chance // 30 % 20 == 0:
        yield _change("d", {"o_orderkey": key}, day + dt.timedelta(days=1 + chance % 365), key)


def customer_changes(customer: Row) -> Iterator[Row]:
    """The changes of one customer, from its row in TPC-H.

    >>> row = {"c_custkey": "4", "c_name": "Customer#000000004", "c_acctbal": "2866.83", "c_nationkey": "4"}
    >>> [(change["op"], change.get("c_acctbal")) for change in customer_changes(row)]
    [('c', 0.0), ('u', 1433.41), ('u', 2866.83)]
    """
    key, balance = int(customer["c_custkey"]), float(customer["c_acctbal"])
    row = {**customer, "c_custkey": key, "c_nationkey": int(customer["c_nationkey"])}
    chance = scramble(key)
    day = FIRST_DAY + dt.timedelta(days=chance % 200)
    yield _change("c", {**row, "c_acctbal": 0.0}, day, key)
    updates = chance // 200 % 3 + 1
    between = (LAST_ORDER_DATE - day) // (updates + 2)
    for number in range(1, updates + 1):
        day += between
        yield _change("u", {**row, "c_acctbal": balance if number == updates else round(balance * number / updates, 2)}, day, key)
    if chance // 600 % 50 == 0:
        day += between
        yield _change("d", {"c_custkey": key}, day, key)
        if chance // 30_000 % 2 == 0:
            yield _change("c", {**row, "c_acctbal": balance}, day + between, key)


def scramble(key: int) -> int:
    """A number below 2**32 that looks like chance and depends on the key alone.

    >>> scramble(1), scramble(2)
    (3389036311, 1815234515)
    """
    mixed = key * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    return (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 >> 32 & (1 << 32) - 1


def _change(op: str, row: Row, day: dt.date, key: int) -> Row:
    commit = (day - FIRST_DAY).days << 40 | key
    return {**row, "op": op, "commit": commit, "at": f"{day.isoformat()}T00:00:00Z"}


def generate(directory: Path, scale: float, *, form: Literal["csv", "parquet"], tables: Sequence[str]) -> None:
    """Have ``tpchgen-cli`` write tables into a folder, a file each. Raises InputError where it is not installed or refuses the
    scale.
    """
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    if program is None:
        raise InputError("tpchgen-cli is not installed: pip install tpchgen-cli")
    made = subprocess.run(
        [program, form, "--scale-factor", str(scale), "--tables", ",".join(tables), "--output-dir", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise InputError(f"tpchgen-cli failed: {' '.join(made.stderr.split()) or made.returncode}")


def _rows(path: Path) -> Iterator[Row]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


def _write(lines: JsonLines, rows: Iterable[Row], changes: Callable[[Row], Iterator[Row]]) -> None:
    for row in rows:
        for change in changes(row):
            lines.write(change)
    lines.close()


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tpch.changelogs",
        description="Turn TPC-H's orders and customers (tpchgen-cli) into two changelogs for python -m pipelines.orders.",
        epilog="example: python -m benchmarks.tpch.changelogs --scale 0.1 --out tpch",
    )
    parser.add_argument("--scale", type=float, default=0.1, metavar="FACTOR", help="TPC-H's scale factor (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the directory for the two files; made if it is not there"
    )
    options = parser.parse_args(argv)
    if not options.scale > 0:
        parser.error("--scale must be more than 0")
    try:
        files = write_tpch(options.out, scale=options.scale)
    except (InputError, OSError) as error:
        print(f"python -m benchmarks.tpch.changelogs: {error}", file=sys.stderr)
        return 2
    for path in files:
        print(f"{path}  {path.stat().st_size:,} bytes")
    print(
        "now run: python -m pipelines.orders",
        f"--orders {files.orders} --customers {files.customers}",
        *OPTIONS,
        "--latest latest.jsonl",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
