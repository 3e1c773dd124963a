"""Random pipelines of the public transforms over random histories, and the contents that their tables must
have, computed from scratch.

All tables have rows ``{"by", "n"}`` under a number as key, so that any transform takes any table, the same
one twice too.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from beam_joins import (
    AggregateTable,
    Change,
    FilterTable,
    ForeignKeyJoin,
    ManyToManyJoin,
    MapTable,
    OneToManyJoin,
    SumTable,
    TableFromChangelog,
    TableTableJoin,
    TableToChanges,
)
from tests.pipelines.streaming.jobs import Append

SOURCES, KEYS, POSITIONS = 3, range(4), range(6)
SCHEMA = pa.schema([("by", pa.int64()), ("n", pa.int64())])
RECORDS = pa.schema([("id", pa.int64()), *SCHEMA, ("at", pa.int64()), ("gone", pa.bool_())])
HOWS = {
    "refer": ("inner", "left", "semi", "anti"),
    "same key": ("inner", "left", "right", "outer", "semi", "anti"),
    "many": ("inner", "left"),
    "equal": ("inner", "left", "right", "outer", "semi", "anti"),
}
Row = dict[str, Any]
Content = dict[int, Row]


class Step(NamedTuple):
    """One transform: what it is applied to, by the numbers of sources and steps before, and its options."""

    kind: str
    inputs: tuple[int, ...]
    how: str = ""
    typed: bool = False
    columns: bool = False
    broadcast: bool | None = None
    conditional: bool = False


class Plan(NamedTuple):
    """A pipeline: which sources have typed columns, and its steps; ``shown`` are those whose changes are
    written, the last one among them.
    """

    typed: tuple[bool, ...]
    steps: tuple[Step, ...]
    shown: frozenset[int]


class Record(NamedTuple):
    """A record of a source's changelog; without a row a delete."""

    source: int
    key: int
    position: int
    row: tuple[int | None, int] | None


def random_plan(draw: Random) -> Plan:
    """Three to six steps; each takes any table before it, the newer ones rather."""
    sources = tuple(draw.random() < 0.5 for _ in range(SOURCES))
    typed, steps = list(sources), []
    for _ in range(draw.randint(3, 6)):
        kind = draw.choice(["filter", "map", "sum", "many", "lists", "aggregates", *["refer"] * 4, *["same key"] * 2, *["equal"] * 3])
        inputs = tuple(
            max(draw.randrange(len(typed)), draw.randrange(len(typed))) for _ in range(2 if kind in (*HOWS, "lists") else 1)
        )
        how = draw.choice(HOWS[kind]) if kind in HOWS else ""
        columns = how == "inner" and kind != "many" and all(typed[each] for each in inputs) and draw.random() < 0.5
        schema = draw.random() < 0.5 and kind != "filter"
        broadcast = draw.choice([None, True, False]) if kind == "refer" else None
        steps.append(Step(kind, inputs, how, schema, columns, broadcast, conditional=kind == "equal" and draw.random() < 0.5))
        is_kept = kind == "filter" or how in ("semi", "anti")
        has_columns = schema or (columns and kind in ("refer", "same key"))  # of pairs sums are made, by a function of one record
        typed.append(typed[inputs[0]] if is_kept else has_columns)
    shown = {number for number in range(len(steps) - 1) if draw.random() < 0.3}
    return Plan(sources, tuple(steps), frozenset({*shown, len(steps) - 1}))


def random_history(draw: Random) -> list[Record]:
    """At most one record for each source, key and position."""
    return [
        Record(source, key, position, None if draw.random() < 0.25 else (draw.choice([None, *KEYS]), draw.randrange(5)))
        for source in range(SOURCES)
        for key in KEYS
        for position in POSITIONS
        if draw.random() < 0.25
    ]


def moved(key: int, row: Row) -> Row:
    return {"by": None if row["by"] is None else (row["by"] + 1) % 4, "n": (row["n"] * 5 + 2) % 11}


def kept(key: int, row: Row) -> bool:
    return bool(row["n"] % 3)


def pair(left: Row | None, right: Row | None) -> Row | None:
    """Depends on both rows and their order, and sometimes gives no row."""
    one, other = left or {"by": None, "n": 3}, right or {"by": None, "n": 7}
    n = (one["n"] * 7 + other["n"] * 3 + 1) % 11
    return None if n == 5 else {"by": other["by"] if one["by"] is None else one["by"], "n": n}


def are_unlike(left: Row, right: Row) -> bool:
    return bool((left["n"] + right["n"]) % 3)


def listed(key: int, row: Row) -> list[int | None]:
    return [row["by"], row["n"] % 4]


def group(key: Any, row: Row) -> int | None:
    return row["by"]


def number(key: Any, row: Row) -> int:
    return row["n"]


def of_group(key: int, row: Row) -> Row:
    return {"by": row["most"] % 4, "n": (row["n"] + row["kinds"]) % 11}


def total(key: int, n: int) -> Row:
    return {"by": n % 4, "n": n % 11}


COLUMNS = {"by": "left.by", "n": "right.n"}


def applied(step: Step, tables: Sequence[Any], label: str) -> Any:
    """The step as it stands in a pipeline."""
    inputs = tuple(tables[each] for each in step.inputs)
    one = inputs[0]
    schema = SCHEMA if step.typed else None
    joiner: Any = None if step.how in ("semi", "anti") else COLUMNS if step.columns else pair
    options: dict[str, Any] = {} if joiner is None or step.columns else {"schema": schema}
    match step.kind:
        case "filter":
            return one | label >> FilterTable(kept)
        case "map":
            return one | label >> MapTable(moved, schema=schema)
        case "refer":
            how: Any = step.how
            join: Any = ForeignKeyJoin(joiner, foreign_key="by", how=how, broadcast=step.broadcast, **options)
            return inputs | label >> join
        case "same key":
            return inputs | label >> TableTableJoin(joiner, how=step.how, **options)  # type: ignore[arg-type]
        case "aggregates":
            aggregates = {"most": "max(n)", "n": "sum(n)", "kinds": "count_distinct(n)"}
            of_groups = one | f"{label} groups" >> AggregateTable(aggregates, group_by="by")
            return of_groups | label >> MapTable(of_group, schema=schema)
        case "many":
            how_many: Any = step.how
            pairs = inputs | f"{label} pairs" >> OneToManyJoin(pair, foreign_key="by", how=how_many, schema=schema)
        case "equal":
            condition = are_unlike if step.conditional else None
            equal: Any = ManyToManyJoin(joiner, on="by", condition=condition, how=step.how, **options)  # type: ignore[arg-type]
            if step.how in ("semi", "anti"):
                return inputs | label >> equal
            pairs = inputs | f"{label} pairs" >> equal
        case "lists":
            pairs = inputs | f"{label} pairs" >> ForeignKeyJoin(pair, foreign_keys=listed, schema=schema)
        case _:
            pairs = one
    sums = pairs | f"{label} sums" >> SumTable(group_by=group, of=number)
    return sums | label >> MapTable(total, schema=schema)


def computed(step: Step, contents: Sequence[Content], groups: set[int]) -> Content:
    """What the step means; ``groups`` are those that have had a row: their sums stay, and it takes note of
    new ones.
    """
    one, other = contents[step.inputs[0]], contents[step.inputs[-1]]
    join: Callable[..., Row | None] = (lambda left, right: {"by": left["by"], "n": right["n"]}) if step.columns else pair
    actual: dict[Any, Row | None]
    match step.kind:
        case "filter":
            return {key: row for key, row in one.items() if kept(key, row)}
        case "map":
            return {key: moved(key, row) for key, row in one.items()}
        case "refer" | "same key":
            matches = {key: other.get(row["by"] if step.kind == "refer" else key) for key, row in one.items()}
            if step.how in ("semi", "anti"):
                return {key: row for key, row in one.items() if (matches[key] is not None) == (step.how == "semi")}
            lefts = one if step.how in ("left", "outer") else {key for key in one if matches[key] is not None}
            actual = {key: join(one[key], matches[key]) for key in one if key in lefts or step.how in ("left", "outer")}
            if step.how in ("right", "outer"):
                actual |= {key: join(one.get(key), row) for key, row in other.items()}
            return {key: row for key, row in actual.items() if row is not None}
        case "aggregates":
            members = defaultdict(list)
            for row in one.values():
                if row["by"] is not None:
                    members[row["by"]].append(row["n"])
            rows = {by: {"most": max(each), "n": sum(each), "kinds": len(set(each))} for by, each in members.items()}
            return {by: of_group(by, row) for by, row in rows.items()}
        case "many":  # the one is the left side
            actual = {(row["by"], key): join(one[row["by"]], row) for key, row in other.items() if row["by"] in one}
            if step.how == "left":
                referred = {by for by, _ in actual}
                actual |= {(key, None): join(row, None) for key, row in one.items() if key not in referred}
        case "equal":
            met = {
                (one_key, key)
                for one_key, left in one.items()
                for key, right in other.items()
                if left["by"] is not None and left["by"] == right["by"] and (not step.conditional or are_unlike(left, right))
            }
            lefts, rights = {left for left, _ in met}, {right for _, right in met}
            if step.how in ("semi", "anti"):
                return {key: row for key, row in one.items() if (key in lefts) == (step.how == "semi")}
            actual = {(left, right): join(one[left], other[right]) for left, right in met}
            if step.how in ("left", "outer"):
                actual |= {(key, None): join(row, None) for key, row in one.items() if key not in lefts}
            if step.how in ("right", "outer"):
                actual |= {(None, key): join(None, row) for key, row in other.items() if key not in rights}
        case "lists":
            actual = {(to, key): join(row, other[to]) for key, row in one.items() for to in listed(key, row) if to in other}
        case _:
            actual = dict(one)
    sums: dict[int, int] = defaultdict(int, dict.fromkeys(groups, 0))
    for row in actual.values():
        if row is not None and row["by"] is not None:
            sums[row["by"]] += row["n"]
    groups.update(sums)
    return {key: total(key, n) for key, n in sums.items()}


def contents(plan: Plan, history: Sequence[Record], *, rebuilt_at: int | None = None) -> list[list[Content]]:
    """At each position the content of each step's table after all records up to and including it; ``rebuilt_at`` is a position
    before which no group of a sum is remembered.
    """
    sources: list[Content] = [{} for _ in range(SOURCES)]
    groups: list[set[int]] = [set() for _ in plan.steps]
    actual = []
    for position in POSITIONS:
        for record in history:
            if record.position == position:
                sources[record.source].pop(record.key, None)
                if record.row is not None:
                    sources[record.source][record.key] = dict(zip(SCHEMA.names, record.row, strict=True))
        tables = [dict(source) for source in sources]
        if position == rebuilt_at:
            groups = [set() for _ in plan.steps]
        for step, seen in zip(plan.steps, groups, strict=True):
            tables.append(computed(step, tables, seen))
        actual.append(tables[SOURCES:])
    return actual


def build(pipeline: beam.Pipeline, plan: Plan, history: Sequence[Record], out: Path, name: str = "plan") -> list[Any]:
    """Put the plan into a pipeline that appends its changes to files: ``[name, number of the step, key, old,
    new, time, position]``; gives the tables of sources and steps.
    """
    tables = []
    for source, typed in enumerate(plan.typed):
        rows = [
            {"id": key, "by": row and row[0], "n": row and row[1], "at": position, "gone": row is None}
            for of, key, position, row in history
            if of == source
        ]
        made = beam.Create([pa.Table.from_pylist(rows, RECORDS)]) if typed else beam.Create(rows)
        read = pipeline | f"{name} read {source}" >> made.with_output_types(pa.Table if typed else dict)
        tables.append(
            read
            | f"{name} source {source}"
            >> TableFromChangelog(
                key="id",
                sequence_by="at",
                timestamp_by="at",
                apply_as_deletes="gone",
                except_columns=["id", "at", "gone"],
                schema=RECORDS if typed else None,
            )
        )
    for step in plan.steps:
        tables.append(applied(step, tables, f"{name} {len(tables)} {step.kind}"))
    for at in plan.shown:
        changes = tables[SOURCES + at] | f"{name} changes {at}" >> TableToChanges()
        lines = changes | f"{name} lines {at}" >> beam.Map(lambda change, name, at: [name, at, *change], name, at)
        _ = lines | f"{name} append {at}" >> beam.ParDo(Append(out))
    return tables


def wrong(plan: Plan, history: Sequence[Record], lines: Sequence[Any]) -> list[str]:
    """What the changes of a plan show that its contents are not, or are no table at all."""
    message, of_steps = [], contents(plan, history)
    for at in sorted(plan.shown):
        changes = [Change(*line[2:]) for line in lines if line[1] == at]
        by_place = {(change.key, change.position): change for change in changes}
        if len(by_place) < len(changes):
            message.append(f"step {at}: two changes of one key at one position: {changes}")
        before: Content = {}
        for position in POSITIONS:
            expected = of_steps[position][at]
            for key in before.keys() | expected.keys() | {key for key, place in by_place if place == position}:
                old, new, change = before.get(key), expected.get(key), by_place.pop((key, position), None)
                if (change.old, change.new) != (old, new) if change else old != new:
                    message.append(f"step {at}, position {position}, key {key}: {old} -> {new} is {change}")
                if change and change.old is None and change.new is None:
                    message.append(f"step {at}, position {position}: a change from nothing to nothing: {change}")
            before = expected
        message += [f"step {at}: {change} at a position of no record" for change in by_place.values()]
    return message
