"""What the ops on tables should give by their definitions, computed naively: one record after the other, in
the order of positions.

Nothing here is shared with the code under test. It is itself held against the recorded answers, wherever
those can be compared record by record; it says what is right for the records that Kafka Streams cannot be
asked about.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance.answer import Out
from tests.conformance.scenario import Input, Scenario
from tests.reference.recomputed import fk_of, null_fk, pair

Row = tuple[str | None, int]
"""A row's value, ``None`` if it was deleted, and its time."""
ABSENT: Row = (None, 0)


class Given:
    """The results of a table, by the input that caused each: no tombstone of a row that is not there."""

    def __init__(self, scenario: Scenario) -> None:
        self.steps: list[list[Out]] = [[] for _ in scenario.inputs]
        self._live: set[str] = set()

    def give(self, record: Input, key: str, value: str | None, ts: int) -> None:
        """The row of a key has this value now."""
        if value is None and key not in self._live:
            return
        (self._live.discard if value is None else self._live.add)(key)
        self.steps[record.number].append(Out(key, value, ts))


def in_order(scenario: Scenario) -> Iterator[tuple[Input, str]]:
    """The records that have a key, by position, each with its key."""
    return ((record, record.key) for record in sorted(scenario.inputs, key=scenario.position) if record.key is not None)


def single_table(scenario: Scenario, kept: Callable[[str, str], bool] = lambda key, value: True) -> list[list[Out]]:
    """A table, filtered."""
    inputs = Given(scenario)
    for record, key in in_order(scenario):
        value = record.value if record.value is not None and kept(key, record.value) else None
        inputs.give(record, key, value, record.ts)
    return inputs.steps


def raw_changelog(scenario: Scenario, kept: Callable[[str, str], bool] = lambda key, value: True) -> list[list[Out]]:
    """A table's records as they are, old values unknown: a record that is filtered out is a tombstone."""
    return [
        [] if r.key is None else [Out(r.key, r.value if r.value is not None and kept(r.key, r.value) else None, r.ts)]
        for r in scenario.inputs
    ]


def joined_row(how: str, left: str | None, right: str | None) -> str | None:
    """The row of two rows of one key."""
    missing = {"inner": None in (left, right), "left": left is None, "outer": left is None and right is None}[how]
    return None if missing else pair("null" if left is None else left, right)


def table_table_join(scenario: Scenario) -> list[list[Out]]:
    """At every record the join of the key's two rows; its time is the larger of the record's and of the other
    row's, if there is one.
    """
    inputs = Given(scenario)
    sides: dict[str, dict[str, Row]] = {"left": {}, "right": {}}
    for record, key in in_order(scenario):
        sides[record.topic][key] = (record.value, record.ts)
        rows = [sides[topic].get(key, ABSENT) for topic in ("left", "right")]
        times = [record.ts, *(ts for value, ts in rows if value is not None)]
        inputs.give(record, key, joined_row(scenario.topology["type"], rows[0][0], rows[1][0]), max(times))
    return inputs.steps


def foreign_key_join(scenario: Scenario) -> list[list[Out]]:
    """A left record joins the row it refers to; a right record joins every left row that refers to it, at its
    own time.

    The time of a left record's result is the larger of both rows'. Where an inner join's reference ends, its
    old right row counts.
    """
    how = scenario.topology["type"]
    inputs = Given(scenario)
    lefts: dict[str, Row] = {}
    rights: dict[str, Row] = {}

    def row(value: str | None) -> str | None:
        reference = None if value is None else fk_of(value)
        right = rights.get(reference, ABSENT)[0] if reference is not None else None
        return None if value is None or (right is None and how == "inner") else pair(value, right)

    for record, key in in_order(scenario):
        if record.topic == "right":
            rights[key] = (record.value, record.ts)
            for subscriber, (value, _) in sorted(lefts.items()):
                if value is not None and fk_of(value) == key:
                    inputs.give(record, subscriber, row(value), record.ts)
            continue
        old = lefts.get(key, ABSENT)[0]
        lefts[key] = (record.value, record.ts)
        ending = how == "inner" and (record.value is None or fk_of(record.value) is None)
        reference = fk_of((old if ending else record.value) or "")
        match = rights.get(reference, ABSENT) if reference is not None else ABSENT
        inputs.give(record, key, row(record.value), record.ts if match[0] is None else max(record.ts, match[1]))
    return inputs.steps


def aggregate(scenario: Scenario) -> list[list[Out]]:
    """A changed row leaves its group before it joins its new one; a group has one result a record, at the
    largest time it has seen.
    """
    inputs = Given(scenario)
    values: dict[str, str | None] = {}
    groups: dict[str, tuple[Any, int]] = {}
    for record, key in in_order(scenario):
        old, values[key] = values.get(key), record.value
        changed = {}
        for value, sign in ((old, "-"), (record.value, "+")):
            group = null_fk(value.partition("|")[0]) if value is not None else None
            if value is not None and group is not None:
                so_far, ts = groups.get(group, (None, record.ts))
                groups[group] = changed[group] = _added(scenario, so_far, sign, value.partition("|")[2]), max(ts, record.ts)
        for group, (result, ts) in sorted(changed.items()):
            inputs.give(record, group, str(result), ts)
    return inputs.steps


def _added(scenario: Scenario, so_far: Any, sign: str, value: str) -> Any:
    kind = scenario.topology["agg"]
    if kind == "count":
        return (so_far or 0) + (1 if sign == "+" else -1)
    return value if so_far is None and kind == "reduce" else f"{so_far or ''}{sign}{value}"


def windowed_counts(scenario: Scenario) -> list[list[Out]]:
    """A count by window; or of two topics, joined."""
    inputs = Given(scenario)
    topology = scenario.topology
    size, advance = topology["size_ms"], topology.get("advance_ms", topology["size_ms"])
    clocks: dict[Any, int] = {}
    sides: dict[str, dict[str, tuple[int, int]]] = {"in": {}, "left": {}, "right": {}}
    for record, key in in_order(scenario):
        clock = clocks[record.topic, key] = max(clocks.get((record.topic, key), record.ts), record.ts)
        newest = record.ts // advance * advance
        for start in sorted(range(newest, record.ts - size, -advance)):
            if start + size <= clock - topology["grace_ms"]:
                continue
            window = f"{key}@{start}-{start + size}"
            count, ts = sides[record.topic].get(window, (0, record.ts))
            sides[record.topic][window] = count + 1, max(ts, record.ts)
            rows = [sides[topic].get(window) for topic in ("in", "left", "right")]
            texts = [str(row[0]) if row else None for row in rows]
            value = texts[0] if record.topic == "in" else joined_row(topology["type"], *texts[1:])
            inputs.give(record, window, value, max(row[1] for row in rows if row))
    return inputs.steps
