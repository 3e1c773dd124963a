"""Results of commands in the forms of the library: upserts, pairs, and tables elsewhere."""

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest

from beam_joins.errors import StateRefused
from beam_joins.pipelines.commands import pipeline
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.pipelines.join_run import BY, FILES, TEA, refused
from tests.pipelines.orders_run import Run, read_lines, write
from tests.pipelines.tables import anew

SELECT = ["--select", "left.id, left.n, right.name"]
OTHER = ["--select", "left.n, right.id"]
JOIN = ["join", *BY, "--how", "left", *SELECT]
READ = {
    "upserts": ["--key=id", "--timestamp-by=timestamp", "--sequence-by=position", "--apply-as-deletes=deleted"],
    "pairs": ["--format=debezium", "--key=id"],
}
GONE = {**TEA, "id": 2, "by": "z", "lsn": 9, "op": "d"}
NEW = {**TEA, "id": 5, "by": "a", "lsn": 8}


def rows_of(path: str) -> list[str]:
    return sorted(json.dumps(row) for row in read_lines(Path(path)))


def delta_rows(path: str = "lake") -> list[str]:
    return sorted(map(json.dumps, deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()))


def version(path: str = "lake") -> int:
    return int(deltalake.DeltaTable(path).version())


def ran(run: Run, *arguments: str) -> str:
    ended = run(*arguments)
    assert ended.code == 0, ended.err
    return ended.out


@pytest.mark.parametrize(("as_", "suffix"), [("upserts", "jsonl"), ("upserts", "csv"), ("pairs", "jsonl"), ("pairs", "avro")])
def test_what_one_command_writes_another_one_reads_as_the_same_table(beam_joins: Run, as_: str, suffix: str) -> None:
    write("l.jsonl", TEA, {**TEA, "id": 2, "lsn": 2}, GONE)
    ran(beam_joins, *JOIN, "--output", f"log.{suffix}", "--output-records", as_, "--latest", "now.jsonl")
    ran(beam_joins, "table", "--input", f"log.{suffix}", *READ[as_], "--select", "id, n, name", "--latest", "again.jsonl")
    assert rows_of("again.jsonl") == rows_of("now.jsonl") == [json.dumps({"id": 1, "n": 5, "name": "Ann"})]


def test_runs_that_go_on_write_upserts_that_are_one_after_the_other_those_of_one_run(beam_joins: Run) -> None:
    options = [*JOIN, "--state-dir", "state", "--changes", "out/c-*.parquet", "--output-records", "upserts", "--left", "in"]
    Path("in").mkdir()
    Path("l.jsonl").rename("in/1.jsonl")
    ran(beam_joins, *options)
    write("in/2.jsonl", NEW, GONE)
    ran(beam_joins, *options)
    write("l.jsonl", *read_lines(Path("in/1.jsonl")), NEW, GONE)
    ran(beam_joins, *JOIN, "--output", "whole.parquet", "--output-records", "upserts")
    parts = [row for path in sorted(Path("out").iterdir()) for row in pq.read_table(path).to_pylist()]
    assert parts == pq.read_table("whole.parquet").to_pylist()
    assert len(parts) == 7
    assert "--output-records is changes, but upserts in the runs before" in refused(beam_joins(*options[:-4], *options[-2:]))


def test_a_delta_table_is_brought_up_to_date_by_runs_that_go_on_and_a_run_that_is_killed_counts_once(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [*JOIN, "--state-dir", "state", "--to", "delta:lake", "--latest", "now.jsonl", "--left", "in"]
    Path("in").mkdir()
    Path("l.jsonl").rename("in/1.jsonl")
    assert "to           delta:lake, which the first run makes" in ran(beam_joins, *options, "--dry-run")
    assert not Path("lake").exists()

    def killed(folder: StateFolder, moves: Any = ()) -> None:
        raise StateRefused("killed")  # as a run that is killed, it leaves the lake as it is by now

    for number, rows in enumerate(([], [NEW, GONE]), 1):
        if rows:
            write("in/2.jsonl", *rows)
        with monkeypatch.context() as patched:
            patched.setattr(StateFolder, "prepare", killed)
            assert "killed" in beam_joins(*options).err
        merged = version()
        said = ran(beam_joins, *options)
        assert "changes merged into delta:lake" in said
        assert (version() == merged) == (number > 1), "the first run replaces all rows, the second one has been merged"
        assert delta_rows() == rows_of("now.jsonl")
    assert [json.loads(row)["id"] for row in delta_rows()] == [1, 3, 5]
    assert {path.name for path in Path().iterdir()} == {"in", "r.jsonl", "lake", "state", "now.jsonl"}
    deltalake.DeltaTable.create("other", deltalake.DeltaTable("lake").schema())
    assert "--to is delta:other, but delta:lake in the runs before" in refused(beam_joins(*options, "--to", "delta:other"))


def test_a_run_that_stands_alone_replaces_the_rows_of_a_delta_table(beam_joins: Run) -> None:
    said = ran(beam_joins, *JOIN, "--to", "delta:lake", "--latest", "now.parquet", "--parts", "--json", "run.json")
    assert "changes merged into delta:lake" in said
    assert json.loads(Path("run.json").read_text())["outputs"]["to"] == {"written_records": 5, "paths": ["delta:lake"]}
    assert len(delta_rows()) == 3
    write("l.jsonl", NEW)
    ran(beam_joins, *JOIN, "--to", "delta:lake")
    assert delta_rows() == [json.dumps({"id": 5, "n": 5, "name": "Ann"})]
    write("l.jsonl", {**GONE, "lsn": 1})
    ran(beam_joins, *JOIN, "--to", "delta:lake")
    assert delta_rows() == []
    assert not [path for path in Path().iterdir() if "to-delta" in path.name]


@pytest.mark.parametrize("records", ["changes", "pairs", "upserts"])
def test_a_run_whose_result_begins_anew_writes_a_truncate_and_replaces_the_table_that_is_merged_into(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch, records: str
) -> None:
    options = [*JOIN, "--state-dir", "state", "--changes", "out", "--output-records", records, "--to", "delta:lake", "--left", "in"]
    Path("in").mkdir()
    Path("l.jsonl").rename("in/1.jsonl")
    ran(beam_joins, *options)
    assert len(delta_rows()) > 1
    write("in/2.jsonl", NEW)
    made = pipeline._result

    def made_anew(*args: Any, **more: Any) -> Any:
        result, *counts = made(*args, **more)
        return anew(result, 3), *counts

    monkeypatch.setattr(pipeline, "_result", made_anew)
    if records == "upserts":
        assert "the table begins anew at position 3, and upserts cannot say" in refused(beam_joins(*options))
        assert len(list(Path("out").iterdir())) == 1
        return
    ran(beam_joins, *options)
    lines = [line.get("payload", line) for line in read_lines(Path("out/changes-000002.jsonl"))]
    assert [line["op"] for line in lines] == {"changes": ["truncate", "insert"], "pairs": ["t", "c"]}[records]
    assert delta_rows() == [json.dumps({"id": 5, "n": 5, "name": "Ann"})]


def test_a_delta_table_that_is_gone_is_not_made_again_without_the_rows_before(beam_joins: Run) -> None:
    options = [*JOIN, "--state-dir", "state", "--to", "delta:lake", "--left", "l*.jsonl"]
    ran(beam_joins, *options)
    Path("lake").rename("elsewhere")
    write("later.jsonl", NEW)
    said = refused(beam_joins(*options))
    assert said.startswith("--to: the table lake is not there, and would lack what the runs before have written")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            [*BY, "--latest", "x.jsonl", "--output-records", "pairs"],
            "--output-records says how --output or --changes is written: give one",
        ),
        (
            [*BY, "--output", "x.csv", "--output-records", "pairs"],
            "--output: x.csv: CSV has no rows within rows, as pairs have: choose",
        ),
        (
            [*BY, *OTHER, "--output", "x.jsonl", "--output-records", "upserts"],
            "--output: 'id' is a column of the key and another one of the result",
        ),
        ([*BY, *OTHER, "--to", "delta:lake"], "--to: 'id' is a column of the key and another one of the result: give it another name"),
        (
            [*BY, *SELECT, "--select", "left.n as deleted", "--output", "x.avro", "--output-records", "upserts"],
            "has a column 'deleted'",
        ),
        ([*BY, *SELECT, "--to", "lake"], "--to: give the address of a table, postgres://HOST/DATABASE?table=NAME or delta:PATH"),
        ([*BY, *SELECT, "--to", "delta:"], "--to: name a folder behind delta:"),
        ([*BY, *SELECT, "--to", "delta:lake", "--how", "outer"], "--to: --how outer with --foreign-key keeps right rows without"),
        ([*FILES, "--left-key", "n", "--right-key", "lsn", "--select", "left.id as N, left.n", "--to", "delta:lake"], "in case alone"),
        ([*BY, *SELECT, "--to", "delta:there"], "there has the columns id, and the table id, n, name"),
    ],
)
def test_a_result_that_makes_no_sense_is_refused_in_a_sentence_and_nothing_is_left(
    beam_joins: Run, arguments: list[str], sentence: str
) -> None:
    deltalake.DeltaTable.create("there", deltalake.Schema([deltalake.Field("id", "long")]))
    before = {*Path().iterdir()}
    for more in ([], ["--dry-run"]):
        assert sentence in refused(beam_joins("join", *arguments, *more))
        assert {*Path().iterdir()} == before


@pytest.mark.parametrize("state", [[], ["--state-dir=s"]])
def test_a_run_that_is_refused_leaves_no_folders_of_results(beam_joins: Run, state: list[str]) -> None:
    Path("in.jsonl").write_text('{"id":1,"lsn":1}\nno JSON\n')
    Path("there").mkdir()
    results = ["--changes=there/out" if state else "--output=a/b/out.jsonl", "--latest=a/c/d/now.jsonl"]
    command = ["table", "--input=in.jsonl", "--timestamp-by=", "--apply-as-deletes=", *state, *results]
    assert beam_joins(*command).code == 2
    assert not Path("a").exists()
    assert not [*Path("there").iterdir()]
    assert beam_joins(*command, "--on-bad-record=drop").code == 0
    assert Path("a/c/d/now.jsonl").read_text() == '{"id":1}\n'
