"""Joins of streams as pipelines."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins import StreamForeignKeyJoin, StreamTableJoin, WindowedStreamJoin, vectorized
from tests.conformance.operators import Topology
from tests.conformance.pipelines.operators import Inputs, Pipeline, Streams
from tests.conformance.pipelines.rows import ROWS, RecordStream
from tests.conformance.pipelines.tables import ChangelogTable
from tests.conformance.scenario import STEPS
from tests.conformance.stream_rules import stream_position
from tests.conformance.values import Values, pair_of


def _joined(left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any]:
    """A result, with the scenario's number and the position of the later record."""
    rows = [row for row in (left, right) if row is not None]
    texts = (None if row is None else row["text"] for row in (left, right))
    return {
        **dict(zip(("left", "right"), texts, strict=True)),
        "number": rows[0]["number"],
        "position": max(row.get("position", 0) for row in rows),
    }


def _out(element: tuple[str | None, dict[str, Any]]) -> Any:
    key, row = element
    return (str(row["number"]) if key is None else key, row["position"] % STEPS), pair_of(row)


def _table_join(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    stream, table = inputs["left"] | "Stream" >> RecordStream(values), inputs["right"] | "Table" >> ChangelogTable()
    joined = (stream, table) | StreamTableJoin(
        _joined, how=topology["type"], sequence_by=lambda key, row: stream_position(topology, row["position"])
    )
    return Streams(outs=joined | "Out" >> beam.Map(_out))


def _global_table_join(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    stream, table = inputs["left"] | "Stream" >> RecordStream(values), inputs["right"] | "Table" >> ChangelogTable()
    joined = (stream, table) | StreamForeignKeyJoin(_joined, foreign_key="reference", how=topology["type"], sequence_by="position")
    return Streams(outs=joined | "Out" >> beam.Map(_out))


@vectorized
def _joined_columns(left: pa.RecordBatch, right: pa.RecordBatch) -> dict[str, pa.Array]:
    sides = {"left": left["text"], "right": right["text"], "number": pc.coalesce(left["number"], right["number"])}
    return sides | {"position": pc.max_element_wise(left["position"], right["position"])}


def _outs(batch: pa.RecordBatch) -> Iterator[Any]:
    for row in batch.to_pylist():
        yield TimestampedValue(_out((row["key"], row["value"])), Timestamp(micros=row["timestamp"]))


def _stream_join(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    spans = {name: Duration(micros=topology[f"{name}_ms"] * 1000) for name in ("before", "after", "grace")}
    if values == "opaque":
        sides = tuple(inputs[topic] | topic >> RecordStream(values) for topic in ("left", "right"))
        joined = sides | WindowedStreamJoin(_joined, how=topology["type"], **spans, sequence_by="position")
        return Streams(outs=joined | "Out" >> beam.Map(_out))
    # a row in columns has no null value: a record without one is none
    sides = tuple(
        inputs[topic] | f"{topic} values" >> beam.Map(_with_value).with_output_types(pa.Table) for topic in ("left", "right")
    )
    columns = {"key": "key", "timestamp_by": "at", "sequence_by": "position"}
    joined = sides | WindowedStreamJoin(_joined_columns, how=topology["type"], **spans, **columns, stream_schemas=(ROWS, ROWS))
    return Streams(outs=joined | "Out" >> beam.FlatMap(_outs))


def _with_value(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows["deleted"]))


TABLE_JOIN = Pipeline(
    _table_join,
    branch=lambda topology: (topology["type"], topology.get("history_retention_ms") is not None, bool(topology.get("grace_ms"))),
)
GLOBAL_TABLE_JOIN = Pipeline(_global_table_join, branch=lambda topology: topology["type"])
STREAM_JOIN = Pipeline(
    _stream_join, branch=lambda topology: tuple(topology[name] for name in ("type", "before_ms", "after_ms", "grace_ms"))
)
