"""A history in pieces: a large one that makes two tables, and small ones that come later."""

import os
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.changes import CUSTOMERS_DELETED, ORDERS_DELETED, SEED
from benchmarks.data.files import write_table, written_once
from benchmarks.data.wide import NOTE_BYTES, wide_customers, wide_orders
from benchmarks.works import BASE_MICROSECONDS, SUFFIXES, Format

FIRST, HUNDREDTH, THOUSANDTH, ALL = "first", "hundredth", "thousandth", "all"
SHARES: Final = {HUNDREDTH: 100, THOUSANDTH: 1000}
"""What part of the first piece the later ones are, in this order."""
_CUSTOMERS: Final = 10
"""Orders for a customer; and changes of orders for one of customers."""


def provide_nightly(rows: int, directory: Path, *, shop: bool) -> Path:
    """A folder with a folder for each piece, and one with all of them; made if it is not there yet.

    The first piece has so many orders, each once.

    Narrow tables in Parquet; or, for ``shop``, the wide tables that the orders command reads, in JSON lines.
    """
    folder = directory / f"nightly-{'shop-' if shop else ''}{rows}-{SEED}"
    return written_once(folder, partial(_write, rows, shop))


def _write(rows: int, shop: bool, folder: Path) -> None:
    form: Format = "json" if shop else "parquet"
    rng, begin = np.random.default_rng(SEED), 0
    for piece, share in {FIRST: 1, **SHARES}.items():
        orders, customers = rows // share, rows // _CUSTOMERS // share
        places = begin + rng.permutation(orders + customers)
        begin += orders + customers
        for name, count, at in (("orders", orders, places[:orders]), ("customers", customers, places[orders:])):
            existing = rows if name == "orders" else rows // _CUSTOMERS
            # one of a hundred later changes is of a new row
            ids = rng.permutation(existing) if piece == FIRST else rng.integers(0, existing + max(existing // 100, 1), count)
            changes = _changes(name, ids, np.sort(at), piece, rows // _CUSTOMERS, rng)
            write_table(_widened(name, changes, rng) if shop else changes, folder / piece / name, files=1, format=form)
            (folder / ALL / name).mkdir(parents=True, exist_ok=True)
            os.link(folder / piece / name / f"part-00000{SUFFIXES[form]}", folder / ALL / name / f"{begin}{SUFFIXES[form]}")


def _widened(name: str, changes: pa.Table, rng: np.random.Generator) -> pa.Table:
    return wide_orders(changes, rng, note_bytes=NOTE_BYTES["shop"]) if name == "orders" else wide_customers(changes, rng)


def _changes(
    name: str, ids: npt.NDArray[np.int64], positions: npt.NDArray[np.int64], piece: str, customers: int, rng: np.random.Generator
) -> pa.Table:
    share = 0.0 if piece == FIRST else ORDERS_DELETED if name == "orders" else CUSTOMERS_DELETED
    gone = pa.array(rng.random(ids.size) < share)
    if name == "orders":
        values = {"customer": pa.array(rng.integers(0, customers, ids.size)), "amount": pa.array(rng.integers(1, 100_000, ids.size))}
    else:
        values = {"name": pc.binary_join_element_wise("customer", pc.cast(pa.array(ids), pa.string()), piece, " ")}
    kept = {column: pc.if_else(gone, pa.scalar(None, value.type), value) for column, value in values.items()}
    return pa.table({"id": ids, **kept, "ts": BASE_MICROSECONDS + positions * 1_000, "seq": positions, "deleted": gone})
