"""Which data there are and how large: the sizes of a benchmark's input."""

from dataclasses import dataclass
from typing import Final

from benchmarks.works import WORKS, Format, Kind

ROWS_OF_A_PLACE: Final[dict[Kind, int]] = {"many": 1, "many-hot": 10}
"""How many rows of a table are about in one place."""
TINY_ROWS: Final = 100
"""Rows of a table that is only there to measure how long a start takes."""


@dataclass(frozen=True)
class Dataset:
    """The input of a work: two tables, or four that are as the left one.

    ``left`` and ``right`` are numbers of rows (changes, or records of a stream), ``left_ids`` and
    ``right_ids`` the numbers of different keys that they are drawn from. ``left_files`` and ``right_files``
    are numbers of files. ``places`` is the number of values that rows are joined by where that is no key.
    """

    kind: Kind
    left: int
    right: int
    left_ids: int
    right_ids: int
    left_files: int = 8
    right_files: int = 8
    format: Format = "parquet"
    places: int = 0

    @property
    def name(self) -> str:
        """A name for the data's folder; other sizes have another one.

        >>> foreign_key(1000).name
        'uniform-1000x200-100x20-8+2'
        """
        sizes = f"{self.left}x{self.left_ids}-{self.right}x{self.right_ids}"
        kind = self.kind if self.format == "parquet" else f"{self.kind}-{self.format}"
        places = f"-{self.places}" if self.places else ""
        return f"{kind}-{sizes}{places}-{self.left_files}+{self.right_files}"


def foreign_key(orders: int, *, kind: Kind = "uniform", ids: int | None = None, format: Format = "parquet") -> Dataset:
    """Orders and customers: five changes per id of either, unless ``ids`` says another number of orders.

    A tenth as many changes of customers, at most 100,000 where orders are wide, or three times as many where
    both tables are large, at most 3,000,000. Short orders are about one for each id, with at most 20,000 changes of customers.
    """
    of_kind = {"wide": min(orders // 10, 100_000), "wide-large": min(orders * 3, 3_000_000), "short": min(orders // 10, 20_000)}
    customers = of_kind.get(kind, orders // 10) or 1
    ids = ids or (orders if kind == "short" else max(orders // 5, 1))
    files = 8 if kind == "wide-large" else 2
    return Dataset(kind, orders, customers, ids, max(customers // 5, 1), 8, files, format)


def tables_of_one_key(changes: int, *, kind: Kind = "tables", ids: int | None = None) -> Dataset:
    """Tables with as many changes each, over the same ids."""
    ids = ids or max(3 * changes // 10, 1)
    return Dataset(kind, changes, changes, ids, ids)


def tables_of_one_place(changes: int, *, kind: Kind = "many", rows: int = 1) -> Dataset:
    """Tables with as many changes each, and about so many rows of each in a place."""
    ids = max(3 * changes // 10, 1)
    return Dataset(kind, changes, changes, ids, ids, places=max(ids // rows, 1))


def two_streams(records: int) -> Dataset:
    """Two streams with as many records each, 50 per key."""
    keys = max(records // 50, 1)
    return Dataset("streams", records, records, keys, keys)


def few_ids(ids: int) -> Dataset:
    """Two tables with five changes per id in all, for contestants whose time depends on the number of keys."""
    changes = max(5 * ids // 2, 1)
    return tables_of_one_key(changes, ids=ids)


def tiny(work: str) -> Dataset:
    """The data of a work with about a hundred rows a table, one file each."""
    kind = WORKS[work].kind
    ids = 2 if kind == "streams" else TINY_ROWS // 5
    places = ids if kind in ROWS_OF_A_PLACE else 0
    return Dataset(kind, TINY_ROWS, TINY_ROWS, ids, ids, 1, 1, WORKS[work].reads, places)


def of_work(work: str, rows: int) -> Dataset:
    """The data of a work with this many rows of the left table."""
    kind = WORKS[work].kind
    if kind == "streams":
        return two_streams(rows)
    if kind in ROWS_OF_A_PLACE:
        return tables_of_one_place(rows, kind=kind, rows=ROWS_OF_A_PLACE[kind])
    return tables_of_one_key(rows, kind=kind) if kind in ("tables", "four") else foreign_key(rows, kind=kind, format=WORKS[work].reads)
