"""Queries of Nexmark as transforms written by hand."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import AggregateTable, FilterTable, ForeignKeyJoin, MapTable

Tables: TypeAlias = Mapping[str, Any]


def _locals_sell(tables: Tables) -> Any:
    auctions = tables["auction"] | "category" >> FilterTable(pc.field("category") == 10)
    persons = tables["person"] | "state" >> FilterTable(pc.is_in(pc.field("state"), pa.array(["OR", "ID", "CA"])))
    columns = {"name": "right.name", "city": "right.city", "state": "right.state", "id": "left.id"}
    return (auctions, persons) | ForeignKeyJoin(columns, foreign_key="seller")


def _mean_of_highest_bids(tables: Tables) -> Any:
    columns = {"id": "right.id", "category": "right.category", "price": "left.price", "ms": "left.ms"}
    bids = (tables["bid"], tables["auction"]) | ForeignKeyJoin(
        {**columns, "begin": "right.ms", "expires": "right.expires"}, foreign_key="auction"
    )
    valid = bids | FilterTable((pc.field("ms") >= pc.field("begin")) & (pc.field("ms") <= pc.field("expires")))
    highest = valid | "highest" >> AggregateTable({"price": "max(price)"}, group_by=["id", "category"])
    price = pc.field("value", "price").cast(pa.float64())
    of_category = highest | "of category" >> MapTable({"category": "key.category", "price": price})
    means = of_category | "means" >> AggregateTable({"price": "mean(price)"}, group_by="category")
    return means | "columns" >> MapTable({"category": "key", "price": "value.price"})


def _bids_of_a_category(tables: Tables) -> Any:
    auctions = tables["auction"] | FilterTable(pc.field("category") == 10)
    columns = {"id": "left.id", "auction": "left.auction", "bidder": "left.bidder", "price": "left.price"}
    return (tables["bid"], auctions) | ForeignKeyJoin(
        {**columns, "item": "right.item", "seller": "right.seller"}, foreign_key="auction"
    )


BY_HAND: Final[Mapping[str, Callable[[Tables], Any]]] = {"q3": _locals_sell, "q4": _mean_of_highest_bids, "q20": _bids_of_a_category}
