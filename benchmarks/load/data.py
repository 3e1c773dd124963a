"""Made-up orders and customers that are hard to join: one hot key, one customer with nearly all orders, large
values, many columns, many files.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data.files import write_table, written_once
from benchmarks.works import BASE_MICROSECONDS

SEED: Final = 20_240_229
PIECE: Final = 5_000_000
"""Changes in a piece of a long history at most."""
DELETED: Final = 0.05
FILE_ORDERS: Final = 100
"""Orders in each of many files."""
FILE_ROWS: Final = 1_000_000
"""Rows in a Parquet file at most."""

Ints = npt.NDArray[np.int64]
Make = Callable[[int, Path], None]
"""Writes the folders ``orders`` and ``customers``, or pieces that have them, of a size into an empty folder;
the same every time.
"""


def provide(name: str, size: int, make: Make, directory: Path) -> Path:
    """The folder of a case's data; made if it is not there yet."""
    return written_once(directory / f"{name}-{size}-{SEED}", partial(make, size))


def whole(size: int, folder: Path) -> None:
    """Narrow rows, a tenth of them customers, five changes of each row."""
    history(size, folder, pieces=1)


def history(size: int, folder: Path, *, pieces: int | None = None) -> None:
    """The same cut into pieces by position, of at most :data:`PIECE` changes."""
    pieces = pieces or max(2, -(-size // PIECE))
    rng, bounds = np.random.default_rng(SEED), np.linspace(0, size, pieces + 1).astype(int)
    for piece in range(pieces):
        positions = np.arange(bounds[piece], bounds[piece + 1])
        is_customer = rng.random(len(positions)) < 0.1
        into = folder / f"{piece:03}" if pieces > 1 else folder
        _write(orders(positions[~is_customer], size * 9 // 50, size // 50, rng), into / "orders")
        _write(customers(positions[is_customer], size // 50, rng), into / "customers")


def nightly(size: int, folder: Path, *, widened: Callable[[pa.Table], pa.Table] = lambda orders: orders) -> None:
    """Orders and a tenth as many customers, each once; then changes of a tenth and of a thousandth of them;
    and a few, to see what a start takes.
    """
    rng, begin = np.random.default_rng(SEED), 0
    of_customers = size // 10
    for piece, share in {"first": 1, "tenth": 10, "thousandth": 1000, "start": max(size // 100, 1)}.items():
        number, first = max(size // share, 20), piece == "first"
        who, what = np.arange(begin, begin + number // 10), np.arange(begin + number // 10, begin + number)
        begin += number
        _write(widened(orders(what, size - of_customers, of_customers, rng, each=first)), folder / piece / "orders")
        _write(customers(who, of_customers, rng, each=first), folder / piece / "customers")


def nightly_wide(size: int, folder: Path) -> None:
    """The same with two more columns of text, one of 200 bytes, and six of numbers."""
    rng = np.random.default_rng(SEED)

    def widened(orders: pa.Table) -> pa.Table:
        letters = rng.integers(ord("a"), ord("z") + 1, (len(orders), 200), dtype=np.uint8)
        orders = orders.append_column("note", pa.array(letters.view("S200").ravel().astype(str)))
        orders = orders.append_column(
            "city", pc.binary_join_element_wise("city", pc.cast(pc.bit_wise_and(orders["id"], 255), pa.string()), " ")
        )
        for number in range(6):
            orders = orders.append_column(f"number_{number}", pa.array(rng.integers(0, 10**9, len(orders))))
        return orders

    nightly(size, folder, widened=widened)


def hot_key(size: int, folder: Path) -> None:
    """All changes are of one order, which refers to one of ten customers."""
    rng = np.random.default_rng(SEED)
    _write(orders(np.arange(10, 10 + size), 1, 10, rng), folder / "orders")
    _write(customers(np.arange(10), 10, rng, each=True), folder / "customers")


def hot_customer(size: int, folder: Path) -> None:
    """Nine of ten orders, each there once, refer to one customer, who changes when half of them and when all
    of them are there; of 1,000 customers.
    """
    rng = np.random.default_rng(SEED)
    positions = np.arange(1000, 1000 + size) + (np.arange(size) >= size // 2)
    made = orders(positions, size, 1000, rng, each=True)
    hot = rng.random(size) < 0.9
    made = made.set_column(1, "customer", pc.if_else(pa.array(hot), 7, made["customer"]))
    again = customers(np.array([1000 + size // 2, 1001 + size]), 1, rng)
    again = (
        again.set_column(0, "id", pa.array([7, 7]))
        .set_column(1, "name", pa.array(["half", "all"]))
        .set_column(4, "deleted", pa.array([False] * 2))
    )
    _write(made, folder / "orders")
    _write(pa.concat_tables([customers(np.arange(1000), 1000, rng, each=True), again]), folder / "customers")


def large_values(size: int, folder: Path, *, value_bytes: int = 10_000_000) -> None:
    """Each order has a value of 10 MB."""
    rng = np.random.default_rng(SEED)
    made = orders(np.arange(10, 10 + size), size, 10, rng, each=True)
    _write(customers(np.arange(10), 10, rng, each=True), folder / "customers")
    (folder / "orders").mkdir()
    for row in range(size):
        value = pa.array([rng.bytes(value_bytes)])
        pq.write_table(made.slice(row, 1).append_column("value", value), folder / "orders" / f"{row:05}.parquet")


def many_columns(size: int, folder: Path, *, columns: int = 5_000) -> None:
    """Orders of 5,000 columns."""
    rng = np.random.default_rng(SEED)
    made = orders(np.arange(10, 10 + size), max(size // 2, 1), 10, rng)
    for number in range(columns):
        made = made.append_column(f"column_{number}", pa.array(rng.integers(0, 1000, size)))
    _write(made, folder / "orders")
    _write(customers(np.arange(10), 10, rng, each=True), folder / "customers")


def many_files(size: int, folder: Path, *, rows: int = FILE_ORDERS) -> None:
    """Orders in so many files, JSON lines of 100 rows each, as the orders command reads them."""
    rng = np.random.default_rng(SEED)
    for name in ("orders", "customers"):
        (folder / name).mkdir()
    who = [{"customer_id": each, "name": f"customer {each}", "updated_at": BASE_MICROSECONDS, "lsn": each} for each in range(100)]
    _write_lines(who, folder / "customers" / "all.jsonl")
    for number in range(size):
        first = 100 + number * rows
        refers = rng.integers(0, 100, rows).tolist()
        _write_lines(
            [
                {
                    "order_id": first + row,
                    "customer_id": refers[row],
                    "amount": row,
                    "updated_at": BASE_MICROSECONDS,
                    "lsn": first + row,
                }
                for row in range(rows)
            ],
            folder / "orders" / f"{number:05}.jsonl",
        )


def orders(positions: Ints, ids: int, refers: int, rng: np.random.Generator, *, each: bool = False) -> pa.Table:
    """Changes of orders at these positions: of ids drawn from so many, or of ``each`` one; one of twenty is a
    delete, none if each is there once.
    """
    values = {"customer": rng.integers(0, max(refers, 1), len(positions)), "amount": rng.integers(1, 100_000, len(positions))}
    return _changes(positions, ids, values, rng, each=each)


def customers(positions: Ints, ids: int, rng: np.random.Generator, *, each: bool = False) -> pa.Table:
    """The same of customers."""
    return _changes(
        positions,
        ids,
        {"name": pc.binary_join_element_wise("customer", pc.cast(pa.array(positions), pa.string()), " ")},
        rng,
        each=each,
    )


def _changes(positions: Ints, ids: int, values: dict[str, Any], rng: np.random.Generator, *, each: bool) -> pa.Table:
    drawn = np.arange(len(positions)) if each else rng.integers(0, max(ids, 1), len(positions))
    gone = pa.array(np.zeros(len(positions), bool) if each else rng.random(len(positions)) < DELETED)
    columns = {name: pa.array(column) for name, column in values.items()}
    kept = {name: pc.if_else(gone, pa.scalar(None, column.type), column) for name, column in columns.items()}
    return pa.table({"id": drawn, **kept, "seq": positions, "ts": BASE_MICROSECONDS + positions * 1_000, "deleted": gone})


def _write(table: pa.Table, folder: Path) -> None:
    write_table(table, folder, files=max(1, -(-len(table) // FILE_ROWS)))


def _write_lines(rows: list[dict[str, object]], path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
