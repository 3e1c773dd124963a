"""The table of equal keys: rows of two keys, written in Python, joined by each other, one branch a row."""

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np

from beam_joins import Change, TableTableJoin, TableToChanges
from tests.docs.notation import Got, place
from tests.docs.page import Table
from tests.docs.table_runs import Columns


class Customer(NamedTuple):
    shop: str
    number: int


class Color(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Place:
    shop: str
    number: int


_NAMES = {
    **{name: getattr(dt, name) for name in ("date", "datetime", "timedelta", "timezone", "UTC")},
    **{named.__name__: named for named in (Color, Customer, Decimal, Place, uuid.UUID)},
    "np": np,
}
"""What the cells may name."""


def keys(p: beam.Pipeline, table: Table) -> Columns:
    """The keys of the joined rows, as Python writes them; no row where the keys differ."""
    return {"joined": [_joined(p, *row[:2]) for row in table.rows] | beam.Flatten()}


def _joined(p: beam.Pipeline, left: str, right: str) -> Any:
    both = tuple(
        p | f"{left}, {right}: {side}" >> beam.Create([Change(_key(text), None, side, 0, position)], reshuffle=False)
        for position, (side, text) in enumerate((("left", left), ("right", right)))
    )
    joined = both | f"{left}, {right}" >> TableTableJoin(lambda left, right: left + right)
    return joined | f"{left}, {right}: changes" >> TableToChanges() | f"{left}, {right}: got" >> beam.Map(_got, place(left))


def _got(change: Change[Any, Any], row: Any) -> Got:
    return Got(row, f"{_plain(change.key)} @0")


def _plain(key: Any) -> str:
    return repr(key).removeprefix(f"{__name__}.")


def _key(text: str) -> Any:
    return eval(text, dict(_NAMES))
