"""Changes of two tables with one common sequence, and records of two streams, as Arrow tables drawn from a
seeded generator.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.dataset import ROWS_OF_A_PLACE, Dataset
from benchmarks.data.wide import NOTE_BYTES, wide_customers, wide_orders
from benchmarks.works import BASE_MICROSECONDS, STREAM_MICROSECONDS, TABLES

Ints = npt.NDArray[np.int64]

ORDERS_DELETED: Final = 0.05
CUSTOMERS_DELETED: Final = 0.02
TABLES_DELETED: Final = 0.05
SEED: Final = 20_240_229
ZIPF: Final = 1.1
"""The exponent of the skewed choice of customers."""
_POSITION_MICROSECONDS: Final = 1_000


def draw(dataset: Dataset) -> dict[str, pa.Table]:
    """The data's tables by name; the same every time."""
    rng = np.random.default_rng(SEED)
    if dataset.kind == "streams":
        return {
            "views": _stream("view", dataset.left, dataset.left_ids, rng),
            "clicks": _stream("click", dataset.right, dataset.right_ids, rng),
        }
    if dataset.kind == "four":
        names = TABLES["four"]
        positions = np.split(rng.permutation(len(names) * dataset.left).astype(np.int64), len(names))
        return {
            name: _changes(np.sort(each), dataset.left_ids, TABLES_DELETED, rng, **{name: _numbers(rng)})
            for name, each in zip(names, positions, strict=True)
        }
    mixed = rng.permutation(dataset.left + dataset.right).astype(np.int64)
    left, right = np.sort(mixed[: dataset.left]), np.sort(mixed[dataset.left :])
    if dataset.kind in ("tables", *ROWS_OF_A_PLACE):
        place = {"place": _numbers_below(dataset.places, rng)} if dataset.places else {}
        return {
            "left": _changes(left, dataset.left_ids, TABLES_DELETED, rng, **place, a=_numbers(rng)),
            "right": _changes(right, dataset.right_ids, TABLES_DELETED, rng, **place, b=_numbers(rng)),
        }

    def customer(ids: Ints) -> pa.Array:
        return pa.array(_references(ids.size, dataset, rng))

    orders = _changes(left, dataset.left_ids, ORDERS_DELETED, rng, customer=customer, amount=_numbers(rng))
    customers = _changes(right, dataset.right_ids, CUSTOMERS_DELETED, rng, name=_names)
    if dataset.kind in ("uniform", "zipf"):
        return {"orders": orders, "customers": customers}
    return {"orders": wide_orders(orders, rng, note_bytes=NOTE_BYTES[dataset.kind]), "customers": wide_customers(customers, rng)}


def _changes(
    positions: Ints, ids: int, deleted_share: float, rng: np.random.Generator, **columns: Callable[[Ints], pa.Array]
) -> pa.Table:
    drawn = rng.integers(0, ids, positions.size, dtype=np.int64)
    deleted = np.zeros(positions.size, dtype=bool)
    deleted[: round(positions.size * deleted_share)] = True
    rng.shuffle(deleted)
    gone = pa.array(deleted)
    values = {name: column(drawn) for name, column in columns.items()}
    return pa.table(
        {
            "id": drawn,
            **{name: pc.if_else(gone, pa.scalar(None, value.type), value) for name, value in values.items()},
            "ts": BASE_MICROSECONDS + positions * _POSITION_MICROSECONDS,
            "seq": positions,
            "deleted": gone,
        }
    )


def _stream(name: str, records: int, keys: int, rng: np.random.Generator) -> pa.Table:
    times = np.sort(rng.integers(0, STREAM_MICROSECONDS, records, dtype=np.int64))
    return pa.table(
        {
            "key": rng.integers(0, keys, records, dtype=np.int64),
            name: np.arange(records, dtype=np.int64),
            "ts": BASE_MICROSECONDS + times,
        }
    )


def _numbers(rng: np.random.Generator) -> Callable[[Ints], pa.Array]:
    return lambda ids: pa.array(rng.integers(1, 100_000, ids.size, dtype=np.int64))


def _numbers_below(end: int, rng: np.random.Generator) -> Callable[[Ints], pa.Array]:
    return lambda ids: pa.array(rng.integers(0, end, ids.size, dtype=np.int64))


def _names(ids: Ints) -> pa.Array:
    order = np.argsort(ids, kind="stable")
    first = np.concatenate([[True], np.diff(ids[order]) != 0])
    begins = np.maximum.accumulate(np.where(first, np.arange(ids.size), 0))
    versions = np.empty(ids.size, dtype=np.int64)
    versions[order] = np.arange(ids.size) - begins + 1
    return pc.binary_join_element_wise("customer ", pc.cast(ids, pa.string()), " v", pc.cast(versions, pa.string()), "")


def _references(orders: int, dataset: Dataset, rng: np.random.Generator) -> Ints:
    if dataset.kind != "zipf":
        return rng.integers(0, dataset.right_ids, orders, dtype=np.int64)
    weights = np.arange(1, dataset.right_ids + 1, dtype=np.float64) ** -ZIPF
    rank = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(orders), side="right")
    # Any customer may be the popular one, not just the first.
    return rng.permutation(dataset.right_ids).astype(np.int64)[np.minimum(rank, dataset.right_ids - 1)]
