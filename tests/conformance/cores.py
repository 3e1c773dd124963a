"""Scenarios through the cores of :mod:`tests.reference`: what the ops share."""

from collections.abc import Callable, Sequence
from typing import Any

from beam_joins import Change
from beam_joins.elements.content import Emit
from tests.conformance.answer import Run
from tests.conformance.scenario import Scenario
from tests.reference.operators import changes_of, upsert_table


def core_table(scenario: Scenario, topic: str, emit: Emit = "records") -> list[Change[str, str]]:
    """The table of a topic. By default tombstones of absent rows are changes too, as Kafka forwards them."""
    return [as_text(change) for change in changes_of(upsert_table(scenario.records(topic), emit))]


def as_text(change: Change[bytes, Any]) -> Change[str, str]:
    """The change with key and values as text."""
    return renamed(change, change.key.decode(), _text)


def renamed(change: Change[Any, Any], key: str, shown: Callable[[Any], str] = str) -> Change[str, str]:
    """The change with another key, and its values as text."""
    _, old, new, timestamp, position = change
    return Change(key, None if old is None else shown(old), None if new is None else shown(new), timestamp, position)


def core_run(changes: Sequence[Change[str, str]]) -> Run:
    """A result table as a run."""
    return Run(changes=[(c.position, c.key, c.old, c.new, c.timestamp) for c in changes])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
