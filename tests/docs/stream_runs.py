"""The streams' tables: rows of a result table run through the joins of streams, one branch a column."""

from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue

from beam_joins import (
    Dropped,
    StreamForeignKeyJoin,
    StreamTableJoin,
    WindowedStreamJoin,
)
from tests.docs.notation import MICROS, Got, key, pair
from tests.docs.page import Table
from tests.docs.table_runs import Columns, changelog, fk_of, of_joined, records

BEFORE, AFTER, GRACE = 5, 10, 3
"""The windows of the tables, in seconds."""


def windowed_stream_join(p: beam.Pipeline, table: Table) -> Columns:
    return windowed_stream_joins(p, table, {})


def windowed_stream_join_by_arrival(p: beam.Pipeline, table: Table) -> Columns:
    return windowed_stream_joins(p, table, {"sequence_by": "place"})


def windowed_stream_joins(p: beam.Pipeline, table: Table, options: Any) -> Columns:
    both = tuple(
        p | f"{table.header[column]} stream" >> beam.Create([stream_element(row) for row in records(table, column)], reshuffle=False)
        for column in (1, 2)
    )
    columns: Columns = {}
    for how in [mode for mode in table.modes if mode not in ("late", "dropped")]:
        join = WindowedStreamJoin(placed, how=how, before=BEFORE, after=AFTER, grace=GRACE, **options)
        outputs = both | how >> join.with_outputs()
        columns[how] = outputs.stream | f"{how} got" >> beam.Map(of_joined)
        columns.setdefault("late", outputs.late | f"{how} late" >> beam.Map(of_dropped))
        columns.setdefault("dropped", outputs.dropped | f"{how} dropped" >> beam.Map(of_dropped))
    return columns


def stream_element(row: dict[str, Any]) -> TimestampedValue:
    """A record as an element of a stream, its times in seconds; a null value is one."""
    return TimestampedValue((row["key"], None if row["value"] is None else row), row["time"])


def placed(left: dict[str, Any] | None, right: dict[str, Any] | None) -> tuple[int, str]:
    """The joiner: the place of the later row, and the pair."""
    rows = [row for row in (left, right) if row]
    return max(row["place"] for row in rows), pair(left and left["value"], right and right["value"])


def stream_table_join(p: beam.Pipeline, table: Table) -> Columns:
    return stream_table_joins(p, table, StreamTableJoin, {})


def stream_foreign_key_join(p: beam.Pipeline, table: Table) -> Columns:
    return stream_table_joins(p, table, StreamForeignKeyJoin, {"foreign_key": lambda key, row: fk_of(row["value"]) if row else None})


def stream_table_joins(p: beam.Pipeline, table: Table, transform: Any, options: Any) -> Columns:
    stream = p | "stream" >> beam.Create([stream_element(row) for row in records(table, 1)], reshuffle=False)
    rows = changelog(p, table, 2)
    columns: Columns = {}
    for how in [mode for mode in table.modes if mode != "dropped"]:
        join = transform(
            lambda row, looked_up: (row["place"], pair(row["value"], looked_up)),
            how=how,
            sequence_by=lambda key, row: row["place"],
            **options,
        )
        outputs = (stream, rows) | how >> join.with_outputs()
        columns[how] = outputs.stream | f"{how} got" >> beam.Map(of_joined)
        columns.setdefault("dropped", outputs.dropped | f"{how} dropped" >> beam.Map(of_dropped))
    return columns


def of_dropped(dropped: Dropped) -> Got:
    of, row = dropped.record
    time = dropped.timestamp // MICROS
    value = "null" if row is None else row["value"]
    return Got(time if row is None else row["place"], f"{dropped.reason} {key(of)}: {value} @{time}")
