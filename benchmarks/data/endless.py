"""Changes of orders and customers that are made up while they are read, each at a time of its own."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from beam_joins.pipelines.changelogs.source_reads import ReadPiece, Timed
from benchmarks.works import BASE_MICROSECONDS

_MILLION: Final = 1_000_000
_CLOSING: Final = 3600 * _MILLION
ROWS: Final = 5_000
"""Rows of a batch at most."""
RARE: Final = 100
"""How many changes of orders there are for one of a customer, after the first ones."""
SCHEMAS: Final = {
    "orders": pa.schema({"id": pa.int64(), "customer": pa.int64(), "amount": pa.int64(), "at": pa.int64()}),
    "customers": pa.schema({"id": pa.int64(), "name": pa.string(), "at": pa.int64()}),
}


@dataclass(frozen=True)
class Endless:
    """A source of both tables.

    All customers are there in the first second of event time; then ``changes`` of orders come, evenly spread
    over time.

    ``live`` is the time in microseconds at which the orders begin, by the clock; ``None``: they come as fast
    as they are taken.
    """

    changes: int
    orders: int
    customers: int
    per_second: int
    live: int | None = None

    @property
    def begin(self) -> int:
        """The time of the first order."""
        return BASE_MICROSECONDS if self.live is None else self.live

    @property
    def last(self) -> int:
        """The time of the last order."""
        return self.begin + (self.changes - 1) * _MILLION // self.per_second

    def range(self, element: str) -> tuple[int, int]:
        """All rows of a table."""
        return (0, self.changes) if element == "orders" else (0, self.customers + self.changes // RARE)

    def pieces(self, element: str, place: int, end: int | None) -> Iterator[ReadPiece]:
        """What there is, up to the time of the clock if it is live; behind all rows their tick ends too."""
        whole = self.range(element)[1]
        until = whole if self.live is None else min(whole, self._there(element))
        while place < until:
            index = np.arange(place, min(place + ROWS, until))
            times = self._times(element, index)
            batch = self._orders(index, times) if element == "orders" else self._customers(index, times)
            place = int(index[-1]) + 1
            yield ReadPiece(place, [Timed(batch, int(times[0]))], int(times[-1]), len(index))
        if place == whole:
            yield ReadPiece(place + 1, [], self.last + _CLOSING, 0)

    def close(self) -> None:
        """Nothing is open."""

    def _there(self, element: str) -> int:
        passed = (time.time_ns() // 1000 - self.begin) * self.per_second // _MILLION
        return max(passed, 0) if element == "orders" else self.customers + max(passed // RARE, 0)

    def _times(self, element: str, index: np.ndarray) -> np.ndarray:
        if element == "orders":
            return self.begin + index * _MILLION // self.per_second
        later = self.begin + (index - self.customers) * RARE * _MILLION // self.per_second
        return np.where(index < self.customers, self.begin - _MILLION + index * _MILLION // self.customers, later)

    def _orders(self, index: np.ndarray, times: np.ndarray) -> pa.RecordBatch:
        mixed = index * 2_654_435_761
        return pa.record_batch([mixed % self.orders, mixed // 7 % self.customers, index, times], schema=SCHEMAS["orders"])

    def _customers(self, index: np.ndarray, times: np.ndarray) -> pa.RecordBatch:
        ids = np.where(index < self.customers, index, index * 2_654_435_761 % self.customers)
        names = [f"customer {number}" for number in ids.tolist()]
        return pa.record_batch([pa.array(ids), pa.array(names), pa.array(times)], schema=SCHEMAS["customers"])
