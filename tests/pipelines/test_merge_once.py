"""Writers that merge all changes of a run in one transaction: what the table holds, and how often a run counts."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins import OneToManyJoin, TableFromChangelog
from beam_joins.errors import InputError
from beam_joins.pipelines.results import merge_once, run_mark
from beam_joins.pipelines.results.run_mark import NotAsLeft
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.pipelines.merged_tables import EMULATED, MERGED, Merged
from tests.pipelines.tables import SMALL, WIDE, changes_anew, run, shown, small, table_of

pytestmark = pytest.mark.usefixtures("own_directory")
FIRST = [small(1, 1, "a"), small(2, 2, "b"), small(3, 3, "c"), small(3, 4, None)]
SECOND = [small(1, 5, "aa"), small(2, 6, None), small(4, 7, "d")]


SLOW = {"ducklake": pytest.mark.sweep}
"""DuckLake takes seconds for what Delta and BigQuery do in fractions of one; test_write_duck_lake.py has what is of it alone."""


@pytest.fixture(
    params=[
        *(pytest.param(each, marks=SLOW.get(name, ())) for name, each in MERGED.items()),
        pytest.param(EMULATED, marks=pytest.mark.bigquery),
    ],
    ids=[*MERGED, "emulated"],
)
def there(request: pytest.FixtureRequest) -> Merged:
    """The table that is merged into."""
    request.getfixturevalue(request.param.fixture)
    return request.param  # type: ignore[no-any-return]


def writing(there: Merged) -> Any:
    return lambda table: table | "merged" >> there.writer(key="id")


def test_a_table_holds_what_the_table_holds(there: Merged) -> None:
    latest = run(there.wide, WIDE, writing(there))
    assert shown(there.rows()) == shown(latest)


def test_a_second_run_over_the_whole_changelog_updates_and_deletes(there: Merged) -> None:
    run(FIRST, SMALL, writing(there))
    latest = run(FIRST + SECOND, SMALL, writing(there))
    assert shown(there.rows()) == shown(latest) == shown([{"id": 1, "name": "aa"}, {"id": 4, "name": "d"}])


@pytest.mark.slow
def test_runs_that_go_on_merge_their_own_changes_one_version_each(there: Merged, tmp_path: Path) -> None:
    for number, rows in enumerate((FIRST, SECOND, [small(1, 8, None), small(2, 9, "again")]), 1):
        latest = run(rows, SMALL, writing(there), state=tmp_path / "state")
        assert there.version() == number
        assert shown(there.rows()) == shown(latest)
    run([], SMALL, writing(there), state=tmp_path / "state")
    assert there.version() == 3


@pytest.mark.slow
def test_a_run_that_fails_after_its_merge_counts_once_when_it_is_done_again(
    there: Merged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(FIRST, SMALL, writing(there), state=tmp_path / "state")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
        patched.setattr(StateFolder, "prepare", _killed)
        run(SECOND, SMALL, writing(there), state=tmp_path / "state")
    assert there.version() == 2
    latest = run(SECOND, SMALL, writing(there), state=tmp_path / "state")
    assert there.version() == 2
    assert shown(there.rows()) == shown(latest)
    run([small(9, 9, "i")], SMALL, writing(there), state=tmp_path / "state")
    assert there.version() == 3


def test_a_run_that_is_done_again_with_more_records_merges_these_too(
    there: Merged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
        patched.setattr(StateFolder, "prepare", _killed)
        run(FIRST, SMALL, writing(there), state=tmp_path / "state")
    latest = run(FIRST + SECOND, SMALL, writing(there), state=tmp_path / "state")
    assert shown(there.rows()) == shown(latest)


def _killed(folder: StateFolder, moves: Any = ()) -> None:
    raise OSError("killed")


def test_a_bundle_that_is_tried_again_writes_nothing(there: Merged) -> None:
    merge, parts = there.merge_of([(1, "a"), (2, "b"), (2, None)])
    assert merge.merge(parts) == merge.merge(parts)
    assert there.version() == 1
    assert there.rows() == [{"id": 1, "name": "a"}]


def test_the_same_rows_in_another_order_of_arrival_count_once_too(there: Merged) -> None:
    rows = [(number, f"{number}") for number in range(9)]
    merge, parts = there.merge_of(rows)
    _, again = there.merge_of(rows[::-1])
    assert merge.merge(parts) == merge.merge(again)
    assert there.version() == 1


def test_merges_of_many_writers_at_the_same_time_are_all_there_and_those_of_one_run_once(
    there: Merged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_once, "ATTEMPTS", 60)  # a busy machine merges slowly
    monkeypatch.setattr(merge_once, "WAIT", 0.02)
    there.merge_of([(0, "first")], application="begin")[0].merge([])
    of_others = [there.merge_of([(number, f"{number}")], application=f"{number}") for number in range(1, 5)]
    of_one = [there.merge_of([(7, "seven")]) for _ in range(3)]
    with ThreadPoolExecutor(7) as pool:
        list(pool.map(lambda each: each[0].merge(each[1]), [*of_others, *of_one]))
    assert shown(there.rows()) == shown([*({"id": n, "name": f"{n}"} for n in range(1, 5)), {"id": 7, "name": "seven"}])
    assert there.version() == 5


def test_a_run_that_is_older_than_what_the_table_has_is_refused(there: Merged) -> None:
    for number, row in ((2, (1, "a")), (3, (1, "b"))):
        merge, parts = there.merge_of([row], run=number)
        merge.merge(parts)
    merge, parts = there.merge_of([(1, "old")], run=2)
    with pytest.raises(InputError, match=f"^{there.path} has had run 3 of 'tests', and this is run 2"):
        merge.merge(parts)


def test_a_run_that_begins_anew_replaces_all_rows_and_is_remembered(there: Merged) -> None:
    for row in ((1, "a"), (2, "b")):
        merge, parts = there.merge_of([row, (5, None)], run=row[0] + 1)
        merge.merge(parts)
    first, parts = there.merge_of([(9, "anew"), (8, None)], run=1)
    first.merge(parts, anew=True)
    assert there.rows() == [{"id": 9, "name": "anew"}]
    second, parts = there.merge_of([(9, None)], run=2)
    assert second.merge(parts) == second.merge(parts)
    assert (there.rows(), there.version()) == ([], 4)


@pytest.mark.parametrize("killed", [False, True])
def test_the_run_of_a_table_that_begins_anew_replaces_all_rows_in_one_version_also_where_it_is_repeated(
    there: Merged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    def replacing(*changes: tuple[int, str | None, int]) -> Any:
        return lambda table: changes_anew(table.pipeline, changes) | "merged" >> there.writer(key="id")

    run(FIRST, SMALL, writing(there), state=tmp_path / "state")
    if killed:
        with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
            patched.setattr(StateFolder, "prepare", _killed)
            run(SECOND, SMALL, replacing((2, "other", 7), (7, "other", 8)), state=tmp_path / "state")
        with pytest.raises(Exception, match=f"{there.path} has been made anew by run 2, which has not ended: repeat it with"):
            run(SECOND, SMALL, writing(there), state=tmp_path / "state")
    run(SECOND, SMALL, replacing((2, "bb", 7), (5, "e", 7), (5, None, 8), (6, "f", 9)), state=tmp_path / "state")
    assert shown(there.rows()) == shown([{"id": 2, "name": "bb"}, {"id": 6, "name": "f"}])
    assert there.version() == 2 + killed
    run([], SMALL, replacing(), state=tmp_path / "state")
    assert there.rows() == []


def test_a_run_without_rows_makes_the_table(there: Merged) -> None:
    run([], SMALL, writing(there))
    assert (there.rows(), there.version()) == ([], 0)


@pytest.mark.parametrize(
    ("present", "sentence"),
    [
        ([("id", pa.int64())], "has the columns id, and the table id, name: write to another one"),
        ([("id", pa.int64()), ("name", pa.int32())], r"column 'name' is int\w* there, and \w+ in the table: give it another name"),
    ],
)
def test_a_table_with_other_columns_is_refused(there: Merged, present: Any, sentence: str) -> None:
    there.make(pa.schema(present))
    with pytest.raises(InputError, match=rf"(?i)^{there.path}:? {sentence}$"):
        there.merge_of([(1, "a")])[0].into.prepare(create=True)
    with pytest.raises(InputError, match=rf"(?i){there.path}:? {sentence}"):
        there.merge_of([(1, "a")])[0].merge([])


def test_columns_that_tell_no_rows_apart_are_refused_when_the_transform_is_applied(there: Merged) -> None:
    fractions = SMALL.set(0, pa.field("id", pa.float64()))
    with pytest.raises(ValueError, match=r"the key's column 'id' is double, by which \w+ finds no row"):
        writing(there)(table_of(beam.Pipeline(), [], fractions))
    twice = SMALL.append(pa.field("ID", pa.string()))
    with pytest.raises(ValueError, match=r"the columns 'id' and 'ID' differ in case alone, by which \w+ tells no columns apart"):
        writing(there)(table_of(beam.Pipeline(), [], twice))
    within = SMALL.append(pa.field("deep", pa.list_(pa.struct([("Aa", pa.int64()), ("aA", pa.int64())]))))
    with pytest.raises(ValueError, match=r"the columns 'deep\.Aa' and 'deep\.aA' differ in case alone"):
        writing(there)(table_of(beam.Pipeline(), [], within))


def test_keys_of_two_columns_of_which_one_may_be_null_find_their_rows(there: Merged) -> None:
    columns = pa.schema([("id", pa.int64()), ("by", pa.int64()), ("lsn", pa.int64()), ("op", pa.string())])

    def joined(table: Any) -> Any:
        log = table.pipeline | "one" >> beam.Create([pa.table({"id": [5], "lsn": [1]})]).with_output_types(pa.Table)
        one = log | "ones" >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
        both = (one, table) | OneToManyJoin({"one": "left.id", "many": "right.id"}, foreign_key="by", how="outer")
        return both | "merged" >> there.writer()

    for rows, expected in (
        ([{"id": 1, "by": 6, "lsn": 2, "op": "u"}], [{"one": 5, "many": None}, {"one": None, "many": 1}]),
        ([{"id": 1, "by": 5, "lsn": 3, "op": "u"}], [{"one": 5, "many": 1}]),
    ):
        run(rows, columns, joined)
        actual = [{name: row[name] for name in ("one", "many")} for row in there.rows()]
        assert all(row in actual for row in expected)
    assert {(row["foreign_key"], row["primary_key"]) for row in there.rows()} == {(5, 1), (6, 1)}


def test_a_table_has_the_mark_of_the_last_run_or_is_refused_until_it_is_made_anew(there: Merged) -> None:
    def marked(rows: list[tuple[int, str | None]], run: int, last: Any, *, anew: bool = False) -> Any:
        merge, parts = there.merge_of(rows, run=run)
        return merge.marked(parts if rows else [], anew=anew, last=last)[1]

    first = marked([(1, "a"), (2, "b")], 1, None)
    assert marked([], 2, first)["run"] == 1, "a run without changes leaves the mark of the one before"
    third = marked([(2, None), (3, "c")], 3, first)
    assert marked([(2, None), (3, "c")], 3, first)["run"] == 3, "a run is done again"
    with pytest.raises(NotAsLeft, match="it has had run 3 of 'tests' as the last one, and not run 1"):
        marked([(4, "d")], 2, first)
    with pytest.raises(NotAsLeft, match="it has had run 3 of 'tests' as the last one, and not run 5"):
        marked([(4, "d")], 6, {**third, "run": 5})
    with pytest.raises(NotAsLeft, match="it has no column gone any more"):
        merge, parts = there.merge_of([(4, "d")], run=4)
        merge.into.schema = merge.into.schema.append(pa.field("gone", pa.string()))
        merge.into._lacking({"id": 0, "name": 0}, {"id": 0, "name": 0, "gone": 0}, widen=True, last={**third, "columns": ["gone"]})
    assert marked([(4, "d")], 6, third, anew=True)["run"] == 6
    assert shown(there.rows()) == shown([{"id": 4, "name": "d"}])


def test_runs_of_a_pipeline_with_a_state_remember_the_mark_of_the_table_or_refuse_it(
    there: Merged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs() -> list[int]:
        with StateFolder(str(tmp_path / "state")) as folder:
            return [mark["run"] for mark in folder.inputs.get("tables written", {}).values()]

    seen = []
    for rows in ([], FIRST, [], SECOND, []):
        run(rows, SMALL, writing(there), state=tmp_path / "state")
        seen.append(runs())
    assert seen[1:] == [[2], [2], [4], [4]]
    with monkeypatch.context() as patch:  # as if the table were put back to an earlier run
        patch.setattr(run_mark, "last_mark", lambda *_: {"run": 5, "version": 5, "columns": []})
        with pytest.raises(
            InputError, match="had run 4 of 'merged' as the last one, and not run 5: write to another table, with an em"
        ):
            run([small(9, 9, "i")], SMALL, writing(there), state=tmp_path / "state")
    run([small(9, 9, "i")], SMALL, writing(there), state=tmp_path / "state")
    assert runs() == [6]
    assert shown(there.rows()) == shown([{"id": 1, "name": "aa"}, {"id": 4, "name": "d"}, {"id": 9, "name": "i"}])
