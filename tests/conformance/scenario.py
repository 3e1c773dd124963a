"""A scenario: what is fed to a topology, and when each record counts."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from tests.reference.record import Record

STEPS = 1_000_000
"""More than the inputs of any scenario: what separates the index of an input from its time in one position.
"""


class Input(NamedTuple):
    """One record, the ``number``-th from 0; ``ts`` is in milliseconds, ``hold`` says that the next record is
    fed before this one is drained.
    """

    number: int
    topic: str
    key: str | None
    value: str | None
    ts: int
    hold: bool = False


class Scenario:
    """A topology and its inputs.

    A record's position is its index, for Kafka's order is the order of arrival; in a versioned topology it is
    its time, and among records of one time the index.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.name: str = document["name"]
        self.topology: dict[str, Any] = document["topology"]
        self.op: str = self.topology["op"]
        self.inputs = [
            Input(i, record["topic"], record["key"], record["value"], record["ts"], record.get("hold", False))
            for i, record in enumerate(document["inputs"])
        ]
        if len(self.inputs) >= STEPS:
            raise ValueError(f"{self.name} has {len(self.inputs)} inputs: the tool takes less than {STEPS}")

    @cached_property
    def retention(self) -> dict[str, int]:
        """For each versioned topic how much of its history Kafka keeps, in milliseconds."""
        names = {"in": "history_retention_ms", "left": "left_history_retention_ms", "right": "right_history_retention_ms"}
        return {topic: self.topology[name] for topic, name in names.items() if self.topology.get(name) is not None}

    @property
    def has_records_in_flight(self) -> bool:
        """True if a record was fed before the one before it was drained."""
        return any(record.hold for record in self.inputs)

    @property
    def goes_back(self) -> bool:
        """True if the time of a record lies before that of a record of any topic that came earlier."""
        times = [record.ts for record in self.inputs if record.key is not None]
        return times != sorted(times)

    def position(self, record: Input) -> int:
        """The position of an input."""
        return record.ts * STEPS + record.number if self.retention else record.number

    def by_position(self) -> list[int]:
        """The indexes of the inputs in the order of their positions."""
        return [record.number for record in sorted(self.inputs, key=self.position)]

    def arrivals(self, topic: str) -> list[Input]:
        """The inputs of a topic that have a key."""
        return [record for record in self.inputs if record.topic == topic and record.key is not None]

    def records(self, topic: str) -> Iterator[Record]:
        """The inputs of a topic as the pure cores take them; a table drops null keys."""
        for record in self.arrivals(topic):
            assert record.key is not None
            value = None if record.value is None else record.value.encode()
            yield Record(record.key.encode(), value, record.ts * 1000, self.position(record))

    @cached_property
    def expired(self) -> set[Input]:
        """The records that Kafka refuses, because they are older than the history that it keeps."""
        now: dict[str, int] = {}
        expired = set()
        for record in self.inputs:
            if record.key is None or record.topic not in self.retention:
                continue
            time = now[record.topic] = max(now.get(record.topic, record.ts), record.ts)
            if record.ts < time - self.retention[record.topic]:
                expired.add(record)
        return expired

    def newest_expired(self) -> list[Input]:
        """Those of the expired records that are the newest of their rows."""
        newest = {(r.topic, r.key): r for r in sorted(self.inputs, key=self.position) if r.topic in self.retention}
        return [record for record in newest.values() if record in self.expired]


def step(position: int) -> int:
    """The index of the input at a position."""
    return position % STEPS
