"""The tables' tables: rows of a result table run through the public transforms, one branch a column."""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam

from beam_joins import (
    AggregateTable,
    Change,
    CombinedKey,
    CountTable,
    Dropped,
    FilterTable,
    ForeignKeyJoin,
    ManyToManyJoin,
    MapTable,
    OneToManyJoin,
    SumTable,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
    TableToStream,
)
from beam_joins.options.join_types import PairHow
from beam_joins.transforms.engine.construction.table_type import TableType, as_table
from tests.docs.notation import DELETE, MICROS, Got, items, key, pair, place, side, written
from tests.docs.page import Table
from tests.reference.foreign_key import Reference, Subscription, send

Columns = dict[str, Any]
"""A collection of :class:`Got` for each mode."""


def records(table: Table, column: int) -> list[dict[str, Any]]:
    """The records of an input column, the last row first: nothing may depend on the order of arrival."""
    actual = []
    for row in reversed(table.rows):
        at = place(row[0])
        for item in items(row[column]):
            time = item.time if item.has_time else at
            actual.append({"key": item.key, "value": item.value, "time": time, "place": at})
    return actual


def changelog(p: beam.Pipeline, table: Table, column: int) -> Any:
    """The records of an input column as a table of texts, its positions the places of the rows."""
    rows = [
        (row["place"], row["key"], None if row["value"] == DELETE else row["value"], row["time"]) for row in records(table, column)
    ]
    return table_of(p, f"{table.header[column]} table", rows)


def table_of(p: beam.Pipeline, label: str, rows: Iterable[tuple[int, str, Any, int]]) -> Any:
    """The table of records (position, key, value or None, time); what :class:`TableFromChangelog` makes of
    them has a page of its own.
    """
    content: dict[str, Any] = {}
    changes = []
    for position, of, new, time in sorted(rows, key=lambda row: row[0]):
        old = content.get(of)
        content[of] = new
        if (old, new) != (None, None):
            changes.append(Change(of, old, new, time, position))
    return as_table(p | label >> beam.Create(changes[::-1], reshuffle=False), TableType(order="sequence"))


def table_from_changelog(p: beam.Pipeline, table: Table) -> Columns:
    log = p | beam.Create(records(table, 1), reshuffle=False)
    columns = {}
    for mode in [mode for mode in table.modes if mode != "dropped"]:
        options: dict[str, Any] = {"key": "key", "sequence_by": "place", "timestamp_by": "time"}
        if "dropped" not in table.modes:
            options["except_columns"] = ["time", "place"]  # by which two records of one value would differ
        outputs = log | mode >> TableFromChangelog(emit=mode, apply_as_deletes=_deletes, **options).with_outputs()
        columns[mode] = changes(outputs.table | f"{mode} values" >> MapTable(lambda key, row: row["value"]), mode, of_change)
    if "dropped" in table.modes:
        columns["dropped"] = outputs.dropped | beam.Map(of_dropped_record)
    return columns


def _deletes(row: dict[str, Any]) -> bool:
    return bool(row["value"] == DELETE)


def filter_and_map(p: beam.Pipeline, table: Table) -> Columns:
    inputs, upserts = [], []
    for change, *_ in table.rows:
        old, new = (None if value == "-" else int(value) for value in change.split(" → "))
        inputs.append(Change(change, old, new, 0, 0))
        upserts.append((change, new))
    numbers, raw = p | "changes" >> beam.Create(inputs), p | "raw" >> beam.Create(upserts)

    def below_2(key: str, value: int) -> bool:
        return value < 2

    return {
        "filter": changes(numbers | "filter" >> FilterTable(below_2), "filter", of_sides),
        "negate": changes(numbers | "negate" >> FilterTable(below_2, negate=True), "negate", of_sides),
        "map": changes(numbers | "map" >> MapTable(lambda key, value: value * 10), "map", of_sides),
        "stream": numbers | "stream" >> TableToStream() | "streamed" >> beam.Map(of_upsert),
        "raw": raw | "raw filter" >> FilterTable(below_2) | "raw filtered" >> beam.Map(of_upsert),
    }


def foreign_key_messages(p: beam.Pipeline, table: Table) -> Columns:
    del p  # no pipeline sends these messages: they are those of the model in tests/reference
    columns: dict[str, list[Got]] = {mode: [] for mode in table.modes}
    for row in table.rows:
        old, new = (_reference(side) for side in row[0].split(" → "))
        for mode in table.modes:
            hashed = None if new is None else b"#"
            for message in send(mode, b"k", old, new, new_hash=hashed, timestamp=0, position=0):
                if isinstance(message, Subscription):
                    text = f"{message.foreign_key.decode()}: {message.instruction.name}"
                else:
                    text = "at once: null"
                columns[mode].append(Got(row[0], text + " @0"))
    return columns


def _reference(text: str) -> Reference | None:
    return None if text == "-" else Reference(None if text == "null" else text.encode())


def foreign_key_join(p: beam.Pipeline, table: Table) -> Columns:
    return foreign_key_joins(p, table, foreign_key=lambda key, value: fk_of(value))


def foreign_keys_join(p: beam.Pipeline, table: Table) -> Columns:
    return foreign_key_joins(p, table, foreign_keys=lambda key, value: (fk_of(value) or "").split("+") if fk_of(value) else [])


def foreign_key_joins(p: beam.Pipeline, table: Table, **option: Any) -> Columns:
    both = changelog(p, table, 1), changelog(p, table, 2)
    columns: Columns = {}
    for how in [mode for mode in table.modes if mode != "dropped"]:
        outputs = both | how >> ForeignKeyJoin(joiner_of(how), how=how, **option).with_outputs()
        columns[how] = changes(outputs.table, how, of_change)
        columns.setdefault("dropped", outputs.dropped | f"{how} dropped" >> beam.Map(of_dropped_change))
    return columns


def joiner_of(how: str) -> Any:
    """The pair of both values, or the left value itself."""
    return None if how in ("semi", "anti") else pair


def fk_of(value: str) -> str | None:
    """What a value refers to: its part before the slash; nothing if that is ``-``."""
    foreign_key = value.split("/")[0]
    return None if foreign_key == "-" else foreign_key


def one_to_many_join(p: beam.Pipeline, table: Table) -> Columns:
    both = changelog(p, table, 1), changelog(p, table, 2)
    refers: dict[str, Any] = {"foreign_key": lambda key, value: fk_of(value)}
    outputs = both | "pairs" >> OneToManyJoin(pair, **refers).with_outputs()
    keys: dict[str, Any] = {
        "key_mapper": lambda combined: f"{combined.primary_key} of {combined.foreign_key}",
        "key_inverse": lambda text: CombinedKey(*reversed(text.split(" of "))),
    }
    kept: dict[str, PairHow] = {"left": "left", "right": "right", "outer": "outer"}
    tables = {"pairs": outputs.table, "mapped": both | "mapped" >> OneToManyJoin(pair, **refers, **keys)}
    tables |= {name: both | name >> OneToManyJoin(pair, how=how, **refers) for name, how in kept.items()}
    dropped = outputs.dropped | "dropped got" >> beam.Map(of_dropped_change)
    return {"dropped": dropped, **{mode: changes(tables[mode], mode, of_change) for mode in table.modes if mode != "dropped"}}


def many_to_many_join(p: beam.Pipeline, table: Table) -> Columns:
    both = changelog(p, table, 1), changelog(p, table, 2)
    options: dict[str, dict[str, Any]] = {
        "inner": {},
        "outer": {"how": "outer"},
        "conditional": {"how": "outer", "condition": lambda left, right: left.partition("/")[2] < right.partition("/")[2]},
    }
    on: dict[str, Any] = dict.fromkeys(("left_on", "right_on"), lambda key, value: fk_of(value))
    return {mode: changes(both | mode >> ManyToManyJoin(pair, **on, **options[mode]), mode, of_change) for mode in table.modes}


def table_table_join(p: beam.Pipeline, table: Table) -> Columns:
    both = changelog(p, table, 1), changelog(p, table, 2)
    return {how: changes(both | how >> TableTableJoin(joiner_of(how), how=how), how, of_change) for how in table.modes}


def aggregates(p: beam.Pipeline, table: Table) -> Columns:
    rows = changelog(p, table, 1)
    group = {"group_by": lambda key, value: fk_of(value)}
    steps = AggregateTable(
        **group,
        initial="0",
        add=lambda steps, value: f"{steps}+{amount(value)}",
        subtract=lambda steps, value: f"{steps}-{amount(value)}",
    )
    reduced = rows | "amounts" >> MapTable(lambda key, value: (fk_of(value), amount(value)))
    outputs = rows | "count" >> CountTable(**group).with_outputs()
    sums = reduced | "sum" >> SumTable(group_by=lambda key, value: value[0], of=lambda key, value: value[1])
    return {
        "count": changes(outputs.table, "count", of_change),
        "dropped": outputs.dropped | "dropped got" >> beam.Map(of_dropped_change),
        "steps": changes(rows | "steps" >> steps, "steps", of_change),
        "sum": changes(sums, "sum", of_change),
    }


def changes(table: beam.PCollection[Any], label: str, got: Callable[[Change[Any, Any]], Got]) -> beam.PCollection[Any]:
    """The changes of a table as they stand in a result table."""
    return table | f"{label} changes" >> TableToChanges() | f"{label} got" >> beam.Map(got)


def amount(value: str) -> int:
    """The part of a value behind the slash."""
    return int(value.split("/")[1])


def of_change(change: Change[Any, Any]) -> Got:
    return Got(change.position, f"{written(change)} @{change.timestamp}")


def of_sides(change: Change[Any, Any]) -> Got:
    return Got(change.key, f"{side(change.old)} → {side(change.new)} @0")


def of_upsert(element: tuple[str, Any]) -> Got:
    return Got(element[0], f"{'delete' if element[1] is None else element[1]} @0")


def of_joined(element: tuple[Any, Any], time: Any = beam.DoFn.TimestampParam) -> Got:
    """A result of a stream's join whose value brings its place along."""
    of, (at, text) = element
    return Got(at, f"{key(of)}: {text} @{time.micros // MICROS}")


def of_dropped_record(dropped: Dropped) -> Got:
    row = dropped.record[1] if isinstance(dropped.record, tuple) else dropped.record
    value = "delete" if row is None else key(row["value"])
    return Got(row["place"], f"{dropped.reason} {key(row['key'])}: {value} @{dropped.timestamp}")


def of_dropped_change(dropped: Dropped) -> Got:
    change = dropped.record
    return Got(change.position, f"{dropped.reason} {written(change)} @{dropped.timestamp}")
