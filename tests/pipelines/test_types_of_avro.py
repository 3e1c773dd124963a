"""Columns of Avro and of envelopes: their types, and a byte order mark before the lines."""

import datetime as dt
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from beam_joins.pipelines.formats.avro import read_avro
from beam_joins.pipelines.formats.envelopes.debezium_files import DebeziumLines
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.formats.types.record_kinds import rows_of_avro, rows_of_columns

SEVEN = uuid.UUID(int=7)
UUID = {"type": "string", "logicalType": "uuid"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}


@pytest.mark.parametrize(
    ("kind", "made", "value", "told"),
    [
        (NANOS, pa.timestamp("ns", "UTC"), 1_772_366_400_000_000_001, b'"2026-03-01T12:00:00.000000001Z"'),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, pa.timestamp("ns"), 1_000, b'"1970-01-01T00:00:00.000001000"'),
        ({"type": "string", "logicalType": "date"}, pa.string(), "x", b'"x"'),
        ({"type": "fixed", "size": 16, "name": "f", "logicalType": "uuid"}, pa.string(), SEVEN.bytes, f'"{SEVEN}"'.encode()),
        (UUID, pa.string(), SEVEN, f'"{SEVEN}"'.encode()),
    ],
)
def test_columns_of_avros_logical_types_have_the_type_of_their_stored_values(
    kind: Any, made: pa.DataType, value: Any, told: bytes
) -> None:
    rows = rows_of_avro({"type": "record", "name": "r", "fields": [{"name": "v", "type": ["null", kind]}]})
    assert rows is not None
    assert (rows.types.field("v").type, rows.text({"v": value})) == (made, b'{"v":' + told + b"}")


def test_uuids_of_pairs_in_parquet_are_text() -> None:
    assert rows_of_columns(pa.schema([("u", pa.uuid())])).types == pa.schema([("u", pa.string())])


def test_a_byte_order_mark_before_envelopes_is_none_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    event = {"op": "c", "after": {"id": 1}, "source": {"lsn": 1, "ts_us": 1, "connector": "postgresql", "table": "t", "schema": "s"}}
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(event).encode() + b"\n")
    file = File(path=str(path), bytes=path.stat().st_size, shown="a.jsonl", reader=DebeziumLines())
    assert not DebeziumLines().has_faults(file)
    assert len(list(DebeziumLines().changes(file))) == 1


def test_values_within_values_go_through_the_conversion_of_their_own_type(tmp_path: Path) -> None:
    nanos, of_16 = (
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
    )
    day, clock = {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"}
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [
            {"name": "at", "type": nanos},
            {"name": "maps", "type": {"type": "array", "items": {"type": "map", "values": ["null", nanos]}}},
            {"name": "again", "type": ["null", "Inner"]},
        ],
    }
    columns = {
        "uuid": of_16,
        "uuids": {"type": "array", "items": "U"},
        "times": {"type": "array", "items": nanos},
        "days": {"type": "map", "values": day},
        "clocks": {"type": "array", "items": ["null", clock]},
        "record": ["null", inner],
    }
    schema = {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in columns.items()]}
    stored, text = bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"
    leaf = {"at": 1_500, "maps": [{"a": 2_000, "b": None}], "again": None}
    row = {
        "uuid": stored,
        "uuids": [stored],
        "times": [1_500],
        "days": {"a": dt.date(2026, 3, 1)},
        "clocks": [dt.time(8), None],
        "record": {**leaf, "again": leaf},
    }
    path = tmp_path / "in.avro"
    with path.open("wb") as file:
        fastavro.writer(file, schema, [row])
    read = {"at": Decimal("1.5"), "maps": [{"a": 2, "b": None}], "again": None}
    expected = {
        "uuid": text,
        "uuids": [text],
        "times": [Decimal("1.5")],
        "days": {"a": dt.date(2026, 3, 1)},
        "clocks": ["08:00:00", None],
        "record": {**read, "again": read},
    }
    assert list(read_avro(str(path), 0, path.stat().st_size)) == [(1, expected)]
