"""python -m pipelines.orders: what it says of columns, files and records that it cannot use."""

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from tests.pipelines.orders_run import (
    BAD,
    GOOD,
    Run,
    inputs,
    nothing_is_left,
    numbers,
    one_sentence,
    read_lines,
    write,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--orders-key", "nr"], "orders have no column 'nr' (--orders-key)"),
        (["--customers-key", "nr"], "customers have no column 'nr' (--customers-key)"),
        (["--orders-sequence-by", "scn"], "orders have no column 'scn' (--orders-sequence-by)"),
        (["--customers-timestamp-by", "ts"], "customers have no column 'ts' (--customers-timestamp-by)"),
        (["--orders-apply-as-deletes", "x"], "orders have no column 'x' (--orders-apply-as-deletes)"),
        (["--foreign-key", "who"], "orders have no column 'who' (--foreign-key)"),
        (["--min-amount", 3, "--amount", "total"], "orders have no column 'total' (--amount)"),
        (["--min-amount", 3, "--amount", "lsn"], "--amount: 'lsn' is about the change and no column of the row"),
        (["--orders-sequence-by="], "must both name a column or both be empty"),
        (["--orders-key="], "--orders-key must name a column"),
        (["--customer-field", "status"], "orders have a column 'status' already"),
        (["--foreign-key", "status"], "no order would find its customer"),
    ],
)
@pytest.mark.parametrize("format_", ["jsonl", "avro"])
def test_a_wrong_column_is_named_before_anything_runs(
    run: Run, small: SampleFiles, small_avro: SampleFiles, format_: str, options: list[object], message: str
) -> None:
    files = small if format_ == "jsonl" else small_avro
    sentence = one_sentence(run(*inputs(files), "--output", "out/e.jsonl", *options))
    assert message in sentence
    assert nothing_is_left(Path("out"))


def cut_avro(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3_000])


def cut_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(path.read_bytes())[:-3_000])


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("none.jsonl", lambda path: path.unlink(), "there is no file"),
        ("none-*.jsonl", lambda path: None, "there is no file"),
        ("o.txt", lambda path: None, "must end in .avro, .jsonl"),
        ("text.avro", lambda path: None, "is not an Avro file"),
        ("empty.avro", lambda path: path.write_bytes(b""), "is empty"),
        ("o.jsonl.gz", lambda path: None, "Not a gzipped file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_in_one_sentence(
    run: Run, small: SampleFiles, name: str, make: Callable[[Path], Any], message: str
) -> None:
    bad = Path(name)
    if "*" not in name:
        bad.write_bytes(small.orders.read_bytes())
    make(bad)
    sentence = one_sentence(run("--orders", bad, "--customers", small.customers, "--output", "out/e.jsonl"))
    assert message in sentence
    assert name in sentence
    assert nothing_is_left(Path("out"))


@pytest.mark.parametrize(("name", "cut"), [("cut.avro", cut_avro), ("cut.jsonl.gz", cut_gzip)])
@pytest.mark.parametrize("look", [10, 10_000])
def test_a_file_that_is_cut_off_is_found_before_or_in_the_run_even_when_bad_records_may_be_dropped(
    run: Run,
    small: SampleFiles,
    small_avro: SampleFiles,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    cut: Callable[[Path], None],
    look: int,
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.sampling.LOOK_RECORDS", look)
    bad = Path(name)
    bad.write_bytes((small_avro if bad.suffix == ".avro" else small).orders.read_bytes())
    cut(bad)
    sentence = one_sentence(run("--orders", bad, "--customers", small.customers, "--output", "out/e.jsonl", "--on-bad-record=drop"))
    assert name in sentence
    assert "cut off" in sentence or "ended before the end-of-stream" in sentence
    assert nothing_is_left(Path("out"))


def test_a_directory_is_no_changelog(run: Run, small: SampleFiles) -> None:
    assert "is a directory: name a file" in one_sentence(run("--orders", ".", "--customers", small.customers))


@contextmanager
def without_privileges() -> Iterator[None]:
    """As a user who may not read everything, as root may."""
    before = os.geteuid()
    try:
        if before == 0:
            os.seteuid(65534)
        yield
    finally:
        os.seteuid(before)


def test_a_file_that_may_not_be_read_is_named(run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as place:  # the directories of pytest are for their owner alone
        Path(place).chmod(0o777)
        monkeypatch.chdir(place)
        Path("secret.jsonl").write_text("{}")
        Path("secret.jsonl").chmod(0)
        with without_privileges():
            sentence = one_sentence(run("--orders", "secret.jsonl", "--customers", small.customers))
        monkeypatch.undo()
    assert "secret.jsonl: Permission denied" in sentence


@pytest.mark.parametrize("message", list(BAD))
def test_a_bad_record_fails_the_run_in_one_sentence_with_file_and_line(run: Run, message: str) -> None:
    Path("o.jsonl").write_text(f"{json.dumps(GOOD)}\n\n{BAD[message]}\n")
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    sentence = one_sentence(run("--orders", "o.jsonl", "--customers", "c.jsonl", "--min-amount", "1", "--output", "out/e.jsonl"))
    assert sentence.startswith(f"orders: o.jsonl, line 3: {message}")
    assert nothing_is_left(Path("out"))


def test_bad_records_can_be_dropped_counted_and_the_first_are_named(run: Run, with_bad_lines: list[object]) -> None:
    ran = run(*with_bad_lines, "--on-bad-record=drop")
    assert ran.code == 0, ran.err
    assert numbers(ran.out)["dropped", "orders", "bad_record"] == len(BAD)
    assert numbers(ran.out)["records in", "orders"] == 10 + len(BAD)
    assert numbers(ran.out)["out", "changes"] == 10
    assert "    orders: o.jsonl, line 6: not JSON" in ran.out
    assert ran.out.count("    orders: ") == 3


def test_an_orders_own_column_behind_the_records_looked_at_is_not_overwritten_by_the_customer(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.sampling.LOOK_RECORDS", 1)
    write("o.jsonl", GOOD, {**GOOD, "order_id": 2, "customer": "its own"})
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    arguments = ["--orders", "o.jsonl", "--customers", "c.jsonl", "--latest", "l.jsonl"]
    sentence = one_sentence(run(*arguments))
    assert sentence.startswith("orders: o.jsonl, line 2: there is a column 'customer' already: give the customer another name with")
    assert run(*arguments, "--customer-field", "who").code == 0
    assert {row["order_id"]: row.get("customer") for row in read_lines(Path("l.jsonl"))} == {1: None, 2: "its own"}


def test_a_line_number_is_right_deep_in_a_file_that_is_read_in_parts(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 7_001)
    lines = small.orders.read_text().splitlines()
    lines[1_233] = "{"
    Path("o.jsonl").write_text("\n".join(lines))
    assert "o.jsonl, line 1,234: not JSON" in one_sentence(
        run("--orders", "o.jsonl", "--customers", small.customers, "--output", "e.jsonl")
    )
