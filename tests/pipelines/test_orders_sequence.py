"""python -m pipelines.orders: transactions that change a row several times, and records that nothing but
their place in the files orders.
"""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.pipelines.orders_run import Run, dropped_in, numbers, one_sentence, read_lines, write

ORDER = {"order_id": 1, "customer_id": 1, "updated_at": 7, "op": "u", "commit_lsn": 1}
CUSTOMER = {"customer_id": 1, "op": "c", "lsn": 1, "commit_lsn": 1, "updated_at": 1}
FILES = ("--orders", "o.jsonl", "--customers", "c.jsonl", "--output", "e.jsonl", "--latest", "l.jsonl")
FINER = ("--orders-sequence-by", "commit_lsn, lsn", "--customers-sequence-by", "commit_lsn,lsn")
ROUGH = ("--orders-sequence-by", "commit_lsn", "--customers-sequence-by", "commit_lsn")


def order(key: int, commit: int, lsn: int, op: str, **values: Any) -> dict[str, Any]:
    return {"order_id": key, "customer_id": 1, **values, "op": op, "commit_lsn": commit, "lsn": lsn, "updated_at": commit * 100}


TRANSACTIONS = [
    order(1, 10, 100, "c", amount=50.0),
    order(1, 10, 101, "u", amount=9.0),
    order(2, 11, 102, "c", amount=5.0),
    order(2, 11, 103, "d", amount=5.0),
    order(3, 9, 99, "c", amount=5.0),
    order(3, 12, 104, "u", amount=6.0),
    order(3, 12, 105, "d", amount=6.0),
]
CHANGES = [(1, "insert", 10), (3, "delete", 12), (3, "insert", 9)]


def changes() -> list[tuple[Any, ...]]:
    return sorted((record["key"], record["op"], record["position"]) for record in read_lines(Path("e.jsonl")))


@pytest.mark.parametrize("seed", range(3))
def test_with_a_finer_order_the_last_change_of_a_row_in_a_transaction_counts_and_nothing_is_dropped(run: Run, seed: int) -> None:
    write("o.jsonl", *random.Random(seed).sample(TRANSACTIONS, len(TRANSACTIONS)))
    write("c.jsonl", CUSTOMER)
    ran = run(*FILES, *FINER)
    assert ran.code == 0, ran.err
    assert changes() == CHANGES
    assert dropped_in(numbers(ran.out)) == {}
    assert read_lines(Path("l.jsonl")) == [
        {"order_id": 1, "customer_id": 1, "amount": 9.0, "updated_at": 1000, "customer": {"customer_id": 1, "updated_at": 1}}
    ]


def test_without_one_the_last_in_the_file_counts_and_the_summary_says_what_to_do(run: Run) -> None:
    write("o.jsonl", *TRANSACTIONS, TRANSACTIONS[-1])
    write("c.jsonl", CUSTOMER)
    ran = run(*FILES, *ROUGH, "--orders-apply-as-deletes=op")
    assert ran.code == 0, ran.err
    assert dropped_in(numbers(ran.out)) == {("orders", "ambiguous_position"): 3, ("orders", "duplicate_position"): 1}
    assert "give a finer order: --orders-sequence-by commit_lsn,lsn (ambiguous_position)" in ran.out
    assert changes() == CHANGES
    (row,) = read_lines(Path("l.jsonl"))
    assert (row["amount"], sorted(row)) == (9.0, ["amount", "customer", "customer_id", "lsn", "order_id", "updated_at"])


def many(count: int) -> list[dict[str, Any]]:
    """Many changes of few rows at one position; ``nr`` says which is the last."""
    chance = random.Random(count)
    return [{**ORDER, "order_id": chance.randrange(5), "nr": nr} for nr in range(count)]


def last_of(rows: list[dict[str, Any]]) -> dict[int, int]:
    return {row["order_id"]: row["nr"] for row in rows}


def latest() -> dict[int, int]:
    return {row["order_id"]: row["nr"] for row in read_lines(Path("l.jsonl"))}


@pytest.mark.parametrize("suffix", [".jsonl", ".avro"])
def test_the_place_in_the_file_counts_however_it_is_cut_into_parts(run: Run, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 1_000)
    rows = many(300)
    write("c.jsonl", CUSTOMER)
    if suffix == ".jsonl":
        write("o.jsonl", *rows)
    else:
        fields = [{"name": name, "type": "string" if name == "op" else "long"} for name in rows[0]]
        with Path("o.avro").open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "O", "fields": fields}, rows, sync_interval=500)
    ran = run("--orders", f"o{suffix}", *FILES[2:], *ROUGH)
    assert ran.code == 0, ran.err
    assert latest() == last_of(rows)
    assert dropped_in(numbers(ran.out)) == {("orders", "ambiguous_position"): 295}


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_a_row_that_comes_and_goes_at_one_position_is_gone_in_any_part_of_a_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 200)
    rows = [order(key, 10, 100, op, nr=nr) for nr, op in enumerate("cdcu") for key in range(4) if nr < 2 or key < 2]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    Path(f"o{suffix}").write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    write("c.jsonl", CUSTOMER)
    ran = run("--orders", f"o{suffix}", *FILES[2:], *ROUGH, "--orders-apply-as-deletes=op")
    assert ran.code == 0, ran.err
    assert latest() == {0: 3, 1: 3}


def test_of_several_files_the_last_by_name_counts(run: Run) -> None:
    rows = many(90)
    for number in (2, 0, 1):
        write(f"o-{number}.jsonl", *rows[number * 30 : number * 30 + 30])
    write("c.jsonl", CUSTOMER)
    assert run("--orders", "o-?.jsonl", *FILES[2:], *ROUGH).code == 0
    assert latest() == last_of(rows)


def test_the_event_time_counts_before_the_place(run: Run) -> None:
    write("o.jsonl", {**ORDER, "nr": 2, "updated_at": 9}, {**ORDER, "nr": 1, "updated_at": 8})
    write("c.jsonl", CUSTOMER)
    assert run(*FILES, *ROUGH).code == 0
    assert latest() == {1: 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--orders-sequence-by", "commit_lsn,scn"], "orders have no column 'scn' (--orders-sequence-by)"),
        (["--orders-sequence-by", "commit_lsn,op"], "orders: o.jsonl, line 1: column 'op' is not a whole number: 'c'"),
        (["--orders-sequence-by", " , "], "must both name a column or both be empty"),
    ],
)
def test_a_sequence_that_cannot_be_used_is_named(run: Run, options: list[str], message: str) -> None:
    write("o.jsonl", *TRANSACTIONS)
    write("c.jsonl", CUSTOMER)
    assert message in one_sentence(run(*FILES, *FINER, *options))


def test_a_record_without_one_of_the_numbers_is_dropped_and_counted(run: Run) -> None:
    write("o.jsonl", TRANSACTIONS[0], {**TRANSACTIONS[1], "lsn": None})
    write("c.jsonl", CUSTOMER)
    ran = run(*FILES, *FINER)
    assert ran.code == 0, ran.err
    assert dropped_in(numbers(ran.out)) == {("orders", "null_sequence"): 1}
