"""The project's transforms as the first example of the README has them: dicts in, a function of two dicts,
changes out one by one.
"""

import sys
from typing import Any

import apache_beam as beam

from beam_joins import Change, ForeignKeyJoin, TableFromChangelog, TableToChanges
from benchmarks.contestants.beam_pipeline import contestant, pipeline, read, write
from benchmarks.contestants.command import Task
from benchmarks.works import WORKS

Row = dict[str, Any]


def labelled(order: Row, customer: Row) -> Row:
    """An order with the label that is made of it and its customer.

    >>> labelled({"amount": 1250}, {"name": "Ann"})
    {'amount': 1250, 'label': 'ANN: 12.50'}
    """
    return {**order, "label": f"{customer['name'].upper()}: {order['amount'] / 100:.2f}"}


def result(change: Change[int, Row]) -> Row:
    """A change as a row of the result."""
    label = None if change.new is None else change.new["label"]
    return {"id": change.key, "position": change.position, "deleted": change.new is None, "label": label}


def compute(asked: Task, runner: str) -> None:
    """Write the result of a task."""
    with pipeline(runner) as made:
        orders, customers = (
            read(made, asked, name)
            | name >> TableFromChangelog(key="id", sequence_by="seq", timestamp_by="ts", apply_as_deletes="deleted")
            for name in WORKS[asked.work].tables
        )
        enriched = (orders, customers) | ForeignKeyJoin(labelled, foreign_key="customer")
        write(enriched | TableToChanges() | "rows" >> beam.Map(result), asked)


if __name__ == "__main__":
    sys.exit(contestant("beam_joins_dicts", ("fk-records",), compute))
