"""python -m pipelines.orders: no number is altered between input and output, and amounts are compared as they
are written.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from beam_joins.pipelines.formats.types.exact_json import dumps_line, loads
from tests.pipelines.orders_run import GOOD, Run, nothing_is_left, one_sentence, read_lines, write

NUMBERS = [
    "123456789012345678901234567890",
    "-9223372036854775809",
    "18446744073709551616",
    "18446744073709551615",
    "9007199254740993.25",
    "0.1000000000000000055511151231257827",
    "12345678901234567e3",
    "1e-400",
    "0.30000000000000004",
    "1.7976931348623157e308",
    "-0.0",
    "1234567890123456789",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_written_with_the_value_that_was_read(number: str) -> None:
    line = f'{{"a": [{{"b": {number}}}], "text": "{number}"}}'
    again = dumps_line(loads(line.encode())).decode()
    written = json.loads(again, parse_float=Decimal)
    assert Decimal(written["a"][0]["b"]) == Decimal(number)
    assert written["text"] == number


@pytest.mark.parametrize("number", ["1e400", "9" * 5000, "NaN", "Infinity", "1e-99999999999999999999"])
def test_a_number_that_cannot_be_kept_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(f'{{"a": {number}}}'.encode())


def test_the_digits_of_orders_and_customers_come_out_as_they_went_in(run: Run) -> None:
    columns = ", ".join(f'"n{i}": {number}' for i, number in enumerate(NUMBERS))
    Path("o.jsonl").write_text(f"{json.dumps(GOOD)[:-1]}, {columns}}}\n")
    Path("c.jsonl").write_text(f'{{"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1, {columns}}}\n')
    ran = run("--orders", "o.jsonl", "--customers", "c.jsonl", "--output", "e.jsonl", "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    change = json.loads(Path("e.jsonl").read_text(), parse_float=Decimal)["new"]
    row = json.loads(Path("l.jsonl").read_text(), parse_float=Decimal)
    for order in (change, row):
        for side in (order, order["customer"]):
            assert [Decimal(side[f"n{i}"]) for i in range(len(NUMBERS))] == list(map(Decimal, NUMBERS))


@pytest.mark.parametrize("column", ["order_id", "customer_id"])
def test_a_whole_number_of_more_than_64_bits_is_no_key_and_makes_a_bad_record(run: Run, column: str) -> None:
    write("o.jsonl", {**GOOD, "order_id": 2**63 - 1}, {**GOOD, column: 2**63})
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    arguments = ["--orders", "o.jsonl", "--customers", "c.jsonl", "--output", "e.jsonl"]
    message = f"orders: o.jsonl, line 2: column '{column}' does not fit in 64 bits: 9223372036854775808"
    assert one_sentence(run(*arguments)).startswith(message)
    assert run(*arguments, "--on-bad-record=drop").code == 0
    assert [r["key"] for r in read_lines(Path("e.jsonl"))] == [2**63 - 1]


def test_what_is_no_number_in_avro_is_text_in_json(run: Run) -> None:
    fields = [{"name": name, "type": "long"} for name in ("order_id", "customer_id", "lsn", "updated_at")]
    fields += [{"name": "op", "type": "string"}, {"name": "x", "type": {"type": "array", "items": "double"}}]
    with Path("o.avro").open("wb") as file:
        row = {**GOOD, "x": [float("nan"), float("-inf"), 0.5]}
        fastavro.writer(file, {"type": "record", "name": "O", "fields": fields}, [row])
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    assert run("--orders", "o.avro", "--customers", "c.jsonl", "--latest", "l.jsonl").code == 0
    assert read_lines(Path("l.jsonl"))[0]["x"] == ["NaN", "-Infinity", 0.5]


@pytest.mark.parametrize(
    ("amount", "least", "kept"),
    [
        ("0.1", "0.1", True),
        ("0.3", "0.3", True),
        ("0.30000000000000004", "0.3", True),
        ("0.3", "0.30000000000000004", False),
        ("9007199254740993", "9007199254740993", True),
        ("9007199254740992", "9007199254740993", False),
        ("123456789012345678901.01", "123456789012345678901.01", True),
        ("123456789012345678901.01", "123456789012345678901.02", False),
    ],
)
def test_amounts_are_compared_as_they_are_written(run: Run, amount: str, least: str, kept: bool) -> None:
    order: dict[str, Any] = {k: v for k, v in GOOD.items() if k != "amount"}
    Path("o.jsonl").write_text(f'{json.dumps(order)[:-1]}, "amount": {amount}}}\n')
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    ran = run("--orders", "o.jsonl", "--customers", "c.jsonl", "--min-amount", least, "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    assert len(read_lines(Path("l.jsonl"))) == kept


@pytest.mark.parametrize("least", ["nan", "inf", "-inf", "sNaN", "much"])
def test_a_least_amount_that_is_no_finite_number_is_refused(run: Run, least: str) -> None:
    ran = run(f"--min-amount={least}", "--orders", "o.jsonl", "--customers", "c.jsonl")
    assert ran.code == 2
    assert ": --min-amount: " in ran.err.splitlines()[-1]
    assert nothing_is_left(Path("orders-out"))


def test_a_number_that_cannot_be_kept_makes_a_bad_record(run: Run) -> None:
    Path("o.jsonl").write_text(f'{json.dumps(GOOD)[:-1]}, "x": {"9" * 5000}}}\n')
    write("c.jsonl", {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1})
    assert "o.jsonl, line 1: not JSON: " in one_sentence(run("--orders", "o.jsonl", "--customers", "c.jsonl"))
