"""python -m pipelines.orders: its answers against a naive implementation of the whole job."""

import json
import re
from pathlib import Path

import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from tests.pipelines.naive_orders import in_order
from tests.pipelines.orders_run import Run, changes_in, dropped_in, inputs, naive, nothing_is_left, numbers, read_lines, write

SAMPLE = SampleFiles(Path("sample-data/orders.jsonl"), Path("sample-data/customers.jsonl"))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("least", [None, 60])
@pytest.mark.each_value
def test_changes_and_final_rows_are_those_of_the_naive_job(run: Run, small: SampleFiles, how: str, least: float | None) -> None:
    more = [] if least is None else ["--min-amount", least]
    ran = run(*inputs(small), "--how", how, *more, "--output", "out/e.jsonl", "--latest", "out/l.jsonl")
    assert ran.code == 0, ran.err
    answer, everyone = (naive(small, how=each, keep=lambda order: least is None or order["amount"] >= least) for each in (how, "left"))
    assert changes_in(read_lines(Path("out/e.jsonl"))) == in_order(answer.changes)
    assert sorted(map(json.dumps, read_lines(Path("out/l.jsonl")))) == sorted(map(json.dumps, answer.latest.values()))
    without = [order for order in everyone.latest.values() if order["customer"] is None]
    assert numbers(ran.out)["without a customer", "orders"] == len(without) > 0
    nobody = sum(order["customer_id"] is None for order in without)
    assert f"of {len(everyone.latest):,} final rows ({nobody:,} with a null foreign key)" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("broadcast", [0, 1 << 20])
@pytest.mark.each_value
def test_final_rows_alone_come_with_the_same_counts_and_without_the_joins_changes(
    run: Run, small: SampleFiles, how: str, broadcast: int
) -> None:
    asked = [*inputs(small), "--how", how, "--min-amount", 60, "--latest", "l.jsonl", "--beam_joins_broadcast_bytes", broadcast]
    ran, changes = run(*asked, "--output", "e.jsonl"), len(read_lines(Path("e.jsonl")))
    rows = sorted(map(json.dumps, read_lines(Path("l.jsonl"))))
    alone = run(*asked)
    assert ran.code == alone.code == 0, alone.err
    assert sorted(map(json.dumps, read_lines(Path("l.jsonl")))) == rows
    message, before = numbers(alone.out), numbers(ran.out)
    assert {key: count for key, count in before.items() if key[0] != "engine" and key != ("out", "changes")} == {
        key: count for key, count in message.items() if key[0] != "engine"
    }
    joined = re.search(r"^  join .* rows in, ([\d,]+) out", alone.out, re.MULTILINE)
    assert joined is not None
    assert len(rows) <= int(joined[1].replace(",", "")) < changes


@pytest.mark.slow
def test_without_arguments_it_makes_the_sample_and_its_summary_tells_the_truth(run: Run) -> None:
    ran = run()
    assert ran.code == 0, ran.err
    answer = naive(SAMPLE)
    message = numbers(ran.out)
    assert (message["records in", "orders"], message["records in", "customers"]) == (20_000, 2_000)
    assert message["out", "changes"] == len(answer.changes) == len(read_lines(Path("orders-out/enriched.jsonl")))
    assert message["out", "latest"] == len(answer.latest) == len(read_lines(Path("orders-out/latest.jsonl")))
    assert dropped_in(message) == answer.dropped
    assert message["without a customer", "orders"] == len(naive(SAMPLE, how="left").latest) - len(answer.latest) > 0
    assert f"{Path('orders-out/latest.jsonl').stat().st_size:,} bytes in orders-out/latest.jsonl" in ran.out


def test_changes_of_one_order_stand_in_the_order_of_their_positions(run: Run, small: SampleFiles) -> None:
    assert run(*inputs(small), "--output", "e.jsonl").code == 0
    last: dict[int, int] = {}
    for record in read_lines(Path("e.jsonl")):
        assert last.get(record["key"], -1) < record["position"]
        last[record["key"]] = record["position"]


def test_the_time_of_a_change_is_the_later_of_order_and_customer_when_the_order_changed(run: Run) -> None:
    write("o.jsonl", {"order_id": 1, "customer_id": 5, "amount": 1, "op": "c", "lsn": 2, "updated_at": 30})
    write(
        "c.jsonl", {"customer_id": 5, "op": "c", "lsn": 1, "updated_at": 70}, {"customer_id": 5, "op": "u", "lsn": 3, "updated_at": 50}
    )
    assert run("--orders", "o.jsonl", "--customers", "c.jsonl", "--output", "e.jsonl").code == 0
    assert sorted((r["position"], r["timestamp"]) for r in read_lines(Path("e.jsonl"))) == [(2, 70), (3, 50)]


def test_columns_can_have_other_names_and_times_be_iso_text_or_milliseconds(run: Run) -> None:
    write(
        "o.jsonl",
        {"id": "o1", "buyer": "c1", "total": 5, "kind": "upsert", "n": "7", "at": "2026-01-01T00:00:01+01:00"},
        {"id": "o2", "buyer": "c1", "total": 5, "kind": "upsert", "n": "8", "at": "2026-01-01T00:00:02"},
        {"id": "o1", "kind": "REMOVE", "n": "9", "at": "2026-01-01T00:00:03Z"},
    )
    write("c.jsonl", {"key": "c1", "seq": 1, "ms": 1_767_222_001_500})
    ran = run(
        *[
            "--orders",
            "o.jsonl",
            "--orders-key",
            "id",
            "--orders-sequence-by",
            "n",
            "--orders-timestamp-by",
            "at",
            "--orders-apply-as-deletes",
            "kind=remove",
        ],
        *["--foreign-key", "buyer", "--customers", "c.jsonl", "--customers-key", "key"],
        *[
            "--customers-sequence-by",
            "seq",
            "--customers-timestamp-by",
            "ms",
            "--customers-timestamp-unit",
            "ms",
            "--customers-apply-as-deletes=",
        ],
        *["--customer-field", "bought_by", "--output", "e.jsonl", "--latest", "l.jsonl"],
    )
    assert ran.code == 0, ran.err
    assert read_lines(Path("l.jsonl")) == [
        {"id": "o2", "buyer": "c1", "total": 5, "at": "2026-01-01T00:00:02", "bought_by": {"key": "c1", "ms": 1_767_222_001_500}}
    ]
    times = {(r["key"], r["op"]): r["timestamp"] for r in read_lines(Path("e.jsonl"))}
    assert times["o1", "insert"] == 1_767_222_001_500_000, "the customer's time is the later one"
    assert times["o2", "insert"] == 1_767_225_602_000_000, "without a zone it is UTC"


def test_without_sequences_the_times_order_the_changes(run: Run) -> None:
    row = {"order_id": 1, "customer_id": 5, "amount": 1, "op": "c"}
    write("o.jsonl", {**row, "amount": 2, "updated_at": 20}, {**row, "amount": 1, "updated_at": 10})
    write("c.jsonl", {"customer_id": 5, "op": "c", "updated_at": 5})
    ran = run(
        "--orders", "o.jsonl", "--customers", "c.jsonl", "--orders-sequence-by=", "--customers-sequence-by=", "--latest", "l.jsonl"
    )
    assert ran.code == 0, ran.err
    assert [order["amount"] for order in read_lines(Path("l.jsonl"))] == [2]


@pytest.mark.gate
@pytest.mark.spark
def test_on_spark_the_answer_and_the_summary_are_the_same(run: Run, small: SampleFiles) -> None:
    ran = run(*inputs(small), "--runner=SparkRunner", "--spark_master_url=local[2]", "--output", "e.jsonl", "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    answer = naive(small)
    assert changes_in(read_lines(Path("e.jsonl"))) == in_order(answer.changes)
    message = numbers(ran.out)
    assert (message["records in", "orders"], message["records in", "customers"]) == (2_000, 300)
    assert dropped_in(message) == answer.dropped
    assert message["without a customer", "orders"] == len(naive(small, how="left").latest) - len(answer.latest)


@pytest.mark.sweep
@pytest.mark.spark
def test_on_spark_a_bad_record_is_one_sentence_too(run: Run, with_bad_lines: list[object]) -> None:
    ran = run(*with_bad_lines, "--runner=SparkRunner", "--spark_master_url=local[2]")
    assert ran.code == 2
    assert "o.jsonl, line 6: not JSON" in ran.err.splitlines()[-1]
    assert "Traceback" not in ran.err
    assert nothing_is_left(Path("out"))
