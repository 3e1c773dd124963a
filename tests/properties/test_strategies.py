"""What the shared strategies promise."""

import pyarrow as pa
from hypothesis import given

from tests.properties import strategies
from tests.reference.record import Record


@given(strategies.left_changelogs(duplicates=True), strategies.cuts())
def test_a_history_that_is_cut_into_runs_has_all_its_rows_in_the_runs_of_their_positions(
    records: list[Record], cuts: list[int]
) -> None:
    rows = strategies.rows_of(records)
    runs = strategies.split(rows, cuts)
    assert len(runs) == len(cuts) + 1
    assert sorted(map(repr, pa.concat_tables(runs).to_pylist())) == sorted(map(repr, rows.to_pylist()))
    for first, last, run in zip([-2, *cuts], [*cuts, 99], runs, strict=True):
        assert all(first < position <= last for position in run["position"].to_pylist())
