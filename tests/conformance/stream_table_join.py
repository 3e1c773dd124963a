"""``stream_table_join`` and ``stream_global_table_join``: a stream whose records look rows of a table up."""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks
from beam_joins.functions.marked_functions import keys_of
from beam_joins.functions.pairs import Pairs
from beam_joins.keys.opaque import python_values
from beam_joins.tables.versions import as_of
from tests.conformance import stream_rules
from tests.conformance.answer import Run
from tests.conformance.kernels import recorded_joiner, right_rows, rows_of, table_of
from tests.conformance.operators import Cuts, Operator
from tests.conformance.scenario import Scenario
from tests.conformance.stream_judge import judge_stream_table
from tests.conformance.stream_rules import stream_position
from tests.conformance.streams import padded_pair, unmatched
from tests.conformance.values import Values, pair_of
from tests.properties.strategies import split
from tests.reference import recomputed
from tests.reference.record import Record
from tests.reference.stream_lookup import StreamLookup

Lookup = Callable[[str | None, str], str | None]
"""The key of the row that a stream record looks up, given its key and value."""


def _own_key(key: str | None, value: str) -> str | None:
    return key


def _fk(key: str | None, value: str) -> str | None:
    return recomputed.fk_of(value)


def _reference(lookup: Lookup) -> Callable[[Scenario], Run]:
    def look_up(event: Record) -> bytes:
        assert event.value is not None
        key, value, _ = json.loads(event.value)
        return json.dumps(lookup(key, value)).encode()

    def joined(value: bytes, row: bytes | None) -> tuple[int, str | None, str]:
        key, text, index = json.loads(value)
        return index, key, padded_pair(text, None if row is None else row.decode())

    def reference(scenario: Scenario) -> Run:
        how = scenario.topology["type"]
        outs, events = [], defaultdict(list)
        for row in scenario.records("right"):
            route = json.dumps(row.key.decode()).encode()
            events[row.position, route].append(row._replace(key=route, input=0))
        for record in scenario.inputs:
            if record.topic != "left" or record.value is None:
                continue
            key = lookup(record.key, record.value)
            if key is None:
                outs += [unmatched(record, padded_pair(record.value, None))] if how == "left" else []
                continue
            position = stream_position(scenario.topology, scenario.position(record))
            value = json.dumps([record.key, record.value, record.number]).encode()
            events[position, json.dumps(key).encode()].append(Record(b"", value, record.ts * 1000, position, 1))
        cores: dict[bytes, StreamLookup[Any]] = defaultdict(lambda: StreamLookup(joined, how, look_up))
        for (position, route), at in sorted(events.items()):
            for result in cores[route].advance(position, sorted(at, key=lambda event: event.input)):
                outs.append((*result.value, result.timestamp))
        return Run(outs=outs, rows={})

    return reference


def _kernels(references: Callable[[pa.Table], pa.Array]) -> Callable[[Scenario, Values, Cuts], Run]:
    def kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
        records = [record for record in scenario.inputs if record.topic == "left" and record.value is not None]
        positions = [stream_position(scenario.topology, scenario.position(record)) for record in records]
        stream = rows_of(scenario, records, values).set_column(3, "position", pa.array(positions, pa.int64()))
        seen: list[pa.Table] = []
        outs = []
        for rows, table in zip(split(stream, cuts), table_of(scenario, "right", values, cuts), strict=True):
            seen.append(right_rows(table))
            rights = pa.concat_tables(seen)
            right = as_of(rows.append_column("reference", references(rows)), rights)
            left = np.flatnonzero((right >= 0) | (scenario.topology["type"] == "left"))
            inputs = combine_chunks(rows["value"])
            joined = recorded_joiner(values)(Pairs(inputs, left, combine_chunks(rights["value"]), right[left]))
            numbers = (row["number"] for row in python_values(inputs.take(pa.array(left))))
            outs += [(scenario.inputs[at], pair_of(row)) for at, row in zip(numbers, python_values(joined), strict=True)]
        return Run(outs=[(record.number, record.key, text, record.ts * 1000) for record, text in outs], rows={})

    return kernels


def _own_keys(stream: pa.Table) -> pa.Array:
    return combine_chunks(stream["key"])


def _foreign_keys(stream: pa.Table) -> pa.Array:
    return keys_of("foreign_key", "reference", combine_chunks(stream["value"]))


TABLE_JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels(_own_keys),
    reference=_reference(_own_key),
    rule=lambda scenario: stream_rules.stream_table_join(scenario, _own_key),
    judge=judge_stream_table,
)
GLOBAL_TABLE_JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels(_foreign_keys),
    reference=_reference(_fk),
    rule=lambda scenario: stream_rules.stream_table_join(scenario, _fk),
)
