"""Whole exports: each is the table at its time, and what differs from the one before are the changes."""

import datetime as dt
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_joins import Change, StateFolder, TableToChanges, content
from beam_joins.errors import CorruptData, InputError
from beam_joins.io import ReadSnapshots
from beam_joins.pipelines.changelogs.processed_files import NewFiles
from beam_joins.pipelines.commands.command_options import parse
from beam_joins.pipelines.commands.incremental_runs import IncrementalRuns
from beam_joins.pipelines.table import TABLE as TABLE_COMMAND
from tests.object_store import Store
from tests.pipelines.orders_run import Run

pytestmark = pytest.mark.usefixtures("own_directory")
CHANGES: list[Change[Any, Any]] = []
DAY = 86_400_000_000
FIRST = dt.date(2026, 3, 1)
Rows = dict[Any, dict[str, Any]]


def fail(change: Change[Any, Any]) -> None:
    raise ZeroDivisionError


def keep(change: Change[Any, Any]) -> None:
    CHANGES.append(change)


def written(path: str, rows: Sequence[dict[str, Any]], names: Sequence[str] = ("id", "name", "amount")) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if path.endswith(".csv"):
        text = [",".join(names), *(",".join("" if row.get(name) is None else str(row[name]) for name in names) for row in rows)]
        Path(path).write_text("".join(f"{line}\n" for line in text))
    elif path.endswith(".jsonl"):
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.endswith(".avro"):
        fields = [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "amount", "type": ["null", "double"]},
        ]
        with open(path, "wb") as file:
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, rows)
    else:
        types = pa.schema({"id": pa.int64(), "name": pa.string(), "amount": pa.float64()})
        pq.write_table(pa.Table.from_pylist([*rows], types if {*names} == {*types.names} else None), path, row_group_size=2)


def run(path: str, *options: str, state: str | None = "state", label: str = "read", **of_reader: Any) -> list[Change[Any, Any]]:
    CHANGES.clear()
    read = ReadSnapshots(path, **{"key": "id", "timestamp_in_path": "%Y-%m-%d", **of_reader})
    of_state = [] if state is None else [f"--beam_joins_state={state}"]
    with beam.Pipeline(options=PipelineOptions([*of_state, "--beam_joins_partitions=2", *options])) as pipeline:
        _ = pipeline | label >> read | "changes" >> TableToChanges() | beam.Map(keep)
    return list(CHANGES)


def at(day: int) -> int:
    """The position of the snapshot of a day."""
    return int(dt.datetime.combine(FIRST + dt.timedelta(day), dt.time(), dt.UTC).timestamp()) * 1_000_000


def path_of(day: int, suffix: str = "csv", name: str = "in/rows-") -> str:
    return f"{name}{FIRST + dt.timedelta(day)}.{suffix}"


def row(key: int, name: str | None = "a", amount: float | None = 1.5) -> dict[str, Any]:
    return {"id": key, "name": name, "amount": amount}


def between(before: Rows, now: Rows, position: int) -> set[tuple[Any, ...]]:
    """The changes between two snapshots, by their definition."""
    keys = [key for key in {*before, *now} if before.get(key) != now.get(key)]
    return {(key, repr(before.get(key)), repr(now.get(key)), position) for key in keys}


def as_set(changes: Sequence[Change[Any, Any]]) -> set[tuple[Any, ...]]:
    return {(each.key, repr(each.old), repr(each.new), each.position) for each in changes}


ROWS = st.dictionaries(
    st.integers(1, 5), st.builds(row, st.just(0), st.sampled_from(["a", "b,", None]), st.sampled_from([1.5, 2.0, None])), max_size=5
)


@pytest.mark.slow
@settings(max_examples=12)
@given(
    histories=st.lists(ROWS, min_size=1, max_size=4),
    cuts=st.sets(st.integers(1, 3)),
    corrections=st.dictionaries(st.integers(0, 3), ROWS),
    suffix=st.sampled_from(["csv", "jsonl", "parquet", "avro"]),
    shuffled=st.randoms(use_true_random=False),
)
def test_the_changes_are_those_between_the_snapshots_wherever_the_runs_are_cut_and_whichever_are_corrected(
    histories: list[Rows],
    cuts: set[int],
    corrections: dict[int, Rows],
    suffix: str,
    shuffled: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    os.chdir(tmp_path_factory.mktemp("run"))

    def export(day: int, rows: Rows) -> Rows:
        named = {key: {**each, "id": key} for key, each in rows.items()}
        if suffix == "csv":
            named = {key: {**each, "name": each["name"] and each["name"].rstrip(",")} for key, each in named.items()}
        now = {9: row(9), **named}  # this row says types
        lines = list(now.values())
        shuffled.shuffle(lines)
        written(path_of(day, suffix), lines)
        return now

    expected, made, before = set[tuple[Any, ...]](), list[Change[Any, Any]](), dict[Any, dict[str, Any]]()
    for day, rows in enumerate(histories):
        now = export(day, rows)
        expected |= between(before, now, at(day))
        before = now
        if day + 1 in cuts or day + 1 == len(histories):
            made += run(f"in/*.{suffix}", min_share=0)
            if day in corrections:
                now = export(day, corrections[day])
                expected |= between(before, now, at(day) + 1)
                before = now
                made += run(f"in/*.{suffix}", min_share=0)
    assert as_set(made) == expected
    assert len(made) == len(expected)
    assert content(made) == before


def test_without_a_state_all_snapshots_are_read_in_the_order_of_their_times() -> None:
    written(path_of(2), [row(1), row(3)])
    written(path_of(0), [row(1), row(2)])
    written(path_of(1), [row(1, "b"), row(2)])
    changes = run("in/*.csv", state=None)
    assert as_set(changes) == (
        between({}, {1: row(1), 2: row(2)}, at(0))
        | between({1: row(1)}, {1: row(1, "b")}, at(1))
        | between({1: row(1, "b"), 2: row(2)}, {1: row(1), 3: row(3)}, at(2))
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_files_of_a_folder_of_one_day_are_one_snapshot(suffix: str) -> None:
    for day, parts in enumerate([[[row(1)], [row(2), row(3)]], [[row(3, "b")], [], [row(1), row(4)]]]):
        for number, rows in enumerate(parts):
            written(f"in/day={FIRST + dt.timedelta(day)}/part-{number}.{suffix}", rows)
    changes = run(f"in/*/*.{suffix}", state=None, timestamp_in_path="day=%Y-%m-%d")
    before, now = {n: row(n) for n in (1, 2, 3)}, {1: row(1), 3: row(3, "b"), 4: row(4)}
    assert as_set(changes) == between({}, before, at(0)) | between(before, now, at(1))


def test_the_time_of_a_snapshot_may_be_a_column_of_all_its_rows_which_is_none_of_the_table() -> None:
    names = ("id", "name", "exported")
    written("in/a.csv", [{**row(1), "exported": FIRST}, {**row(2), "exported": FIRST}], names)
    later = FIRST + dt.timedelta(1)
    written("in/b.csv", [{**row(2), "exported": later}], names)
    given_by: dict[str, Any] = {"timestamp_in_path": None, "timestamp_by": "exported"}
    changes = run("in/*.csv", state=None, **given_by)
    one, two = {"id": 1, "name": "a"}, {"id": 2, "name": "a"}
    assert as_set(changes) == between({}, {1: one, 2: two}, at(0)) | between({1: one}, {}, at(1))
    written("in/c.csv", [{**row(1), "exported": later}, {**row(2), "exported": FIRST}], names)
    with pytest.raises(InputError, match="c.csv has rows of 2026-03-02T00:00:00Z and of 2026-03-01T00:00:00Z in column 'exported'"):
        run("in/c.csv", state=None, **given_by)


def test_without_either_the_time_is_that_of_the_last_write() -> None:
    for day, rows in enumerate([[row(1)], [row(2)]]):
        written(f"in/{day}.csv", rows)
        os.utime(f"in/{day}.csv", ns=(at(day) * 1000, at(day) * 1000))
    changes = run("in/*.csv", state=None, timestamp_in_path=None, min_share=0)
    assert as_set(changes) == between({}, {1: row(1)}, at(0)) | between({1: row(1)}, {2: row(2)}, at(1))
    os.utime("in/1.csv", ns=(at(0) * 1000, at(0) * 1000))
    with pytest.raises(InputError, match="in/0.csv and in/1.csv were written at the same time, .*: give timestamp_in_path="):
        run("in/*.csv", state=None, timestamp_in_path=None, min_share=0)


def test_snapshots_may_be_empty() -> None:
    for day, rows in enumerate([[], [row(1)], [], [row(1)]]):
        written(path_of(day, "parquet"), rows)
        assert len(run("in", min_share=0)) == (day > 0)
    Path(path_of(4, "jsonl")).touch()
    assert [each.new for each in run("in", min_share=0)] == [None]


def test_a_corrected_last_snapshot_is_compared_with_what_it_was() -> None:
    written(path_of(0), [row(1), row(2)])
    assert len(run("in")) == 2
    written(path_of(0), [row(1, "b"), row(2)])
    assert as_set(run("in")) == between({1: row(1)}, {1: row(1, "b")}, at(0) + 1)
    written(path_of(0), [row(1), row(2)])
    assert as_set(run("in")) == between({1: row(1, "b")}, {1: row(1)}, at(0) + 2)
    assert run("in") == []
    written(path_of(1), [row(1), row(2), row(3)])
    assert as_set(run("in")) == between({}, {3: row(3)}, at(1))


def test_a_corrected_file_of_a_snapshot_of_several_is_compared_with_the_others_of_it() -> None:
    for number in (1, 2):
        written(f"in/{FIRST}/{number}.csv", [row(number)])
    run("in/*/*.csv")
    written(f"in/{FIRST}/2.csv", [row(2, "b"), row(3)])
    assert as_set(run("in/*/*.csv")) == between({2: row(2)}, {2: row(2, "b"), 3: row(3)}, at(0) + 1)
    Path(f"in/{FIRST}/1.csv").unlink()
    written(f"in/{FIRST}/2.csv", [row(2)])
    with pytest.raises(InputError, match=f"in/{FIRST}/2.csv, of 2026-03-01T00:00:00Z, is of the time of the snapshot that was read"):
        run("in/*/*.csv")


def test_a_snapshot_of_an_earlier_time_is_refused_and_reading_again_takes_all_in_the_order_of_their_times() -> None:
    written(path_of(1), [row(1), row(2)])
    run("in")
    written(path_of(0), [row(1, "z")])
    with pytest.raises(
        InputError, match="rows-2026-03-01.csv, of 2026-03-01T00:00:00Z, is of an earlier time than the snapshot"
    ) as told:
        run("in")
    assert "give --beam_joins_read_again=read/Table" in str(told.value)
    changes = run("in", "--beam_joins_read_again=read/Table")
    assert content([each for each in changes if each.position >= at(0)])[2] == row(2)
    written(path_of(1), [row(1), row(2, "q")])
    assert as_set(run("in")) == between({2: row(2)}, {2: row(2, "q")}, at(1) + 1)


def test_an_earlier_snapshot_that_has_changed_is_refused() -> None:
    written(path_of(0), [row(1), row(2)])
    written(path_of(1), [row(1), row(3)])
    run("in")
    written(path_of(0), [row(1), row(2, "b")])
    words = "rows-2026-03-01.csv has changed since a run has read it: put it back as it was, or read all snapshots again"
    with pytest.raises(InputError, match=words):
        run("in")


def test_files_of_snapshots_that_were_read_may_go() -> None:
    written(path_of(0), [row(1), row(2)])
    run("in")
    Path(path_of(0)).unlink()
    written(path_of(1), [row(2), row(3)])
    assert as_set(run("in")) == between({1: row(1), 2: row(2)}, {2: row(2), 3: row(3)}, at(1))


def test_an_export_that_was_cut_short_is_refused_before_it_deletes() -> None:
    written(path_of(0), [row(n) for n in range(10)])
    run("in")
    for rows, words in ((4, "4 rows"), (1, "1 row"), (0, "0 rows")):
        written(path_of(1), [row(n) for n in range(rows)])
        with pytest.raises(InputError, match=f"rows-2026-03-02.csv has {words}, where the snapshot before it.* has 10: all others"):
            run("in")
    assert len(run("in", min_share=0)) == 10


def test_two_unlike_rows_of_a_key_are_refused_by_their_places_and_two_equal_ones_are_one() -> None:
    written(path_of(0), [row(1), row(2), row(1)])
    assert len(run("in/*.csv", state=None)) == 2
    written(path_of(1), [row(1), row(2), row(1, "b")])
    with pytest.raises(InputError, match=r"two rows .* the key 1 \(id\).*: in/rows-2026-03-02.csv, line 2, and .*, line 4: name the"):
        run("in/*.csv", state=None)


def test_columns_may_come_and_change_places() -> None:
    written(path_of(0), [row(1), row(2)])
    run("in")
    written(path_of(1), [row(1), row(2)], ("amount", "id", "name"))
    assert run("in") == []
    written(path_of(2), [{**row(1), "city": "Ulm"}, row(2)], ("id", "name", "amount", "city"))
    assert [(each.key, each.new) for each in run("in")] == [(1, {**row(1), "city": "Ulm"})]
    written(path_of(3), [row(1), row(2)])
    assert [(each.key, each.new) for each in run("in")] == [(1, {**row(1), "city": None})]


def test_a_bad_record_is_told_by_its_line_and_a_snapshot_deletes_no_rows_where_it_is_left_out() -> None:
    written(path_of(0), [row(1), row(2), row(3)])
    run("in")
    Path(path_of(1)).write_text("id,name,amount\n1,b,1.5\n2,a,much\n")
    with pytest.raises(InputError, match="rows-2026-03-02.csv, line 3: column 'amount' is not of type double: 'much'"):
        run("in")
    assert as_set(run("in", on_bad_record="drop")) == between({1: row(1)}, {1: row(1, "b")}, at(1))
    written(path_of(2), [row(1, "b"), row(2)])
    assert as_set(run("in")) == between({3: row(3)}, {}, at(2))


@pytest.mark.parametrize(
    ("key", "types"),
    [
        (["day", "place"], {"day": pa.date32(), "place": pa.string()}),
        ("place", {"day": pa.date32(), "place": pa.string()}),
        ("flag", {"flag": pa.bool_(), "place": pa.string()}),
        ("code", {"code": pa.binary(), "place": pa.string()}),
        ("number", {"number": pa.int16(), "place": pa.large_string()}),
    ],
)
def test_keys_of_typed_columns_are_deleted(key: str | list[str], types: dict[str, pa.DataType]) -> None:
    value: dict[str, list[Any]] = {
        "day": [dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
        "place": ["a", "b"],
        "flag": [True, False],
        "code": [b"\xff", b"\x00"],
        "number": [1, 2],
    }
    rows = pa.table({name: pa.array(value[name], kind) for name, kind in types.items()})
    Path("in").mkdir()
    for day, some in enumerate([rows, rows.slice(0, 1)]):
        pq.write_table(some, path_of(day, "parquet"))
    names = [key] if isinstance(key, str) else key
    deletes = [each for each in run("in/*.parquet", state=None, key=key) if each.new is None]
    keys = tuple(value[name][1] for name in names)
    assert [(each.key, each.old) for each in deletes] == [(keys if len(names) > 1 else keys[0], rows.slice(1).to_pylist()[0])]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timestamp_in_path": "%H"}, "timestamp_in_path=: '%H' does not say a day"),
        ({"timestamp_in_path": "%Y-%Q"}, "timestamp_in_path=: %Q is none of %Y"),
        ({"timestamp_by": "day"}, "timestamp_in_path= and timestamp_by= both say the time"),
        ({"timestamp_in_path": None, "timestamp_by": "id"}, "timestamp_by= names id, a column of the key"),
        ({"min_share": 2}, "min_share= 2: give a share of rows from 0 to 1"),
        ({"schema": None}, "schema=None: choose 'inferred', or give the columns"),
        ({"emit": "all"}, "emit='all': choose one of"),
        ({"schema": pa.schema({"name": pa.string()})}, "schema= has no column 'id'"),
    ],
)
def test_wrong_options_are_refused_at_construction(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ReadSnapshots("in", **{"key": "id", "timestamp_in_path": "%Y-%m-%d", **options})


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("rows.csv", "%Y-%m-%d", "there is no time in the form %Y-%m-%d in"),
        ("2026-03-01/rows-2026-03-02.csv", "%Y-%m-%d", "several times in the form %Y-%m-%d are in"),
        ("rows-2026-13-01.csv", "%Y-%m-%d", "there is no time in the form"),
        ("rows-120260301.csv", "%Y%m%d", "there is no time in the form"),
    ],
)
def test_paths_without_one_time_are_refused(name: str, form: str, words: str) -> None:
    written(f"in/{name}", [row(1)])
    with pytest.raises(InputError, match=words):
        run(f"in/{name}", state=None, timestamp_in_path=form)


TABLE = ["table", "--snapshots=in/*", "--timestamp-in-path=%Y-%m-%d"]


def lines_of(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_command_reads_snapshots_as_a_program_does(beam_joins: Run) -> None:
    written(path_of(0), [row(1), row(2), row(3)])
    written(path_of(1), [row(1), row(3, "b")])
    ended = beam_joins(*TABLE, "--output=changes.jsonl", "--latest=now.jsonl")
    assert ended.code == 0, ended.err
    changes = {(each["key"], repr(each["old"]), repr(each["new"]), each["position"]) for each in lines_of("changes.jsonl")}
    assert changes == as_set(run("in/*", state=None))
    assert lines_of("now.jsonl") == [row(1), row(3, "b")]
    assert "snapshot of 2026-03-02T00:00:00Z, in/rows-2026-03-02.csv: 2 rows, 1 inserted or updated, 1 deleted" in ended.out


def test_a_command_with_a_state_compares_new_snapshots_with_the_last_one(beam_joins: Run) -> None:
    command = [*TABLE, "--state-dir=state", "--changes=out", "--latest=now.jsonl"]
    for day, rows in enumerate([[row(1), row(2)], [row(2), row(3)]]):
        written(path_of(day), rows)
        ended = beam_joins(*command)
        assert ended.code == 0, ended.err
    assert [(each["key"], each["op"]) for each in lines_of("out/changes-000002.jsonl")] == [(1, "delete"), (3, "insert")]
    written(path_of(2), [row(2)])
    Path(path_of(0)).unlink()
    assert beam_joins(*command, "--dry-run").code == 0
    assert "rows: in/rows-2026-03-03.csv has 1 row, where the snapshot before it" in beam_joins(*command, "--min-share=0.6").err
    assert beam_joins(*command).code == 0
    assert lines_of("now.jsonl") == [row(2)]
    written(path_of(1), [row(7)])
    assert "has changed since a run has read it" in beam_joins(*command).err
    again = beam_joins(*command, "--read-again=input", "--min-share=0")
    assert again.code == 0, again.err
    assert lines_of("now.jsonl") == [row(2)]


def test_a_join_of_exports_of_two_tables_is_the_join_of_the_last_ones(beam_joins: Run) -> None:
    command = ["join", "--left-snapshots=in/o-*", "--right-snapshots=in/c-*", "--left-timestamp-in-path=o-%Y-%m-%d"]
    command += ["--right-timestamp-in-path=c-%Y-%m-%d", "--left-key=id", "--right-key=id", "--foreign-key=c", "--how=left"]
    command += ["--select=left.id,right.name", "--state-dir=state", "--changes=out", "--latest=now.jsonl"]
    orders, customers = ("id", "c"), ("id", "name")
    days = [
        ("o", 0, [{"id": 1, "c": 7}, {"id": 2, "c": 8}], orders),
        ("c", 0, [{"id": 7, "name": "Anna"}, {"id": 8, "name": "Bert"}], customers),
        ("o", 2, [{"id": 1, "c": 8}], orders),
        ("c", 1, [{"id": 7, "name": "Anne"}, {"id": 8, "name": "Bart"}], customers),
        ("c", 3, [{"id": 8, "name": "Bart"}], customers),
    ]
    written(path_of(0, name="in/c-"), [{"id": 7, "name": "Anna"}, {"id": 8, "name": "Bert"}], customers)
    for which, day, rows, names in days:
        written(path_of(day, name=f"in/{which}-"), rows, names)
        ended = beam_joins(*command)
        assert ended.code == 0, ended.err
    assert lines_of("now.jsonl") == [{"id": 1, "name": "Bart"}]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--input=in"], "--input and --snapshots both say where the rows are: give one of them"),
        (["--sequence-by=lsn"], "--sequence-by is not for snapshots, whose rows are no changes"),
        (["--format=debezium"], "--format is not for snapshots"),
        (["--min-share=much"], "--min-share: 'much' is no number"),
        (["--timestamp-by=at"], "--timestamp-in-path and --timestamp-by both say the time of a snapshot"),
    ],
)
def test_options_that_are_not_for_snapshots_are_refused(beam_joins: Run, options: list[str], words: str) -> None:
    written(path_of(0), [row(1)])
    ended = beam_joins(*TABLE, *options, "--latest=now.jsonl")
    assert (ended.code, words in ended.err) == (2, True), ended.err


def test_an_option_of_snapshots_without_them_is_refused(beam_joins: Run) -> None:
    ended = beam_joins("table", "--input=in", "--min-share=0.3", "--latest=now.jsonl")
    assert "--min-share is for snapshots: give --snapshots in place of --input" in ended.err


def test_a_command_leaves_out_changes_that_do_not_change_the_columns_it_reads(beam_joins: Run) -> None:
    rows = [{"id": 1, "v": v, "lsn": n, "updated_at": n} for n, v in enumerate([5, 5, 6, 6], 1)]
    written("in.jsonl", rows)
    for emit, positions in (("updates", [1, 2, 3, 4]), ("changes", [1, 3])):
        command = ["table", "--input=in.jsonl", "--apply-as-deletes=", "--select=id,v", "--output=out.jsonl", f"--emit={emit}"]
        assert beam_joins(*command).code == 0
        assert [each["position"] for each in lines_of("out.jsonl")] == positions


def test_the_last_snapshot_is_a_part_of_the_state_that_is_verified_copied_and_refused_where_it_is_damaged() -> None:
    written(path_of(0), [row(1), row(2)])
    run("in")
    files = StateFolder.verify("state")
    StateFolder.copy("state", "copy")
    assert StateFolder.verify("copy") == files
    written(path_of(1), [row(2)])
    assert as_set(run("in", state="copy")) == between({1: row(1)}, {}, at(1))
    (kept,) = Path("state").glob("runs/*/kept-*")
    kept.write_bytes(kept.read_bytes()[:-8] + b"12345678")
    with pytest.raises(CorruptData, match="kept-"):
        StateFolder.verify("state")
    with pytest.raises(CorruptData, match="kept-"):
        run("in")
    assert StateFolder.verify("copy") == files


def test_runs_keep_one_snapshot_of_each_reader() -> None:
    for day in range(3):
        written(path_of(day), [row(1, str(day)), row(2)])
        run("in")
    assert len([*Path("state").glob("runs/*/kept-*")]) == 1
    assert not [*Path("state").glob("runs/*/read/*")]


def test_a_run_that_does_not_end_well_leaves_the_last_snapshot_as_it_was() -> None:
    written(path_of(0), [row(1), row(2)])
    run("in")
    written(path_of(1), [row(1, "b"), row(2)])
    pipeline = beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state", "--beam_joins_partitions=2"]))
    table = pipeline | "read" >> ReadSnapshots("in", key="id", timestamp_in_path="%Y-%m-%d")
    _ = table | "changes" >> TableToChanges() | beam.Map(fail)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        pipeline.run()
    assert as_set(run("in")) == between({1: row(1)}, {1: row(1, "b")}, at(1))


def test_a_file_that_changes_between_its_comparison_and_the_run_is_refused() -> None:
    written(path_of(0), [row(1), row(2)])
    run("in")
    written(path_of(1), [row(1, "b"), row(2)])
    pipeline = beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state", "--beam_joins_partitions=2"]))
    _ = pipeline | "read" >> ReadSnapshots("in", key="id", timestamp_in_path="%Y-%m-%d") | "changes" >> TableToChanges()
    written(path_of(1), [row(2), row(1, "c")])
    with pytest.raises(InputError, match="rows-2026-03-02.csv was written or removed while it was read"):
        pipeline.run()
    assert as_set(run("in")) == between({1: row(1)}, {1: row(1, "c")}, at(1))


def test_a_state_in_a_store_has_the_last_snapshot(store: Store) -> None:
    for day, rows in enumerate(["1,a\n2,b\n", "2,b\n3,c\n"]):
        store.put(f"bucket://in/rows-{FIRST + dt.timedelta(day)}.csv", f"id,name\n{rows}".encode())
        changes = run("bucket://in/*", state="bucket://state/s")
    assert [(each.key, each.new) for each in sorted(changes, key=lambda each: each.key)] == [(1, None), (3, {"id": 3, "name": "c"})]


def test_with_follow_a_snapshot_of_several_files_is_read_when_none_of_them_grows() -> None:
    for path in (f"in/{FIRST}/1.csv", f"in/{FIRST + dt.timedelta(1)}/1.csv", f"in/{FIRST + dt.timedelta(1)}/2.csv"):
        written(path, [row(1)])
    options = ["--snapshots=in/*/*.csv", "--timestamp-in-path=%Y-%m-%d", "--state-dir=state", "--latest=now.jsonl", "--follow"]
    runs = IncrementalRuns(TABLE_COMMAND, parse(TABLE_COMMAND, options))
    one, two, three = runs.arrived()["rows"]
    for whole, taken in (([one, two, three], [one, two, three]), ([one, two], [one]), ([two, three], [two, three]), ([], [])):
        arrivals = NewFiles()
        runs.whole({"rows": [each if each in whole else replace(each, bytes=0) for each in (one, two, three)]}, arrivals)
        arrivals.next_look()
        assert runs.whole({"rows": [one, two, three]}, arrivals) == {"rows": taken}
