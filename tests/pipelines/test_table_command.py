"""beam-joins table: the rows in the end, and the changes that lead to them."""

from pathlib import Path

import pytest

from tests.pipelines.join_run import LEFT, changes
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
    monkeypatch.setattr("beam_joins.pipelines.changelog_files.in_order.AT_A_TIME", 2)
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


def test_a_large_value_that_an_update_leaves_out_is_missed_in_a_later_run_too(beam_joins: Run) -> None:
    def line(action: str, lsn: int, row: Row) -> Row:
        columns = [{"name": name, "type": "text" if name == "big" else "integer", "value": value} for name, value in row.items()]
        at = {"lsn": f"0/{lsn}", "nextlsn": f"0/{lsn}", "timestamp": "2026-03-01 08:00:00+00"}
        return {"action": action, **at, "schema": "s", "table": "t", "columns": columns, "pk": [{"name": "id"}]}

    Path("in").mkdir()
    command = ["table", "--input", "in", "--format", "wal2json", "--state-dir", "state", "--latest", "now.jsonl"]
    write("in/1.jsonl", line("I", 10, {"id": 1, "n": 1, "big": "x"}))
    assert beam_joins(*command).code == 0
    write("in/2.jsonl", line("U", 20, {"id": 1, "n": 2, "big": "y"}))
    ran = beam_joins(*command)
    assert (ran.code, "TOAST" in ran.out) == (0, False), ran
    write("in/3.jsonl", line("U", 30, {"id": 1, "n": 3}))
    assert "an update without the column 'big'" in beam_joins(*command).err
    assert read_lines(Path("now.jsonl")) == [{"id": 1, "n": 2, "big": "y"}]


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
    assert ran.out.startswith("would read, of these the files that no run with state has read\n  rows: 2 files, "), ran
    assert "  changes      out/c-*.jsonl, json lines\n" in ran.out
