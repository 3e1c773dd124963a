"""Debezium's events with columns of all kinds, and what ReadChangeEvents makes of them."""

import datetime as dt
import json
from base64 import b64encode
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import LatestTable
from beam_joins.io import ReadChangeEvents
from beam_joins.transforms.engine.construction.table_type import table_type
from tests.pipelines.naive_orders import Row
from tests.pipelines.test_envelopes import SOURCE

CONNECT, TIME = "org.apache.kafka.connect.data", "io.debezium.time"
UTC_2026 = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
AT = 1_767_323_045_678_901
"""The same in microseconds."""
# name, connect type, meaning and parameters, stored value, type in Arrow, value
COLUMNS: list[tuple[str, str, Row, Any, pa.DataType, Any]] = [
    ("id", "int32", {}, 7, pa.int32(), 7),
    ("tiny", "int16", {}, -3, pa.int16(), -3),
    ("long", "int64", {}, 2**63 - 1, pa.int64(), 2**63 - 1),
    ("yes", "boolean", {}, True, pa.bool_(), True),
    ("double", "double", {}, 0.1, pa.float64(), 0.1),
    ("text", "string", {}, "ß\n", pa.string(), "ß\n"),
    ("bytes", "bytes", {}, b64encode(b"\x00\xff").decode(), pa.binary(), b"\x00\xff"),
    (
        "price",
        "bytes",
        {"name": f"{CONNECT}.Decimal", "parameters": {"scale": "2", "connect.decimal.precision": "12"}},
        b64encode((-1_234_567_890).to_bytes(5, "big", signed=True)).decode(),
        pa.decimal128(12, 2),
        Decimal("-12345678.90"),
    ),
    (
        "any",
        "struct",
        {
            "name": "io.debezium.data.VariableScaleDecimal",
            "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
        },
        {"scale": 30, "value": b64encode((10**40 + 1).to_bytes(18, "big")).decode()},
        pa.string(),
        "10000000000." + "0" * 29 + "1",
    ),
    ("day", "int32", {"name": f"{TIME}.Date"}, 20_455, pa.date32(), dt.date(2026, 1, 2)),
    ("connect_day", "int32", {"name": f"{CONNECT}.Date"}, -1, pa.date32(), dt.date(1969, 12, 31)),
    ("millis", "int64", {"name": f"{TIME}.Timestamp"}, AT // 1_000, pa.timestamp("ms"), UTC_2026.replace(microsecond=678_000)),
    ("micros", "int64", {"name": f"{TIME}.MicroTimestamp"}, AT, pa.timestamp("us"), UTC_2026),
    ("connect_at", "int64", {"name": f"{CONNECT}.Timestamp"}, -1, pa.timestamp("ms"), dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
    (
        "zoned",
        "string",
        {"name": f"{TIME}.ZonedTimestamp"},
        "2026-01-02T04:04:05.678901+01:00",
        pa.timestamp("us", "UTC"),
        UTC_2026.replace(tzinfo=dt.UTC),
    ),
    ("clock", "int64", {"name": f"{TIME}.MicroTime"}, 45_000_000_001, pa.time64("us"), dt.time(12, 30, 0, 1)),
    ("connect_clock", "int32", {"name": f"{CONNECT}.Time"}, 45_000_500, pa.time32("ms"), dt.time(12, 30, 0, 500_000)),
    (
        "days",
        "array",
        {"items": {"type": "int32", "name": f"{TIME}.Date"}},
        [0, None],
        pa.list_(pa.date32()),
        [dt.date(1970, 1, 1), None],
    ),
    (
        "inner",
        "struct",
        {"fields": [{"field": "day", "type": "int32", "name": f"{TIME}.Date"}, {"field": "n", "type": "int64"}]},
        {"day": 1, "n": 2**60 + 1},
        pa.struct([("day", pa.date32()), ("n", pa.int64())]),
        {"day": dt.date(1970, 1, 2), "n": 2**60 + 1},
    ),
]
EXPECTED: Row = {name: value for name, *_, value in COLUMNS}
STORED: Row = {name: stored for name, _, _, stored, *_ in COLUMNS}
TYPES = pa.schema([(name, kind) for name, *_, kind, _ in COLUMNS])


def schema_of(columns: Any = COLUMNS) -> Row:
    row = {"type": "struct", "fields": [{"field": name, "type": kind, "optional": True, **more} for name, kind, more, *_ in columns]}
    return {
        "type": "struct",
        "fields": [{**row, "field": "before"}, {**row, "field": "after"}, {"field": "op", "type": "string"}],
    }


def event(row: Row, op: str = "c", **source: Any) -> Row:
    sides = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {**sides, "op": op, "source": {**SOURCE, **source}}


def lines(path: str, *events: Any) -> str:
    Path(path).write_text("".join(f"{json.dumps(each)}\n" for each in events))
    return path


def read(path: str, format: Any = "debezium", state: str | None = None, **options: Any) -> tuple[pa.DataType, list[Row]]:
    """The type of the values, and the latest rows; those of all runs with a ``state``."""
    for earlier in Path().glob("found-*"):
        earlier.unlink()
    flags = PipelineOptions([] if state is None else [f"--beam_joins_state={state}"])
    with beam.Pipeline(options=flags) as pipeline:
        table = pipeline | ReadChangeEvents(path, format=format, **options)
        kind = table_type(table).value
        values = table | LatestTable()
        if kind is not Any and isinstance(kind, pa.DataType):
            values = values | beam.FlatMap(lambda batch: [(row["key"], row["value"]) for row in batch.to_pylist()])
        _ = values | beam.Map(repr) | beam.io.WriteToText("found")
    actual = [line for part in sorted(Path().glob("found-*")) for line in part.read_text().splitlines()]
    names: Row = {"datetime": dt, "Decimal": Decimal, "zoneinfo": __import__("zoneinfo"), "nan": float("nan")}
    return kind, [eval(line, names)[1] for line in actual]


AVRO = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.t",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Value",
                    "fields": [
                        {"name": "id", "type": "int"},
                        {"name": "tiny", "type": ["null", {"type": "int", "connect.type": "int16"}]},
                        {"name": "text", "type": ["null", "string"]},
                        {
                            "name": "price",
                            "type": [
                                "null",
                                {
                                    "type": "bytes",
                                    "scale": 2,
                                    "precision": 12,
                                    "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"},
                                    "connect.name": f"{CONNECT}.Decimal",
                                    "logicalType": "decimal",
                                },
                            ],
                        },
                        {"name": "day", "type": ["null", {"type": "int", "connect.version": 1, "connect.name": f"{TIME}.Date"}]},
                        {"name": "connect_day", "type": {"type": "int", "connect.name": f"{CONNECT}.Date", "logicalType": "date"}},
                        {"name": "micros", "type": {"type": "long", "connect.name": f"{TIME}.MicroTimestamp"}},
                        {
                            "name": "connect_at",
                            "type": {"type": "long", "connect.name": f"{CONNECT}.Timestamp", "logicalType": "timestamp-millis"},
                        },
                        {"name": "zoned", "type": {"type": "string", "connect.name": f"{TIME}.ZonedTimestamp"}},
                        {"name": "clock", "type": {"type": "long", "connect.name": f"{TIME}.MicroTime"}},
                        {"name": "bytes", "type": "bytes"},
                        {
                            "name": "days",
                            "type": {"type": "array", "items": ["null", {"type": "int", "connect.name": f"{TIME}.Date"}]},
                        },
                    ],
                },
            ],
        },
        {"name": "after", "type": ["null", "Value"]},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [
                    {"name": "ts_ms", "type": "long"},
                    {"name": "schema", "type": "string"},
                    {"name": "table", "type": "string"},
                    {"name": "lsn", "type": ["null", "long"]},
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}
AVRO_ROW: Row = {
    **{name: EXPECTED[name] for name in ("id", "tiny", "text", "price", "connect_day", "bytes")},
    **{name: STORED[name] for name in ("day", "micros", "zoned", "clock", "days")},
    "connect_at": EXPECTED["connect_at"].replace(tzinfo=dt.UTC),
}


def avro(path: str, *records: Row, schema: Any = AVRO) -> str:
    with Path(path).open("wb") as file:
        fastavro.writer(file, schema, records)
    return path
