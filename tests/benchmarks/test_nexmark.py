"""Nexmark's events as a source without an end, and its queries."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.harness.process import ContestantFailed
from benchmarks.nexmark.__main__ import Contest
from benchmarks.nexmark.auctions import FIRST_MILLISECONDS, write
from benchmarks.nexmark.by_hand import BY_HAND
from benchmarks.nexmark.followed_events import AT, FollowedEvents

EVENTS = 20_000


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> FollowedEvents:
    folder = tmp_path_factory.mktemp("nexmark") / "data"
    write(folder, EVENTS)
    return FollowedEvents(folder, EVENTS)


@pytest.mark.parametrize("table", ["person", "auction", "bid", "side"])
def test_a_followed_table_gives_each_row_once_in_the_order_of_time_wherever_it_begins(events: FollowedEvents, table: str) -> None:
    whole = events.rows(table)
    for begin in (0, 7, len(whole)):
        *pieces, last = events.pieces(table, begin, None)
        batches = [element.value for piece in pieces for element in piece.elements]
        assert pa.Table.from_batches(batches, whole.schema).equals(whole.slice(begin))
        assert last.largest is not None
        assert last.largest > events.end, "the watermark does not pass the end"
    times = whole[AT].to_pylist()
    assert times == sorted(times)
    assert FIRST_MILLISECONDS * 1_000 <= times[0] <= times[-1] <= events.end
    assert list(events.pieces(table, len(whole) + 1, None)) == []


@pytest.mark.sweep
@pytest.mark.parametrize("query", BY_HAND)
def test_a_query_by_hand_has_the_rows_of_the_view(query: str, tmp_path: Path) -> None:
    contest = Contest(EVENTS, tmp_path / "contest", tmp_path)
    outs = {name: contest.run(query, name)[1] for name in ("direct runner", "direct runner, by hand")}
    assert len({contest.rows(query, name, out) for name, out in outs.items()}) == 1


@pytest.mark.sweep
def test_rows_that_duckdb_has_not_are_told(tmp_path: Path) -> None:
    contest = Contest(EVENTS, tmp_path / "contest", tmp_path)
    _, out = contest.run("q3", "direct runner")
    file = next(out.glob("*.parquet"))
    rows = pq.read_table(file)
    pq.write_table(rows.slice(1), file)
    with pytest.raises(ContestantFailed, match="1 missing and 0 extra rows"):
        contest.rows("q3", "direct runner", out)
