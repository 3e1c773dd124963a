"""The events of Nexmark, as its generator draws them: of 50 events one is a person, three are auctions and 46 bids.

The numbers are those of the generator of Apache Beam and Flink: hot auctions, sellers and bidders, prices over six orders of
magnitude, auctions that stay open for about as long as 100 of them come. The draws are others.
"""

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Ints = npt.NDArray[np.int64]

OF_PERSONS, OF_AUCTIONS, OF_ALL = 1, 3, 50
"""The persons and the auctions among so many events."""
FIRST: Final = 1_000
"""The first number of a person and of an auction."""
EVENTS_A_SECOND: Final = 10_000
FIRST_MILLISECONDS: Final = 1_436_918_400_000
SIDE_ROWS: Final = 10_000
"""The rows of the table that q13 joins bids with."""
_OPEN_AUCTIONS, _ACTIVE_PERSONS, _LEAD, _HOT = 100, 1_000, 10, 100
_CATEGORIES: Final = np.arange(10, 15)
_STATES: Final = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES: Final = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
_FILES: Final = 4


def draw(events: int) -> dict[str, pa.Table]:
    """The tables of so many events, with the number of each event as ``seq`` and its time in milliseconds as ``ms``; the same every
    time.
    """
    chance = np.random.default_rng(7)
    number = np.arange(events, dtype=np.int64)
    epoch, offset = number // OF_ALL, number % OF_ALL
    at = FIRST_MILLISECONDS + number * 1_000 // EVENTS_A_SECOND
    is_person, is_auction = offset < OF_PERSONS, (offset >= OF_PERSONS) & (offset < OF_PERSONS + OF_AUCTIONS)
    last_auction = epoch * OF_AUCTIONS + np.clip(offset - OF_PERSONS, -1, OF_AUCTIONS - 1)
    persons, auctions, bids = number[is_person], number[is_auction], number[~is_person & ~is_auction]

    def hot_or_any(of: Ints, last: Ints, *, one_in: int, active: int, more: int) -> Ints:
        any_of = np.maximum(last - active, 0) + chance.integers(0, np.minimum(last, active) + _LEAD + 1)
        is_hot = chance.integers(0, one_in, len(of)) > 0
        return FIRST + np.where(is_hot, last // _HOT * _HOT + more, any_of)

    times = _OPEN_AUCTIONS * OF_ALL // OF_AUCTIONS * 1_000 // EVENTS_A_SECOND
    price = np.round(10 ** (chance.random(events) * 6) * 100).astype(np.int64)
    person = FIRST + epoch[persons]
    auction = FIRST + last_auction[auctions]
    return {
        "person": pa.table(
            {
                "id": person,
                "name": pa.array([f"person {each}" for each in person]),
                "city": _chosen(_CITIES, len(person), chance),
                "state": _chosen(_STATES, len(person), chance),
                "ms": at[persons],
                "seq": persons,
            }
        ),
        "auction": pa.table(
            {
                "id": auction,
                "item": pa.array([f"item {each}" for each in auction]),
                "initial_bid": price[auctions],
                "ms": at[auctions],
                "expires": at[auctions] + 1 + chance.integers(0, max(2 * times, 1), len(auction)),
                "seller": hot_or_any(auctions, epoch[auctions], one_in=4, active=_ACTIVE_PERSONS, more=0),
                "category": chance.choice(_CATEGORIES, len(auction)),
                "seq": auctions,
            }
        ),
        "bid": pa.table(
            {
                "id": bids,
                "auction": hot_or_any(bids, last_auction[bids], one_in=2, active=_OPEN_AUCTIONS, more=0),
                "bidder": hot_or_any(bids, epoch[bids], one_in=4, active=_ACTIVE_PERSONS, more=1),
                "price": price[bids],
                "ms": at[bids],
                "seq": bids,
            }
        ),
        "side": pa.table(
            {"id": np.arange(SIDE_ROWS), "label": [f"label {n}" for n in range(SIDE_ROWS)], "seq": np.full(SIDE_ROWS, -1)}
        ),
    }


def write(folder: Path, events: int) -> None:
    """Write the tables into a folder, a folder of Parquet files each."""
    for name, table in draw(events).items():
        (folder / name).mkdir(parents=True)
        rows = -(-len(table) // _FILES)
        for part in range(_FILES):
            pq.write_table(table.slice(part * rows, rows), folder / name / f"{part}.parquet")


def _chosen(words: list[str], count: int, chance: np.random.Generator) -> pa.Array:
    return pa.array(words).take(pa.array(chance.integers(0, len(words), count)))
