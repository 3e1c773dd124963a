"""``stream_stream_join``: two streams by closeness in time."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins import WindowedStreamJoin, vectorized
from beam_joins.interval import Matches, Spans, finish, step
from beam_joins.keys.opaque import python_keys, python_values
from beam_joins.pairs import Pairs
from beam_joins.record import Record
from beam_joins.sorting import combine_chunks
from tests.conformance import stream_rules
from tests.conformance.answer import Run
from tests.conformance.kernels import recorded_joiner, rows_of
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import STEPS, Scenario
from tests.conformance.stream_stream_judge import judge_stream_stream
from tests.conformance.streams import out_of, padded_pair, stream_of, unmatched
from tests.conformance.values import Values, pair_of
from tests.reference.stream_join import Joined, StreamJoin


def _reference(scenario: Scenario) -> Run:
    topology = scenario.topology
    how, kept = topology["type"], {"inner": (), "left": ("left",), "outer": ("left", "right")}[topology["type"]]
    spans = {name: topology[f"{name}_ms"] * 1000 for name in ("before", "after", "grace")}

    def joined(left: bytes | None, right: bytes | None) -> tuple[int, str]:
        (i, left_text), (j, right_text) = (json.loads(side) if side else (-1, None) for side in (left, right))
        return max(i, j), padded_pair(left_text, right_text)

    outs: list[tuple[int, str | None, str, int]] = []
    cores: dict[str, StreamJoin[Any]] = defaultdict(lambda: StreamJoin(joined, how, **spans))

    def put(key: str, results: Iterator[Any]) -> None:
        outs.extend((result.value[0], key, result.value[1], result.timestamp) for result in results if isinstance(result, Joined))

    for record in scenario.inputs:
        if record.value is None:
            continue
        if record.key is None:
            sides = (record.value, None) if record.topic == "left" else (None, record.value)
            outs += [unmatched(record, padded_pair(*sides))] if record.topic in kept else []
            continue
        value, side = json.dumps([record.number, record.value]).encode(), 0 if record.topic == "left" else 1
        event = Record(record.key.encode(), value, record.ts * 1000, record.number, side)
        put(record.key, cores[record.key].advance(record.number, [event]))
    for key, core in cores.items():
        put(key, core.finish())
    return Run(outs=outs, rows={})


def _kernels(scenario: Scenario, values: Values) -> Run:
    topology = scenario.topology
    left, right = ([r for r in scenario.inputs if r.topic == topic and r.value is not None] for topic in ("left", "right"))
    spans = Spans(*(topology[f"{name}_ms"] * 1000 for name in ("before", "after", "grace")))
    rows = rows_of(scenario, left, values), rows_of(scenario, right, values)
    found, state = step(None, *rows, topology["type"], spans)
    return Run(outs=[out for part in (found, finish(state, topology["type"])) for out in _results(part, values)], rows={})


def _results(found: Matches, values: Values) -> Iterator[tuple[int, str | None, str, int]]:
    index = found.left_index, found.right_index
    (left, left_keys), (right, right_keys) = (
        (combine_chunks(side["value"]), python_keys(combine_chunks(side["key"]))) for side in (found.left, found.right)
    )
    joined = python_values(recorded_joiner(values)(Pairs(left, index[0], right, index[1])))
    lefts, rights = python_values(left), python_values(right)
    for i, j, row, time in zip(*(side.tolist() for side in index), joined, found.timestamp.tolist(), strict=True):
        records = ([lefts[i]] if i >= 0 else []) + ([rights[j]] if j >= 0 else [])
        key = left_keys[i] if i >= 0 else right_keys[j]
        yield max(record["number"] for record in records), key, pair_of(row), time


def _joined_rows(left: dict[str, Any] | None, right: dict[str, Any] | None) -> tuple[int, int, str]:
    rows = [row for row in (left, right) if row is not None]
    texts = (None if row is None else row["value"] for row in (left, right))
    return rows[0]["number"], max(row["position"] % STEPS for row in rows), padded_pair(*texts)


def _pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = stream_of(inputs["left"], "Left"), stream_of(inputs["right"], "Right")
    spans = {name: Duration(micros=topology[f"{name}_ms"] * 1000) for name in ("before", "after", "grace")}
    joined = (left, right) | WindowedStreamJoin(_joined_rows, how=topology["type"], **spans, sequence_by="position")
    return Streams(outs=joined | "Out" >> beam.Map(out_of))


@vectorized
def _joined_columns(left: pa.RecordBatch, right: pa.RecordBatch) -> dict[str, pa.Array]:
    sides = {"left": left["text"], "right": right["text"], "number": pc.coalesce(left["number"], right["number"])}
    return sides | {"position": pc.max_element_wise(left["position"], right["position"])}


def _rows_out(batch: pa.RecordBatch) -> Iterator[Any]:
    for row in batch.to_pylist():
        out = row["key"], (row["value"]["number"], row["value"]["position"] % STEPS, pair_of(row["value"]))
        yield TimestampedValue(out_of(out), Timestamp(micros=row["timestamp"]))


def _columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
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


OPERATOR = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels,
    reference=_reference,
    pipeline=_pipeline,
    columns=_columns,
    branch=lambda topology: tuple(topology[name] for name in ("type", "before_ms", "after_ms", "grace_ms")),
    rule=stream_rules.stream_stream_join,
    judge=judge_stream_stream,
)
