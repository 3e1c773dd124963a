"""Made-up histories that come in pieces: whole, in order, and the same when they are read again."""

from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.json import read_json

from benchmarks.data.endless import SCHEMAS, Endless
from benchmarks.data.nightly import ALL, FIRST, SHARES, provide_nightly
from benchmarks.harness.flow import Flow, Sample, flow_report


def read(endless, table, *, place=0):
    _, end = endless.range(table)
    return list(endless.pieces(table, place, end))


def test_an_endless_source_gives_each_change_once_in_the_order_of_time_wherever_it_begins():
    endless = Endless(changes=12_000, orders=700, customers=50, per_second=1_000)
    for table in SCHEMAS:
        pieces = read(endless, table)
        rows = pa.Table.from_batches([element.value for piece in pieces for element in piece.elements])
        times = rows["at"].to_pylist()
        assert times == sorted(times)
        assert pieces[-2].after == rows.num_rows == endless.range(table)[1]
        assert pieces[-1].largest > endless.last, "the end of the last tick is not told"
        rest = read(endless, table, place=7_000 if table == "orders" else 60)
        again = pa.Table.from_batches([element.value for piece in rest for element in piece.elements])
        assert again.equals(rows.slice(rows.num_rows - again.num_rows))


def test_all_customers_are_there_before_the_first_order():
    endless = Endless(changes=100, orders=10, customers=50, per_second=1_000)
    customers = read(endless, "customers")[0].elements[0].value
    assert customers["id"].to_pylist()[:50] == list(range(50))
    assert customers["at"].to_pylist()[49] < endless.begin


def test_nothing_comes_before_its_time():
    later = Endless(changes=100, orders=10, customers=50, per_second=1_000, live=2**60)
    assert read(later, "orders") == []
    assert read(later, "customers")[-1].after == 50


@pytest.mark.parametrize(("shop", "position"), [(False, "seq"), (True, "lsn")])
def test_all_pieces_of_a_nightly_history_are_in_the_whole_one(tmp_path, shop, position):
    folder = provide_nightly(20_000, tmp_path, shop=shop)

    def rows(piece, name):
        files = sorted((folder / piece / name).iterdir())
        return pa.concat_tables([read_json(path) if shop else pq.read_table(path) for path in files])

    for name in ("orders", "customers"):
        pieces = [rows(piece, name) for piece in (FIRST, *SHARES)]
        assert rows(ALL, name).sort_by(position).equals(pa.concat_tables(pieces).sort_by(position))
        ends = [(piece[position].to_pylist()[0], piece[position].to_pylist()[-1]) for piece in pieces]
        assert all(one[1] < other[0] for one, other in pairwise(ends))


def test_a_report_tells_rate_wait_memory_and_results(tmp_path):
    endless = Endless(changes=10, orders=10, customers=5, per_second=1, live=1_000_000)
    # a result for each change, two seconds after it
    (tmp_path / "7.txt").write_text("".join(f"{at + 2_000_000} 1 {at} {at}\n" for at in range(1_000_000, 11_000_000, 1_000_000)))
    flow = Flow(tmp_path, None)
    flow.samples = [Sample(at * 1_000_000, 10**9, 2 * 10**9, at / 2, at / 2) for at in range(14)]
    lines = flow_report(flow, endless).splitlines()
    assert lines[-1] == "10 results"
    assert lines[-3] == "| 10 | 1 | 2.0 | 2.0 | 1.00 | 2.00 | 2 | 1 |"
