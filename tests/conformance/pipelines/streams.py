"""Joins of streams as pipelines."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_joins import StreamForeignKeyJoin, StreamTableJoin, WindowedStreamJoin, vectorized
from tests.conformance.operators import Topology
from tests.conformance.pipelines.operators import Pipeline, Streams
from tests.conformance.pipelines.tables import ChangelogTable
from tests.conformance.scenario import STEPS
from tests.conformance.stream_rules import stream_position
from tests.conformance.streams import padded_pair
from tests.conformance.values import pair_of
from tests.reference import recomputed


def _timed(row: dict[str, Any]) -> Any:
    return TimestampedValue((row["key"], None if row["value"] is None else row), Timestamp(micros=row["ts"] * 1000))


def _stream(rows: PCollection[Any], name: str) -> PCollection[Any]:
    types = beam.typehints.KV[beam.typehints.Optional[str], beam.typehints.Any]
    stream: PCollection[Any] = rows | name >> beam.Map(_timed).with_output_types(types)
    return stream


def _out(element: tuple[str | None, tuple[int, int, str]]) -> Any:
    key, (number, index, text) = element
    return (str(number) if key is None else key, index), text


def _joined_row(left: dict[str, Any], right: str | None) -> tuple[int, int, str]:
    return left["number"], left["position"] % STEPS, padded_pair(left["value"], right)


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


def _joined_rows(left: dict[str, Any] | None, right: dict[str, Any] | None) -> tuple[int, int, str]:
    rows = [row for row in (left, right) if row is not None]
    texts = (None if row is None else row["value"] for row in (left, right))
    return rows[0]["number"], max(row["position"] % STEPS for row in rows), padded_pair(*texts)


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


TABLE_JOIN = Pipeline(
    _table_pipeline,
    branch=lambda topology: (topology["type"], topology.get("history_retention_ms") is not None, bool(topology.get("grace_ms"))),
)
GLOBAL_TABLE_JOIN = Pipeline(_global_pipeline, branch=lambda topology: topology["type"])
STREAM_JOIN = Pipeline(
    _stream_pipeline,
    branch=lambda topology: tuple(topology[name] for name in ("type", "before_ms", "after_ms", "grace_ms")),
    columns=_stream_columns,
)
