"""TPC-H's tables with refreshes as changelogs, and its queries as views over them."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from benchmarks.harness.process import ContestantFailed
from benchmarks.tpch.__main__ import Kept
from benchmarks.tpch.queries import KEYS
from benchmarks.tpch.refreshes import LOTS, SIZES, content, provide_refreshes

SCALE = 0.01
ORDERS_OF_A_LOT = 15


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provide_refreshes(SCALE, tmp_path_factory.mktemp("refreshes"))


def changes(logs: Path, table: str, number: int) -> dict[str, list[tuple[int, ...]]]:
    """The keys of a refresh by operation."""
    rows = pq.read_table(logs / table / f"{number}.parquet", columns=[*KEYS[table], "op", "seq"]).to_pylist()
    assert {row["seq"] for row in rows} == {number}
    return {op: [tuple(row[name] for name in KEYS[table]) for row in rows if row["op"] == op] for op in "ud"}


@pytest.mark.process
def test_a_refresh_inserts_orders_that_were_not_there_and_deletes_as_many_others(logs: Path) -> None:
    there = set(changes(logs, "orders", 0)["u"])
    assert len(there) == ORDERS_OF_A_LOT * (LOTS - sum(SIZES))
    for number, lots in enumerate(SIZES, start=1):
        of_number = changes(logs, "orders", number)
        assert len(of_number["u"]) == len(of_number["d"]) == ORDERS_OF_A_LOT * lots
        assert there.isdisjoint(of_number["u"])
        assert there.issuperset(of_number["d"])
        there = (there | set(of_number["u"])) - set(of_number["d"])


@pytest.mark.process
@pytest.mark.parametrize("table", ["orders", "lineitem", "nation"])
def test_the_content_after_a_refresh_is_what_its_changes_leave(logs: Path, table: str) -> None:
    there = set[tuple[int, ...]]()
    for number in range(len(SIZES) + 1):
        if (logs / table / f"{number}.parquet").exists():
            of_number = changes(logs, table, number)
            there = (there - set(of_number["d"])) | set(of_number["u"])
        rows = duckdb.sql(f"SELECT {', '.join(KEYS[table])} FROM ({content(table, logs, number)})").fetchall()
        assert len(rows) == len(there)
        assert set(rows) == there


@pytest.mark.sweep
def test_a_kept_query_has_the_right_answer_after_each_refresh_and_another_is_told(logs: Path, tmp_path: Path) -> None:
    kept = Kept(3, logs, tmp_path / "kept")
    assert kept.run(0) > 0
    (tmp_path / "kept" / "in" / "1").mkdir()  # a refresh without its orders
    (tmp_path / "kept" / "in" / "1" / "lineitem.parquet").hardlink_to(logs / "lineitem" / "2.parquet")
    with pytest.raises(ContestantFailed, match="refresh 3: .* missing"):
        kept.run(3)


@pytest.mark.sweep
def test_a_kept_query_has_the_right_answer_under_follow(logs: Path, tmp_path: Path) -> None:
    kept = Kept(3, logs, tmp_path / "kept")
    for number in range(4):
        kept.run(number)
    assert kept.followed() > 0
    assert kept.state_bytes() > 0
