"""WriteDelta: what a Delta table holds, and how often a run counts."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apache_beam as beam
import deltalake
import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from beam_joins import Change, OneToManyJoin, TableFromChangelog
from beam_joins.batch import ChangeBatch
from beam_joins.coders.block import write_block
from beam_joins.errors import InputError, OutputError
from beam_joins.io import WriteDelta
from beam_joins.pipelines.base.extras import installing
from beam_joins.pipelines.formats.plain_rows import PlainRows
from beam_joins.pipelines.io import write_delta
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from beam_joins.transforms.engine.table_rows import newest
from beam_joins.transforms.engine.table_type import TableType
from tests.pipelines.tables import SMALL, WIDE, WIDE_ROWS, run, shown, small, table_of

pytestmark = pytest.mark.usefixtures("own_directory")
FIRST = [small(1, 1, "a"), small(2, 2, "b"), small(3, 3, "c"), small(3, 4, None)]
SECOND = [small(1, 5, "aa"), small(2, 6, None), small(4, 7, "d")]


def rows_at(path: str = "delta") -> list[dict[str, Any]]:
    return deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]


def version(path: str = "delta") -> int:
    return int(deltalake.DeltaTable(path).version())


def writing(**options: Any) -> Any:
    return lambda table: table | "delta" >> WriteDelta("delta", key="id", **options)


def test_a_delta_table_holds_what_the_table_holds_with_the_types_of_its_columns() -> None:
    latest = run(WIDE_ROWS, WIDE, writing())
    assert shown(rows_at()) == shown(latest)
    schema = pa.schema(deltalake.DeltaTable("delta").schema())
    assert [str(schema.field(name).type) for name in ("amount", "day", "at", "zoned", "tiny", "single")] == [
        "decimal128(12, 2)",
        "date32[day]",
        "timestamp[us]",
        "timestamp[us, tz=UTC]",
        "int8",
        "float",
    ]


def test_a_second_run_over_the_whole_changelog_updates_and_deletes() -> None:
    run(FIRST, SMALL, writing())
    latest = run(FIRST + SECOND, SMALL, writing())
    assert shown(rows_at()) == shown(latest) == shown([{"id": 1, "name": "aa"}, {"id": 4, "name": "d"}])


@pytest.mark.slow
def test_runs_that_go_on_merge_their_own_changes_one_version_each(tmp_path: Path) -> None:
    for number, rows in enumerate((FIRST, SECOND, [small(1, 8, None), small(2, 9, "again")]), 1):
        latest = run(rows, SMALL, writing(), state=tmp_path / "state")
        assert version() == number
        assert shown(rows_at()) == shown(latest)
    run([], SMALL, writing(), state=tmp_path / "state")
    assert version() == 3


@pytest.mark.slow
def test_a_run_that_fails_after_its_merge_counts_once_when_it_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(FIRST, SMALL, writing(), state=tmp_path / "state")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
        patched.setattr(StateFolder, "prepare", _killed)
        run(SECOND, SMALL, writing(), state=tmp_path / "state")
    assert version() == 2
    latest = run(SECOND, SMALL, writing(), state=tmp_path / "state")
    assert version() == 2
    assert shown(rows_at()) == shown(latest)
    run([small(9, 9, "i")], SMALL, writing(), state=tmp_path / "state")
    assert version() == 3


def test_a_run_that_is_done_again_with_more_records_merges_these_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
        patched.setattr(StateFolder, "prepare", _killed)
        run(FIRST, SMALL, writing(), state=tmp_path / "state")
    latest = run(FIRST + SECOND, SMALL, writing(), state=tmp_path / "state")
    assert shown(rows_at()) == shown(latest)


def _killed(folder: StateFolder, moves: Any = ()) -> None:
    raise OSError("killed")


def merge_of(*rows: tuple[int, str | None], application: str = "tests", run: int = 1) -> tuple[Any, list[bytes]]:
    """A merge into the table at ``delta``, and the parts of its rows."""
    reference = TableType(pa.int64(), pa.struct([("name", pa.string())]))
    merge = write_delta._Merge("delta", {}, PlainRows("Test", reference, "id"), application, run)
    count = len(rows)
    batch = ChangeBatch(
        key=pa.array([key for key, _ in rows]),
        new=pa.array([None if name is None else {"name": name} for _, name in rows], reference.value),
        before=pa.nulls(count, pa.int64()),
        timestamp=pa.array(range(count)),
        position=pa.array(range(count)),
    )
    return merge, [merge.part([write_block(newest(batch), "rows")]), b""]


def test_a_bundle_that_is_tried_again_writes_nothing() -> None:
    merge, parts = merge_of((1, "a"), (2, "b"), (2, None))
    assert [merge.merge(parts), merge.merge(parts), version()] == [1, 1, 1]
    assert rows_at() == [{"id": 1, "name": "a"}]


def test_the_same_rows_in_another_order_of_arrival_count_once_too() -> None:
    rows = [(number, f"{number}") for number in range(9)]
    merge, parts = merge_of(*rows)
    _, again = merge_of(*reversed(rows))
    assert [merge.merge(parts), merge.merge(again), version()] == [1, 1, 1]


def test_merges_of_many_writers_at_the_same_time_are_all_there_and_those_of_one_run_once() -> None:
    merge_of((0, "first"), application="begin")[0].merge([])
    of_others = [merge_of((number, f"{number}"), application=f"{number}") for number in range(1, 5)]
    of_one = [merge_of((7, "seven")) for _ in range(3)]
    with ThreadPoolExecutor(7) as pool:
        list(pool.map(lambda each: each[0].merge(each[1]), [*of_others, *of_one]))
    assert shown(rows_at()) == shown([*({"id": n, "name": f"{n}"} for n in range(1, 5)), {"id": 7, "name": "seven"}])
    assert version() == 5


def test_a_merge_that_others_always_come_before_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_delta, "ATTEMPTS", 1)
    merge, parts = merge_of((1, "a"))
    merge.merge([])
    other = merge_of((1, "b"), application="other")
    opened = deltalake.DeltaTable

    def overtaken(path: str, **options: Any) -> Any:
        table = opened(path, **options)
        monkeypatch.setattr(deltalake, "DeltaTable", opened)
        other[0].merge(other[1])
        return table

    overtaken.is_deltatable = opened.is_deltatable  # type: ignore[attr-defined]
    monkeypatch.setattr(deltalake, "DeltaTable", overtaken)
    with pytest.raises(OutputError, match="cannot write delta: others have written to it 1 times meanwhile"):
        merge.merge(parts)


def test_a_run_that_is_older_than_what_the_table_has_is_refused() -> None:
    for number, rows in ((2, (1, "a")), (3, (1, "b"))):
        merge, parts = merge_of(rows, run=number)
        merge.merge(parts)
    merge, parts = merge_of((1, "old"), run=2)
    with pytest.raises(InputError, match="delta has had run 3 of 'tests', and this is run 2"):
        merge.merge(parts)


def test_a_run_without_rows_makes_the_table() -> None:
    run([], SMALL, writing())
    assert version() == 0
    assert rows_at() == []


@pytest.mark.parametrize(
    ("present", "sentence"),
    [
        ([("id", pa.int64())], "delta has the columns id, and the table id, name"),
        ([("id", pa.int64()), ("name", pa.int32())], "column 'name' is int32 there, and string in the table"),
    ],
)
def test_a_delta_table_with_other_columns_is_refused(present: Any, sentence: str) -> None:
    deltalake.DeltaTable.create("delta", pa.schema(present))
    with pytest.raises(Exception, match=sentence):
        run(FIRST, SMALL, writing())


@pytest.mark.parametrize(
    ("column", "kind"),
    [("clock", pa.time64("us")), ("fine", pa.timestamp("ns")), ("long", pa.decimal256(50, 2)), ("map", pa.map_(pa.int8(), pa.int8()))],
)
def test_a_column_that_delta_has_no_type_for_is_refused_when_the_transform_is_applied(column: str, kind: pa.DataType) -> None:
    pipeline = beam.Pipeline()
    with pytest.raises(ValueError, match=f"column '{column}' is .*, which Delta has no type for"):
        writing()(table_of(pipeline, [], SMALL.append(pa.field(column, kind))))


def test_what_cannot_be_written_is_refused_when_the_transform_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = beam.Pipeline()
    fractions = SMALL.set(0, pa.field("id", pa.float64()))
    with pytest.raises(ValueError, match="the key's column 'id' is double, by which Delta finds no row"):
        writing()(table_of(pipeline, [], fractions))
    opaque = pipeline | "opaque" >> beam.Create([Change("k", None, 1, 1, 1)])
    with pytest.raises(ValueError, match="WriteDelta writes typed columns"):
        opaque | "of objects" >> WriteDelta("delta")
    with pytest.raises(ValueError, match="path=.*: give the path of a folder"):
        WriteDelta("")
    monkeypatch.setattr(write_delta, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=f"^Delta tables need deltalake: {re.escape(installing('delta'))}$"):
        WriteDelta("delta")


def test_names_that_differ_in_case_alone_are_refused_with_both_names() -> None:
    pipeline = beam.Pipeline()
    twice = SMALL.append(pa.field("ID", pa.string()))
    with pytest.raises(
        ValueError, match="the columns 'id' and 'ID' differ in case alone, by which Delta tells no columns apart: give one"
    ):
        writing()(table_of(pipeline, [], twice))
    within = SMALL.append(pa.field("deep", pa.list_(pa.struct([("Aa", pa.int64()), ("aA", pa.int64())]))))
    with pytest.raises(ValueError, match=r"the columns 'deep\.Aa' and 'deep\.aA' differ in case alone"):
        writing()(table_of(beam.Pipeline(), [], within))


def test_keys_of_two_columns_of_which_one_may_be_null_find_their_rows() -> None:
    columns = pa.schema([("id", pa.int64()), ("by", pa.int64()), ("lsn", pa.int64()), ("op", pa.string())])

    def joined(table: Any) -> Any:
        log = table.pipeline | "one" >> beam.Create([pa.table({"id": [5], "lsn": [1]})]).with_output_types(pa.Table)
        one = log | "ones" >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
        both = (one, table) | OneToManyJoin({"one": "left.id", "many": "right.id"}, foreign_key="by", how="outer")
        return both | "delta" >> WriteDelta("delta")

    for rows, expected in (
        ([{"id": 1, "by": 6, "lsn": 2, "op": "u"}], [{"one": 5, "many": None}, {"one": None, "many": 1}]),
        ([{"id": 1, "by": 5, "lsn": 3, "op": "u"}], [{"one": 5, "many": 1}]),
    ):
        run(rows, columns, joined)
        actual = [{name: row[name] for name in ("one", "many")} for row in rows_at()]
        assert all(row in actual for row in expected)
    assert {(row["foreign_key"], row["primary_key"]) for row in rows_at()} == {(5, 1), (6, 1)}


def test_duckdb_reads_the_same_rows() -> None:
    latest = run(WIDE_ROWS, WIDE, writing())
    dataset = deltalake.DeltaTable("delta").to_pyarrow_dataset()
    actual = duckdb.sql("SELECT id, amount, day, words, tiny FROM dataset ORDER BY id").to_arrow_table().to_pylist()
    assert actual == [{name: row[name] for name in ("id", "amount", "day", "words", "tiny")} for row in latest]
    assert dataset.count_rows() == 2


@pytest.mark.spark
@pytest.mark.sweep
@pytest.mark.usefixtures("java_home")
def test_spark_reads_the_same_rows_from_the_files_that_the_log_names() -> None:
    run(FIRST, SMALL, writing())
    latest = run(FIRST + SECOND, SMALL, writing())
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        files = deltalake.DeltaTable("delta").file_uris()
        assert shown([row.asDict() for row in spark.read.parquet(*files).collect()]) == shown(latest)
    finally:
        spark.stop()
