"""Orders and customers that change, as files that come one after the other, and the tables of them."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam

from beam_joins.io import ReadChangelog, ReadGrowingChangelog
from tests.pipelines.streaming.jobs import FIRST, STEP

SIDES = ("orders", "customers")


def orders(numbers: range) -> list[dict[str, Any]]:
    """Changes of 40 orders, of which every seventh is a delete, and which move from one customer to another."""
    return [
        {"id": n * 7 % 40, "by": None if n % 11 == 0 else n * 3 % 9, "n": n, "op": "d" if n % 7 == 6 else "u", "at": FIRST + n * STEP}
        for n in numbers
    ]


def customers(numbers: range) -> list[dict[str, Any]]:
    """Changes of 10 customers between those of the orders."""
    return [
        {"id": n % 10, "name": f"name {n}", "op": "d" if n % 13 == 12 else "u", "at": FIRST + n * STEP + 1}
        for n in numbers
        if n % 5 == 0
    ]


ROWS = {"orders": orders, "customers": customers}


def write(folder: Path, numbers: range, name: str) -> None:
    """The rows of both sides as files; the rows of a few seconds are in the opposite order."""
    for side in SIDES:
        (folder / side).mkdir(exist_ok=True)
        rows = ROWS[side](numbers)
        shuffled = [row for start in range(0, len(rows), 20) for row in reversed(rows[start : start + 20])]
        part = folder / f"{side}-{name}"
        part.write_text("".join(json.dumps(row) + "\n" for row in shuffled))
        part.rename(folder / side / f"{name}.jsonl")


def tables_of(pipeline: beam.Pipeline, folder: Path, *, follow: bool) -> tuple[Any, ...]:
    """The orders and the customers."""
    of_rows: dict[str, Any] = {"key": "id", "timestamp_by": "at", "apply_as_deletes": {"op": ["d"]}}

    def read(side: str) -> Any:
        path = f"{folder / side}/*.jsonl"
        return ReadGrowingChangelog(path, out_of_orderness=30, **of_rows) if follow else ReadChangelog(path, **of_rows)

    return tuple(pipeline | side >> read(side) for side in SIDES)
