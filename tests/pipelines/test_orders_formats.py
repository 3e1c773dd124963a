"""python -m pipelines.orders: Parquet and CSV, and inputs of several formats."""

import csv
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from beam_joins.pipelines.commands.sample.sample_files import ORDER_SCHEMA, SampleFiles
from tests.pipelines.naive_orders import Row, in_order
from tests.pipelines.orders_run import GOOD, Run, changes_in, naive, nothing_is_left, numbers, one_sentence, read_lines, write

CUSTOMER = {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1}
FILES = ("--customers", "c.jsonl", "--output", "out/e.jsonl", "--latest", "out/l.jsonl")


def write_csv(path: str, rows: list[Row]) -> None:
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def table_of(rows: list[Row], types: dict[str, pa.DataType]) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    for name, kind in types.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array([row.get(name) for row in rows], kind))
    return table


def write_parquet(path: str, rows: list[Row], **types: pa.DataType) -> None:
    pq.write_table(table_of(rows, types), path, row_group_size=700)


def write_arrow(path: str, rows: list[Row], **types: pa.DataType) -> None:
    feather.write_feather(table_of(rows, types), path, chunksize=700)


def write_avro(path: str, rows: list[Row]) -> None:
    with Path(path).open("wb") as file:
        fastavro.writer(file, ORDER_SCHEMA, rows)


WRITERS: dict[str, Any] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "avro": write_avro,
    "jsonl": lambda path, rows: write(path, *rows),
}


@pytest.mark.parametrize("format_", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.each_value
def test_the_same_records_in_another_format_give_the_same_result(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch, format_: str, how: str
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 7_001)
    orders, customers = f"o.{format_}", f"c.{format_}"
    WRITERS[format_](orders, read_lines(small.orders))
    WRITERS[format_](customers, read_lines(small.customers))
    ran = run("--orders", orders, "--customers", customers, "--how", how, "--min-amount", 60, *FILES[2:])
    assert ran.code == 0, ran.err
    answer = naive(small, how=how, keep=lambda order: order["amount"] >= 60)
    assert changes_in(read_lines(Path("out/e.jsonl"))) == in_order(answer.changes)
    assert sorted(map(json.dumps, read_lines(Path("out/l.jsonl")))) == sorted(map(json.dumps, answer.latest.values()))
    assert numbers(ran.out)["records in", "orders"] == 2_000
    assert ("the columns of orders in CSV are read as order_id:int64, customer_id:int64, amount:double," in ran.out) == (
        format_ == "csv"
    )


def test_an_input_may_have_files_of_all_formats(run: Run, small: SampleFiles) -> None:
    rows = read_lines(small.orders)
    Path("in").mkdir()
    for number, (suffix, writer) in enumerate(WRITERS.items()):
        writer(f"in/{number}.{suffix}", rows[number :: len(WRITERS)])
    WRITERS["parquet"]("c.parquet", read_lines(small.customers))
    ran = run("--orders", "in/*", "--customers", "c.parquet", *FILES[2:])
    assert ran.code == 0, ran.err
    assert changes_in(read_lines(Path("out/e.jsonl"))) == in_order(naive(small).changes)
    assert numbers(ran.out)["records in", "orders"] == 2_000


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("format_", ["parquet", "arrow"])
@pytest.mark.each_value
def test_values_of_columns_keep_their_meaning(run: Run, unit: str, zone: str | None, format_: str) -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    row = {
        **{"order_id": "A", "customer_id": 1, "amount": Decimal("12.50"), "day": dt.date(1970, 1, 11), "share": 0.1, "whole": 2.0},
        **{"nan": float("nan"), "note": 'say "ü"\n\x01', "photo": b"\x00\xff", "lines": [{"n": 1, "price": Decimal("1.10")}]},
        **{"paid": True, "none": None, "kind": "web", "op": "c", "lsn": 1, "updated_at": at if zone else at.replace(tzinfo=None)},
    }
    types = {"updated_at": pa.timestamp(unit, zone), "kind": pa.dictionary(pa.int8(), pa.string()), "share": pa.float32()}
    WRITERS[format_](f"o.{format_}", [row], **types)
    write("c.jsonl", {**CUSTOMER, "updated_at": round(at.timestamp() * 1_000_000) - 1})
    ran = run("--orders", f"o.{format_}", *FILES, "--min-amount", "12.5")
    assert ran.code == 0, ran.err
    (change,) = read_lines(Path("out/e.jsonl"))
    assert change["timestamp"] == round(at.timestamp() * 1_000_000)
    assert change["key"] == "A"
    expected = {
        **{
            "order_id": "A",
            "customer_id": 1,
            "amount": 12.5,
            "day": "1970-01-11",
            "share": 0.1,
            "whole": 2.0,
            "nan": "NaN",
        },
        **{"note": 'say "ü"\n\x01', "photo": "AP8=", "lines": [{"n": 1, "price": 1.1}], "paid": True, "none": None, "kind": "web"},
        "updated_at": "2026-01-02T03:04:05" + {"ms": ".000", "us": ".000000", "ns": ".000000000"}[unit] + ("Z" if zone else ""),
    }
    assert {name: value for name, value in change["new"].items() if name != "customer"} == expected
    assert '"amount":12.50,' in Path("out/l.jsonl").read_text()


@pytest.mark.parametrize(
    ("amount", "kept"), [("0.3", True), ("0.30000000000000001", True), ("0.29999999999999999", False), ("1e2", True), ("", False)]
)
@pytest.mark.parametrize("kind", ["double", "decimal(38,20)"])
@pytest.mark.each_value
def test_numbers_of_csv_keep_their_digits_and_are_compared_as_they_are_written(run: Run, amount: str, kept: bool, kind: str) -> None:
    Path("o.csv").write_text(f"order_id,customer_id,amount,op,lsn,updated_at\n1,1,{amount},c,1,1\n")
    write("c.jsonl", CUSTOMER)
    ran = run("--orders", "o.csv", *FILES, "--orders-schema-overrides", f"amount:{kind}", "--min-amount", "0.3")
    assert ran.code == 0, ran.err
    assert [amount in line for line in Path("out/l.jsonl").read_text().splitlines()] == [True] * kept


def test_fields_of_csv_are_what_the_schema_says_and_else_what_the_file_says(run: Run) -> None:
    Path("o.csv").write_bytes(
        b'\xef\xbb\xbforder_id,customer_id,zip,code,when,paid,"no, te",op,lsn,updated_at\r\n'
        b'1,1,01069,7,2026-01-01,TRUE,"a ""b"", c",c,1,2026-01-01T00:00:00Z\r\n\r\n'
        b"2,1,12345,,2026-01-02,false,,c,2,2026-01-01T00:00:01Z\r\n"
    )
    write("c.jsonl", {**CUSTOMER, "updated_at": "2026-01-01T00:00:00Z"})
    ran = run("--orders", "o.csv", *FILES, "--orders-schema-overrides", "code:string, order_id:string")
    assert ran.code == 0, ran.err
    rows = sorted(read_lines(Path("out/l.jsonl")), key=lambda row: str(row["order_id"]))
    assert [[row[name] for name in ("order_id", "zip", "code", "when", "paid", "no, te")] for row in rows] == [
        ["1", "01069", "7", "2026-01-01", True, 'a "b", c'],
        ["2", "12345", None, "2026-01-02", False, None],
    ]
    assert 'order_id:string, customer_id:int64, zip:string, code:string, when:string, paid:bool, "no, te":string' in ran.out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,1,2.5,c,1", "5 fields, where the header has 6"),
        ("1,1,x,c,2,1", "column 'amount' is not of type decimal(5,2): 'x'"),
        ("1,1,1.234,c,2,1", "column 'amount' is not of type decimal(5,2): '1.234'"),
        ("1,1,1234.5,c,2,1", "column 'amount' is not of type decimal(5,2): '1234.5'"),
        ('1,1,"2.5,c,2,1', "a quoted field does not end in its line, nor in later ones"),
        ("9223372036854775808,1,2.5,c,2,1", "column 'order_id' does not fit in 64 bits: 9223372036854775808"),
        ("1,1,2.5,x,2,1", "column 'op' is 'x'"),
    ],
)
def test_a_bad_line_of_csv_is_named(run: Run, line: str, message: str) -> None:
    Path("o.csv").write_text(f"order_id,customer_id,amount,op,lsn,updated_at\n7,1,2.5,c,1,1\n{line}\n")
    write("c.jsonl", CUSTOMER)
    arguments = ["--orders", "o.csv", *FILES, "--orders-schema-overrides", "order_id:int64,amount:decimal(5,2)"]
    assert one_sentence(run(*arguments)).startswith(f"orders: o.csv, line 3: {message}")
    assert nothing_is_left(Path("out"))
    ran = run(*arguments, "--on-bad-record=drop")
    assert (ran.code, numbers(ran.out)["dropped", "orders", "bad_record"]) == (0, 1), ran.err
    assert [row["order_id"] for row in read_lines(Path("out/l.jsonl"))] == [7]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("o.parquet", b"PAR1", [], "orders: o.parquet is not a Parquet file"),
        ("o.arrow", b"ARROW1", [], "orders: o.arrow is not an Arrow file"),
        ("o.feather", b"PAR1 and no more", [], "orders: o.feather is not an Arrow file"),
        ("o.csv", b"a,a\n", [], "orders: o.csv has 'a' in its header as columns 1 and 2: give each column another name"),
        ("o.csv", b"a,b\n", ["--orders-schema-overrides", "c:int64"], "orders: o.csv has no column 'c'; it has a, b"),
        ("o.csv", b"a,b\n", ["--orders-schema-overrides", "a:int"], "--orders-schema-overrides: a:int is not of the form COLUMN:TYPE"),
        (
            "o.csv",
            b"a,b\n",
            ["--orders-schema-overrides", "a:decimal(2,3)"],
            "--orders-schema-overrides: a:decimal(2,3) is not of the form COLUMN:TYPE",
        ),
        (
            "o.parquet",
            b"",
            ["--orders-schema-overrides", "a:int64"],
            "--orders-schema-overrides is for JSON lines, CSV and envelopes, and o.parquet finds none",
        ),
        (
            "o.csv",
            b"order_id\n1\n",
            [],
            "orders have no column 'customer_id' (--foreign-key): o.csv has order_id; name one of them with --foreign-key",
        ),
        ("o.csv", b"order_id\n", ["--output", "e.txt"], "--output: e.txt must end in .avro, .jsonl, .json, .ndjson, .parquet"),
    ],
)
def test_a_file_or_type_that_cannot_be_used_is_one_sentence(
    run: Run, name: str, content: bytes, options: list[str], message: str
) -> None:
    Path(name).write_bytes(content)
    write("c.jsonl", CUSTOMER)
    assert one_sentence(run("--orders", name, *FILES, *options)).startswith(message)


@pytest.mark.parametrize(("format_", "group"), [("parquet", "row group"), ("arrow", "record batch")])
def test_a_bad_row_of_a_file_in_columns_is_named_by_its_group(run: Run, format_: str, group: str) -> None:
    rows = [{**GOOD, "order_id": n, "lsn": n} for n in range(1_000)]
    rows[733]["op"] = "x"
    WRITERS[format_](f"o.{format_}", rows)
    write("c.jsonl", CUSTOMER)
    assert one_sentence(run("--orders", f"o.{format_}", *FILES)).startswith(
        f"orders: o.{format_}, row 34 of {group} 2: column 'op' is 'x'"
    )


def test_a_column_of_parquet_that_is_called_as_the_customer_is_to_be_is_refused(run: Run) -> None:
    write_parquet("o.parquet", [{**GOOD, "customer": "its own"}])
    write("c.jsonl", CUSTOMER)
    assert "orders have a column 'customer' already" in one_sentence(run("--orders", "o.parquet", *FILES))


def test_keys_of_kinds_that_never_meet_are_refused_whatever_the_formats(run: Run) -> None:
    write_parquet("o.parquet", [{**GOOD, "customer_id": "1"}])
    write_csv("c.csv", [CUSTOMER])
    sentence = one_sentence(run("--orders", "o.parquet", "--customers", "c.csv", *FILES[2:]))
    assert sentence.endswith("holds text and the customers' column 'customer_id' whole numbers: no order would find its customer")
