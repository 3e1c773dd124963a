"""Scenarios through the kernels, without Beam: what the ops share."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

import beam_joins.coders.beam_values  # noqa: F401  # says how Python objects are written
from beam_joins import Change
from beam_joins.elements.content import Emit
from beam_joins.functions.joiner import Join, joiner_in_columns
from beam_joins.keys.opaque import opaque_keys, opaque_values
from beam_joins.tables import changelog
from beam_joins.tables.batch import ChangeBatch
from tests.conformance.operators import Cuts
from tests.conformance.scenario import Input, Scenario
from tests.conformance.values import JOINERS, VALUE, Values, text_of, value_of
from tests.properties.strategies import split


def cuts_of(scenario: Scenario, runs: int) -> list[int]:
    """Where a scenario's history is cut into so many runs, of about equally many inputs each."""
    positions = sorted(map(scenario.position, scenario.inputs))
    return [positions[len(positions) * run // runs] - 1 for run in range(1, runs) if positions]


def rows_of(scenario: Scenario, records: Sequence[Input], values: Values) -> pa.Table:
    """Records as the rows that kernels take."""
    keys, inputs = [record.key for record in records], [value_of(record) for record in records]
    return pa.table({
        "key": pa.array(keys, pa.string()) if values == "typed" else opaque_keys(keys),
        "value": pa.array(inputs, VALUE) if values == "typed" else opaque_values(inputs),
        "timestamp": pa.array([record.ts * 1000 for record in records], pa.int64()),
        "position": pa.array([scenario.position(record) for record in records], pa.int64()),
    })  # fmt: skip


def table_of(scenario: Scenario, topic: str, values: Values, cuts: Cuts, emit: Emit = "records") -> Iterator[ChangeBatch]:
    """The table of a topic, run by run.

    By default tombstones of absent rows are changes too, as Kafka forwards them.
    """
    state = changelog.ChangelogState()
    for rows in split(rows_of(scenario, scenario.arrivals(topic), values), cuts):
        batch, _, state = changelog.step(state, rows, emit)
        yield batch


def right_rows(table: ChangeBatch) -> pa.Table:
    """The right rows of a join."""
    return pa.table({"key": table.key, "value": table.new, "timestamp": table.timestamp, "position": table.position})


def recorded_joiner(values: Values) -> Join:
    """The recorded joiner."""
    return joiner_in_columns(JOINERS[values])


def texts(*batches: ChangeBatch, shown: Callable[[Any], str] = text_of, name: Callable[[Any], str] = str) -> list[Change[str, str]]:
    """The changes of batches as text; ``shown`` gives that of a value, ``name`` that of a key."""
    return [
        Change(name(key), None if old is None else shown(old), None if new is None else shown(new), timestamp, position)
        for batch in batches
        for key, old, new, timestamp, position in batch
    ]
