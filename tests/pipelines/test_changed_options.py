"""Runs that go on with other options: the result is made anew of stored rows, or of inputs that are read again."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest

from beam_joins.errors import StateRefused
from beam_joins.pipelines.changelogs.sampling import LOOK_RECORDS
from beam_joins.pipelines.commands import incremental_runs
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.pipelines.join_run import refused
from tests.pipelines.merged_tables import DELTA, DUCKLAKE, Merged
from tests.pipelines.orders_run import Run, read_lines, write
from tests.pipelines.test_new_columns import arrive

JOIN = ["join", "--left", "left", "--right", "right", "--foreign-key", "by"]
REBUILD = "--beam_joins_changed=rebuild"
BOTH = ["--state-dir", "state", "--changes", "out/*.jsonl", "--latest", "now.jsonl"]


def ran(run: Run, *arguments: str) -> str:
    ended = run(*arguments)
    assert ended.code == 0, ended.err
    return ended.out


def in_runs(run: Run, suffix: str, *options: str) -> str:
    places = ["--state-dir", "state", "--changes", f"out/*.{suffix}", "--latest", f"now.{suffix}"]
    return ran(run, *JOIN, *places, *options)


def at_once(run: Run, suffix: str, *options: str) -> str:
    """A run over all files with an empty state."""
    shutil.rmtree("fresh", ignore_errors=True)
    places = ["--state-dir", "fresh/state", "--changes", f"fresh/*.{suffix}", "--latest", f"fresh.{suffix}"]
    return ran(run, *JOIN, *places, *options)


def records(path: str) -> list[Any]:
    return pq.read_table(path).to_pylist() if path.endswith(".parquet") else read_lines(Path(path))


def present(row: dict[str, Any]) -> str:
    """A row without nulls, as a JSON text has none for a column that its record did not have. A column keeps the name that it
    had before another one was called so too.
    """

    def without_nulls(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name.removeprefix("right_name") or "name": without_nulls(each) for name, each in value.items() if each is not None}

    return json.dumps(without_nulls(row), sort_keys=True)


def content(paths: list[str], position: int) -> list[str]:
    """The rows after all changes of files up to a position."""
    rows: dict[str, Any] = {}
    for record in (each for path in paths for each in records(path) if each["position"] <= position):
        if record["op"] == "truncate":
            rows.clear()
        else:
            rows[json.dumps(record["key"])] = record["new"]
    return sorted(present(row) for row in rows.values() if row is not None)


def rows(path: str) -> list[str]:
    return sorted(map(present, records(path)))


def counted(summary: str) -> list[str]:
    """The line on left rows that found no right one, which counts the rows of all runs."""
    lines = summary.splitlines()
    return [line for line in lines[lines.index("without a match") :] if line.startswith("  left rows")][:1]


CHANGES = {
    "how": ([], ["--how", "left"]),
    "another how": (["--how", "left"], ["--how", "outer"]),
    "semi": ([], ["--how", "semi", "--select", "left.*"]),
    "fewer columns": ([], ["--select", "left.id, left.amount, right.name"]),
    "other names": (
        ["--select", "left.id, right.name as customer"],
        ["--how", "left", "--select", "right.name as who, left.id as nr"],
    ),
    "an object": ([], ["--how", "left", "--select", "left.*, right as customer"]),
    "another name of an object": (["--select", "left.*, right as customer"], ["--select", "left.*, right as buyer"]),
    "columns of an object": (["--select", "left.id, right as customer"], ["--how", "left", "--select", "left.id, right.name"]),
    "all columns of an object": (["--select", "left.*, right as customer"], []),
}
"""Options before and after."""
SOME = {
    ("how", "jsonl"),
    ("semi", "parquet"),
    ("other names", "jsonl"),
    ("an object", "parquet"),
    ("all columns of an object", "jsonl"),
}
"""Options and formats in which each way of a change is once; the others show no more."""


@pytest.mark.slow
@pytest.mark.each_value
@pytest.mark.parametrize(
    ("what", "suffix"),
    [
        pytest.param(what, suffix, marks=() if (what, suffix) in SOME else pytest.mark.sweep)
        for what in CHANGES
        for suffix in ("jsonl", "parquet")
    ],
)
def test_a_result_that_is_made_anew_is_that_of_a_run_over_all_files(beam_joins: Run, what: str, suffix: str) -> None:
    before, after = CHANGES[what]
    arrive(0, "jsonl")
    in_runs(beam_joins, suffix, *before)
    arrive(1, "jsonl")
    same = ["--state-dir", "state", "--changes", f"out/*.{suffix}", "--latest", f"now.{suffix}"]
    changed = refused(beam_joins(*JOIN, *same, *after))
    assert "in the runs before: give it as it was, or --beam_joins_changed=rebuild, which makes the result anew" in changed
    for day, options in ((1, [*after, REBUILD]), (2, after)):
        arrive(day, "jsonl")
        said = in_runs(beam_joins, suffix, *options)
        whole = at_once(beam_joins, suffix, *after)
        assert rows(f"now.{suffix}") == rows(f"fresh.{suffix}"), day
        if "semi" not in after:
            assert counted(said) == counted(whole), day
    assert records(f"out/000002.{suffix}")[0]["op"] == "truncate"
    for position in range(3, 25):
        parts = [f"out/{run:06d}.{suffix}" for run in (2, 3)]
        assert content(parts, position) == content([f"fresh/000001.{suffix}"], position)


def test_a_column_that_was_not_read_is_read_again(beam_joins: Run) -> None:
    select, other = ["--select", "left.id, right.id as by"], ["--select", "left.id, right.name"]
    arrive(0, "jsonl")
    in_runs(beam_joins, "jsonl", *select)
    arrive(1, "jsonl")
    lacking = beam_joins(*JOIN, *BOTH, *other, REBUILD)
    assert "the right rows of the runs before are stored without the column 'name': give --read-again right" in refused(lacking)
    said = in_runs(beam_joins, "jsonl", *other, "--read-again", "right")
    assert "the right rows are read again\n" in said
    whole = at_once(beam_joins, "jsonl", *other)
    assert (rows("now.jsonl"), counted(said)) == (rows("fresh.jsonl"), counted(whole))
    arrive(2, "jsonl")
    unit = ["--right-timestamp-unit", "ms", "--read-again", "right"]
    in_runs(beam_joins, "jsonl", *other, *unit)
    at_once(beam_joins, "jsonl", *other, *unit[:2])
    assert rows("now.jsonl") == rows("fresh.jsonl")
    Path("right/0.jsonl").unlink()
    gone = "the run before has read the right rows again too, and now 1 file of it would be missing: leave the option out"
    assert gone in refused(beam_joins(*JOIN, *BOTH, *other, *unit))
    in_runs(beam_joins, "jsonl", *other, *unit[:2])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_input_with_another_key_and_another_foreign_key_is_read_again(beam_joins: Run, suffix: str) -> None:
    for side, key in (("left", "id"), ("right", "id")):
        Path(side).mkdir()
        write(f"{side}/1.jsonl", *({key: n, "code": f"c{n}", "by": n % 2, "op": "c", "lsn": n, "updated_at": n} for n in range(1, 5)))
    in_runs(beam_joins, suffix)
    write("left/2.jsonl", {"id": 9, "code": "c9", "by": 1, "op": "c", "lsn": 9, "updated_at": 9})
    other = ["--left-key", "code", "--right-key", "code", "--foreign-key", "code", "--how", "left"]
    sentence = refused(beam_joins(*JOIN, "--state-dir", "state", "--latest", f"now.{suffix}", "--changes", f"out/*.{suffix}", *other))
    assert "--foreign-key is code, but by in the runs before: give it as it was, or --read-again left" in sentence
    said = in_runs(beam_joins, suffix, *other, "--read-again", "left", "--read-again", "right")
    whole = at_once(beam_joins, suffix, *other)
    assert (rows(f"now.{suffix}"), counted(said)) == (rows(f"fresh.{suffix}"), counted(whole))
    write("right/2.jsonl", {"id": 9, "code": "c9", "by": 1, "op": "c", "lsn": 10, "updated_at": 10})
    in_runs(beam_joins, suffix, *other)
    at_once(beam_joins, suffix, *other)
    assert rows(f"now.{suffix}") == rows(f"fresh.{suffix}")


def test_a_file_that_is_gone_when_its_input_is_read_again_is_told(beam_joins: Run) -> None:
    for day in range(2):
        arrive(day, "jsonl")
    in_runs(beam_joins, "jsonl")
    Path("right/0.jsonl").unlink()
    said = in_runs(beam_joins, "jsonl", "--read-again", "right")
    assert "the right rows are read again; 1 file of the runs before not there any more" in " ".join(said.split())
    assert [json.loads(row)["right_id"] for row in rows("now.jsonl")] == [8]
    shutil.rmtree("left")
    Path("left").mkdir()
    gone = beam_joins(*JOIN, *BOTH, "--read-again", "left")
    assert "left rows: there is no file left" in refused(gone)


def test_a_run_that_makes_the_result_anew_and_is_killed_is_repeated(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [*JOIN, "--state-dir", "state", "--changes", "out", "--to", "delta:lake", "--latest", "now.jsonl", "--how", "left", REBUILD]
    arrive(0, "jsonl")
    ran(beam_joins, *left[:-3])
    arrive(1, "jsonl")

    def killed(folder: StateFolder, moves: Any = ()) -> None:
        raise StateRefused("killed")

    with monkeypatch.context() as patched:
        patched.setattr(StateFolder, "prepare", killed)
        assert "killed" in beam_joins(*left).err
    assert not Path("out/changes-000002.jsonl").exists()
    before = beam_joins(*left[:-3])
    assert "lake has been made anew by run 2, which has not ended: repeat it with the pipeline or options that it had" in refused(
        before
    )
    assert not list(Path().rglob(".beam_joins-*"))
    ran(beam_joins, *left)
    assert records("out/changes-000002.jsonl")[0]["op"] == "truncate"
    merged = sorted(map(present, deltalake.DeltaTable("lake").to_pyarrow_table().to_pylist()))
    assert merged == rows("now.jsonl")
    at_once(beam_joins, "jsonl", "--how", "left")
    assert rows("now.jsonl") == rows("fresh.jsonl")


@pytest.mark.parametrize(("there", "address"), [(DELTA, "delta:delta"), (DUCKLAKE, "ducklake:lake.ducklake?table=prices")])
def test_a_table_that_is_merged_into_goes_on_with_other_columns_and_after_a_killed_run_with_those_before(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch, there: Merged, address: str
) -> None:
    command = [*JOIN, "--state-dir", "state", "--to", address, "--latest", "now.jsonl", "--select"]
    before, other = "left.id, left.amount, right.name", "left.id, left.amount as price"
    arrive(0, "jsonl")
    ran(beam_joins, *command, before)
    arrive(1, "jsonl")
    for more in (["--dry-run"], []):
        clash = refused(beam_joins(*command, "left.id, left.amount as name", REBUILD, *more))
        assert re.search(r": column 'name' is \w+ there, and \w+ in the table: give it another name$", clash)
    assert address in ran(beam_joins, *command, other, REBUILD, "--dry-run")
    assert {*there.rows()[0]} == {"id", "amount", "name"}
    with monkeypatch.context() as patched:
        patched.setattr(incremental_runs, "run_job", _killed)
        assert beam_joins(*command, other, REBUILD).code == 1
    for select, options in ((before, []), (other, [REBUILD]), (before, [REBUILD])):
        ran(beam_joins, *command, select, *options)
        assert sorted(map(present, there.rows())) == rows("now.jsonl"), select


def _killed(*arguments: Any) -> Any:
    raise OSError("killed")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_column_that_no_record_has_is_refused_as_in_a_run_over_all_files(beam_joins: Run, suffix: str) -> None:
    arrive(0, "jsonl")
    in_runs(beam_joins, suffix, "--select", "left.*, right as customer")
    places = ["--state-dir", "state", "--changes", f"out/*.{suffix}", "--latest", f"now.{suffix}"]
    unknown = [*JOIN, *places, "--select", "left.id, left.amuont, right as customer"]
    assert "the left rows of the runs before are stored without the column 'amuont': give --read-again left" in refused(
        beam_joins(*unknown, REBUILD)
    )
    assert "left rows have no column 'amuont' (--select)" in refused(beam_joins(*unknown, "--read-again", "left"))


def test_upserts_that_cannot_begin_anew_are_refused_by_a_dry_run_too(beam_joins: Run) -> None:
    command = [*JOIN, "--state-dir", "state", "--changes", "out", "--output-records", "upserts"]
    arrive(0, "jsonl")
    ran(beam_joins, *command)
    for more in ([], ["--dry-run"]):
        assert "give it as it was, or another --state-dir than state, as upserts cannot begin anew" in refused(
            beam_joins(*command, "--how", "left", *more)
        )
        assert "upserts cannot say that the rows of earlier runs are void" in refused(
            beam_joins(*command, "--read-again", "left", *more)
        )


def test_an_option_that_may_not_differ_is_told_before_those_that_need_another_one(beam_joins: Run) -> None:
    arrive(0, "jsonl")
    in_runs(beam_joins, "jsonl")
    other = beam_joins(*JOIN, *BOTH, "--how", "left", "--left-key", "by", "--output-records", "pairs")
    assert (
        "--output-records is pairs, but changes in the runs before: give it as it was, or another --state-dir than state"
        in refused(other)
    )


def test_a_result_is_made_anew_without_new_files_too(beam_joins: Run) -> None:
    arrive(0, "jsonl")
    in_runs(beam_joins, "jsonl")
    said = in_runs(beam_joins, "jsonl", "--how", "left", REBUILD)
    assert "the result is made anew: --how was inner, and is left" in said
    assert len(rows("now.jsonl")) == 2
    assert in_runs(beam_joins, "jsonl", "--how", "left", REBUILD) == "no new files: nothing to do\n"


def test_final_rows_are_written_from_a_later_run_on_and_then_in_another_format(beam_joins: Run) -> None:
    changes = [*JOIN, "--how", "left", "--state-dir", "state", "--changes", "out"]
    arrive(0, "jsonl")
    ran(beam_joins, *changes)
    ran(beam_joins, *changes, "--latest", "now.parquet", REBUILD)
    assert pq.read_table("now.parquet").num_rows == 2
    ran(beam_joins, *changes, "--latest", "now.jsonl")  # without new files
    arrive(1, "jsonl")
    for now in ("now.jsonl", "now.parquet"):
        ran(beam_joins, *changes, "--latest", now)
    at_once(beam_joins, "jsonl", "--how", "left")
    at_once(beam_joins, "parquet", "--how", "left")
    assert rows("now.jsonl") == rows("fresh.jsonl")
    assert rows("now.parquet") == rows("fresh.parquet")


@pytest.mark.slow
def test_the_columns_of_a_table_change_and_a_name_may_not_stand_in_the_way(beam_joins: Run) -> None:
    table = ["table", "--input", "left", "--state-dir", "state", "--latest", "now.jsonl", "--select"]
    arrive(0, "jsonl")
    ran(beam_joins, *table, "id as nr, amount")
    ran(beam_joins, *table, "amount as price", REBUILD)
    assert rows("now.jsonl") == ['{"price": 5}', '{"price": 6}']
    arrive(1, "jsonl")
    assert "give --read-again input" in refused(beam_joins(*table, "*", REBUILD))
    ran(beam_joins, *table, "*", "--read-again", "input")
    assert [json.loads(row)["amount"] for row in rows("now.jsonl")] == [6, 9]


def test_a_stored_column_that_has_the_new_name_of_the_object_is_refused(beam_joins: Run) -> None:
    made = [{"id": n, "by": 1, "op": "c", "lsn": n, "updated_at": n} for n in range(1, LOOK_RECORDS + 2)]
    for side in ("left", "right"):
        Path(side).mkdir()
        write(f"{side}/1.jsonl", *made[:-1], {**made[-1], "note": "hi"})
    in_runs(beam_joins, "jsonl", "--select", "left.*, right as customer")
    clash = beam_joins(*JOIN, *BOTH, "--select", "left.*, right as note", REBUILD)
    assert "rows of the runs before have a column 'note' already: give the other one another name" in refused(clash)


def test_the_filter_of_orders_may_change(run: Run) -> None:
    Path("o").mkdir()
    Path("c").mkdir()
    write("c/1.jsonl", {"customer_id": 1, "name": "Ann", "op": "c", "lsn": 1, "updated_at": 1})
    orders = [{"order_id": n, "customer_id": 1, "amount": n, "op": "c", "lsn": n, "updated_at": n} for n in range(2, 6)]
    write("o/1.jsonl", *orders[:3])
    command = ["--orders", "o", "--customers", "c", "--state-dir", "state", "--latest", "now.jsonl"]
    assert run(*command).code == 0
    for least, kept in (("3", [3, 4, 5]), ("4", [4, 5])):
        write("o/2.jsonl", *orders[3:])
        changed = run(*command, "--min-amount", least, REBUILD)
        assert changed.code == 0, changed.err
        assert sorted(row["order_id"] for row in read_lines(Path("now.jsonl"))) == kept
        assert f"of {len(kept)} final rows" in changed.out


@pytest.mark.parametrize("amount", ["much", "12", [12]])
def test_a_stored_row_without_a_number_is_refused_by_a_filter_of_a_later_run_until_it_is_read_again(run: Run, amount: Any) -> None:
    for side in ("o", "c"):
        Path(side).mkdir()
    write("c/1.jsonl", {"customer_id": 1, "name": "Ann", "op": "c", "lsn": 1, "updated_at": 1})
    order = {"order_id": 1, "customer_id": 1, "amount": 9, "op": "c", "lsn": 2, "updated_at": 2}
    write("o/1.jsonl", order, {**order, "order_id": 2, "amount": amount})
    command = ["--orders", "o", "--customers", "c", "--state-dir", "state", "--latest", "now.jsonl"]
    assert run(*command).code == 0
    refusal = refused(run(*command, "--min-amount", "5", REBUILD, "--on-bad-record", "drop"))
    assert f"--amount: column 'amount' is not a number in a row of the runs before: {amount!r}: give --read-again" in refusal
    assert run(*command, "--min-amount", "5", "--read-again", "orders", "--on-bad-record", "drop").code == 0
    assert [row["order_id"] for row in read_lines(Path("now.jsonl"))] == [1]


def test_a_dry_run_says_what_becomes_of_each_transform_and_touches_nothing(beam_joins: Run) -> None:
    options = [*JOIN, "--state-dir", "state", "--changes", "out", "--latest", "now.jsonl", "--dry-run"]
    arrive(0, "jsonl")
    ran(beam_joins, *options[:-1])
    there = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    assert "\nstate: all 5 transforms go on\n" in ran(beam_joins, *options)
    lines = ran(beam_joins, *options, "--how", "left", REBUILD).splitlines()
    state = lines[lines.index("state") + 1 :][:5]
    assert [line.split(", ")[0].split("  ")[-1].split()[-1] for line in state[:2]] == ["kept", "kept"]
    assert state[0].startswith("  Left rows/Table  kept, 2 rows, ")
    assert state[2].startswith("  Join             rebuilt, 3 rows, ")
    assert state[2].endswith(" bytes, as how was 'inner' and is 'left'")
    assert "remark: the result is made anew: --how was inner, and is left" in lines
    assert state[4].endswith(" bytes, as it is behind Without reference")
    again = ran(beam_joins, *options, "--read-again", "right")
    assert "right rows: 1 file" in again
    assert "\nremark: the right rows are read again\n" in again
    assert ", as its input is read again\n" in again
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == there


def test_options_of_beam_jobs_for_one_label_are_refused(beam_joins: Run) -> None:
    arrive(0, "jsonl")
    command = [*JOIN, "--state-dir", "state", "--latest", "now.jsonl"]
    assert "name an input with --read-again" in refused(beam_joins(*command, "--beam_joins_read_again=Left rows/Table"))
    assert "--read-again is for incremental runs" in refused(beam_joins(*JOIN, "--latest", "now.jsonl", "--read-again", "left"))


@pytest.mark.slow
def test_a_table_of_envelopes_goes_on_with_another_name_of_an_object_and_a_filter(run: Run) -> None:
    for side, key, row in (("o", "order_id", {"customer_id": 1, "amount": 5}), ("c", "customer_id", {"name": "Ann"})):
        Path(side).mkdir()
        source = {"lsn": 1, "ts_ms": 1}
        write(
            f"{side}/1.jsonl", *({"before": None, "after": {key: n, **row}, "op": "c", "source": source, "ts_ms": n} for n in (1, 2))
        )
    command = ["--orders", "o", "--customers", "c", "--state-dir", "state", "--latest", "now.jsonl"]
    command += [
        "--orders-format",
        "debezium",
        "--customers-format",
        "debezium",
        "--orders-key",
        "order_id",
        "--customers-key",
        "customer_id",
    ]
    assert run(*command).code == 0
    for more in (["--customer-field", "who"], ["--customer-field", "who", "--min-amount", "5"]):
        changed = run(*command, *more, REBUILD)
        assert changed.code == 0, changed.err
        assert [row["who"]["name"] for row in read_lines(Path("now.jsonl"))] == ["Ann", "Ann"]
    assert run(*command, *more).out == "no new files: nothing to do\n"
