"""Plain Beam: the joins as a Beam user writes them today, with GroupByKey and CoGroupByKey over Python
records.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import apache_beam as beam

from benchmarks.contestants.beam_pipeline import contestant, pipeline, read, write
from benchmarks.contestants.command import Task
from benchmarks.contestants.row_lives import Event, OrderLife, Row, order_events, order_lives, pairs, result_rows, table_rows
from benchmarks.works import WINDOW_MICROSECONDS, WORKS

_DELETES: Final = "deletes"
_Grouped = tuple[int, dict[str, Iterable[Any]]]


def lives(order: tuple[int, Iterable[Row]]) -> Iterator[Any]:
    """The lives of one order by customer; its deletes, which need no customer, on the side."""
    key, changes = order
    for row, ends in order_lives(changes):
        if row["deleted"]:
            yield beam.pvalue.TaggedOutput(_DELETES, (key, (row["seq"], None)))
        else:
            yield row["customer"], OrderLife(key, row["seq"], ends, row["amount"])


def join_orders(grouped: _Grouped) -> Iterator[tuple[int, Event]]:
    """The events of one customer's orders."""
    return order_events(grouped[1]["orders"], grouped[1]["customers"])


def results(grouped: tuple[int, Iterable[Event]]) -> Iterator[Row]:
    """The changelog of one order."""
    return result_rows(*grouped)


def last_order(grouped: tuple[int, Iterable[Row]]) -> Iterator[tuple[int, tuple[int, int]]]:
    """The order's last row by customer, if it is still there."""
    row = max(grouped[1], key=lambda change: change["seq"])
    if not row["deleted"]:
        yield row["customer"], (row["id"], row["amount"])


def join_last(grouped: _Grouped) -> Iterator[Row]:
    """The last rows of one customer's orders with the customer's last row."""
    _, name = max(grouped[1]["customers"], default=(0, None))
    if name is not None:
        for key, amount in grouped[1]["orders"]:
            yield {"id": key, "amount": amount, "name": name}


def join_tables(grouped: _Grouped) -> Iterator[Row]:
    """The changelog of one key of two tables."""
    key, sides = grouped
    changes = [(seq, column, deleted, value) for column in ("a", "b") for seq, deleted, value in sides[column]]
    return table_rows(key, changes)


def join_streams(grouped: _Grouped) -> Iterator[Row]:
    """The pairs of one key of two streams."""
    return pairs(grouped[0], grouped[1]["views"], grouped[1]["clicks"], WINDOW_MICROSECONDS)


def _foreign_key(orders: Any, customers: Any) -> Any:
    by_id = orders | "by order" >> beam.Map(lambda row: (row["id"], row)) | "group orders" >> beam.GroupByKey()
    parts = by_id | "lives" >> beam.FlatMap(lives).with_outputs(_DELETES, main="lives")
    names = customers | "by customer" >> beam.Map(lambda row: (row["id"], (row["seq"], row["name"])))
    events = {"orders": parts["lives"], "customers": names} | "co-group" >> beam.CoGroupByKey() | "join" >> beam.FlatMap(join_orders)
    every = (events, parts[_DELETES]) | "events" >> beam.Flatten()
    return every | "group events" >> beam.GroupByKey() | "results" >> beam.FlatMap(results)


def _foreign_key_final(orders: Any, customers: Any) -> Any:
    by_id = orders | "by order" >> beam.Map(lambda row: (row["id"], row)) | "group orders" >> beam.GroupByKey()
    names = customers | "by customer" >> beam.Map(lambda row: (row["id"], (row["seq"], row["name"])))
    sides = {"orders": by_id | "last" >> beam.FlatMap(last_order), "customers": names}
    return sides | "co-group" >> beam.CoGroupByKey() | "join" >> beam.FlatMap(join_last)


def _tables(left: Any, right: Any) -> Any:
    sides = {
        "a": left | "by left key" >> beam.Map(lambda row: (row["id"], (row["seq"], row["deleted"], row["a"]))),
        "b": right | "by right key" >> beam.Map(lambda row: (row["id"], (row["seq"], row["deleted"], row["b"]))),
    }
    return sides | "co-group" >> beam.CoGroupByKey() | "join" >> beam.FlatMap(join_tables)


def _streams(views: Any, clicks: Any) -> Any:
    sides = {
        "views": views | "by view's key" >> beam.Map(lambda row: (row["key"], (row["ts"], row["view"]))),
        "clicks": clicks | "by click's key" >> beam.Map(lambda row: (row["key"], (row["ts"], row["click"]))),
    }
    return sides | "co-group" >> beam.CoGroupByKey() | "join" >> beam.FlatMap(join_streams)


JOINS: Final = {
    "fk-uniform": _foreign_key,
    "fk-zipf": _foreign_key,
    "fk-final": _foreign_key_final,
    "tables": _tables,
    "streams": _streams,
}


def compute(asked: Task, runner: str) -> None:
    """Write the result of a task."""
    with pipeline(runner) as made:
        left, right = (read(made, asked, table) for table in WORKS[asked.work].tables)
        write(JOINS[asked.work](left, right), asked)


if __name__ == "__main__":
    sys.exit(contestant("beam_cogroup", tuple(JOINS), compute))
