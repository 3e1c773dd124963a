"""DuckDB judges the others: it agrees with plain Python, and a comparison finds whatever differs."""

import doctest
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.contestants import beam_joins_dicts
from benchmarks.contestants.command import Task
from benchmarks.contestants.duckdb_sql import compute
from benchmarks.contestants.row_lives import pairs
from benchmarks.data.dataset import foreign_key, of_work, tiny
from benchmarks.data.files import provide
from benchmarks.harness.comparison import compare
from benchmarks.works import WORKS, struct
from tests.benchmarks import reference

COLUMNS = {"id": "bigint", "name": "string"}


def read(folder, format):
    if format == "parquet":
        return pq.read_table(folder).to_pylist()
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


def sizes(work):
    return [tiny(work), of_work(work, 400), foreign_key(400, ids=3) if work == "fk-uniform" else of_work(work, 50)]


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.each_value
def test_duckdb_agrees_with_plain_python(work, size, tmp_path):
    data = provide(sizes(work)[size], tmp_path)
    out = tmp_path / "out"
    compute(Task(work, data, out))
    inputs = [read(data / table, WORKS[work].reads) for table in WORKS[work].tables]
    for name, columns in WORKS[work].results.items():
        expected = reference.WORKS[work][name](*inputs)
        assert expected
        came = [tuple(row[column] for column in columns) for row in read(out / name, WORKS[work].writes)]
        assert sorted(came, key=repr) == sorted(expected, key=repr)


def test_the_row_function_of_dicts_makes_the_label_of_the_work():
    assert doctest.testmod(beam_joins_dicts).failed == 0


def test_pairs_include_both_bounds_of_the_window():
    actual = pairs(1, [(10, 7)], [(4, 0), (5, 1), (15, 2), (16, 3)], 5)
    assert [(row["click"], row["ts"]) for row in actual] == [(1, 10), (2, 15)]


def written(folder, *rows):
    folder.mkdir()
    ids, names = zip(*rows, strict=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())}), folder / "part.parquet")
    return folder


@pytest.fixture
def expected(tmp_path):
    return written(tmp_path / "expected", (1, "a"), (2, "b"), (2, "b"), (3, None))


def test_the_order_of_rows_is_free(expected, tmp_path):
    came = compare(expected, written(tmp_path / "came", (3, None), (2, "b"), (1, "a"), (2, "b")), COLUMNS)
    assert came.same
    assert str(came) == "4 rows, the same"


def test_a_missing_row_is_found(expected, tmp_path):
    came = compare(expected, written(tmp_path / "came", (1, "a"), (2, "b"), (3, None)), COLUMNS)
    assert not came.same
    assert str(came) == "1 missing and 0 extra rows, the first missing: id=2, name=b"


def test_an_extra_row_is_found(expected, tmp_path):
    came = compare(expected, written(tmp_path / "came", (1, "a"), (2, "b"), (2, "b"), (3, None), (3, None)), COLUMNS)
    assert (came.rows, came.missing, came.extra, came.first) == (5, 0, 1, "extra: id=3, name=None")


def test_a_changed_row_is_found(expected, tmp_path):
    came = compare(expected, written(tmp_path / "came", (1, "A"), (2, "b"), (2, "b"), (3, None)), COLUMNS)
    assert (came.missing, came.extra) == (1, 1)
    assert came.first == "extra: id=1, name=A"


def test_a_missing_column_or_no_file_is_a_difference(expected, tmp_path):
    assert "amount" in compare(expected, written(tmp_path / "came", (1, "a")), {"id": "bigint", "amount": "bigint"}).first
    (tmp_path / "empty").mkdir()
    assert "there is no file" in compare(expected, tmp_path / "empty", COLUMNS).first


def jsonl(folder, *rows):
    folder.mkdir()
    (folder / "part-0").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "_SUCCESS").write_text("not rows")
    return folder


def test_json_lines_are_compared_with_parquet(expected, tmp_path):
    rows = [{"id": 1, "name": "a"}, {"name": "b", "id": 2}, {"id": 2, "name": "b"}, {"id": 3, "more": 1}]
    assert compare(expected, jsonl(tmp_path / "came", *rows), COLUMNS).same


def test_fields_of_rows_may_come_in_another_order(tmp_path):
    columns = {"row": struct({"a": "bigint", "b": "string"})}
    came = [jsonl(tmp_path / name, {"row": row}) for name, row in (("one", {"a": 1, "b": "x"}), ("other", {"b": "x", "a": 1}))]
    assert compare(*came, columns).same


@pytest.mark.parametrize("retracts", ["debezium", "diff"])
def test_a_result_that_retracts_is_what_its_inserts_and_deletes_come_to(retracts, expected, tmp_path):
    rows = [{"id": 1, "name": "z"}, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 2, "name": "b"}, {"id": 3, "name": None}]
    if retracts == "debezium":
        records = [{"op": "c", "before": None, "after": row} for row in rows]
        deleted = {"op": "d", "before": rows[0], "after": None}
    else:
        records = [{**row, "diff": 1, "time": 5} for row in rows]
        deleted = {**rows[0], "diff": -1, "time": 6}
    assert compare(expected, jsonl(tmp_path / "came", *records, deleted), COLUMNS, retracts=retracts).same
    left = compare(expected, jsonl(tmp_path / "with", *records), COLUMNS, retracts=retracts)
    assert (left.missing, left.extra, left.first) == (0, 1, "extra: id=1, name=z")
