"""TPC-H's orders and customers as changelogs: what the job says of them in the end is what DuckDB says."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.orders import main as orders
from benchmarks.tpch.changelogs import OPTIONS, main, write_tpch

ORDER = (
    "o_orderkey",
    "o_custkey",
    "o_orderstatus",
    "o_totalprice",
    "o_orderdate",
    "o_orderpriority",
    "o_clerk",
    "o_shippriority",
    "o_comment",
)
CUSTOMER = ("c_custkey", "c_name", "c_address", "c_nationkey", "c_phone", "c_acctbal", "c_mktsegment", "c_comment")


@pytest.fixture(scope="session")
def hundredth(tmp_path_factory: pytest.TempPathFactory) -> SampleFiles:
    return write_tpch(tmp_path_factory.mktemp("hundredth"), scale=0.01)


SCALE = float(os.environ.get("TPCH_SCALE", "0.01"))
"""The scale of the runs that are compared with DuckDB; the project's figures are for 0.1, which takes some
minutes.
"""
FINAL_ROWS = {0.01: 14_009, 0.1: 140_921}


@pytest.fixture(scope="session")
def at_scale(tmp_path_factory: pytest.TempPathFactory) -> SampleFiles:
    return write_tpch(tmp_path_factory.mktemp("at-scale"), scale=SCALE)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def differences(files: SampleFiles, latest: Path, *, how: str = "inner", least: float = 0) -> tuple[int, int, int]:
    """DuckDB's own rows, those that only DuckDB has, and those that only the job has."""
    db = duckdb.connect()
    for name, path, key in (("orders", files.orders, "o_orderkey"), ("customers", files.customers, "c_custkey")):
        db.execute(
            f"create view {name} as select * from (select *, row_number() over (partition by {key} order by commit desc) as back "
            f"from read_json('{path}', format = 'newline_delimited', sample_size = -1)) where back = 1 and op <> 'd'"
        )
    columns = ", ".join((*ORDER, *CUSTOMER))
    db.execute(
        f"create table expected as select {columns} from orders {how} join customers on o_custkey = c_custkey where "
        f"o_totalprice >= {least}"
    )
    got = ", ".join((*ORDER, *(f"customer.{column} as {column}" for column in CUSTOMER)))
    db.execute(f"create table got as select {got} from read_json('{latest}', format = 'newline_delimited', sample_size = -1)")
    count = "select count(*) from"
    answers = (
        db.execute(query).fetchone()
        for query in (
            f"{count} expected",
            f"{count} (from expected except all from got)",
            f"{count} (from got except all from expected)",
        )
    )
    rows, missing, extra = (int(answer[0]) for answer in answers if answer)
    return rows, missing, extra


def run(files: SampleFiles, latest: Path, *options: str) -> int:
    return orders(["--orders", str(files.orders), "--customers", str(files.customers), *OPTIONS, "--latest", str(latest), *options])


def check(files: SampleFiles, latest: Path) -> None:
    rows, missing, extra = differences(files, latest)
    print(f"TPC-H at scale {SCALE}: {rows:,} rows in the final table; {missing} only in DuckDB's answer, {extra} only in ours")
    assert rows == FINAL_ROWS.get(SCALE, rows) > 0
    assert (missing, extra) == (0, 0)


@pytest.mark.process
def test_the_final_table_is_duckdbs(at_scale: SampleFiles, tmp_path: Path) -> None:
    assert run(at_scale, tmp_path / "latest.jsonl") == 0
    check(at_scale, tmp_path / "latest.jsonl")


@pytest.mark.sweep
@pytest.mark.spark
def test_the_final_table_is_duckdbs_on_spark(at_scale: SampleFiles, tmp_path: Path) -> None:
    assert run(at_scale, tmp_path / "latest.jsonl", "--runner=SparkRunner", "--spark_master_url=local[2]") == 0
    check(at_scale, tmp_path / "latest.jsonl")


@pytest.mark.process
def test_large_orders_with_or_without_a_customer_are_duckdbs(hundredth: SampleFiles, tmp_path: Path) -> None:
    assert run(hundredth, tmp_path / "latest.jsonl", "--how=left", "--min-amount=100000") == 0
    assert differences(hundredth, tmp_path / "latest.jsonl", how="left", least=100_000) == (9_106, 0, 0)


@pytest.mark.process
def test_the_changelogs_have_inserts_updates_and_deletes_and_end_as_tpch_says(hundredth: SampleFiles) -> None:
    order_rows, customer_rows = map(rows_of, hundredth)
    assert set(Counter(row["op"] for row in order_rows)) == set(Counter(row["op"] for row in customer_rows)) == {"c", "u", "d"}
    last = {row["o_orderkey"]: row["o_orderstatus"] for row in order_rows if row["op"] != "d"}
    assert len(last) == 15_000
    assert set(last.values()) == {"O", "F", "P"}
    again = Counter(row["c_custkey"] for row in customer_rows if row["op"] == "c")
    assert max(again.values()) == 2, "some customers come back"


@pytest.mark.process
def test_one_commit_says_one_thing_of_a_key(hundredth: SampleFiles) -> None:
    for path, key in zip(hundredth, ("o_orderkey", "c_custkey"), strict=True):
        rows = rows_of(path)
        assert len({(row[key], row["commit"]) for row in rows}) == len(rows)


@pytest.mark.process
def test_the_same_scale_gives_the_same_bytes(hundredth: SampleFiles, tmp_path: Path) -> None:
    again = write_tpch(tmp_path, scale=0.01)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in hundredth]


@pytest.mark.process
def test_the_command_line_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scale", "0.001", "--out", str(tmp_path / "t")]) == 0
    message = capsys.readouterr().out
    assert "--orders-key=o_orderkey" in message
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["customers.jsonl", "orders.jsonl"]


def test_without_tpchgen_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert main(["--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "python -m benchmarks.tpch.changelogs: tpchgen-cli is not installed: pip install tpchgen-cli\n"
    assert list(tmp_path.iterdir()) == []
