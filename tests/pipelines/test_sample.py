"""The sample: the same bytes every time, and everything in it that real changelogs have."""

import hashlib
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pytest

from beam_joins.pipelines.commands.sample.sample_files import main, sample_on_first_use, write_sample
from beam_joins.pipelines.commands.sample.shop import MOST_LATE, Shop

Rows = list[dict[str, Any]]


def read(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    files = write_sample(tmp_path_factory.mktemp("sample"))
    return read(files.orders), read(files.customers)


def test_the_default_sample_is_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    files = write_sample(tmp_path)
    assert [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in files] == ["4c6d062befc524b1", "2f847223b7ac8181"]


def test_the_same_seed_gives_the_same_avro_bytes_and_another_seed_others(tmp_path: Path) -> None:
    first = write_sample(tmp_path / "a", orders=500, customers=50, seed=3, format="avro")
    again = write_sample(tmp_path / "b", orders=500, customers=50, seed=3, format="avro")
    other = write_sample(tmp_path / "c", orders=500, customers=50, seed=4, format="avro")
    assert first.orders.read_bytes() == again.orders.read_bytes()
    assert first.customers.read_bytes() == again.customers.read_bytes()
    assert first.orders.read_bytes() != other.orders.read_bytes()


def test_avro_and_json_lines_hold_the_same_records(tmp_path: Path) -> None:
    lines = write_sample(tmp_path, orders=500, customers=50)
    avro = write_sample(tmp_path, orders=500, customers=50, format="avro")
    for line_file, avro_file in zip(lines, avro, strict=True):
        with avro_file.open("rb") as file:
            records: Rows = list(fastavro.reader(file))  # type: ignore[arg-type]
        for record in records:
            record["updated_at"] = round(record["updated_at"].timestamp() * 1_000_000)
        assert records == read(line_file)


def test_the_numbers_are_numbers_of_lines(sample: tuple[Rows, Rows]) -> None:
    orders, customers = sample
    assert (len(orders), len(customers)) == (20_000, 2_000)


@pytest.mark.parametrize(("orders", "customers"), [(0, 0), (0, 7), (7, 0), (1, 1)])
def test_any_number_of_lines_can_be_asked_for(tmp_path: Path, orders: int, customers: int) -> None:
    files = write_sample(tmp_path, orders=orders, customers=customers)
    assert (len(read(files.orders)), len(read(files.customers))) == (orders, customers)


def test_one_commit_says_one_thing_of_a_key(sample: tuple[Rows, Rows]) -> None:
    for rows, key in zip(sample, ("order_id", "customer_id"), strict=True):
        message: dict[tuple[int, int], dict[str, Any]] = {}
        for row in rows:
            if row[key] is not None:
                assert message.setdefault((row[key], row["lsn"]), row) == row


def test_a_commit_can_be_about_several_rows_and_about_both_tables(sample: tuple[Rows, Rows]) -> None:
    orders, customers = sample
    assert max(Counter(row["lsn"] for row in orders if row["order_id"] is not None).values()) >= 3
    assert {row["lsn"] for row in orders} & {row["lsn"] for row in customers}


def test_every_trouble_of_a_real_changelog_is_in_the_sample(sample: tuple[Rows, Rows]) -> None:
    orders, customers = sample
    ever = {row["customer_id"] for row in customers}
    born = {row["customer_id"]: row["lsn"] for row in reversed(customers) if row["op"] == "c"}
    living = [row for row in orders if row["op"] != "d"]
    by_order: dict[int, Rows] = {}
    for row in sorted(orders, key=lambda row: row["lsn"]):
        by_order.setdefault(row["order_id"], []).append(row)
    by_order.pop(None, None)  # type: ignore[call-overload]
    actual = {
        "inserts, updates and deletes": {row["op"] for row in orders} == {"c", "u", "d"} == {row["op"] for row in customers},
        "changed amounts": any(len({row["amount"] for row in rows if row["op"] != "d"}) > 1 for rows in by_order.values()),
        "changed states": any(len({row["status"] for row in rows}) > 2 for rows in by_order.values()),
        "changed customers": any(len({row["customer_id"] for row in rows if row["op"] != "d"}) > 1 for rows in by_order.values()),
        "orders before their customer": any(row["lsn"] < born.get(row["customer_id"], 0) for row in living),
        "orders of unknown customers": any(row["customer_id"] not in ever for row in living if row["customer_id"] is not None),
        "orders of no customer": any(row["customer_id"] is None for row in living),
        "rows without a key": any(row["order_id"] is None for row in orders) and any(row["customer_id"] is None for row in customers),
        "repeated tombstones": any(len({row["lsn"] for row in rows if row["op"] == "d"}) > 1 for rows in by_order.values()),
        "unsorted lines": [row["lsn"] for row in orders] != sorted(row["lsn"] for row in orders),
        "times that disagree with the commits": any(
            a["updated_at"] > b["updated_at"] for rows in by_order.values() for a, b in pairwise(rows)
        ),
        "exact copies": len({json.dumps(row) for row in orders}) < len(orders),
    }
    assert [trouble for trouble, present in actual.items() if not present] == []


def test_customers_are_skewed(sample: tuple[Rows, Rows]) -> None:
    orders, _ = sample
    counts = Counter(row["customer_id"] for row in orders if row["op"] == "c")
    top = sum(count for _, count in counts.most_common(len(counts) // 100 or 1))
    assert top > 0.1 * sum(counts.values())


def test_no_line_is_later_than_promised() -> None:
    assert max(line.late for line in Shop(orders=30_000, customers=3_000, seed=1).lines()) <= MOST_LATE


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_orders() -> None:
    shop = Shop(orders=200_000, customers=100, seed=1)
    most = 0
    for _ in shop.lines():
        most = max(most, len(shop._open))
    assert 0 < most <= 10_000


def test_the_sample_is_made_once(tmp_path: Path) -> None:
    before = sample_on_first_use(tmp_path / "sample-data").orders.stat().st_mtime_ns
    assert sample_on_first_use(tmp_path / "sample-data").orders.stat().st_mtime_ns == before


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Shop) -> Any:
        yield from ()
        raise OSError("disk full")

    monkeypatch.setattr(Shop, "lines", broken)
    with pytest.raises(OSError, match="disk full"):
        write_sample(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_says_what_it_has_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--orders", "50", "--customers", "5", "--out", str(tmp_path / "new")]) == 0
    assert "orders.jsonl  50 lines" in capsys.readouterr().out


def test_a_directory_that_cannot_be_made_is_one_sentence_and_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--out", str(tmp_path / "file" / "below")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_wrong_number_or_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["--orders", "-1", "--out", str(tmp_path)])
    assert refused.value.code == 2
    with pytest.raises(ValueError, match="avro, jsonl"):
        write_sample(tmp_path, format="csv")  # type: ignore[arg-type]
