"""The benchmarks' input has the shape that is said of it."""

import json
from dataclasses import replace

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.data.changes import draw
from benchmarks.data.dataset import Dataset, few_ids, foreign_key, of_work, tables_of_one_key, tiny, two_streams
from benchmarks.data.files import ROW_GROUP_ROWS, provide
from benchmarks.works import RAW, STREAM_MICROSECONDS, WINDOW_MICROSECONDS, WORKS


@pytest.mark.parametrize("kind", ["uniform", "zipf"])
def test_orders_and_customers(kind):
    drawn = draw(foreign_key(20_000, kind=kind))
    orders, customers = drawn["orders"], drawn["customers"]
    assert (orders.num_rows, customers.num_rows) == (20_000, 2_000)
    assert pc.sum(orders["deleted"]).as_py() == 1_000
    assert pc.sum(customers["deleted"]).as_py() == 40
    assert sorted(orders["seq"].to_pylist() + customers["seq"].to_pylist()) == list(range(22_000))
    assert orders["customer"].null_count == orders["amount"].null_count == 1_000
    assert customers["name"].null_count == 40
    assert set(orders["customer"].drop_null().to_pylist()) <= set(range(400))


def test_a_name_says_the_customer_and_its_version():
    versions = {}
    for row in draw(foreign_key(1_000))["customers"].to_pylist():
        versions[row["id"]] = versions.get(row["id"], 0) + 1
        assert row["deleted"] or row["name"] == f"customer {row['id']} v{versions[row['id']]}"


def test_zipf_has_a_customer_with_a_large_share():
    def largest(kind):
        counts = pc.value_counts(draw(foreign_key(20_000, kind=kind))["orders"]["customer"].drop_null())
        return pc.max(counts.field("counts")).as_py() / 19_000

    assert largest("zipf") > 0.1 > 0.01 > largest("uniform")


def test_two_tables():
    drawn = draw(tables_of_one_key(10_000))
    assert sorted(drawn["left"]["seq"].to_pylist() + drawn["right"]["seq"].to_pylist()) == list(range(20_000))
    for name, value in (("left", "a"), ("right", "b")):
        table = drawn[name]
        assert pc.sum(table["deleted"]).as_py() == table[value].null_count == 500
        assert pc.max(table["id"]).as_py() < 3_000


def test_four_tables_have_one_sequence_and_one_column_each():
    drawn = draw(of_work("tables-four", 1_000))
    assert sorted(seq for table in drawn.values() for seq in table["seq"].to_pylist()) == list(range(4_000))
    assert [table.column_names[1] for table in drawn.values()] == list("abcd") == list(drawn)


def test_a_record_has_about_three_matches():
    drawn = draw(two_streams(20_000))
    assert drawn["views"].num_rows == drawn["clicks"].num_rows == 20_000
    per_key = 50
    assert per_key * 2 * WINDOW_MICROSECONDS / STREAM_MICROSECONDS == 3


def test_few_ids_have_five_changes_each():
    dataset = few_ids(20_000)
    assert (dataset.left + dataset.right, dataset.left_ids) == (100_000, 20_000)


def test_the_same_sizes_give_the_same_rows():
    assert draw(foreign_key(500)) == draw(foreign_key(500))


def test_files_hold_the_rows_in_order_of_their_positions(tmp_path):
    folder = provide(of_work("fk-uniform", 4_000), tmp_path)
    assert {name.name: len(list(name.iterdir())) for name in folder.iterdir()} == {"orders": 8, "customers": 2}
    positions = [seq for file in sorted((folder / "orders").iterdir()) for seq in pq.read_table(file)["seq"].to_pylist()]
    assert positions == sorted(positions)
    assert len(positions) == 4_000


def test_files_are_cut_into_row_groups_and_kept(tmp_path):
    dataset = Dataset("tables", 150_000, 10, 100, 10, 1, 1)
    folder = provide(dataset, tmp_path)
    (file,) = (folder / "left").iterdir()
    assert pq.ParquetFile(file).metadata.row_group(0).num_rows == ROW_GROUP_ROWS
    written = file.stat().st_mtime_ns
    assert provide(dataset, tmp_path) == folder
    assert file.stat().st_mtime_ns == written
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize("work", [name for name, work in WORKS.items() if work.reads == "parquet"])
def test_tiny_data_are_one_small_file_a_table(work, tmp_path):
    folder = provide(tiny(work), tmp_path)
    assert [pq.read_table(file).num_rows for table in folder.iterdir() for file in table.iterdir()] == [100] * len(WORKS[work].tables)


def test_wide_rows_have_text_keys_and_ten_columns():
    drawn = draw(of_work("fk-wide", 2_000))
    orders, customers = drawn["orders"].to_pylist(), drawn["customers"].to_pylist()
    assert len(orders[0]) == 10
    live = next(row for row in orders if row["op"] == "u")
    assert (len(live["note"]), live["order_id"][:6], live["customer_id"][:9]) == (200, "order-", "customer-")
    assert all(row["note"] is row["customer_id"] is row["status"] is None for row in orders if row["op"] == "d")
    assert {row["customer_id"] for row in orders if row["op"] == "u"} <= {f"customer-{number:08}" for number in range(40)}
    assert {row["customer_id"] for row in customers} <= {f"customer-{number:08}" for number in range(40)}


RIGHT_ROWS = {
    "fk-wide": [5_000, 100_000, 100_000],
    "fk-short": [5_000, 20_000, 20_000],
    "fk-wide-large": [150_000, 3_000_000, 3_000_000],
}


def test_right_tables_of_wide_rows_are_small_or_large():
    sizes = {work: [of_work(work, rows).right for rows in (50_000, 1_000_000, 10_000_000)] for work in RIGHT_ROWS}
    assert sizes == RIGHT_ROWS


def test_json_lines_hold_the_rows_of_parquet_files(tmp_path):
    dataset = of_work("orders-parquet", 200)
    folder, lines = provide(dataset, tmp_path), provide(replace(dataset, format="json"), tmp_path)
    for table in RAW:
        rows = [json.loads(line) for file in sorted((lines / table).iterdir()) for line in file.read_text().splitlines()]
        assert rows == pq.read_table(folder / table).to_pylist()
