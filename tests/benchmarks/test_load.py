"""The cases of load, at a size that shows that they run, and that a wrong result is a failure."""

import pyarrow.parquet as pq
import pytest

from benchmarks.load.__main__ import main, measured
from benchmarks.load.cases import CASES, all_orders, same_as_sql
from benchmarks.load.data import history, many_files, provide
from benchmarks.load.factors import SAID, measure, nightly_wide
from benchmarks.load.watched import RunFailed, watched

MARKS = {"": [pytest.mark.sweep], "spark": [pytest.mark.sweep, pytest.mark.spark]}


@pytest.mark.process
@pytest.mark.parametrize(
    "name", [name if name == "hot-key" else pytest.param(name, marks=MARKS.get(name, MARKS[""])) for name in CASES]
)
def test_every_case_is_right_at_tiny_size(name, tmp_path):
    case = CASES[name]
    done = measured(name, case, case.tiny, tmp_path, (), 300)
    assert done.peak_bytes > 50_000_000
    assert done.processor_seconds > 0.5


@pytest.mark.sweep
def test_a_change_that_is_missing_is_a_wrong_result(tmp_path):
    data, out = provide("pieces", 200, history, tmp_path), tmp_path / "out"
    CASES["pieces"].run(data, out, (), 300)
    same_as_sql(data, out)
    path = next(path for path in sorted(out.rglob("part-*.parquet")) if pq.read_metadata(path).num_rows)
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(RunFailed, match="wrong result"):
        same_as_sql(data, out)


def test_an_order_that_is_missing_is_a_wrong_result(tmp_path):
    data = provide("many-files", 1, many_files, tmp_path)
    (tmp_path / "latest.jsonl").write_text('{"order_id": 100, "customer_id": 1, "amount": 0, "customer": {"name": "customer 1"}}\n')
    with pytest.raises(RunFailed, match="wrong result"):
        all_orders(data, tmp_path)


@pytest.mark.process
def test_more_memory_than_a_case_may_have_is_a_failure(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(CASES, "hot-key", CASES["hot-key"].__class__("changes", 10, 10, CASES["hot-key"].make, most=1000))
    assert main(["--cases", "hot-key", "--data", str(tmp_path)]) == 1
    assert "right, but took" in capsys.readouterr().out


@pytest.mark.process
def test_a_program_that_fails_or_takes_too_long_says_so():
    with pytest.raises(RunFailed, match="ended with code 3"):
        watched(["-c", "raise SystemExit(3)"], limit=60)
    with pytest.raises(RunFailed, match="took longer"):
        watched(["-c", "import time; time.sleep(60)"], limit=0.5)


@pytest.mark.sweep
def test_the_factors_of_a_plan_are_measured(tmp_path):
    factors = measure(provide("nightly_wide", 2_000, nightly_wide, tmp_path), 2_000, 300)
    assert factors._fields == tuple(SAID)
    assert factors.sent > 250  # at least the 200 bytes of a column, and nine others
    assert factors.remembered > 250
    assert 100 < factors.block < 20_000
