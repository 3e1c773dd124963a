"""``stream_table_join`` and ``stream_global_table_join``: a stream whose records look rows of a table up."""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins import StreamForeignKeyJoin, StreamTableJoin
from beam_joins.functions import keys_of
from beam_joins.keys.opaque import python_values
from beam_joins.pairs import Pairs
from beam_joins.record import Record
from beam_joins.sorting import combine_chunks
from beam_joins.versions import as_of
from tests.conformance import stream_rules
from tests.conformance.answer import Run
from tests.conformance.kernels import recorded_joiner, right_rows, rows_of, table_of
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import STEPS, Scenario
from tests.conformance.stream_judge import judge_stream_table
from tests.conformance.stream_rules import stream_position
from tests.conformance.streams import out_of, padded_pair, stream_of, unmatched
from tests.conformance.tables import ChangelogTable
from tests.conformance.values import Values, pair_of
from tests.reference import recomputed
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


def _kernels(references: Callable[[pa.Table], pa.Array]) -> Callable[[Scenario, Values], Run]:
    def kernels(scenario: Scenario, values: Values) -> Run:
        records = [record for record in scenario.inputs if record.topic == "left" and record.value is not None]
        stream, table = rows_of(scenario, records, values), table_of(scenario, "right", values)
        positions = [stream_position(scenario.topology, scenario.position(record)) for record in records]
        asking = pa.table({"reference": references(stream), "position": pa.array(positions, pa.int64())})
        right = as_of(asking, right_rows(table))
        left = np.flatnonzero((right >= 0) | (scenario.topology["type"] == "left"))
        joined = recorded_joiner(values)(Pairs(combine_chunks(stream["value"]), left, table.new, right[left]))
        rows = zip((records[i] for i in left.tolist()), python_values(joined), strict=True)
        return Run(outs=[(record.number, record.key, pair_of(row), record.ts * 1000) for record, row in rows], rows={})

    return kernels


def _own_keys(stream: pa.Table) -> pa.Array:
    return combine_chunks(stream["key"])


def _foreign_keys(stream: pa.Table) -> pa.Array:
    return keys_of("foreign_key", "reference", combine_chunks(stream["value"]))


def _joined_row(left: dict[str, Any], right: str | None) -> tuple[int, int, str]:
    return left["number"], left["position"] % STEPS, padded_pair(left["value"], right)


def _table_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    stream, table = stream_of(inputs["left"], "Stream"), inputs["right"] | "Table" >> ChangelogTable()
    joined = (stream, table) | StreamTableJoin(
        _joined_row, how=topology["type"], sequence_by=lambda key, row: stream_position(topology, row["position"])
    )
    return Streams(outs=joined | "Out" >> beam.Map(out_of))


def _numbered_fk(key: str | None, row: dict[str, Any]) -> str | None:
    foreign_key = recomputed.fk_of(row["value"])
    return None if foreign_key is None else f"{row['number']}/{foreign_key}"


def _global_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    stream, table = stream_of(inputs["left"], "Stream"), inputs["right"] | "Table" >> ChangelogTable()
    joined = (stream, table) | StreamForeignKeyJoin(
        foreign_key=_numbered_fk, joiner=_joined_row, how=topology["type"], sequence_by="position"
    )
    return Streams(outs=joined | "Out" >> beam.Map(out_of))


TABLE_JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels(_own_keys),
    reference=_reference(_own_key),
    pipeline=_table_pipeline,
    branch=lambda topology: (topology["type"], topology.get("history_retention_ms") is not None, bool(topology.get("grace_ms"))),
    rule=lambda scenario: stream_rules.stream_table_join(scenario, _own_key),
    judge=judge_stream_table,
)
GLOBAL_TABLE_JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels(_foreign_keys),
    reference=_reference(_fk),
    pipeline=_global_pipeline,
    branch=lambda topology: topology["type"],
    rule=lambda scenario: stream_rules.stream_table_join(scenario, _fk),
)
