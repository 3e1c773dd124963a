"""``stream_table_join``, ``stream_global_table_join`` and ``stream_stream_join``: the joins of streams."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins import StreamForeignKeyJoin, StreamTableJoin, WindowedStreamJoin, vectorized
from beam_joins.record import Record
from tests.conformance import stream_rules
from tests.conformance.answer import Run
from tests.conformance.columns import pair_of
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import STEPS, Input, Scenario
from tests.conformance.stream_judge import judge_stream_table
from tests.conformance.stream_rules import stream_position
from tests.conformance.stream_stream_judge import judge_stream_stream
from tests.conformance.tables import ChangelogTable
from tests.reference import recomputed
from tests.reference.stream_join import Joined, StreamJoin
from tests.reference.stream_lookup import StreamLookup

Lookup = Callable[[str | None, str], str | None]
"""The key of the row that a stream record looks up, given its key and value."""


def _own_key(key: str | None, value: str) -> str | None:
    return key


def _fk(key: str | None, value: str) -> str | None:
    return recomputed.fk_of(value)


def _pair(left: str | None, right: str | None) -> str:
    return recomputed.pair("null" if left is None else left, right)


def _padded(record: Input, text: str) -> tuple[int, str | None, str, int]:
    return record.number, record.key, text, record.ts * 1000


def _lookup_core(lookup: Lookup) -> Callable[[Scenario], Run]:
    def look_up(event: Record) -> bytes:
        assert event.value is not None
        key, value, _ = json.loads(event.value)
        return json.dumps(lookup(key, value)).encode()

    def joined(value: bytes, row: bytes | None) -> tuple[int, str | None, str]:
        key, text, index = json.loads(value)
        return index, key, _pair(text, None if row is None else row.decode())

    def core(scenario: Scenario) -> Run:
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
                outs += [_padded(record, _pair(record.value, None))] if how == "left" else []
                continue
            position = stream_position(scenario.topology, scenario.position(record))
            value = json.dumps([record.key, record.value, record.number]).encode()
            events[position, json.dumps(key).encode()].append(Record(b"", value, record.ts * 1000, position, 1))
        cores: dict[bytes, StreamLookup[Any]] = defaultdict(lambda: StreamLookup(joined, how, look_up))
        for (position, route), at in sorted(events.items()):
            for result in cores[route].advance(position, sorted(at, key=lambda event: event.input)):
                outs.append((*result.value, result.timestamp))
        return Run(outs=outs, rows={})

    return core


def _stream_core(scenario: Scenario) -> Run:
    topology = scenario.topology
    how, kept = topology["type"], {"inner": (), "left": ("left",), "outer": ("left", "right")}[topology["type"]]
    spans = {name: topology[f"{name}_ms"] * 1000 for name in ("before", "after", "grace")}

    def joined(left: bytes | None, right: bytes | None) -> tuple[int, str]:
        (i, left_text), (j, right_text) = (json.loads(side) if side else (-1, None) for side in (left, right))
        return max(i, j), _pair(left_text, right_text)

    outs: list[tuple[int, str | None, str, int]] = []
    cores: dict[str, StreamJoin[Any]] = defaultdict(lambda: StreamJoin(joined, how, **spans))

    def put(key: str, results: Iterator[Any]) -> None:
        outs.extend((result.value[0], key, result.value[1], result.timestamp) for result in results if isinstance(result, Joined))

    for record in scenario.inputs:
        if record.value is None:
            continue
        if record.key is None:
            sides = (record.value, None) if record.topic == "left" else (None, record.value)
            outs += [_padded(record, _pair(*sides))] if record.topic in kept else []
            continue
        value, side = json.dumps([record.number, record.value]).encode(), 0 if record.topic == "left" else 1
        event = Record(record.key.encode(), value, record.ts * 1000, record.number, side)
        put(record.key, cores[record.key].advance(record.number, [event]))
    for key, core in cores.items():
        put(key, core.finish())
    return Run(outs=outs, rows={})


def _timed(row: dict[str, Any]) -> Any:
    return TimestampedValue((row["key"], None if row["value"] is None else row), Timestamp(micros=row["ts"] * 1000))


def _stream(rows: PCollection[Any], name: str) -> PCollection[Any]:
    types = beam.typehints.KV[beam.typehints.Optional[str], beam.typehints.Any]
    stream: PCollection[Any] = rows | name >> beam.Map(_timed).with_output_types(types)
    return stream


def _joined_rows(left: dict[str, Any] | None, right: dict[str, Any] | None) -> tuple[int, int, str]:
    rows = [row for row in (left, right) if row is not None]
    texts = (None if row is None else row["value"] for row in (left, right))
    return rows[0]["number"], max(row["position"] % STEPS for row in rows), _pair(*texts)


def _joined_row(left: dict[str, Any], right: str | None) -> tuple[int, int, str]:
    return left["number"], left["position"] % STEPS, _pair(left["value"], right)


def _out(element: tuple[str | None, tuple[int, int, str]]) -> Any:
    key, (number, index, text) = element
    return (str(number) if key is None else key, index), text


def _table_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    stream, table = _stream(inputs["left"], "Stream"), inputs["right"] | "Table" >> ChangelogTable()
    joined = (stream, table) | StreamTableJoin(
        _joined_row, how=topology["type"], sequence_by=lambda key, row: stream_position(topology, row["position"])
    )
    return Streams(outs=joined | "Out" >> beam.Map(_out))


def _numbered_fk(key: str | None, row: dict[str, Any]) -> str | None:
    foreign_key = recomputed.fk_of(row["value"])
    return None if foreign_key is None else f"{row['number']}/{foreign_key}"


def _global_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    stream, table = _stream(inputs["left"], "Stream"), inputs["right"] | "Table" >> ChangelogTable()
    joined = (stream, table) | StreamForeignKeyJoin(
        foreign_key=_numbered_fk, joiner=_joined_row, how=topology["type"], sequence_by="position"
    )
    return Streams(outs=joined | "Out" >> beam.Map(_out))


def _stream_pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = _stream(inputs["left"], "Left"), _stream(inputs["right"], "Right")
    spans = {name: Duration(micros=topology[f"{name}_ms"] * 1000) for name in ("before", "after", "grace")}
    joined = (left, right) | WindowedStreamJoin(_joined_rows, how=topology["type"], **spans, sequence_by="position")
    return Streams(outs=joined | "Out" >> beam.Map(_out))


@vectorized
def _joined_columns(left: pa.RecordBatch, right: pa.RecordBatch) -> dict[str, pa.Array]:
    sides = {"left": left["text"], "right": right["text"], "number": pc.coalesce(left["number"], right["number"])}
    return sides | {"position": pc.max_element_wise(left["position"], right["position"])}


def _rows_out(batch: pa.RecordBatch) -> Iterator[Any]:
    for row in batch.to_pylist():
        out = row["key"], (row["value"]["number"], row["value"]["position"] % STEPS, pair_of(row["value"]))
        yield TimestampedValue(_out(out), Timestamp(micros=row["timestamp"]))


def _stream_columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    spans = {name: Duration(micros=topology[f"{name}_ms"] * 1000) for name in ("before", "after", "grace")}
    columns = {"key": "key", "timestamp_by": "at", "sequence_by": "position"}
    # A row in columns has no null value: a record without one is none.
    left, right = (
        inputs[topic]
        | f"{topic} values" >> beam.Map(lambda rows: rows.filter(pc.field("deleted") == pc.scalar(False))).with_output_types(pa.Table)
        for topic in ("left", "right")
    )
    joined = (left, right) | WindowedStreamJoin(_joined_columns, how=topology["type"], **spans, **columns)
    return Streams(outs=joined | "Out" >> beam.FlatMap(_rows_out))


TABLE_JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    core=_lookup_core(_own_key),
    pipeline=_table_pipeline,
    branch=lambda topology: (topology["type"], topology.get("history_retention_ms") is not None, bool(topology.get("grace_ms"))),
    rule=lambda scenario: stream_rules.stream_table_join(scenario, _own_key),
    judge=judge_stream_table,
)
GLOBAL_TABLE_JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    core=_lookup_core(_fk),
    pipeline=_global_pipeline,
    branch=lambda topology: topology["type"],
    rule=lambda scenario: stream_rules.stream_table_join(scenario, _fk),
)
STREAM_JOIN = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    core=_stream_core,
    pipeline=_stream_pipeline,
    columns=_stream_columns,
    branch=lambda topology: tuple(topology[name] for name in ("type", "before_ms", "after_ms", "grace_ms")),
    rule=stream_rules.stream_stream_join,
    judge=judge_stream_stream,
)
