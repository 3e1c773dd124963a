"""Changelogs in every format that is read, and how they are read without a pipeline: many records at a time,
and one by one.
"""

import bz2
import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.column_reader import ColumnReader, made_of
from beam_joins.pipelines.changelogs.read_records import MadeRows, OnBadRecord, ReadParts, RecordReader
from beam_joins.pipelines.commands.sample.sample_files import ORDER_SCHEMA
from beam_joins.pipelines.formats.changelog_columns import PLACE, Columns, Envelopes, enveloped
from beam_joins.pipelines.formats.envelopes.readers import ENVELOPES
from beam_joins.pipelines.formats.file_parts import Part
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.pipelines.formats.types.exact_json import loads
from tests.pipelines.naive_orders import Row

_DEBEZIUM: Final = {"schema": "shop", "table": "orders"}


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)  # type: ignore[no-any-return]


def json_lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def avro(rows: list[Row]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, ORDER_SCHEMA, rows, codec="deflate")
    return file.getvalue()


def parquet(rows: list[Row], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=20, **options)
    return file.getvalue()


def arrow(rows: list[Row]) -> bytes:
    file = io.BytesIO()
    feather.write_feather(pa.Table.from_pylist(rows), file, chunksize=20)
    return file.getvalue()


def comma_separated(rows: list[Row]) -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def debezium(rows: list[Row]) -> bytes:
    return json_lines(
        [
            {
                "op": "d" if row["op"] == "d" else "c",
                "before": row,
                "after": None if row["op"] == "d" else row,
                "source": {**_DEBEZIUM, "ts_ms": row["lsn"], "lsn": row["lsn"], "sequence": json.dumps([str(row["lsn"])] * 2)},
            }
            for row in rows
        ]
    )


def maxwell(rows: list[Row]) -> bytes:
    return json_lines(
        [
            {
                **{"database": "shop", "table": "orders", "type": "delete" if row["op"] == "d" else "insert", "data": row},
                **{"ts": 5, "xid": row["lsn"], "xoffset": 1, "commit": True, "position": f"bin.000001:{row['lsn']}"},
            }
            for row in rows
        ]
    )


def wal2json(rows: list[Row]) -> bytes:
    lines: list[Any] = []
    for row in rows:
        columns = [{"name": name, "type": "x", "value": value} for name, value in row.items()]
        lines += [
            {"action": "B", "xid": row["lsn"], "lsn": f"0/{row['lsn']:X}", "timestamp": "2024-01-01 00:00:00.000+00"},
            {"action": "I", "schema": "shop", "table": "orders", "columns": columns, "pk": [{"name": "order_id", "type": "int"}]},
            {"action": "C", "lsn": f"0/{row['lsn']:X}"},
        ]
    return json_lines(lines)


WRITTEN: Final[dict[str, Callable[[list[Row]], bytes]]] = {
    "orders.jsonl": json_lines,
    "orders.jsonl.gz": lambda rows: gzip.compress(json_lines(rows[:20])) + gzip.compress(json_lines(rows[20:])),
    "orders.jsonl.bz2": lambda rows: bz2.compress(json_lines(rows[:20])) + bz2.compress(json_lines(rows[20:])),
    "orders.jsonl.zst": lambda rows: zstd(json_lines(rows[:20])) + zstd(json_lines(rows[20:])),
    "orders.avro": avro,
    "orders.parquet": lambda rows: parquet(rows, write_page_checksum=True),
    "zstd.parquet": lambda rows: parquet(rows, compression="zstd", use_dictionary=False),
    "orders.arrow": arrow,
    "orders.csv": comma_separated,
    "orders.msgpack": lambda rows: b"".join(map(msgspec.msgpack.encode, rows)),
    "debezium.jsonl": debezium,
    "maxwell.jsonl": maxwell,
    "wal2json.jsonl": wal2json,
}
PLAIN: Final = Columns(key=("order_id",), timestamp="updated_at", sequence="lsn", delete="op", side="orders")


def read(path: Path, on_bad_record: OnBadRecord) -> tuple[list[Row], list[Row]]:
    """The records as a run reads them, and as it reads them one by one. Raises InputError."""
    format_ = path.name.split(".")[0].rpartition("-")[2]
    columns = enveloped("orders", Envelopes(format=format_, key=("order_id",))) if format_ in ENVELOPES else PLAIN
    actual = find_changelog("orders", str(path), columns)
    plan = ReadPlan(
        columns=actual.columns,
        key=("whole numbers",),
        reference=("customer_id",),
        refers=("whole numbers",),
        numbers=("amount",),
        added="customer",
    )
    in_columns, one_by_one = (_rows(actual.parts(), reader, on_bad_record) for reader in (ColumnReader(plan), _OneByOne(plan)))
    return in_columns, one_by_one


class _OneByOne:
    """Reads as :class:`ColumnReader` does, but no records many at a time."""

    def __init__(self, plan: ReadPlan) -> None:
        self._plan = plan
        self.schema = plan.schema

    def made(self, part: Part) -> Iterator[MadeRows]:
        plan = self._plan.of_unit(part.file.unit, digits=bool(part.file.layout))
        for raw in part.file.reader.rows(part, plan):
            yield made_of(RawRows(raw.places, raw.row), plan)


def _rows(parts: list[Part], reader: RecordReader, on_bad_record: OnBadRecord) -> list[Row]:
    rows = []
    read = ReadParts("orders", reader, on_bad_record, begin="orders: ")
    read.start_bundle()
    for part in parts:
        for batch in read.process(part):
            if isinstance(batch, pa.RecordBatch):
                batch.validate(full=True)
                rows += batch.to_pylist()
    list(read.finish_bundle())
    return [{**row, "json lines": loads(row["json lines"])} for row in sorted(rows, key=lambda row: row[PLACE])]
