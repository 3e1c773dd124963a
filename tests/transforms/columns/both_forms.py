"""Pipelines in both forms, records and columns, and that the same comes out."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.testing.util import assert_that

Row = dict[str, Any]

ORDERS = pa.schema(
    [("shop", pa.string()), ("id", pa.int32()), ("lsn", pa.int64()), ("at", pa.int64()), ("by", pa.int16()),
        ("amount", pa.int64()), ("gone", pa.bool_())]
)  # fmt: skip
CUSTOMERS = pa.schema([("id", pa.int64()), ("lsn", pa.int64()), ("at", pa.int64()), ("name", pa.string()), ("gone", pa.bool_())])
CDC: dict[str, Any] = {"key": "id", "sequence_by": "lsn", "timestamp_by": "at", "apply_as_deletes": "gone"}
UNUSABLE = ("id", "lsn", "at")


def order_rows(seed: int, count: int = 60) -> list[Row]:
    """Changes of few orders of few customers: moves, null references, deletes, equal positions, and what
    cannot be used.
    """
    chance = random.Random(seed)
    rows = [
        {
            "shop": chance.choice("ab"),
            "id": chance.randrange(8),
            "lsn": chance.randrange(count // 2),
            "at": 1_000 + i * 7 % count,
            "by": chance.choice([0, 1, 2, 3, 3, 9, None]),
            "amount": i,
            "gone": chance.choice([True, False, False, False, None]),
        }
        for i in range(count)
    ]
    return rows + [{**rows[i], name: None} for i, name in enumerate(UNUSABLE)] + [dict.fromkeys(ORDERS.names)]


def customer_rows(seed: int, count: int = 30) -> list[Row]:
    """Changes of few customers at the positions of the orders' changes."""
    chance = random.Random(seed)
    rows = [
        {
            "id": chance.randrange(4),
            "lsn": chance.randrange(count),
            "at": 1_000 + i * 11 % count,
            "name": chance.choice(["Ann", "Bob", "", None]),
            "gone": chance.choice([True, False, False]),
        }
        for i in range(count)
    ]
    return rows + [{**rows[i], name: None} for i, name in enumerate(UNUSABLE)]


def one_batch(table: pa.Table) -> list[pa.Table]:
    """All rows together."""
    return [table]


def single_rows(table: pa.Table) -> list[pa.Table]:
    """Every row in a batch of its own."""
    return [table.slice(i, 1) for i in range(len(table))]


def uneven(table: pa.Table) -> list[pa.Table]:
    """Batches of many sizes, empty ones among them, some of several chunks."""
    third = len(table) // 3
    chunked = pa.concat_tables([table.slice(third, 2), table.slice(third + 2, third - 2)])
    return [table.slice(0, 0), table.slice(0, third), chunked, table.slice(0, 0), table.slice(2 * third)]


CUTS: list[tuple[int, Callable[[pa.Table], list[pa.Table]]]] = [(1, single_rows), (3, uneven), (16, one_batch)]
"""Numbers of partitions and ways to cut a changelog into batches."""


def batches(
    pipeline: Any, name: str, rows: Sequence[Row], schema: pa.Schema, cut: Callable[[pa.Table], list[pa.Table]] = one_batch
) -> Any:
    """A changelog in columns, its batches in any order."""
    cut_up = cut(pa.Table.from_pylist(random.Random(len(name)).sample(rows, len(rows)), schema=schema))
    return pipeline | name >> beam.Create(cut_up).with_output_types(pa.Table)


def records(pipeline: Any, name: str, rows: Sequence[Row]) -> Any:
    """The same one record at a time."""
    return pipeline | name >> beam.Create(rows)


class Compared:
    """Outputs by what they are and by their form; all forms of one output must be the same."""

    def __init__(self) -> None:
        self._outputs: dict[tuple[str, str], Any] = {}

    def add(self, what: str, form: str, pcoll: Any, seen: Callable[[Any], Any] = repr) -> None:
        """One form of an output, its elements seen through a function."""
        label = f"{what} in {form}"
        self._outputs[what, form] = pcoll | f"tag {label}" >> beam.Map(lambda element: (what, form, seen(element)))

    def check(self, empty: Iterable[str] = ()) -> None:
        """Assert that all forms of each output are the same, and that all but those named have elements."""
        forms: dict[str, set[str]] = {}
        for what, form in self._outputs:
            forms.setdefault(what, set()).add(form)
        assert all(len(of_one) > 1 for of_one in forms.values())
        empty = set(empty)

        def check(outputs: list[Any]) -> None:
            actual = {place: Counter[str]() for place in ((what, form) for what in forms for form in forms[what])}
            for what, form, element in outputs:
                actual[what, form][element] += 1
            for what, of_one in forms.items():
                expected = actual[what, "records"]
                assert bool(expected) is (what not in empty), f"{what}: {len(expected)} elements"
                for form in of_one:
                    assert actual[what, form] == expected, (
                        f"{what} in {form}: too many are {actual[what, form] - expected}, missing are {expected - actual[what, form]}"
                    )

        together = tuple(self._outputs.values()) | "all outputs" >> beam.Flatten()
        assert_that(together, check)


@contextmanager
def compared(pipeline: Any, empty: Iterable[str] = ()) -> Iterator[Any]:
    """A pipeline whose outputs are compared when it is built, and which then runs."""
    with pipeline as p:
        outputs = Compared()
        yield p, outputs
        outputs.check(empty)
