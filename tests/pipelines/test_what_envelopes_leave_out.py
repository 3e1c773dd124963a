"""Readers of envelopes: values and places that a tool leaves out."""

import json
from pathlib import Path

import pytest

from beam_joins.pipelines.changelog_files.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.changelog_files.envelopes.wal2json import Wal2Json
from beam_joins.pipelines.changelog_files.files import File, Part
from beam_joins.pipelines.changelog_files.formats import ENVELOPES
from tests.pipelines.naive_orders import Row
from tests.pipelines.test_envelopes import PLACE, SOURCE, changes


def wal_change(kind: str, row: Row, old: Row | None = None) -> Row:
    made: Row = {"kind": kind, "table": "t", "columnnames": list(row), "columnvalues": list(row.values())}
    return made if old is None else {**made, "oldkeys": {"keynames": list(old), "keyvalues": list(old.values())}}


def test_a_large_value_that_an_update_leaves_out_is_that_of_the_old_row_or_the_update_is_refused() -> None:
    insert, update = wal_change("insert", {"id": 1, "text": "long", "n": 1}), {"id": 1, "n": 2}
    full = wal_change("update", update, {"id": 1, "text": "long", "n": 1})
    for before in ([insert], []):
        *_, last = changes(Wal2Json(("id",)), {**PLACE, "change": [*before, full]})
        assert json.loads(last.row) == {"id": 1, "text": "long", "n": 2}
    for before in (insert, wal_change("update", {"id": 1, "text": "long", "n": 1}, {"id": 1})):
        with pytest.raises(ValueError, match="an update without the column 'text'"):
            changes(Wal2Json(("id",)), {**PLACE, "change": [before, wal_change("update", update, {"id": 1})]})


def test_a_column_that_is_new_stays_in_an_update_that_leaves_a_large_value_out() -> None:
    lines = [wal_change("insert", {"id": 1, "text": "long"}), wal_change("update", {"id": 1, "n": 2}, {"id": 1, "text": "long"})]
    *_, last = changes(Wal2Json(("id",)), {**PLACE, "change": lines})
    assert json.loads(last.row) == {"id": 1, "text": "long", "n": 2}


@pytest.mark.parametrize(
    "placeholder",
    ["__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", b"__debezium_unavailable_value".hex()],
)
def test_an_event_of_debezium_that_leaves_a_large_value_out_is_refused(placeholder: str) -> None:
    row = {"id": 1, "large": placeholder}
    for line in ({"op": "u", "after": row, "source": SOURCE}, {**row, "__op": "u", "__source_lsn": 3, "__source_ts_ms": 4}):
        with pytest.raises(ValueError, match="leaves a large value out"):
            changes(DebeziumJson(), line)


def test_a_column_named_payload_is_null_in_an_unwrapped_event_and_the_event_no_tombstone() -> None:
    (change,) = changes(DebeziumJson(), {"id": 1, "payload": None, "__op": "c", "__source_lsn": 3, "__source_ts_ms": 4})
    assert json.loads(change.row) == {"id": 1, "payload": None}
    assert not changes(DebeziumJson(), {"schema": None, "payload": None}, {"payload": None})


def test_a_tombstone_that_is_the_only_sign_of_a_delete_is_refused_wherever_it_stands() -> None:
    event = {"id": 1, "__op": "c", "__source_lsn": 3, "__source_ts_ms": 4}
    for lines in ((event, None), (None, event), (event, {"schema": None, "payload": None})):
        with pytest.raises(ValueError, match="does not say of which row: .*delete.tombstone.handling.mode=rewrite"):
            changes(DebeziumJson(), *lines)
    told = [{**event, "__deleted": "false"}, {**event, "__deleted": "true", "__op": "d"}, None]
    assert [change.operation for change in changes(DebeziumJson(), *told)] == ["u", "d"]


def test_an_unwrapped_event_that_does_not_say_its_table_is_no_event_of_another_one() -> None:
    event = {"id": 1, "__op": "c", "__source_lsn": 3, "__source_ts_ms": 4}
    for table, line in (("orders", event), ("public.orders", {**event, "__table": "orders"})):
        with pytest.raises(ValueError, match="says at most __table"):
            changes(DebeziumJson((), table), line)
    assert not changes(DebeziumJson((), "orders"), {**event, "__table": "customers"})


def test_rows_of_a_snapshot_come_before_changes_with_a_global_transaction_identifier() -> None:
    place = {"ts_ms": 1, "file": "mysql-bin.000003", "pos": 154, "row": 0}
    snapshot = {"op": "r", "after": {"id": 1, "v": "old"}, "source": {**place, "snapshot": "last", "gtid": None}}
    update = {
        "op": "u",
        "after": {"id": 1, "v": "new"},
        "source": {**place, "pos": 300, "gtid": "24bc7850-2c16-11e6-a073-0242ac110002:24"},
    }
    first, second = changes(DebeziumJson(), snapshot, update)
    assert first.position < second.position


def test_a_sequence_without_places_and_a_row_nested_too_deeply_are_no_accident(own_directory: Path) -> None:
    (change,) = changes(DebeziumJson(), {"op": "c", "after": {"id": 1}, "source": {**SOURCE, "sequence": "[]"}})
    assert (change.position, change.order) == (8, 0)
    deep = b'{"op":"c","after":' + b"[" * 9_000 + b"]" * 9_000 + b',"source":{"lsn":1}}'
    Path("deep.jsonl").write_bytes(deep)
    file = File(path="deep.jsonl", bytes=len(deep), shown="deep.jsonl", format="debezium", written=0)
    (marked,) = ENVELOPES["debezium"].marked(Part(0, file, 0, 0))
    assert marked.faults == {0: "nested too deeply"}
