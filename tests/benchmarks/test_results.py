"""DuckDB judges the others: it agrees with plain Python, and a comparison finds whatever differs."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.contestants.command import Task
from benchmarks.contestants.duckdb_sql import compute
from benchmarks.contestants.row_lives import pairs
from benchmarks.data.dataset import foreign_key, of_work, tiny
from benchmarks.data.parquet import provide
from benchmarks.harness.comparison import compare
from benchmarks.works import WORKS
from tests.benchmarks import reference

COLUMNS = ("id", "name")


def rows_of(folder, columns):
    return [tuple(row[column] for column in columns) for row in pq.read_table(folder).to_pylist()]


def sizes(work):
    return [tiny(of_work(work, 100).kind), of_work(work, 400), foreign_key(400, ids=3) if work.startswith("fk") else of_work(work, 50)]


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("work", WORKS)
def test_duckdb_agrees_with_plain_python(work, size, tmp_path):
    data = provide(sizes(work)[size], tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    compute(Task(work, data, out))
    inputs = [pq.read_table(data / table).to_pylist() for table in WORKS[work].tables]
    expected = reference.WORKS[work](*inputs)
    assert expected
    assert sorted(rows_of(out, WORKS[work].columns), key=repr) == sorted(expected, key=repr)


def test_pairs_include_both_bounds_of_the_window():
    found = pairs(1, [(10, 7)], [(4, 0), (5, 1), (15, 2), (16, 3)], 5)
    assert [(row["click"], row["ts"]) for row in found] == [(1, 10), (2, 15)]


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
    assert "amount" in compare(expected, written(tmp_path / "came", (1, "a")), ("id", "amount")).first
    (tmp_path / "empty").mkdir()
    assert "no Parquet file" in compare(expected, tmp_path / "empty", COLUMNS).first
