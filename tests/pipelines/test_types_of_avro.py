"""Columns of Avro and of envelopes: their types, and a byte order mark before the lines."""

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.pipelines.formats.envelopes.sources import DebeziumLines
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
    file = File(path=str(path), bytes=path.stat().st_size, shown="a.jsonl", format="debezium")
    assert not DebeziumLines().has_faults(file)
    assert len(list(DebeziumLines().changes(file))) == 1
