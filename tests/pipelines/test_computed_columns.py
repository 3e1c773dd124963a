"""--where, and expressions in --select: SQL over the columns of table and join."""

import json
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.orders_run import Run

ORDERS = [
    {"id": 1, "customer": 7, "amount": 5.5, "orderNo": "a", "tags": {"x": 1}, "op": "c", "lsn": 1},
    {"id": 2, "customer": 8, "amount": 20.25, "orderNo": "b", "tags": None, "op": "c", "lsn": 2},
    {"id": 3, "customer": 9, "amount": 1.0, "orderNo": None, "tags": None, "op": "c", "lsn": 3},
]
TABLE = ["table", "--input", "in/*.jsonl", "--key", "id", "--timestamp-by=", "--latest", "now.jsonl"]
JOIN = [
    "join",
    "--left",
    "in/*.jsonl",
    "--right",
    "c.csv",
    "--foreign-key",
    "customer",
    "--left-timestamp-by=",
    "--right-timestamp-by=",
]
JOIN += ["--right-apply-as-deletes=", "--latest", "now.jsonl"]


@pytest.fixture(autouse=True)
def inputs(own_directory: Path) -> None:
    """The files of orders and customers."""
    Path("in").mkdir()
    write(1, *ORDERS)
    Path("c.csv").write_text("id,city,lsn\n7,Oslo,1\n8,Rome,1\n")


def write(number: int, *rows: dict[str, Any]) -> None:
    Path(f"in/{number}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def now(path: str = "now.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def rows(beam_joins: Run, *options: str) -> list[dict[str, Any]]:
    """The final rows with these options, in the order of their first columns."""
    ran = beam_joins(*options)
    assert ran.code == 0, ran.err
    return sorted(now(), key=lambda row: repr(next(iter(row.values()))))


def test_a_condition_keeps_all_columns_of_the_rows_for_which_it_is_true(beam_joins: Run) -> None:
    kept = rows(beam_joins, *TABLE, "--where", "amount > 5 AND \"orderNo\" <> 'b' OR orderNo IS NULL")
    assert kept == [{name: value for name, value in ORDERS[n].items() if name not in ("op", "lsn")} for n in (0, 2)]


def test_expressions_stand_beside_columns_of_an_only_input(beam_joins: Run) -> None:
    kept = rows(
        beam_joins, *TABLE, "--select", "id as order_id, orderNo, coalesce(upper(orderNo), 'none, yet') as \"No\", amount * 2 as twice"
    )
    first = {"order_id": 1, "orderNo": "a", "No": "A", "twice": 11.0}
    assert kept == [
        first,
        {"order_id": 2, "orderNo": "b", "No": "B", "twice": 40.5},
        {"order_id": 3, "orderNo": None, "No": "none, yet", "twice": 2.0},
    ]


def test_expressions_are_of_the_columns_of_both_sides_of_a_join(beam_joins: Run) -> None:
    select = "left.id, left.orderNo as no, coalesce(upper(right.city), '?') as city, right as customer"
    kept = rows(beam_joins, *JOIN, "--how", "left", "--select", select, "--where", "left.amount > 1 OR right.city IS NULL")
    oslo, rome = ({"id": n, "city": city} for n, city in ((7, "Oslo"), (8, "Rome")))
    assert kept == [
        {"id": 1, "no": "a", "city": "OSLO", "customer": oslo},
        {"id": 2, "no": "b", "city": "ROME", "customer": rome},
        {"id": 3, "no": None, "city": "?", "customer": None},
    ]
    kept = rows(beam_joins, *JOIN, "--how", "anti", "--where", "left.amount < 5")
    assert [row["id"] for row in kept] == [3]
    kept = rows(beam_joins, *JOIN, "--select", "left.*, right.*, left.amount / 2 as half")
    assert [*kept[0]] == ["left_id", "customer", "amount", "orderNo", "tags", "right_id", "city", "half"]


def test_computed_rows_are_aggregated(beam_joins: Run) -> None:
    computed = ["--select", "right.city as city, left.amount * 2 as twice", "--where", "left.amount > 1"]
    groups = ["--group-by", "city", "--aggregate", "sum(twice) as total, count() as n"]
    kept = rows(beam_joins, *JOIN, *computed, *groups)
    assert kept == [{"city": "Oslo", "total": 11.0, "n": 1}, {"city": "Rome", "total": 40.5, "n": 1}]


def test_runs_go_on_and_another_condition_makes_the_result_anew(beam_joins: Run) -> None:
    options = [*TABLE, "--state-dir", "state", "--changes", "changes", "--select", "id, amount * 2 as twice"]
    assert beam_joins(*options, "--where", "amount > 5").code == 0
    write(2, {**ORDERS[0], "amount": 4.0, "op": "u", "lsn": 4}, {**ORDERS[2], "amount": 6.0, "op": "u", "lsn": 5})
    assert beam_joins(*options, "--where", "amount > 5").code == 0
    changes = [(row["op"], row["key"], row["new"]) for row in now("changes/changes-000002.jsonl")]
    assert changes == [("delete", 1, None), ("insert", 3, {"id": 3, "twice": 12.0})]
    ran = beam_joins(*options, "--where", "amount > 3")
    assert (ran.code, "--where is amount > 3, but amount > 5 in the runs before" in ran.err) == (2, True), ran.err
    assert beam_joins(*options, "--where", "amount > 3", "--beam_joins_changed=rebuild").code == 0
    assert sorted(row["id"] for row in now()) == [1, 2, 3]


def test_a_key_keeps_its_name_in_upserts_and_in_tables_of_targets(beam_joins: Run) -> None:
    select = ["--select", "id as order_id, amount * 2 as twice", "--where", "id < 3"]
    ran = beam_joins(*TABLE, *select, "--output", "o.parquet", "--output-records", "upserts", "--to", "delta:lake/orders")
    assert ran.code == 0, ran.err
    assert pq.read_table("o.parquet").select(["order_id", "twice", "deleted"]).to_pydict() == {
        "order_id": [1, 2],
        "twice": [11.0, 40.5],
        "deleted": [False, False],
    }
    table = pa.table(deltalake.DeltaTable("lake/orders").to_pyarrow_table()).sort_by("order_id")
    assert table.to_pylist() == [{"order_id": 1, "twice": 11.0}, {"order_id": 2, "twice": 40.5}]
    ran = beam_joins(*TABLE, "--select", "customer as id, amount * 2 as twice", "--output", "o.jsonl", "--output-records", "upserts")
    assert (ran.code, "'id' is a column of the key and another one of the result" in ran.err) == (2, True), ran.err


def test_a_dry_run_shows_the_condition_and_the_columns(beam_joins: Run) -> None:
    ran = beam_joins(*TABLE, "--select", "id, amount * 2 as twice", "--where", "id < 3", "--dry-run")
    assert (ran.code, "FilterTable(id < 3)" in ran.out, "id, twice" in ran.out) == (0, True, True), ran.out


REFUSED = [
    (TABLE, ["--where", "amount"], "--where: amount is double, and not true or false"),
    (TABLE, ["--where", "nothing > 1"], "--where: there is no column nothing; there are id, customer, amount, orderNo"),
    (JOIN, ["--where", "amount > 1"], "--where: there is no column amount; there are left.id, left.customer"),
    (TABLE, ["--where", "tags = 1"], "--where: SQL has no values of type extension<arrow.json>: convert the column 'tags'"),
    (TABLE, ["--where", "now() > '2020-01-01'"], "--where: the function now is not kept"),
    (TABLE, ["--where", "(id"], "--where: the query cannot be parsed"),
    (TABLE, ["--where", "'id"], "--where: 'id is no SQL"),
    (TABLE, ["--select", "sum(amount) as total"], "--select: an expression is of the columns of one row; --aggregate is for many"),
    (TABLE, ["--select", "id, amount * 2"], "--select: give the expression amount * 2 a name: amount * 2 as NAME"),
    (TABLE, ["--select", "id, amount * 2 as id"], "--select: two columns are called 'id': give them different names"),
    (TABLE, ["--select", "nothing, amount * 2 as twice"], "--select: there is no column 'nothing': there are id, customer"),
    (JOIN, ["--how=semi", "--where=left.id > 1", "--select=right.city"], "--how semi gives left rows alone"),
]


@pytest.mark.parametrize(("command", "options", "sentence"), REFUSED, ids=[str(n) for n, _ in enumerate(REFUSED)])
def test_what_is_no_expression_of_the_columns_is_refused(
    beam_joins: Run, command: list[str], options: list[str], sentence: str
) -> None:
    ran = beam_joins(*command, *options)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran
    assert sentence in ran.err


def test_without_the_extra_its_packages_are_named(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    ran = beam_joins(*TABLE, "--where", "id < 3")
    assert (ran.code, "SQL needs datafusion and sqlglot: pip install" in ran.err) == (2, True), ran
