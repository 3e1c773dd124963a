"""beam-joins table: the rows in the end, and the changes that lead to them."""

from pathlib import Path

import pytest

from tests.pipelines.join_run import LEFT, TEA, changes, refused
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Run, read_lines, write


def test_a_table_has_the_rows_in_the_end_and_its_changelog_the_rows_before(beam_joins: Run) -> None:
    ran = beam_joins("table", "--input", "l.jsonl", "--select", "id,by as who", "--output", "e.jsonl", "--latest", "now.jsonl")
    assert ran.code == 0, ran.err
    assert sorted(map(str, read_lines(Path("now.jsonl")))) == [
        f"{{'id': {n}, 'who': {by!r}}}" for n, by in ((1, "b"), (2, "z"), (3, None))
    ]
    assert changes("e.jsonl")[-1] == (6, 1, "update", [1, "b"])
    (last,) = (change for change in read_lines(Path("e.jsonl")) if change["position"] == 6)
    assert last["old"] == {"id": 1, "who": "a"}


def test_the_changes_of_a_row_stand_in_order_however_many_are_encoded_at_a_time(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.results.sorted_output.AT_A_TIME", 2)
    write("many.jsonl", *({"id": 1, "op": "u", "lsn": lsn, "updated_at": lsn} for lsn in range(20)))
    ran = beam_joins("table", "--input", "many.jsonl", "--output", "e.jsonl")
    assert ran.code == 0, ran.err
    assert [change["position"] for change in read_lines(Path("e.jsonl"))] == list(range(20))


def test_a_table_of_envelopes_takes_the_rows_of_one_table(beam_joins: Run) -> None:
    source = {"table": "prices", "lsn": 7, "ts_ms": 5}
    events = [
        {"op": "c", "after": {"sku": "x", "price": 2}, "source": source},
        {"op": "c", "after": {"nr": 1}, "source": {**source, "table": "t"}},
    ]
    write("events.jsonl", *events)
    ran = beam_joins(
        "table", "--input", "events.jsonl", "--format", "debezium", "--table", "prices", "--key", "sku", "--latest", "now.jsonl"
    )
    assert ran.code == 0, ran.err
    assert read_lines(Path("now.jsonl")) == [{"sku": "x", "price": 2}]


def test_a_large_value_that_an_update_leaves_out_is_that_of_an_earlier_run(beam_joins: Run) -> None:
    def transaction(action: str, lsn: int, row: Row) -> list[Row]:
        columns = [{"name": name, "type": "text" if name == "big" else "integer", "value": value} for name, value in row.items()]
        at = {"lsn": f"0/{lsn}", "nextlsn": f"0/{lsn}", "timestamp": "2026-03-01 08:00:00+00"}
        change = {"action": action, **at, "schema": "s", "table": "t", "columns": columns, "pk": [{"name": "id"}]}
        return [{"action": "B", **at}, change, {"action": "C", **at}]

    Path("in").mkdir()
    command = ["table", "--input", "in", "--format", "wal2json", "--state-dir", "state", "--latest", "now.jsonl"]
    write("in/1.jsonl", *transaction("I", 10, {"id": 1, "n": 1, "big": "x"}))
    assert beam_joins(*command).code == 0
    write("in/2.jsonl", *transaction("U", 20, {"id": 1, "n": 2, "big": "y"}))
    ran = beam_joins(*command)
    assert (ran.code, "TOAST" in ran.out) == (0, False), ran
    write("in/3.jsonl", *transaction("U", 30, {"id": 1, "n": 3}))
    assert beam_joins(*command).code == 0
    assert read_lines(Path("now.jsonl")) == [{"id": 1, "n": 3, "big": "y"}]


def test_a_table_goes_on_where_the_run_before_ended(beam_joins: Run) -> None:
    Path("in").mkdir()
    command = [
        "table",
        "--input",
        "in",
        "--select",
        "id,by",
        "--state-dir",
        "state",
        "--changes",
        "out/c-*.jsonl",
        "--latest",
        "now.jsonl",
    ]
    for number, rows in enumerate((LEFT[:2], LEFT[2:]), 1):
        write(f"in/{number}.jsonl", *rows)
        assert beam_joins(*command).code == 0
    assert changes("out/c-000002.jsonl") == [(3, 3, "insert", [3, None]), (6, 1, "update", [1, "b"])]
    assert sorted(row["id"] for row in read_lines(Path("now.jsonl"))) == [1, 2, 3]
    ran = beam_joins(*command, "--dry-run")
    assert ran.out.startswith("run 3 with state would read\n  rows: no new files\nwould write\n"), ran
    assert "  changes      out/c-*.jsonl, json lines\n" in ran.out
    write("in/3.jsonl", TEA)
    ran = beam_joins(*command, "--dry-run")
    assert ran.out.startswith("run 3 with state would read\n  rows: 1 file, ")
    assert "in/3.jsonl" in ran.out
    assert "in/1.jsonl" not in ran.out
    assert refused(beam_joins(*command, "--select", "id", "--dry-run")).startswith("--select is id, but id,by in the runs before")
    write("in/1.jsonl", TEA, TEA)
    assert "in/1.jsonl has changed since a run has read it" in refused(beam_joins(*command, "--dry-run"))


def test_columns_about_the_change_that_are_named_are_columns_of_the_result(beam_joins: Run) -> None:
    assert beam_joins("table", "--input", "l.jsonl", "--select", "id, lsn, op as word", "--latest", "now.jsonl").code == 0
    assert [list(row.values()) for row in read_lines(Path("now.jsonl"))] == [[1, 6, "u"], [2, 2, "c"], [3, 3, "c"]]


def test_a_path_where_no_file_is_any_more_is_told(beam_joins: Run) -> None:
    Path("in").mkdir()
    command = ["table", "--state-dir", "state", "--latest", "now.jsonl", "--input"]
    write("in/1.jsonl", TEA)
    assert beam_joins(*command, "in/1.jsonl").code == 0
    assert beam_joins(*command, "in/1.jsonl").out == "no new files: nothing to do\n"
    assert beam_joins(*command, "in/2.jsonl").out == "no new files: nothing to do; rows: there is no file in/2.jsonl\n"
    assert "  rows: there is no file in/2.jsonl\n" in beam_joins(*command, "in/2.jsonl", "--dry-run").out
    Path("in/1.jsonl").unlink()
    assert beam_joins(*command, "in").out == "no new files: nothing to do\n"


def test_a_state_in_a_folder_of_inputs_is_refused(beam_joins: Run) -> None:
    Path("in").mkdir()
    write("in/1.jsonl", TEA)
    assert refused(beam_joins("table", "--input", "in", "--state-dir", "in", "--latest", "now.jsonl")) == (
        "--state-dir: --input in would read what is written to in/manifest.json: name another place"
    )
    assert [path.name for path in Path("in").iterdir()] == ["1.jsonl"]


def test_a_column_that_a_later_run_does_not_have_is_told_without_options_that_it_would_refuse(beam_joins: Run) -> None:
    Path("in").mkdir()
    command = ["table", "--input", "in", "--select", "id,by", "--state-dir", "state", "--latest", "now.jsonl"]
    write("in/1.jsonl", TEA)
    assert beam_joins(*command).code == 0
    for column, option in (("by", "--select"), ("lsn", "--sequence-by")):
        write("in/2.jsonl", {name: value for name, value in TEA.items() if name != column})
        assert refused(beam_joins(*command)) == (
            f"rows have no column '{column}' ({option}): in/2.jsonl has {', '.join(name for name in TEA if name != column)}; earlier "
            "runs have read it: write it into the files, or begin with another --state-dir"
        )


AT = {"lsn": "0/500", "nextlsn": "0/530", "timestamp": "2026-01-01 00:00:00+00"}


def change(action: str, lsn: int, number: int, name: str) -> Row:
    columns = [{"name": "id", "type": "integer", "value": number}, {"name": "name", "type": "text", "value": name}]
    at = {"timestamp": AT["timestamp"], "lsn": f"0/{lsn}"}
    return {"action": action, **at, "schema": "public", "table": "t", "columns": columns, "pk": columns[:1]}


def test_a_transaction_that_ends_in_the_next_file_waits_for_the_run_that_finds_it(beam_joins: Run) -> None:
    Path("in").mkdir()
    command = ["table", "--input", "in", "--format", "wal2json", "--state-dir", "state", "--latest", "now.jsonl"]
    write("in/b.jsonl", {"action": "B", **AT}, change("I", 100, 1, "a"))
    ran = beam_joins(*command)
    assert (ran.code, read_lines(Path("now.jsonl"))) == (0, []), ran
    assert "b.jsonl ends within the transaction with nextlsn 0/530, which is not applied" in ran.out
    write("in/a.jsonl", change("U", 200, 1, "b"), change("I", 210, 2, "x"), {"action": "C", **AT})
    ran = beam_joins(*command)
    assert (ran.code, "ends within" in ran.out) == (0, False), ran
    assert sorted(row["name"] for row in read_lines(Path("now.jsonl"))) == ["b", "x"]


def test_a_bad_change_is_dropped_without_the_others_of_its_transaction(beam_joins: Run) -> None:
    def changes(*rows: Row) -> Row:
        made = [
            {
                "kind": "update",
                "table": "t",
                "columnnames": [*row],
                "columntypes": ["integer", "text"],
                "columnvalues": [*row.values()],
            }
            for row in rows
        ]
        return {**AT, "change": [{**each, "pk": {"pknames": ["id"]}} for each in made]}

    deleted = {"kind": "delete", "table": "t", "pk": {"pknames": ["id"]}}
    unknown = {**changes({"id": 3, "name": "z"})["change"][0], "kind": "merge"}
    line = changes({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    line["change"][1:1] = [deleted, unknown]
    write("t.jsonl", line, {**AT, "nextlsn": "0/600", "change": []}, {**AT, "nextlsn": "0/700", "change": []})
    command = ["table", "--input", "t.jsonl", "--format", "wal2json", "--latest", "now.jsonl"]
    assert "t.jsonl, line 1: a change without its row" in beam_joins(*command).err
    ran = beam_joins(*command, "--on-bad-record", "drop")
    assert ran.code == 0, ran.err
    assert sorted(row["name"] for row in read_lines(Path("now.jsonl"))) == ["a", "b"]
    assert "a change of the unknown kind 'merge'; without the change the row {\"id\":3} of t is not right" in ran.out
    assert "2  transactions without a change: of other tables, or a TRUNCATE" in ran.out
    without = {**line, "change": [{name: value for name, value in each.items() if name != "pk"} for each in line["change"]]}
    write("t.jsonl", without)
    assert "name them (--key, or key=), or read the slot with include-pk" in beam_joins(*command).err
    Path("t.jsonl").write_text('{"nextlsn":"0/10","timestamp":"2026-01-01 00:00:00+00","change":[\n')
    assert "t.jsonl, line 1: a part of a transaction: read the slot without pretty-print" in beam_joins(*command, "--key=id").err


def test_dropped_records_are_told_by_the_summary_alone(beam_joins: Run, caplog: pytest.LogCaptureFixture) -> None:
    write("rows.jsonl", *[{"id": 1, "lsn": 1, "updated_at": 1, "op": "c"}] * 2)
    ran = beam_joins("table", "--input=rows.jsonl", "--latest=now.jsonl")
    assert ran.code == 0
    assert "the same record again" in ran.out, ran.out
    assert [each for each in caplog.records if each.name == "beam_joins"] == []
