"""python -m pipelines.orders: the formats and files that it reads and writes."""

import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles, write_sample
from tests.pipelines.naive_orders import Row, in_order
from tests.pipelines.orders_run import (
    Run,
    changes_in,
    inputs,
    naive,
    numbers,
    read_avro,
    read_lines,
)


def test_avro_in_gives_avro_out_with_the_same_records(run: Run, small: SampleFiles, small_avro: SampleFiles) -> None:
    ran = run(*inputs(small_avro), "--output", "out/e.avro", "--latest", "out/l.avro", "--how", "left")
    assert ran.code == 0, ran.err
    answer = naive(small, how="left")
    assert changes_in([plain(record) for record in read_avro(Path("out/e.avro"))]) == in_order(answer.changes)
    latest = [plain(record) for record in read_avro(Path("out/l.avro"))]
    assert sorted(map(json.dumps, latest)) == sorted(map(json.dumps, answer.latest.values()))


def plain(value: Any) -> Any:
    """Avro's times as microseconds."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return round(value.timestamp() * 1_000_000) if hasattr(value, "timestamp") else value


def in_micros(value: Any) -> Any:
    """The value, whose times in ISO 8601, as JSON has those of typed columns, are whole numbers as in the sample's JSON lines."""
    if isinstance(value, dict):
        return {name: in_micros(each) for name, each in value.items()}
    if isinstance(value, str) and value.endswith("Z"):
        return round(dt.datetime.fromisoformat(value).timestamp() * 1_000_000)
    return value


def test_logical_and_named_types_of_both_inputs_keep_their_meaning(run: Run) -> None:
    def state(symbol: str) -> Row:
        return {"type": "enum", "name": "State", "symbols": [symbol]}

    at = {"type": "long", "logicalType": "timestamp-millis"}
    order_type = {
        "type": "record",
        "name": "shop.Row",
        "fields": [
            {"name": "order_id", "type": ["null", "string"]},
            {"name": "customer_id", "type": ["null", "long"]},
            {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
            {
                "name": "lines",
                "type": {
                    "type": "array",
                    "items": {"type": "record", "name": "Line", "fields": [{"name": "was", "type": state("OPEN")}]},
                },
            },
            {"name": "state", "type": ["null", "shop.State"]},
            {"name": "op", "type": "string"},
            {"name": "lsn", "type": "long"},
            {"name": "updated_at", "type": at},
        ],
    }
    customer_type = {
        "type": "record",
        "name": "shop.Row",
        "fields": [
            {"name": "customer_id", "type": "long"},
            {"name": "state", "type": state("GOLD")},
            {"name": "photo", "type": "bytes"},
            {"name": "op", "type": "string"},
            {"name": "lsn", "type": "long"},
            {"name": "updated_at", "type": at},
        ],
    }
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC)
    change = {"op": "c", "lsn": 1, "updated_at": moment}
    order = {
        "order_id": "A",
        "customer_id": 1,
        "amount": Decimal("12.50"),
        "day": dt.date(2026, 1, 2),
        "lines": [{"was": "OPEN"}],
        "state": "OPEN",
    }
    customer = {"customer_id": 1, "state": "GOLD", "photo": b"\x00\xff"}
    for path, schema, row in (("o.avro", order_type, order), ("c.avro", customer_type, customer)):
        with Path(path).open("wb") as file:
            fastavro.writer(file, schema, [{**row, **change}])
    options = ["--orders", "o.avro", "--customers", "c.avro", "--min-amount", "12.5"]
    ran = run(*options, "--output", "e.avro", "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    expected = {**order, "updated_at": moment, "customer": {**customer, "updated_at": moment}}
    assert list(read_avro(Path("e.avro"))) == [
        {"key": "A", "op": "insert", "old": None, "new": expected, "timestamp": moment, "position": 1}
    ]
    assert '"amount":12.50,' in Path("l.jsonl").read_text()
    (latest,) = read_lines(Path("l.jsonl"))
    assert (latest["amount"], latest["customer"]["photo"], latest["lines"]) == (12.5, "AP8=", [{"was": "OPEN"}])
    assert latest["updated_at"] == "2026-01-02T03:04:05.678Z"


def test_avro_in_can_give_json_lines_out(run: Run, small: SampleFiles, small_avro: SampleFiles) -> None:
    assert run(*inputs(small_avro), "--latest", "l.jsonl").code == 0
    latest = [in_micros(row) for row in read_lines(Path("l.jsonl"))]
    assert sorted(map(json.dumps, latest)) == sorted(map(json.dumps, naive(small).latest.values()))


def test_globs_and_compressed_files_are_read_and_compressed_results_written(run: Run, small: SampleFiles) -> None:
    lines = small.orders.read_bytes().splitlines(keepends=True)
    Path("in").mkdir()
    Path("in/orders-1.jsonl").write_bytes(b"".join(lines[:700]))
    Path("in/orders-2.ndjson.gz").write_bytes(gzip.compress(b"".join(lines[700:1500])) + gzip.compress(b"".join(lines[1500:])))
    Path("in/customers.json").write_bytes(small.customers.read_bytes())
    ran = run("--orders", "in/orders-*", "--customers", "in/customers.json", "--output", "e.jsonl.gz")
    assert ran.code == 0, ran.err
    assert changes_in(read_lines(Path("e.jsonl.gz"))) == in_order(naive(small).changes)


@pytest.mark.slow
def test_files_are_read_in_parts_that_begin_anywhere(
    run: Run, small: SampleFiles, small_avro: SampleFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 7_001)
    expected = in_order(naive(small).changes)
    for files in (small, small_avro):
        ran = run(*inputs(files), "--output", "e.jsonl")
        assert ran.code == 0, ran.err
        assert numbers(ran.out)["records in", "orders"] == 2_000
        assert changes_in([in_micros(record) for record in read_lines(Path("e.jsonl"))]) == expected


def test_empty_files_give_empty_results(run: Run) -> None:
    Path("o.jsonl").touch()
    Path("c.jsonl").touch()
    ran = run("--orders", "o.jsonl", "--customers", "c.jsonl", "--output", "e.jsonl", "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    assert (Path("e.jsonl").read_bytes(), Path("l.jsonl").read_bytes()) == (b"", b"")
    assert numbers(ran.out) == {
        ("records in", "orders"): 0,
        ("records in", "customers"): 0,
        ("without a customer", "orders"): 0,
        ("out", "changes"): 0,
        ("out", "latest"): 0,
    }


def test_avro_files_without_records_give_avro_files_without_records(run: Run, tmp_path: Path) -> None:
    ran = run(*inputs(write_sample(tmp_path, orders=0, customers=0, format="avro")), "--output", "e.avro")
    assert ran.code == 0, ran.err
    assert list(read_avro(Path("e.avro"))) == []


def test_parts_can_be_left_as_they_are_and_a_later_run_replaces_them(run: Run, small: SampleFiles) -> None:
    assert run(*inputs(small), "--output", "e.jsonl", "--parts").code == 0
    parts = sorted(Path().glob("e-?????-of-?????.jsonl"))
    records = [record for part in parts for record in read_lines(part)]
    assert changes_in(records) == in_order(naive(small).changes)
    assert not Path("e.jsonl").exists()
    assert run(*inputs(small), "--output", "e.jsonl").code == 0
    assert not list(Path().glob("e-*.jsonl"))
