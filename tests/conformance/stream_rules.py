"""What the joins of streams should give by their definitions, computed naively: every record against every
other.

Nothing here is shared with the code under test, see :mod:`tests.conformance.table_rules`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.conformance.answer import Out
from tests.conformance.scenario import STEPS, Input, Scenario
from tests.reference.recomputed import pair

KEEPS = {"inner": (), "left": ("left",), "outer": ("left", "right")}
"""The sides whose records come out without a match, by type of join."""


def looked_up(scenario: Scenario, record: Input, row_key: str | None) -> Input | None:
    """The newest table record of a key that a stream record sees: as of its position, with a grace all of its
    own time (finding 23).
    """
    position = stream_position(scenario.topology, scenario.position(record))
    seen = [r for r in scenario.arrivals("right") if r.key == row_key and scenario.position(r) <= position]
    return max(seen, key=scenario.position, default=None)


def stream_position(topology: Mapping[str, Any], position: int) -> int:
    """The position of a stream record: with a grace it waits, and sees all changes of its own time (finding
    23).
    """
    return position // STEPS * STEPS + STEPS - 1 if topology.get("grace_ms") else position


def stream_table_join(scenario: Scenario, row_key: Callable[[str | None, str], str | None]) -> list[list[Out]]:
    """Each stream record with the row of the key that it looks up, at its own time."""
    steps: list[list[Out]] = [[] for _ in scenario.inputs]
    for record in scenario.inputs:
        if record.topic != "left" or record.value is None:
            continue
        key = row_key(record.key, record.value)
        row = looked_up(scenario, record, key) if key is not None else None
        value = row.value if row is not None else None
        if value is not None or scenario.topology["type"] == "left":
            steps[record.number].append(Out(record.key, pair(record.value, value), record.ts))
    return steps


class Match(NamedTuple):
    """Two records of one key within the window of each other."""

    left: Input
    right: Input

    @property
    def first(self) -> Input:
        """The record that came first."""
        return min(self, key=lambda record: record.number)

    @property
    def last(self) -> Input:
        """The record that came last."""
        return max(self, key=lambda record: record.number)

    @property
    def out(self) -> Out:
        """The result, at the larger of both times."""
        assert self.left.value is not None
        return Out(self.left.key, pair(self.left.value, self.right.value), max(self.left.ts, self.right.ts))


def usable(scenario: Scenario) -> list[Input]:
    """The records of both streams that have a key and a value."""
    return [record for record in scenario.inputs if record.key is not None and record.value is not None]


def in_window(scenario: Scenario) -> Iterator[Match]:
    """Every pair with ``left time - before <= right time <= left time + after``, late records included."""
    before, after = scenario.topology["before_ms"], scenario.topology["after_ms"]
    for left in usable(scenario):
        for right in usable(scenario):
            if (left.topic, right.topic) == ("left", "right") and left.key == right.key and -before <= right.ts - left.ts <= after:
                yield Match(left, right)


def late(scenario: Scenario) -> set[Input]:
    """The records more than ``grace`` behind the largest time of their key among the records before them."""
    behind, clocks = set(), dict[str | None, int]()
    for record in usable(scenario):
        clock = clocks[record.key] = max(clocks.get(record.key, record.ts), record.ts)
        if record.ts + scenario.topology["grace_ms"] < clock:
            behind.add(record)
    return behind


def unmatched(record: Input) -> Out:
    """The result of a record without a match, at its own time."""
    sides = (record.value, "null") if record.topic == "left" else ("null", record.value)
    return Out(record.key, f"({sides[0]},{sides[1]})", record.ts)


def stream_stream_join(scenario: Scenario) -> list[list[Out]]:
    """Every pair of records that are not late, and those without a match on the sides that are kept."""
    steps: list[list[Out]] = [[] for _ in scenario.inputs]
    behind = late(scenario)
    matches = [match for match in in_window(scenario) if not behind & set(match)]
    matched = {record for match in matches for record in match}
    for match in matches:
        steps[match.last.number].append(match.out)
    for record in scenario.inputs:
        if record.value is not None and record not in matched | behind and record.topic in KEEPS[scenario.topology["type"]]:
            steps[record.number].append(unmatched(record))
    return steps
