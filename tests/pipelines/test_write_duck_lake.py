"""WriteDuckLake: what is of DuckLake alone; the rest is in test_merge_once.py."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from random import Random
from typing import Any

import apache_beam as beam
import duckdb
import pyarrow as pa
import pytest

from beam_joins.errors import InputError, OutputError
from beam_joins.io import WriteDuckLake
from beam_joins.pipelines.formats.types.target_types import parquet_type
from beam_joins.pipelines.results import merge_once
from beam_joins.pipelines.results.merge_once import DELETED, LastChanges, MergedRun
from beam_joins.pipelines.results.run_mark import NotAsLeft
from beam_joins.pipelines.systems import write_duck_lake
from beam_joins.transforms.connect.tables import PlainRows, TableType
from beam_joins.values.exact_casts import as_plain, exact_cast
from beam_joins.values.exact_values import ValuePlace
from tests.pipelines.join_run import BY, refused
from tests.pipelines.merged_tables import DUCKLAKE, lake
from tests.pipelines.orders_run import Run, write
from tests.pipelines.tables import SMALL, shown, table_of
from tests.pipelines.test_results_of_commands import GONE, JOIN, NEW, ran
from tests.pipelines.test_target_types import SAMPLES

pytestmark = pytest.mark.usefixtures("own_directory")
NONE_IN_DUCKLAKE = {"decimal256(50, 2)", "time64[ns]", "timestamp[ns, tz=UTC]", "month_day_nano_interval"}


def test_columns_of_each_type_hold_their_values_or_are_refused() -> None:
    def merged(*fields: pa.Field) -> Any:
        return DUCKLAKE.writer(key="id").into(PlainRows("Test", TableType(pa.int64(), pa.struct(fields)), "id", stored=parquet_type))

    taken = []
    for number, sample in enumerate(SAMPLES):
        field = pa.field(f"of {number}", sample.type)
        if str(sample.type) in NONE_IN_DUCKLAKE or pa.types.is_duration(sample.type):
            with pytest.raises(ValueError, match=f"column 'of {number}' is .*, which DuckLake has no type for: leave it out"):
                merged(field)
            with pytest.raises(ValueError, match="column 'in' is .*, which DuckLake has no type for"):
                merged(pa.field("in", pa.struct([("lists", pa.list_(sample.type))])))
        else:
            taken.append((field, as_plain(sample.column)))
    into = merged(*(field for field, _ in taken))
    written = [column.cast(into.schema.field(field.name).type) for field, column in taken]
    batch = pa.record_batch([[7, 8], *written, [False, False]], schema=into.schema.append(pa.field(DELETED, pa.bool_())))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    into.merge(LastChanges(into.schema, [sink.getvalue().to_pybytes()]), MergedRun("tests", 1, 0, anew=False))
    with lake() as connection:
        there = connection.sql("FROM lake.prices ORDER BY id").to_arrow_table()
    for (field, _), column in zip(taken, written, strict=True):
        actual = there[field.name].combine_chunks()
        assert actual.equals(exact_cast(column, actual.type, ValuePlace("a column"))), field


def test_many_merges_leave_what_a_dictionary_would_hold() -> None:
    random = Random(5)
    expected: dict[int, str] = {}
    for number in range(1, 5):
        rows = {random.randrange(40): None if random.random() < 0.3 else f"{number}" for _ in range(random.choice([2, 30]))}
        merge, parts = DUCKLAKE.merge_of(list(rows.items()), run=number)
        merge.merge(parts)
        expected = {key: name for key, name in {**expected, **rows}.items() if name is not None}
        assert shown(DUCKLAKE.rows()) == shown([{"id": key, "name": name} for key, name in expected.items()])
    assert DUCKLAKE.version() == 4


@contextmanager
def _child(does: Callable[[], Any]) -> Iterator[int]:
    """A process that does something and ends with 0, or at once if it is killed."""
    if (child := os.fork()) == 0:
        try:
            does()
        finally:
            os._exit(0)
    try:
        yield child
    finally:
        os.waitpid(child, 0)


class _Killed:
    """A connection whose process ends at one of its calls."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, at: int) -> None:
        self._connection, self._left = connection, at

    def __enter__(self) -> "_Killed":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __getattr__(self, name: str) -> Any:
        self._left -= 1
        if not self._left:
            os._exit(9)
        return getattr(self._connection, name)


@pytest.mark.faults
@pytest.mark.parametrize("before", [[], [(1, "a"), (2, "b")]])
def test_a_process_that_ends_at_any_step_leaves_all_changes_or_none(
    before: list[tuple[int, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = duckdb.connect
    if before:
        merge, parts = DUCKLAKE.merge_of(before)
        merge.merge(parts)
    old = shown([{"id": key, "name": name} for key, name in before])
    merge, parts = DUCKLAKE.merge_of([(1, "aa"), (2, None), (3, "c")], run=2)
    new = shown([{"id": 1, "name": "aa"}, {"id": 3, "name": "c"}])
    seen = []
    for step in range(1, 99):

        def ends(step: int = step) -> None:
            monkeypatch.setattr(duckdb, "connect", lambda: _Killed(opened(), step))
            merge.merge(parts)

        with _child(ends):
            pass
        seen.append(shown(DUCKLAKE.rows()) if merge.into.exists() else old)
        if seen[-1] == new:
            break
    assert {*map(tuple, seen)} == {tuple(old), tuple(new)}
    assert len(seen) > 5
    merge.merge(parts)
    assert (shown(DUCKLAKE.rows()), DUCKLAKE.version()) == (new, 1 + bool(before))


@pytest.mark.process
@pytest.mark.gate
def test_a_lake_that_another_process_has_open_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_once, "ATTEMPTS", 1)
    merge, parts = DUCKLAKE.merge_of([(1, "a")])
    merge.merge(parts)
    is_open, opens = os.pipe()
    ends, ended = os.pipe()

    def holds() -> None:
        with lake():
            os.write(opens, b"x")
            os.read(ends, 1)

    with _child(holds) as child:
        os.read(is_open, 1)
        locked = f'Could not set lock on file ".*lake.ducklake": Conflicting lock is held in .* \\(PID {child}\\)$'
        with pytest.raises(InputError, match=f"^cannot write lake.ducklake, table prices: IO Error: {locked}"):
            merge.into.prepare(create=False)
        with pytest.raises(OutputError, match=f"others use it at each of 1 attempts: IO Error: {locked}"):
            merge.merge(parts)
        os.write(ended, b"x")


def test_a_file_that_is_no_lake_is_refused_and_stays_as_it_is() -> None:
    Path("text").write_text("text" * 2_000)
    duckdb.connect("plain.duckdb").execute("CREATE TABLE a (i INT)").close()
    plain = Path("plain.duckdb").read_bytes()
    of = PlainRows("Test", TableType(pa.int64(), pa.struct([("name", pa.string())])), "id", stored=parquet_type)
    for path, sentence in (
        ("text", 'cannot write text, table t: .*/text" exists, but it is not a valid DuckDB database file!'),
        ("plain.duckdb", "plain.duckdb is a DuckDB database without a DuckLake: name another file"),
        ("none/lake.ducklake", "cannot write none/lake.ducklake, table t: .*No such file or directory"),
    ):
        into = WriteDuckLake(path, "t").into(of)
        with pytest.raises(InputError, match=f"^{sentence}"):
            into.prepare(create=True)
    assert Path("plain.duckdb").read_bytes() == plain
    assert {path.name for path in Path().iterdir()} == {"text", "plain.duckdb"}


def test_a_command_brings_a_table_of_a_lake_up_to_date(beam_joins: Run) -> None:
    to = ["--to", "ducklake:lake.ducklake?table=prices", "--left", "in"]
    options = [*JOIN, "--state-dir", "state", *to]
    Path("in").mkdir()
    Path("l.jsonl").rename("in/1.jsonl")
    assert "ducklake:lake.ducklake?table=prices, which the first run makes" in ran(beam_joins, *options, "--dry-run")
    assert not Path("lake.ducklake").exists()
    for number, rows in enumerate(([], [NEW, GONE]), 1):
        if rows:
            write("in/2.jsonl", *rows)
        assert "changes merged into ducklake:lake.ducklake?table=prices" in ran(beam_joins, *options)
        assert DUCKLAKE.version() == number
    assert "no new files: nothing to do" in ran(beam_joins, *options)
    with lake() as connection:
        connection.sql("CREATE OR REPLACE TABLE lake.prices AS FROM lake.prices AT (VERSION => 3)")
    assert "it has been made anew: --read-again left makes it anew, or begin with" in refused(beam_joins(*options))
    ran(beam_joins, *options, "--read-again", "left", "--read-again", "right")
    assert sorted(row["id"] for row in DUCKLAKE.rows()) == [1, 3, 5]
    assert "--to: name a catalog and a table" in refused(beam_joins(*JOIN, "--to", "ducklake:lake.ducklake"))
    assert "lake.ducklake, table prices has the columns id, n, name, and the" in refused(
        beam_joins("join", *BY, *to, "--left", "in/1.jsonl")
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"catalog": ""}, "catalog='': give the path of a DuckDB file"),
        ({"catalog": "postgres:dbname=lake"}, "give the path of a DuckDB file; no other catalogs of DuckLake are written"),
        ({"table": "a.b.c"}, "table='a.b.c': give the name of a table, or SCHEMA.NAME"),
        ({"data_path": 7}, "data_path=7: give the path of a folder, or leave it out"),
    ],
)
def test_a_wrong_option_says_what_to_give(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        WriteDuckLake(**{"catalog": "lake.ducklake", "table": "t", **options})


def test_a_lake_may_have_its_files_elsewhere_and_the_table_a_schema() -> None:
    table = table_of(beam.Pipeline(), [], SMALL)
    rows = PlainRows("Test", merge_once.table_type(table), "id", stored=parquet_type)
    for name in ("shop.prices", "shop.orders"):
        WriteDuckLake("lake.ducklake", name, data_path="files").into(rows).prepare(create=True)
    with lake() as connection:
        assert connection.sql("SELECT count(*) FROM lake.shop.prices").fetchall() == [(0,)]
        ((path,),) = connection.sql("SELECT value FROM lake.options() WHERE option_name = 'data_path'").fetchall()
    assert path.rstrip("/").endswith("files")


def test_an_extension_that_duckdb_does_not_load_is_said_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("extensions", f"v{duckdb.__version__}", "ducklake.duckdb_extension")
    file.parent.mkdir(parents=True)
    file.write_text("none")
    monkeypatch.setattr(write_duck_lake, "find_spec", lambda name: ModuleSpec(name, None, origin=os.path.abspath("__init__.py")))
    with pytest.raises(InputError, match="^DuckLake needs duckdb, whose extension ducklake cannot be loaded .*: pip install "):
        WriteDuckLake("lake.ducklake", "t")


@pytest.mark.parametrize(
    ("statements", "how"),
    [
        ("CREATE OR REPLACE TABLE lake.prices AS FROM lake.prices AT (VERSION => 3)", "it has been made anew"),
        ("DELETE FROM lake.beam_joins_runs", "it has had no run of 'tests' as the last one, and not run 2"),
        ("ALTER TABLE lake.prices DROP COLUMN name", "it has no column name any more"),
        ("CREATE TABLE lake.other AS FROM lake.prices; DELETE FROM lake.other", None),
    ],
)
def test_a_table_that_is_not_as_the_last_run_has_left_it_is_refused(statements: str, how: str | None) -> None:
    last = None
    for number in (1, 2):
        merge, parts = DUCKLAKE.merge_of([(number, "a")], run=number)
        _, last = merge.marked(parts, anew=False, last=last)
    with lake() as connection:
        connection.execute(statements)
    merge, parts = DUCKLAKE.merge_of([(3, "c")], run=3)
    if how is None:
        merge.marked(parts, anew=False, last=last)
        assert sorted(row["id"] for row in DUCKLAKE.rows()) == [1, 2, 3]
    else:
        with pytest.raises(NotAsLeft, match=how):
            merge.marked(parts, anew=False, last=last)
