"""ReadDelta: the table of a Delta table, from its files and its Change Data Feed."""

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from deltalake import DeltaTable, write_deltalake

from beam_joins import Change, LatestTable, StateRefused, TableTableJoin, TableToChanges
from beam_joins.errors import InputError
from beam_joins.io import ReadDelta, WriteDelta
from beam_joins.pipelines.systems.delta.delta_rounds import DeltaSource, read_delta
from tests.pipelines.orders_run import Run, read_lines
from tests.pipelines.tables import SMALL, WIDE, WIDE_ROWS, run, shown, small

pytestmark = pytest.mark.usefixtures("own_directory")
FEED = {"delta.enableChangeDataFeed": "true"}
ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])
VERSION, TIME = "_commit_version", "_commit_timestamp"
_changes: list[Any] = []


def made(path: str = "delta", schema: pa.Schema = ROWS, feed: dict[str, str] = FEED, **options: Any) -> None:
    DeltaTable.create(path, schema, configuration=feed, **options)


def added(*rows: tuple[Any, ...], path: str = "delta", schema: pa.Schema = ROWS, **options: Any) -> None:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    write_deltalake(path, pa.table(columns, schema=schema), **{"mode": "append", **options})


def merged(*rows: tuple[int, str | None], path: str = "delta") -> None:
    """Rows without a name are deleted."""
    new = pa.table([pa.array([row[n] for row in rows], field.type) for n, field in enumerate(ROWS)], schema=ROWS)
    merge = DeltaTable(path).merge(new, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_delete("s.name IS NULL").when_matched_update_all().when_not_matched_insert_all().execute()


def updated(where: str, **columns: str) -> None:
    DeltaTable("delta").update(updates=columns, predicate=where)


def there(path: str = "delta", version: int | None = None) -> list[dict[str, Any]]:
    return pa.table(DeltaTable(path, version=version).scan()).to_pylist()  # type: ignore[no-any-return]


def changes(*paths: str, state: str | None = "state", fails: bool = False, join: Any = None, **options: Any) -> list[Change[Any, Any]]:
    """The changes of a Delta table, or of the join of several, in a run that goes on with a state."""
    _changes.clear()
    settings = PipelineOptions([] if state is None else [f"--beam_joins_state={state}", "--beam_joins_partitions=2"])
    with beam.Pipeline(options=settings) as pipeline:
        tables = [pipeline | path >> ReadDelta(path, **{"key": "id", **options}) for path in paths or ["delta"]]
        table = tables[0] if join is None else tuple(tables) | join
        _ = table | TableToChanges() | beam.Map(_collect, fails)
    return sorted(_changes, key=lambda change: (change.position, change.key))


def _collect(change: Any, fails: bool = False) -> None:
    assert not fails, "killed"
    _changes.append(change)


class Table:
    """A table that changes are applied to, which must fit its rows."""

    def __init__(self) -> None:
        self.rows = dict[Any, Any]()

    def apply(self, some: list[Change[Any, Any]]) -> list[str]:
        for change in some:
            assert repr(self.rows.pop(change.key, None)) == repr(change.old)
            if change.new is not None:
                self.rows[change.key] = change.new
        return shown(list(self.rows.values()))


@pytest.mark.slow
def test_a_table_that_is_written_in_runs_is_read_in_runs() -> None:
    made()
    table, number = Table(), 0
    for number, rows in enumerate(
        (
            [small(1, 1, "a"), small(2, 2, "b"), small(3, 3, "c")],
            [small(1, 5, "aa"), small(2, 6, None), small(4, 7, "d")],
            [],
            [small(4, 8, None), small(2, 9, "again"), small(1, 9, "aaa")],
        )
    ):
        latest = run(rows, SMALL, lambda table: table | WriteDelta("delta", key="id"), state=Path("written"))
        if number == 1:
            with pytest.raises(Exception, match="killed"):
                changes(fails=True)
        read = changes()
        assert table.apply(read) == shown(latest) == shown(there())
        assert {change.position for change in read} <= {DeltaTable("delta").version()}
    log = json.loads(Path("delta/_delta_log/00000000000000000003.json").read_text().splitlines()[0])
    assert {change.timestamp for change in read} == {log["commitInfo"]["timestamp"] * 1_000}
    assert changes() == []


@pytest.mark.slow
def test_values_have_the_types_of_the_delta_table() -> None:
    latest = run(WIDE_ROWS[:2], WIDE, lambda table: table | WriteDelta("delta", key="id"), state=Path("written"))
    DeltaTable("delta").alter.set_table_properties(FEED)
    table = Table()
    assert table.apply(changes()) == shown(latest)
    latest = run(WIDE_ROWS[2:], WIDE, lambda table: table | WriteDelta("delta", key="id"), state=Path("written"))
    assert table.apply(changes()) == shown(latest) == shown(there())


PARTITIONED = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))])


def _row(number: int) -> tuple[Any, ...]:
    names, days, times = ("a/b c", None, "ß"), (1, None, -700_000), (None, 5, 1_700_000_000_123_456)
    return number, names[number % 3], days[number % 3], times[number % 3]


STEPS: tuple[Callable[[], Any], ...] = (
    lambda: added(_row(1), _row(2), _row(3), schema=PARTITIONED),
    lambda: updated("id < 3", id="3 - id"),  # two rows change their keys
    lambda: updated("id = 3", id="9", name="'x'"),
    lambda: DeltaTable("delta").delete("id = 1"),
    lambda: added(_row(1), _row(4), schema=PARTITIONED),
    lambda: [DeltaTable("delta").optimize.compact()],
    lambda: added(_row(1), _row(2), _row(7), schema=PARTITIONED, mode="overwrite"),
    lambda: DeltaTable("delta").restore(3),
)


@pytest.mark.slow
def test_rows_are_right_whatever_is_done_in_one_version() -> None:
    made(schema=PARTITIONED, partition_by=["name", "day", "at"])
    table = Table()
    for step in STEPS:
        step()
        assert table.apply(changes()) == shown(there())
    names = changes(state=None, key="name", schema=pa.schema([PARTITIONED.field("name")]))
    assert {change.key for change in names} == {row["name"] for row in there()} - {None}


@pytest.mark.slow
def test_a_run_over_many_versions_has_the_content_of_each(own_directory: Path) -> None:
    made(schema=PARTITIONED, partition_by=["name", "day", "at"])
    table, path = Table(), f"file://{own_directory}/delta"
    for step in STEPS:
        step()
        if step == STEPS[0]:
            table.apply(changes(path, sequence_by=TIME))
    read = changes(path, sequence_by=TIME)
    positions = sorted({change.position for change in read})
    contents = [table.apply([change for change in read if change.position == position]) for position in positions]
    assert contents == [shown(there(version=version)) for version in (2, 3, 4, 5, 7, 8)]  # the sixth is that of optimize


def test_rows_without_a_key_are_dropped_and_of_rows_with_one_key_the_last_is_the_row() -> None:
    made()
    added((1, "a"), (None, "b"), (1, "c"))
    _changes.clear()
    with beam.Pipeline() as pipeline:
        read = pipeline | ReadDelta("delta", key=["id"], schema=None).with_outputs()
        _ = read.dropped | beam.Map(lambda each: (each.reason, each.record)) | "keep dropped" >> beam.Map(_collect)
        _ = read.table | TableToChanges() | beam.Map(lambda change: change.new) | "keep rows" >> beam.Map(_collect)
    null_key, ambiguous = ("null_key", {"id": None, "name": "b"}), ("ambiguous_position", (1, {"id": 1, "name": "a"}))
    assert sorted(_changes, key=repr) == [ambiguous, null_key, {"id": 1, "name": "c"}]


def test_delta_tables_are_joined_by_the_times_of_their_commits() -> None:
    made("left")
    made("right")

    def joined(**options: Any) -> list[Change[Any, Any]]:
        join = TableTableJoin(lambda left, right: (left["name"], right["name"]))
        return changes("left", "right", join=join, **options)

    for left, right in (((1, "a"), (2, "b")), ((1, "x"), (2, "y"), (3, "z"))), (((1, "aa"), (3, "c")), ((2, None),)):
        merged(*right, path="right")
        merged(*left, path="left")
        read = joined(sequence_by=TIME)
    assert [(change.key, change.old, change.new) for change in read] == [
        (2, ("b", "y"), None),
        (1, ("a", "x"), ("aa", "x")),
        (3, None, ("c", "z")),
    ]
    with pytest.raises(InputError, match="left and right are ordered by versions, and those of two Delta tables cannot be compared"):
        joined(state=None)


def _rewritten(version: int, pattern: str, text: str) -> None:
    log = Path(f"delta/_delta_log/{version:020d}.json")
    log.write_text(re.sub(pattern, text, log.read_text()))


def test_commits_are_in_the_order_of_versions_though_a_clock_was_set_back() -> None:
    made()
    merged((1, "a"))
    (first,) = changes(sequence_by=TIME)
    merged((1, "b"))
    _rewritten(2, r'"timestamp":\d+', '"timestamp":5')  # a clock was set back
    merged((1, "c"))
    second, third = changes(sequence_by=TIME)
    assert (second.position, second.new["name"], third.new["name"]) == (first.position + 1, "b", "c")
    assert second.timestamp == second.position < third.position


def test_new_columns_are_taken_and_others_stay_as_they_were() -> None:
    made()
    added((1, "a"))
    changes()
    added((2, "b", 5), schema=ROWS.append(pa.field("more", pa.int8())), schema_mode="merge")
    assert [change.new for change in changes()] == [{"id": 2, "name": "b", "more": 5}]
    wider = pa.schema([("id", pa.int64()), ("name", pa.int64()), ("more", pa.int8())])
    added((3, 5, 1), schema=wider, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(
        InputError, match="delta was altered: column 'name' was string in earlier runs, and is int64: give --beam_joins_read_"
    ):
        changes()
    with pytest.raises(InputError, match=r"delta has no column 'nr' \(key=\): it has id, name"):
        changes(key="nr")
    added((3,), schema=pa.schema([("id", pa.int64())]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(
        InputError, match="delta has no column 'name' .*; where it was renamed or dropped, give --beam_joins_read_again="
    ):
        changes()


def _remade() -> None:
    shutil.rmtree("delta")
    made()


def _put_back(*since: tuple[Any, ...]) -> Callable[[], None]:
    def put_back() -> None:
        Path("delta/_delta_log/00000000000000000001.json").unlink()
        for row in since:
            added(row)

    return put_back


def _cleaned(files: str) -> Callable[[], None]:
    def cleaned() -> None:
        merged((1, "b"))
        merged((1, "c"))
        DeltaTable("delta").create_checkpoint()
        (path, *_) = Path("delta").glob(files)
        path.unlink()

    return cleaned


@pytest.mark.parametrize(
    ("meanwhile", "sequence_by", "sentence"),
    [
        (
            _remade,
            VERSION,
            r"delta was made anew since the last run \(id .*, version 0; was id .*, version 1\): read it again",
        ),
        (
            _put_back((7, "b")),
            VERSION,
            "delta was put back .*: its version 1 is another commit than .* read it again",
        ),
        (_put_back((7, "b"), (8, "c")), VERSION, "delta was put back to an earlier state since the last run: its version 1 is"),
        (_cleaned("_delta_log/*2.json"), VERSION, "delta: version 2 was removed, which no run has read: read it again"),
        (_cleaned("_change_data/*"), VERSION, r"delta: version \d was removed, which no run has read: read it again"),
        (dict, TIME, "the runs before have read delta by '_commit_version': begin with an empty state"),
        (lambda: shutil.rmtree("delta"), VERSION, "there is no Delta table at delta"),
        (lambda: _rewritten(1, "^{", ""), VERSION, "cannot read delta: .*"),
        (
            lambda: _rewritten(0, '"configuration":{', '"configuration":{"delta.columnMapping.mode":"name",'),
            VERSION,
            "delta has a column mapping",
        ),
        (
            lambda: DeltaTable("delta").alter.set_table_properties({"delta.enableChangeDataFeed": "false"}),
            VERSION,
            "the Change Data Feed of delta is not enabled, .* set the table property delta.enableChangeDataFeed to true",
        ),
    ],
)
def test_a_table_whose_changes_cannot_be_read_is_refused_in_a_sentence(
    meanwhile: Callable[[], Any], sequence_by: Any, sentence: str
) -> None:
    made()
    added((1, "a"))
    before = read_delta(DeltaSource.at("delta", VERSION), None, "look", goes_on=True).remembered
    meanwhile()
    with pytest.raises(InputError, match=sentence):
        read_delta(DeltaSource.at("delta", sequence_by), before, "look", goes_on=True)


def test_some_rows_are_enough_for_a_look() -> None:
    made()
    added(*((n, "a") for n in range(100)))
    read = read_delta(DeltaSource.at("delta", VERSION), None, "look", most_rows=7)
    (file,) = read.files
    assert (pq.read_metadata(file.path).num_rows, read.is_first, read.table.kinds) == (
        7,
        True,
        {"id": "whole numbers", "name": "text"},
    )


def test_rows_that_a_deletion_vector_deletes_are_not_read() -> None:
    made(feed={})
    added((1, "a"), (2, "b"), (3, "c"))
    log = Path("delta/_delta_log/00000000000000000001.json")
    add = json.loads(log.read_text().splitlines()[1])["add"]
    # the second row, as a 64-bit Roaring bitmap with one array
    bitmap = struct.pack("<IQIIIHHIH", 1681511377, 1, 0, 12346, 1, 0, 0, 16, 1)
    vector = {"storageType": "i", "pathOrInlineDv": _z85(bitmap + b"\0\0"), "sizeInBytes": len(bitmap), "cardinality": 1}
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": 0}
    actions = {"protocol": features}, {"remove": remove}, {"add": {**add, "deletionVector": vector}}
    Path("delta/_delta_log/00000000000000000002.json").write_text("\n".join(map(json.dumps, actions)))
    assert [change.key for change in changes(state=None)] == [1, 3]


def _z85(data: bytes) -> str:
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    numbers = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(letters[number // 85**n % 85] for number in numbers for n in (4, 3, 2, 1, 0))


@pytest.mark.slow
def test_a_command_joins_delta_tables_in_runs(beam_joins: Run) -> None:
    made("orders", pa.schema([("id", pa.int64()), ("by", pa.int64())]))
    made("people")
    command = ["join", "--left", "delta:orders", "--left-key", "id", "--right", "delta:people", "--right-key", "id", "--foreign-key"]
    command += ["by", "--state-dir", "state", "--latest", "now.jsonl"]
    added((7, 1), (8, 2), path="orders", schema=pa.schema([("id", pa.int64()), ("by", pa.int64())]))
    merged((1, "a"), path="people")
    ran = beam_joins(*command)
    assert (ran.code, "Delta table people: version 1, read as it is" in ran.out) == (0, True), ran
    merged((1, None), (2, "b"), path="people")
    assert beam_joins(*command).code == 0
    assert read_lines(Path("now.jsonl")) == [{"left_id": 8, "by": 2, "right_id": 2, "name": "b"}]
    assert "no new versions: nothing to do" in beam_joins(*command).out
    merged((1, "c"), path="people")
    select = ["--select", "left.id, right.name"]
    for again, rows in (([], [[8, "b"], [7, "c"]]), (["--read-again", "right"], [[8, "b"], [7, "c"]]), ([], [[8, "b"], [7, "d"]])):
        merged((1, rows[1][1]), path="people")
        rebuilt = beam_joins(*command, *select, *again, "--beam_joins_changed=rebuild")
        assert rebuilt.code == 0, rebuilt.err
        assert ("read as it is" in rebuilt.out) == bool(again)
        assert sorted(list(row.values()) for row in read_lines(Path("now.jsonl"))) == sorted(rows)
    both = [
        "join",
        "--left",
        "delta:people",
        "--left-key",
        "id",
        "--right",
        "delta:people",
        "--right-key",
        "id",
        "--state-dir",
        "other",
    ]
    assert beam_joins(*both, "--latest", "both.jsonl").code == 0
    refused = beam_joins(*both, "--latest", "both.jsonl", "--read-again", "right").err
    assert "--read-again: people is read by both sides: give --read-again left too" in refused


@pytest.mark.parametrize(
    ("right", "sentence"),
    [
        (["r.jsonl"], "--left and --right: give a Delta table for each"),
        (["delta:"], "--right: name a folder behind delta:"),
        (["delta:x", "--right-table", "t"], "--right-table is not for Delta tables"),
    ],
)
def test_a_command_refuses_what_is_no_input_beside_a_delta_table(beam_joins: Run, right: list[str], sentence: str) -> None:
    ran = beam_joins(
        "join", "--left", "delta:orders", "--left-key", "id", "--foreign-key", "by", "--output", "o.jsonl", "--right", *right
    )
    assert (ran.code, sentence in ran.err) == (2, True), ran


def _latest(again: str = "") -> list[Any]:
    """The rows after a run, which may read a table again."""
    _changes.clear()
    options = ["--beam_joins_state=state", "--beam_joins_partitions=2", *([f"--beam_joins_read_again={again}"] if again else [])]
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        latest = pipeline | "delta" >> ReadDelta("delta", key="id", schema=None) | LatestTable()
        _ = latest | beam.Values() | beam.Map(_collect)
    return shown(_changes)


def test_a_table_that_is_read_again_is_read_as_it_is_with_what_was_altered_or_removed_since() -> None:
    made()
    added((1, "a"), (2, "b"), (3, "c"))
    assert _latest() == shown(there())
    merged((1, None), (2, "bb"))
    assert _latest("delta/Table") == shown(there())
    merged((3, "cc"))
    assert _latest() == shown(there())
    merged((2, "bbb"))
    for path in Path("delta/_change_data").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="was removed, which no run has read: read it again"):
        _latest()
    assert _latest("delta/Table") == shown(there())
    _remade()
    added((7, "z"))
    with pytest.raises(InputError, match="was made anew since the last run .*: read it again"):
        _latest()
    with pytest.raises(StateRefused, match="the run before has read it again: leave the option out"):
        _latest("delta/Table")


def _latest_of(*paths: str) -> dict[str, list[Any]]:
    """The rows of tables that are in the pipeline of this run."""
    _pairs.clear()
    options = PipelineOptions(["--beam_joins_state=state", "--beam_joins_changed=rebuild"])
    with beam.Pipeline(options=options) as pipeline:
        for path in paths:
            read = ReadDelta(path, key="id", schema=None, sequence_by=TIME)
            latest = pipeline | path >> read | f"latest {path}" >> LatestTable()
            _ = latest | f"of {path}" >> beam.Map(_keep, path)
    return {path: shown([row for of, row in _pairs if of == path]) for path in paths}


_pairs: list[tuple[str, Any]] = []


def _keep(pair: tuple[int, Any], path: str) -> None:
    _pairs.append((path, pair[1]))


def test_a_table_that_joins_a_pipeline_later_or_again_is_read_as_it_is() -> None:
    for path in ("one", "other"):
        made(path)
        merged((1, "a"), (2, "b"), path=path)
    assert _latest_of("one") == {"one": shown(there("one"))}
    merged((1, "aa"), path="one")
    merged((1, "x"), (2, None), path="other")
    assert _latest_of("one", "other") == {path: shown(there(path)) for path in ("one", "other")}
    assert _latest_of("one") == {"one": shown(there("one"))}
    merged((1, None), (7, "c"), path="other")
    assert _latest_of("other", "one") == {path: shown(there(path)) for path in ("one", "other")}


def test_an_altered_column_is_read_in_its_new_type_where_the_table_is_read_again() -> None:
    made()
    added((1, "a"))
    changes()
    added((3, 5), schema=pa.schema([("id", pa.int64()), ("name", pa.int64())]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(InputError, match="give --beam_joins_read_again=delta/Table, which reads the table again"):
        changes()
    _changes.clear()
    options = PipelineOptions(["--beam_joins_state=state", "--beam_joins_read_again=delta/Table"])
    with beam.Pipeline(options=options) as pipeline:
        _ = pipeline | "delta" >> ReadDelta("delta", key="id") | TableToChanges() | beam.Map(_collect)
    assert [change.new for change in _changes if change.new is not None] == [{"id": 3, "name": 5}]
