"""What the tests of python -m pipelines.orders share: how to run it, and how to read what it wrote and said."""

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from tests.pipelines.naive_orders import Answer, Row, in_order, naive_orders


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
GOOD = {"order_id": 1, "customer_id": 1, "amount": 1.5, "op": "c", "lsn": 1, "updated_at": 1}
BAD = {
    "not JSON": '{"order_id": 1, "oops',
    "not a JSON object but [1, 2]": "[1, 2]",
    "no column 'order_id'": json.dumps({k: v for k, v in GOOD.items() if k != "order_id"}),
    "column 'order_id' is no key: [1]": json.dumps({**GOOD, "order_id": [1]}),
    "column 'customer_id' is no key: 1.5": json.dumps({**GOOD, "customer_id": 1.5}),
    "column 'updated_at' is not a time: 'noon'": json.dumps({**GOOD, "updated_at": "noon"}),
    "column 'updated_at' is not a time: None": json.dumps({**GOOD, "updated_at": None}),
    "column 'updated_at' is not a time: '1712011512301'": json.dumps({**GOOD, "updated_at": "1712011512301"}),
    "column 'updated_at' is not a time: '20240401'": json.dumps({**GOOD, "updated_at": "20240401"}),
    "column 'updated_at' is not a time: '171201151230159.5'": json.dumps({**GOOD, "updated_at": "171201151230159.5"}),
    "column 'lsn' is not a whole number: 'x'": json.dumps({**GOOD, "lsn": "x"}),
    "column 'lsn' is not a whole number: '1_000'": json.dumps({**GOOD, "lsn": "1_000"}),
    "column 'lsn' is not a whole number: ' 7 '": json.dumps({**GOOD, "lsn": " 7 "}),
    "column 'lsn' is not a whole number: '\u0661\u0662'": json.dumps({**GOOD, "lsn": "\u0661\u0662"}),
    "column 'lsn' does not fit in 64 bits": json.dumps({**GOOD, "lsn": 2**63}),
    "column 'updated_at' does not fit in 64 bits as microseconds": json.dumps({**GOOD, "updated_at": 10**30}),
    "column 'op' is 'x': add x to --orders-apply-as-upserts, --orders-apply-as-deletes or": json.dumps({**GOOD, "op": "x"}),
    "column 'op' is null: add null to --orders-apply-as-upserts": json.dumps({**GOOD, "op": None}),
    "column 'order_id' holds whole numbers, but here text: '1'": json.dumps({**GOOD, "order_id": "1"}),
    "column 'customer_id' holds whole numbers, but here text: 'Ann'": json.dumps({**GOOD, "customer_id": "Ann"}),
    "column 'amount' is not a number: 'much'": json.dumps({**GOOD, "amount": "much"}),
}


def run_of(main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]) -> Run:
    """A program as a function of its arguments."""

    def run_main(*argv: object) -> Ran:
        try:
            code = main([str(argument) for argument in argv])
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, *capsys.readouterr())

    return run_main


def read_lines(path: Path) -> list[Row]:
    data = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


def read_avro(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        yield from fastavro.reader(file)  # type: ignore[misc]


def inputs(files: SampleFiles) -> list[object]:
    return ["--orders", files.orders, "--customers", files.customers]


def naive(files: SampleFiles, **options: Any) -> Answer:
    return naive_orders(read_lines(files.orders), read_lines(files.customers), **options)


def changes_in(records: list[Row]) -> list[str]:
    return in_order([(r["key"], r["op"], r["old"], r["new"], r["position"]) for r in records])


def one_sentence(ran: Ran) -> str:
    """What a wrong input must lead to: code 2, one line on stderr, nothing on stdout."""
    assert ran.code == 2, ran
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if not line.startswith("WARNING")]
    assert len(lines) == 1, ran.err
    assert lines[0].startswith("python -m pipelines.orders: ")
    return lines[0].removeprefix("python -m pipelines.orders: ")


def nothing_is_left(directory: Path) -> bool:
    return not directory.exists() or list(directory.iterdir()) == []


def numbers(summary: str) -> dict[Any, int]:
    """The counts in a summary by section and line, those of dropped records also by reason."""
    actual: dict[Any, int] = {}
    section = ""
    for line in summary.splitlines():
        if not line.startswith(" "):
            section = line
        elif section != "seconds" and (counted := re.match(r"  (\w+) +([\d,]+)(?:.*\((\w+)\)$)?", line)):
            name, count, reason = counted.groups()
            actual[(section, name, reason) if section == "dropped" else (section, name)] = int(count.replace(",", ""))
    return actual


def dropped_in(message: dict[Any, int]) -> dict[tuple[str, str], int]:
    return {key[1:]: count for key, count in message.items() if key[0] == "dropped"}


def write(path: str, *rows: Row) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
