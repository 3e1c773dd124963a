"""beam-joins table: the rows in the end, and the changes that lead to them."""

from pathlib import Path

import pytest

from tests.pipelines.join_run import LEFT, changes
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
