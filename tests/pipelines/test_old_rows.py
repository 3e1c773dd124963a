"""What the old rows of envelopes say: a delete takes away the row that it names, and one that names none is refused."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_joins import LatestTable
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.enveloped import changes_of
from beam_joins.pipelines.formats.envelopes.maxwell import Maxwell
from beam_joins.pipelines.formats.envelopes.row_change import RowChange
from beam_joins.pipelines.formats.envelopes.wal2json import Wal2Json
from tests.pipelines.orders_run import Run, read_lines, write

Row = dict[str, Any]
ADA, BEN, CLEO = ({"id": n, "guest": guest} for n, guest in ((1, "Ada"), (2, "Ben"), (3, "Cleo")))


def event(op: str, before: Row | None, after: Row | None, **source: Any) -> Row:
    return {"op": op, "before": before, "after": after, "source": {"schema": "public", "table": "t", "ts_ms": 5, **source}}


def shift(*rows: Row, source: Callable[[int], Row]) -> list[Row]:
    """The events of ``UPDATE t SET id = id + 1``, which PostgreSQL and Oracle log a row after the other."""
    events = []
    for n, row in enumerate(rows):
        events += [event("d", row, None, **source(n)), event("c", None, {**row, "id": row["id"] + 1}, **source(n))]
    return events


SOURCES: dict[str, Callable[[int], Row]] = {
    "the first transaction behind a snapshot": lambda n: {"lsn": 51 + n, "txId": 7, "sequence": f'[null,"{51 + n}"]'},
    "a transaction whose rows have one position": lambda n: {"lsn": 51 + n, "sequence": f'["40","{51 + n}"]'},
    "changes of one statement of Oracle": lambda n: {"scn": "8", "commit_scn": "9", "ssn": 0, "rs_id": f" 0x{n}"},
}


_rows: list[Row] = []


def _see(row: tuple[Any, Row]) -> None:
    _rows.append(row[1])


def rows_of(path: Path, key: Any) -> list[Row]:
    _rows.clear()
    with beam.Pipeline(runner="FnApiRunner") as p:
        table = p | ReadChangeEvents(str(path), format="debezium", key=key, schema=None)
        _ = table | LatestTable() | beam.Map(_see)
    return sorted(_rows, key=lambda row: str(row["id"]))


@pytest.mark.parametrize("kind", SOURCES)
def test_keys_that_move_along_leave_the_rows_of_the_server_from_command_and_library(beam_joins: Run, kind: str) -> None:
    write("log.jsonl", *shift(ADA, BEN, CLEO, source=SOURCES[kind]))
    ran = beam_joins("table", "--input", "log.jsonl", "--format", "debezium", "--key", "id", "--latest", "now.jsonl")
    assert ran.code == 0, ran.err
    expected = [{**row, "id": row["id"] + 1} for row in (ADA, BEN, CLEO)]
    assert sorted(read_lines(Path("now.jsonl")), key=lambda row: row["id"]) == expected, "though the log does not have the rows before"
    assert rows_of(Path("log.jsonl"), "id") == expected


def test_a_transaction_may_be_cut_between_two_runs(beam_joins: Run) -> None:
    events = shift(ADA, BEN, source=SOURCES["a transaction whose rows have one position"])
    Path("in").mkdir()
    options = ("--format", "debezium", "--key", "id", "--state-dir", "state", "--latest", "now.jsonl")
    for n, some in enumerate((events[:2], events[2:])):
        write(f"in/{n}.jsonl", *some)
        ran = beam_joins("table", "--input", "in", *options)
        assert ran.code == 0, ran.err
    assert sorted(map(str, read_lines(Path("now.jsonl")))) == sorted(map(str, ({**ADA, "id": 2}, {**BEN, "id": 3})))


def changes(envelope: Any, *lines: Row) -> list[RowChange]:
    return [change for line in lines for change in envelope.changes(json.dumps(line).encode())]


def wal2json(action: str, columns: Row, identity: Row) -> Row:
    named = {name: [{"name": n, "value": v} for n, v in row.items()] for name, row in (("columns", columns), ("identity", identity))}
    return {"action": action, "schema": "public", "table": "t", "lsn": "0/9", **named}


BEGIN = {"action": "B", "lsn": "0/8", "nextlsn": "0/F", "timestamp": "2026-03-01 08:00:00+00"}


def test_an_update_in_place_and_a_delete_are_of_the_row_that_was_so() -> None:
    moved, there, changed = {"id": 2, "guest": "Ada"}, {"id": 2, "guest": "Ben"}, {"id": 2, "guest": "Ben2"}
    lines = [wal2json("U", moved, ADA), wal2json("U", changed, there), wal2json("U", {**changed, "id": 3}, changed)]
    _, arrives, update, leaves, _ = changes(Wal2Json(("id",)), BEGIN, *lines)
    assert arrives.after not in ("", update.before, leaves.before)
    assert update.after == leaves.before


def test_an_old_row_that_has_the_key_alone_says_nothing_of_the_rest() -> None:
    source = {"connector": "postgresql", "lsn": 9}
    key_alone, filled = {"id": 1, "guest": None}, {"id": 1, "guest": "", "price": 0}
    deletes = changes(DebeziumJson(("id",)), *(event("d", row, None, **source) for row in (key_alone, filled)))
    assert [change.before for change in deletes] == ["", ""]
    (whole,) = changes(DebeziumJson(("id",)), event("d", ADA, None, **source))
    (added,) = changes(DebeziumJson(("id",)), event("c", None, ADA, **source))
    assert whole.before == added.after != ""


REFUSED: dict[str, tuple[Callable[[], Any], list[Mapping[str, Any]], str]] = {
    "a delete by the primary key, of a table with another key": (
        lambda: DebeziumJson(("guest",)),
        [event("d", {"id": 1, "guest": None}, None, lsn=9)],
        "an old row that has its primary key alone, and no guest: set the table's REPLICA IDENTITY to FULL",
    ),
    "an update by the primary key, of a table with another key": (
        lambda: Wal2Json(("guest",)),
        [BEGIN, wal2json("U", ADA, {"id": 1})],
        "an update of the table with the primary key id without the old guest, .* FULL",
    ),
    "an unwrapped event whose place is null": (
        DebeziumJson,
        [{"id": 1, "__op": "r", "__lsn": None, "__source_ts_ms": 5}],
        "an event whose __lsn is null, so that nothing orders it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_names_no_row_or_has_no_place_is_refused(case: str) -> None:
    made, lines, sentence = REFUSED[case]
    envelope = made()
    *_, last = (changes_of(envelope, json.dumps(line).encode()) for line in lines)
    (fault,) = [last] if isinstance(last, str) else last
    assert re.search(sentence, str(fault))


def test_a_delete_of_a_row_whose_key_is_null_is_none_where_old_rows_are_whole() -> None:
    deletes = [event("d", row, None, lsn=9) for row in (ADA, {"id": 2, "guest": None})]
    assert len(changes(DebeziumJson(("guest",)), *deletes)) == 2


def test_lines_of_maxwell_of_two_servers_are_of_two_logs() -> None:
    line = {"database": "d", "table": "t", "type": "insert", "ts": 1, "position": "binlog.000002:9", "data": ADA}
    assert [change.log for change in changes(Maxwell(), *({**line, "server_id": n} for n in (1, 2)))] == [
        "binlog of server 1",
        "binlog of server 2",
    ]


def test_updates_that_show_a_part_of_a_row_each_keep_what_the_others_have_shown() -> None:
    line = {"database": "d", "table": "t", "type": "update", "ts": 1, "position": "binlog.000002:9", "primary_key_columns": ["id"]}
    first, second = {"data": ADA, "old": {"guest": "Al"}}, {"data": {"id": 1, "seat": "G"}, "old": {"seat": "F"}}
    one, other = changes(Maxwell(), *({**line, **each} for each in (first, second)))
    assert (one.partial, one.unchanged, other.partial, other.unchanged) == (True, (), True, ("guest",))


SEVERAL = {
    "without a table": ("", ("orders", "customers"), {}),
    "with the last part of two names": ("orders", ("orders", "orders"), {"schema": "archive"}),
    "of two databases of SQL Server": ("", ("t", "t"), {"db": "b"}),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_rows_of_several_tables_are_refused_with_their_names(beam_joins: Run, case: str) -> None:
    table, names, other = SEVERAL[case]
    source = {"connector": "sqlserver", "commit_lsn": "00000027:00000ac0:0001", "db": "a", "schema": "dbo", "ts_ms": 5}
    tables = [{"table": names[0]}, {"table": names[1], **other}]
    write("log.jsonl", *({"op": "c", "after": ADA, "source": {**source, **each}} for each in tables))
    ran = beam_joins("table", "--input", "log.jsonl", "--format", "debezium", "--key", "id", "--table", table, "--latest", "now.jsonl")
    assert ran.code == 2
    full = sorted(".".join({**source, **each}[part] for part in ("db", "schema", "table")) for each in tables)
    assert f"has rows of {full[0]} and {full[1]}: name one as the table, or several by a pattern such as '*'" in ran.err


def test_tombstones_in_another_file_than_unwrapped_events_are_refused(beam_joins: Run) -> None:
    write("part-1.jsonl", {**ADA, "__op": "c", "__lsn": 7, "__source_ts_ms": 5})
    Path("part-2.jsonl").write_text("null\n")
    ran = beam_joins("table", "--input", "part-?.jsonl", "--format", "debezium", "--key", "id", "--latest", "now.jsonl")
    assert ran.code == 2
    assert "2.jsonl has tombstones (lines null) whose delete events were compacted away: they have no keys" in ran.err


def test_what_the_order_of_the_lines_decides_is_decided_by_that_of_the_runs_too(beam_joins: Run) -> None:
    Path("in").mkdir()
    options = ("--format", "debezium", "--key", "id", "--state-dir", "state", "--latest", "now.jsonl")
    marks = {"__op": "c", "__deleted": "false", "__source_ts_ms": 1_772_352_000_000}
    for n, rows in enumerate(([BEN, ADA], [{**ADA, "guest": "Ann"}])):
        write(f"in/{n}.jsonl", *({**row, **marks} for row in rows))
        ran = beam_joins("table", "--input", "in", *options)
        assert ran.code == 0, ran.err
    assert {row["id"]: row["guest"] for row in read_lines(Path("now.jsonl"))} == {1: "Ann", 2: "Ben"}


def test_of_two_changes_that_nothing_orders_the_later_line_counts_in_the_library_as_in_the_command(tmp_path: Path) -> None:
    source = {"connector": "oracle", "scn": "100", "commit_scn": "110", "ssn": 0}
    events = [event("c", None, {**ADA, "guest": "zz"}, **source), event("u", {**ADA, "guest": "zz"}, {**ADA, "guest": "aa"}, **source)]
    events += [event("c", None, BEN, **source), event("d", BEN, None, **source)]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    assert rows_of(tmp_path / "log.jsonl", "id") == [{**ADA, "guest": "aa"}]


def test_a_row_keeps_the_digits_of_its_numbers_whatever_is_said_of_it(beam_joins: Run) -> None:
    rows = [{"op": "c", "after": {"id": n, "price": 5.5}, "source": {"table": "t", "ts_ms": 5, "lsn": n}} for n in range(500)]
    Path("log.jsonl").write_text("".join(json.dumps(row).replace("5.5", "5.50") + "\n" for row in rows))
    ran = beam_joins("table", "--input", "log.jsonl", "--format", "debezium", "--key", "id", "--latest", "now.jsonl")
    assert ran.code == 0, ran.err
    assert Path("now.jsonl").read_text().count(":5.50}") == 500
