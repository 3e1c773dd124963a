"""The lines that Maxwell's serializer makes: a test for each row of the table in docs/envelopes.md."""

import json
from typing import Any

import pytest

from beam_joins.pipelines.formats.envelopes.inferred_key import evidence_of
from beam_joins.pipelines.formats.envelopes.maxwell import Maxwell
from beam_joins.pipelines.formats.envelopes.row_change import RowChange

SEAT = {"database": "theatre", "table": "seats", "ts": 1_772_352_000, "primary_key_columns": ["id"]}
ANN = {"id": 1, "guest": "Ann", "row": "F", "price": 30}


def line(kind: str, data: dict[str, Any], at: int | None = 7, **more: Any) -> dict[str, Any]:
    position = {} if at is None else {"position": f"binlog.000004:{at}"}
    return {**SEAT, "type": kind, "data": data, **position, **more}


def changes(*lines: dict[str, Any], envelope: Maxwell | None = None) -> list[RowChange]:
    envelope = envelope or Maxwell()
    return [change for each in lines for change in envelope.changes(json.dumps(each).encode())]


def row(change: RowChange) -> Any:
    return json.loads(change.row)


def test_the_row_that_commits_is_the_last_of_its_position() -> None:
    moves = [line("update", {"id": n + 1}, old={"id": n}) for n in (3, 2, 1)]
    actual = changes({**moves[0], "xoffset": 0}, {**moves[1], "xoffset": 1}, {**moves[2], "commit": True})
    orders = [change.order for change in actual]
    assert orders == sorted(orders, key=lambda order: -1 if order is None else order)
    assert orders[:4] == [0, 0, 1, 1]
    assert [(change.operation, row(change)["id"]) for change in actual] == [
        *(("d", 3), ("i", 4)),
        *(("d", 2), ("i", 3)),
        *(("d", 1), ("i", 2)),
    ]


def test_rows_without_xoffset_have_the_order_of_the_lines_and_the_commit_is_behind_them() -> None:
    first, last = changes(line("insert", ANN), line("insert", ANN, commit=True))
    assert first.order is None
    assert last.order is not None
    assert last.order > 2**60, "behind the place of any line"


def test_the_rows_of_a_bootstrap_are_before_all_changes_of_the_log() -> None:
    started, read, changed = (
        line("bootstrap-start", {}, None),
        line("bootstrap-insert", ANN, None),
        line("update", ANN, old={"row": "G"}),
    )
    envelope = Maxwell()
    one, other = changes(started, read, changed, envelope=envelope)
    assert (one.position, one.log, row(one)) == (0, None, ANN)
    assert other.position > 0
    assert envelope.skipped == {"bootstrap_start": 1}


@pytest.mark.parametrize("kind", ["table-create", "table-alter", "table-drop", "database-create", "bootstrap-complete"])
def test_a_line_about_no_row_is_counted(kind: str) -> None:
    envelope = Maxwell()
    assert (
        changes({**SEAT, "type": kind, "sql": "ALTER TABLE", "def": {"columns": []}, "old": {"columns": []}}, envelope=envelope) == []
    )
    assert envelope.skipped == {kind.replace("-", "_"): 1}


def test_an_update_of_a_minimal_row_image_says_which_columns_did_not_change() -> None:
    _, update, again = changes(
        line("insert", ANN), line("update", {"id": 1, "guest": "Bea"}, old={"guest": "Ann"}), line("update", ANN, old={"guest": "Bea"})
    )
    assert (row(update), update.unchanged, update.partial) == ({"id": 1, "guest": "Bea"}, ("row", "price"), False)
    assert again.unchanged == ()


def test_where_no_row_has_shown_its_columns_an_update_may_be_a_part_of_one() -> None:
    minimal = line("update", {"id": 1, "guest": "Bea"}, old={"guest": "Ann"})
    doubt = evidence_of("seats", changes(minimal), 10).doubt
    assert "binlog_row_image=MINIMAL" in doubt
    assert evidence_of("seats", changes(line("insert", ANN), minimal), 10).doubt == ""
    assert evidence_of("seats", changes(line("update", ANN, old={"guest": "Al"})), 10).doubt == "", "a column that did not change"


def test_a_column_that_only_old_has_is_null_now_and_one_that_neither_has_did_not_change() -> None:
    nulls_left_out = line("update", {"id": 1, "guest": "Ann"}, old={"row": "F"})
    _, update = changes(line("insert", ANN), nulls_left_out)
    assert (row(update), update.unchanged) == ({"id": 1, "guest": "Ann"}, ("price",))


def test_columns_that_are_null_in_the_first_rows_are_known_from_later_ones() -> None:
    whole = evidence_of("seats", changes(line("insert", {"id": 2}), line("insert", ANN)), 10).whole
    assert whole is not None
    assert whole.names == ["id", "guest", "row", "price"]
    (update,) = changes(line("update", {"id": 1, "price": 9}, old={"price": 8}), envelope=Maxwell(columns=whole))
    assert update.unchanged == ("guest", "row")


def test_another_key_leaves_the_old_one_by_the_columns_of_the_line_or_by_named_ones() -> None:
    moved = line("update", {**ANN, "id": 2}, old={"id": 1})
    assert [(change.operation, row(change)) for change in changes(moved)] == [("d", {"id": 1}), ("i", {**ANN, "id": 2})]
    by_row = [(change.operation, row(change)) for change in changes(moved, envelope=Maxwell(("row",)))]
    assert by_row == [("u", {**ANN, "id": 2})]


def test_another_key_in_an_update_that_leaves_columns_out_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves out row, price, .*: run MySQL with binlog_row_image=FULL"):
        changes(line("insert", ANN), line("update", {"id": 2, "guest": "Ann"}, old={"id": 1}))


@pytest.mark.parametrize(
    ("position", "sentence"), [(None, "run Maxwell with output_binlog_position=true"), ("binlog.000004", "is no FILE:OFFSET")]
)
def test_a_row_of_the_log_without_its_place_is_refused(position: str | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        changes({**line("insert", ANN, None), **({} if position is None else {"position": position})})


def test_a_row_of_a_type_that_maxwell_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="the type 'INSERT' is none of Maxwell's that have a row: insert, bootstrap-insert"):
        changes(line("INSERT", ANN))


def test_canal_json_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="Canal-JSON, which is not read: .* TiCDC write protocol=debezium"):
        changes({"isDdl": False, "type": "INSERT", "database": "d", "table": "t", "data": [{"id": "1"}], "old": None})
