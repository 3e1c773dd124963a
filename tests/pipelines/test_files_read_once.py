"""A reader with a state reads each file once: in later runs those that came since."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import Change, StateFolder, StateRefused, TableToChanges, content
from beam_joins.errors import InputError
from beam_joins.io import ReadChangeEvents, ReadChangelog
from beam_joins.pipelines.results.counts import Tally

pytestmark = pytest.mark.usefixtures("own_directory")
CHANGES: list[Change[Any, Any]] = []
COUNTS: list[Tally] = []
FORMATS = ("jsonl", "csv", "parquet")


def keep(change: Change[Any, Any]) -> None:
    CHANGES.append(change)


def count(tally: Tally) -> None:
    COUNTS.append(tally)


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": n % 5, "name": f"n{n}", "amount": n / 4, "lsn": n} for n in range(first, last)]


def write(path: str, made: Sequence[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist([*made])
    if path.endswith(".parquet"):
        pq.write_table(table, path)
    elif path.endswith(".csv"):
        pa.csv.write_csv(table, path)
    else:
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in made))


def run(read: Any, *options: str, state: str = "state", label: str = "read") -> tuple[int, list[Change[Any, Any]]]:
    """The number of records that a run reads, and its changes."""
    CHANGES.clear()
    COUNTS.clear()
    with beam.Pipeline(options=PipelineOptions([f"--beam_joins_state={state}", "--beam_joins_partitions=2", *options])) as pipeline:
        outputs = pipeline | label >> read.with_outputs()
        _ = outputs.table | "changes" >> TableToChanges() | beam.Map(keep)
        _ = outputs.counts | "counts" >> beam.Map(count)
    return sum(tally.records for tally in COUNTS if tally.what == "read"), list(CHANGES)


def changelog(path: str, **options: Any) -> ReadChangelog:
    return ReadChangelog(path, **{"key": "id", "sequence_by": "lsn", **options})


@pytest.mark.parametrize("schema", ["declared", "inferred"])
@pytest.mark.parametrize("suffix", FORMATS)
def test_each_run_reads_what_has_come_since(suffix: str, schema: Any) -> None:
    made, pattern = list[Change[Any, Any]](), f"*.{suffix}"
    for number, (first, last) in enumerate([(0, 10), (10, 12), (12, 30)]):
        write(f"{number}.{suffix}", rows(first, last))
        records, changes = run(changelog(pattern, schema=schema))
        assert records == last - first
        assert run(changelog(pattern, schema=schema)) == (0, [])
        made += changes
    expected = content(run(changelog(pattern, schema=schema), state="other")[1], 1 << 62)
    assert content(made, 1 << 62) == expected
    assert [type(row) for row in expected.values()] == [dict] * 5


def test_the_files_of_a_folder_are_read_as_they_come() -> None:
    Path("in").mkdir()
    Path("in/notes.txt").touch()
    with pytest.raises(InputError, match="the files: in is a folder without a file that can be read"):
        run(changelog("in"))
    for number in range(3):
        write(f"in/{number}.jsonl", rows(number, number + 2))
        assert run(changelog("in"))[0] == 2
    Path("in/0.jsonl").unlink()
    assert run(changelog("in"))[0] == 0
    Path("events").mkdir()
    event = {"op": "c", "after": {"id": 1}, "source": {"lsn": 1, "ts_ms": 5, "table": "t"}}
    Path("events/1.jsonl").write_text(json.dumps(event))
    assert run(ReadChangeEvents("events", format="debezium", key="id"), state="other")[0] == 1
    with pytest.raises(InputError, match="in is a directory: name a file, or a glob"), beam.Pipeline() as pipeline:
        _ = pipeline | changelog("in")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_that_has_been_read_may_go(suffix: str) -> None:
    write(f"1.{suffix}", rows(0, 10))
    run(changelog(f"*.{suffix}"))
    Path(f"1.{suffix}").unlink()
    assert run(changelog(f"*.{suffix}")) == (0, [])
    write(f"2.{suffix}", rows(10, 11))
    records, changes = run(changelog(f"*.{suffix}"))
    assert (records, [(change.old["lsn"], change.new["lsn"]) for change in changes]) == (1, [(5, 10)])


def test_a_file_that_has_changed_since_it_was_read_is_refused() -> None:
    write("1.jsonl", rows(0, 10))
    run(changelog("*.jsonl"))
    before = Path("1.jsonl").read_bytes()
    write("1.jsonl", rows(0, 11))
    with pytest.raises(InputError, match=r"1\.jsonl has changed since a run has read it: put it back as it was, and new records"):
        run(changelog("*.jsonl"))
    Path("1.jsonl").write_bytes(before)
    assert run(changelog("*.jsonl")) == (0, [])


def test_a_file_that_is_written_while_it_is_read_does_not_count() -> None:
    def then_written(change: Change[Any, Any]) -> None:
        with Path("1.jsonl").open("a") as file:
            file.write('{"id": 9, "lsn": 99}\n')

    write("1.jsonl", rows(0, 10))
    with (
        pytest.raises(InputError, match=r"1\.jsonl was written or removed while it was read"),
        beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state"])) as pipeline,
    ):
        _ = pipeline | "read" >> changelog("*.jsonl") | "changes" >> TableToChanges() | beam.Map(then_written)
    records, changes = run(changelog("*.jsonl"))
    assert records == len(Path("1.jsonl").read_text().splitlines())
    assert 9 in content(changes, 1 << 62)


def test_a_run_that_fails_has_read_nothing() -> None:
    def fail(change: Change[Any, Any]) -> None:
        raise RuntimeError("killed")

    write("1.jsonl", rows(0, 10))
    with (
        pytest.raises(Exception, match="killed"),
        beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state"])) as pipeline,
    ):
        _ = pipeline | "read" >> changelog("*.jsonl") | "changes" >> TableToChanges() | beam.Map(fail)
    assert run(changelog("*.jsonl"))[0] == 10


def test_a_pipeline_that_is_built_and_never_run_has_read_nothing() -> None:
    write("1.jsonl", rows(0, 10))
    pipeline = beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state"]))
    _ = pipeline | "read" >> changelog("*.jsonl")
    assert run(changelog("*.jsonl"))[0] == 10


def test_an_input_that_is_read_again_is_read_whole() -> None:
    for number in range(2):
        write(f"{number}.jsonl", rows(5 * number, 5 * number + 5))
        run(changelog("*.jsonl"))
    with pytest.raises(StateRefused, match="--beam_joins_read_again=read/Table"):
        run(changelog("*.jsonl", sequence_by=None, timestamp_by="lsn"))
    records, _ = run(changelog("*.jsonl", sequence_by=None, timestamp_by="lsn"), "--beam_joins_read_again=read/Table")
    assert records == 10
    write("2.jsonl", rows(10, 11))
    assert run(changelog("*.jsonl", sequence_by=None, timestamp_by="lsn"))[0] == 1


def test_a_reader_that_was_gone_reads_all_when_it_comes_back() -> None:
    write("1.jsonl", rows(0, 10))
    for label in ("read", "other", "read"):
        options = ["--beam_joins_changed=rebuild", *([f"--beam_joins_read_again={label}/Table"] if Path("state").exists() else [])]
        assert run(changelog("1.jsonl"), *options, label=label)[0] == 10


def test_two_readers_of_one_file_read_it_both() -> None:
    write("1.jsonl", rows(0, 10))
    for expected in (20, 0):
        COUNTS.clear()
        with beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state"])) as pipeline:
            for label in ("a", "b"):
                outputs: Any = pipeline | label >> changelog("1.jsonl").with_outputs()
                _ = outputs.counts | f"counts {label}" >> beam.Map(count)
        assert sum(tally.records for tally in COUNTS if tally.what == "read") == expected


@pytest.mark.parametrize(("first", "then"), [("jsonl", "parquet"), ("parquet", "jsonl")])
def test_the_form_of_values_is_that_of_the_first_run_whatever_comes_later(first: str, then: str) -> None:
    write(f"1.{first}", rows(0, 10))
    run(changelog("[0-9].*"))
    write(f"2.{then}", rows(10, 12))
    records, changes = run(changelog("[0-9].*"))
    assert records == 2
    assert [change.new for change in changes] == rows(10, 12)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("before", ["inferred", pa.schema({"id": pa.int64(), "name": pa.string(), "lsn": pa.int64()})])
def test_declared_types_are_those_that_another_schema_of_earlier_runs_has_given(before: Any, suffix: str) -> None:
    write(f"1.{suffix}", [{"id": 1, "name": "a", "lsn": 1}])
    run(changelog(f"*.{suffix}", schema=before))
    assert run(changelog(f"*.{suffix}")) == (0, [])
    write(f"2.{suffix}", [{"id": 1, "name": "b", "lsn": 2}])
    assert [change.new["name"] for change in run(changelog(f"*.{suffix}"))[1]] == ["b"]


def test_columns_come_as_files_have_them() -> None:
    write("1.jsonl", [{"id": 1, "n": 7, "lsn": 1}])
    run(changelog("*.jsonl", schema="inferred"))
    write("2.jsonl", [{"id": 2, "n": 7, "more": "x", "lsn": 2}])
    made = run(changelog("*.jsonl", schema="inferred"))[1]
    assert [change.new for change in made] == [{"id": 2, "n": 7, "lsn": 2, "more": "x"}]
    write("3.jsonl", [{"id": 3, "n": 8, "lsn": 3}])
    made = run(changelog("*.jsonl", schema="inferred"))[1]
    assert [change.new for change in made] == [{"id": 3, "n": 8, "lsn": 3, "more": None}]


def test_types_get_wider_as_files_have_them() -> None:
    for number, (kind, value) in enumerate([(pa.int32(), 7), (pa.int64(), 1 << 40), (pa.int32(), 8)]):
        pq.write_table(pa.table({"id": [number], "lsn": [number], "n": pa.array([value], kind)}), f"{number}.parquet")
        assert [change.new["n"] for change in run(changelog("*.parquet"))[1]] == [value]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_later_file_need_not_have_each_column_of_the_schema(suffix: str) -> None:
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "lsn": pa.int64(), "op": pa.string()})
    write(f"1.{suffix}", [{"id": 1, "name": "a", "lsn": 1, "op": "c"}])
    run(changelog(f"*.{suffix}", schema=schema, except_columns=["op"]))
    write(f"2.{suffix}", [{"id": 2, "lsn": 2}])
    made = run(changelog(f"*.{suffix}", schema=schema, except_columns=["op"]))[1]
    assert [change.new for change in made] == [{"id": 2, "name": None, "lsn": 2}]


def test_a_column_that_had_no_value_for_some_runs_is_refused_when_it_gets_one() -> None:
    write("1.jsonl", [{"id": 1, "n": None, "lsn": 1}])
    run(changelog("*.jsonl", schema="inferred"))
    write("2.jsonl", [{"id": 2, "lsn": 2}])
    run(changelog("*.jsonl", schema="inferred"))
    write("3.jsonl", [{"id": 3, "n": 8, "lsn": 3}])
    with pytest.raises(StateRefused, match="column 'n' had no value in the runs before, which made it text, and is int64 now"):
        run(changelog("*.jsonl", schema="inferred"))


def test_types_of_csv_columns_stay_those_of_the_first_file_once_it_is_gone() -> None:
    Path("1.csv").write_text("id,code,lsn\n1,007,1\n")
    run(changelog("*.csv"))
    Path("1.csv").unlink()
    Path("2.csv").write_text("id,code,lsn\n2,8,2\n")
    assert [change.new for change in run(changelog("*.csv"))[1]] == [{"id": 2, "code": "8", "lsn": 2}]


def wal2json(commit: int, n: int) -> list[str]:
    place = {"timestamp": "2026-01-01 00:00:00+00", "lsn": f"0/{commit - 1:X}", "nextlsn": f"0/{commit:X}"}
    columns = [{"name": "id", "type": "integer", "value": n}]
    change = {"action": "I", "schema": "public", "table": "t", "lsn": f"0/{commit - 9:X}", "columns": columns}
    key = {"pk": [{"name": "id", "type": "integer"}]}
    return [json.dumps(each) for each in ({"action": "B", **place}, {**change, **key}, {"action": "C", **place})]


def test_a_transaction_that_is_cut_waits_for_its_end_in_its_file() -> None:
    read = ReadChangeEvents("*.jsonl", format="wal2json", table="public.t")
    *first, end = [*wal2json(100, 1), *wal2json(200, 2)]
    Path("1.jsonl").write_text("\n".join(first) + "\n")
    assert [change.key for change in run(read)[1]] == [1]
    assert run(read) == (0, [])
    Path("2.jsonl").write_text("\n".join([end, *wal2json(300, 3)]) + "\n")
    assert sorted(change.key for change in run(read)[1]) == [2, 3]
    assert run(read) == (0, [])


def test_the_key_and_the_types_of_events_are_those_of_files_that_are_gone() -> None:
    read = ReadChangeEvents("*.jsonl", format="wal2json", table="public.t")
    Path("1.jsonl").write_text("\n".join(wal2json(100, 1)) + "\n")
    run(read)
    Path("1.jsonl").unlink()
    assert run(read) == (0, [])
    deleted = "\n".join(wal2json(400, 1)).replace('"I"', '"D"').replace('"columns"', '"identity"')
    Path("2.jsonl").write_text(f"{deleted}\n")
    assert [(change.key, change.new) for change in run(read)[1]] == [(1, None)]


def debezium(op: str, n: int, lsn: int) -> str:
    row = {"id": n, "lsn": lsn}
    source = {"connector": "mysql", "db": "d", "table": "t", "file": "b.000001", "pos": lsn, "row": 0, "ts_ms": lsn}
    return json.dumps({"before": row if op == "d" else None, "after": None if op == "d" else row, "op": op, "source": source})


@pytest.mark.parametrize("between", ["", "a run without events"])
def test_tombstones_in_a_later_file_are_those_of_deletes_in_an_earlier_one_and_of_no_more(between: str) -> None:
    read = ReadChangeEvents("*.jsonl", format="debezium", table="t", key="id")
    Path("1.jsonl").write_text("\n".join([debezium("c", 1, 1), debezium("c", 2, 2), debezium("d", 1, 3)]) + "\n")
    run(read)
    if between:
        run(read)
    Path("2.jsonl").write_text("null\n" + debezium("c", 3, 4) + "\n")
    assert [change.key for change in run(read)[1]] == [3]
    Path("3.jsonl").write_text("null\n")
    with pytest.raises(InputError, match=r"3\.jsonl has tombstones .* whose delete events were compacted away"):
        run(read)


def test_a_state_shows_the_files_that_were_read() -> None:
    write("1.jsonl", rows(0, 10))
    run(changelog("*.jsonl"))
    summary = StateFolder.summary("state")
    assert [Path(path).name for path in summary.inputs["read by read"]["files"]] == ["1.jsonl"]
