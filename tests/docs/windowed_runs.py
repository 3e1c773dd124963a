"""The windowed tables' tables: rows of a result table run through the transforms that make, join and write
out windowed tables.
"""

from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue

from beam_joins import (
    Change,
    Dropped,
    StreamForeignKeyJoin,
    Window,
    Windowed,
    WindowedAggregate,
    WindowedTableJoin,
    WindowedTableToStream,
)
from tests.docs.notation import DELETE, MICROS, Got, key, pair, side, written
from tests.docs.page import Table
from tests.docs.table_runs import Columns, amount, changelog, changes, of_joined, records


def windowed_aggregate(p: beam.Pipeline, table: Table) -> Columns:
    stream = p | beam.Create([element(row) for row in records(table, 1)], reshuffle=False)
    window_fns = {"tumbling": FixedWindows(10), "hopping": SlidingWindows(10, 5)}
    columns: Columns = {}
    for mode in [mode for mode in table.modes if mode != "late"]:
        outputs = (
            stream
            | mode
            >> WindowedAggregate(
                window_fns[mode], initial=0, add=lambda count, value: count + 1, grace=5, sequence_by="place"
            ).with_outputs()
        )
        columns[mode] = changes(outputs.table, mode, of_windowed_change)
        columns.setdefault("late", outputs.late | f"{mode} late" >> beam.Map(of_late_window))
    return columns


def element(row: dict[str, Any]) -> TimestampedValue:
    """A record as an element of a stream; its times are seconds."""
    return TimestampedValue((row["key"], row), row["time"])


def windowed_table_join(p: beam.Pipeline, table: Table) -> Columns:
    modes = [mode.split(":") for mode in table.modes]
    left = stream_of(p, table) if modes[0][0] == "stream" else side_of(p, table, 1)
    both = left, side_of(p, table, 2)
    options: dict[str, Any] = {
        "shift": {"shift": lambda week: week.shift(-7)},
        "window_of": {"window_of": lambda key, value: window_of(value)},
    }
    columns: Columns = {}
    for kind, how in modes:
        if kind == "stream":
            join: Any = StreamForeignKeyJoin(
                foreign_key=lambda key, row: Windowed(key, window_of(row["value"])),
                joiner=lambda row, looked_up: (row["place"], pair(row["value"], looked_up)),
                how=how,
                sequence_by="place",
            )
        else:
            join = WindowedTableJoin(pair, how=how, **options.get(kind, {}))
        joined = both | how >> join
        is_stream = kind == "stream"
        columns[f"{kind}:{how}"] = (
            joined | f"{how} got" >> beam.Map(of_joined) if is_stream else changes(joined, how, of_windowed_change)
        )
    return columns


def windowed_table_to_stream(p: beam.Pipeline, table: Table) -> Columns:
    inputs, places = [], {}
    for number, (text, *_) in enumerate(table.rows):
        windowed, sides = text.split(": ")
        name, start, end = windowed.replace("..", "[").rstrip(")").split("[")
        old, new = (None if value == "-" else int(value) for value in sides.split(" → "))
        window = Window(int(start) * MICROS, int(end) * MICROS)
        inputs.append(Change(Windowed(name, window), old, new, number * MICROS, number))
        places[number] = text
    windows = p | beam.Create(inputs)
    mappings = {
        "key": lambda key, window, value: (f"{key} {window.start // MICROS}", value),
        "value": lambda key, window, value: (key, f"{side(value)} from {window.start // MICROS}"),
    }

    def of_row(element: tuple[Any, Any], time: Any = beam.DoFn.TimestampParam) -> Got:
        return Got(places[time.micros // MICROS], f"{element[0]}: {'delete' if element[1] is None else element[1]} @0")

    return {
        mode: windows | mode >> WindowedTableToStream(mapping) | f"{mode} got" >> beam.Map(of_row)
        for mode, mapping in mappings.items()
    }


def stream_of(p: beam.Pipeline, table: Table) -> Any:
    """The first input column as a stream."""
    return p | "stream" >> beam.Create([(row["key"], row) for row in records(table, 1)], reshuffle=False)


def side_of(p: beam.Pipeline, table: Table, column: int) -> Any:
    """An input column as a windowed table if its keys are written with windows, as a table otherwise."""
    rows = records(table, column)
    if not any("[" in row["key"] for row in rows):
        return changelog(p, table, column)
    stream = []
    for row in rows:
        name, start = row["key"].split("..")[0].split("[")
        stream.append(TimestampedValue((name, row), int(start)))
    return (
        p
        | f"{table.header[column]} stream" >> beam.Create(stream, reshuffle=False)
        | f"{table.header[column]} windows"
        >> WindowedAggregate(
            FixedWindows(7),
            initial=None,
            add=lambda _, row: None if row["value"] == DELETE else row["value"],
            sequence_by="place",
        )
    )


def window_of(value: str) -> Window | None:
    """The window that a value names: of seven seconds from the number behind the slash."""
    start = amount(value)
    return None if start < 0 else Window(start * MICROS, (start + 7) * MICROS)


def of_windowed_change(change: Change[Any, Any]) -> Got:
    return Got(change.position, f"{written(change)} @{change.timestamp // MICROS}")


def of_late_window(dropped: Dropped) -> Got:
    windowed, row = dropped.record
    return Got(row["place"], f"{key(windowed)}: {row['value']} @{row['time']}")
