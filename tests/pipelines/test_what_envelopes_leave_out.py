"""Readers of envelopes: values and places that a tool leaves out."""

import json
from pathlib import Path

import pytest

from beam_joins.pipelines.formats.envelopes.debezium_files import DebeziumLines
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.wal2json import Wal2Json
from beam_joins.pipelines.formats.file_parts import File, Part
from tests.pipelines.naive_orders import Row
from tests.pipelines.test_envelopes import PLACE, SOURCE, changes


def wal_change(kind: str, row: Row, old: Row | None = None) -> Row:
    made: Row = {"kind": kind, "table": "t", "columnnames": list(row), "columnvalues": list(row.values())}
    return made if old is None else {**made, "oldkeys": {"keynames": list(old), "keyvalues": list(old.values())}}


def test_a_large_value_that_an_update_leaves_out_is_that_of_the_old_row_or_named_as_unchanged() -> None:
    insert, update = wal_change("insert", {"id": 1, "text": "long", "n": 1}), {"id": 1, "n": 2}
    full = wal_change("update", update, {"id": 1, "text": "long", "n": 1})
    for before in ([insert], []):
        *_, last = changes(Wal2Json(("id",)), {**PLACE, "change": [*before, full]})
        assert (json.loads(last.row), last.unchanged) == ({"id": 1, "text": "long", "n": 2}, ())
    for before in (
        [insert],
        [wal_change("update", {"id": 1, "text": "long", "n": 1}, {"id": 1})],
        [insert, wal_change("update", update, {"id": 1})],
    ):
        *_, last = changes(Wal2Json(("id",)), {**PLACE, "change": [*before, wal_change("update", update, {"id": 1})]})
        assert (json.loads(last.row), last.unchanged) == (update, ("text",))


def test_a_column_that_neither_an_insert_nor_a_whole_old_row_has_is_gone() -> None:
    first = wal_change("insert", {"id": 1, "a": "x", "b": "y"})
    dropped = wal_change("update", {"id": 1, "a": "z"}, {"id": 1, "a": "x"})
    renamed = wal_change("update", {"id": 1, "a": "z", "c": "y"}, {"id": 1, "a": "x", "c": "y"})
    for change in (dropped, renamed):
        *_, last = changes(Wal2Json(("id",)), {**PLACE, "change": [first, change]})
        assert last.unchanged == ()
    later = [wal_change("insert", {"id": 2, "a": "x"}), wal_change("update", {"id": 1, "a": "z"}, {"id": 1})]
    *_, last = changes(Wal2Json(("id",)), {**PLACE, "change": [first, *later]})
    assert last.unchanged == ()


def test_a_column_that_is_new_stays_in_an_update_that_leaves_a_large_value_out() -> None:
    lines = [wal_change("insert", {"id": 1, "text": "long"}), wal_change("update", {"id": 1, "n": 2}, {"id": 1, "text": "long"})]
    *_, last = changes(Wal2Json(("id",)), {**PLACE, "change": lines})
    assert json.loads(last.row) == {"id": 1, "text": "long", "n": 2}


_PLACEHOLDER = "__debezium_unavailable_value"
_FORMS = {
    "text": _PLACEHOLDER,
    "base64": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    "hexadecimal digits": _PLACEHOLDER.encode().hex(),
    "array of text": [_PLACEHOLDER],
    "array of bytes": ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="],
    "array of uuids": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    "array of integers": [*_PLACEHOLDER.encode()],
    "array of floats": [float(octet) for octet in _PLACEHOLDER.encode()],
    "array of numbers as text": [str(octet) for octet in _PLACEHOLDER.encode()],
    "hstore": {_PLACEHOLDER: _PLACEHOLDER},
    "hstore as text": json.dumps({_PLACEHOLDER: _PLACEHOLDER}, separators=(",", ":")),
    "geometry": {"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": None},
    "geography": {"wkb": "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640", "srid": 4326},
    "point": {"x": -99999999.0, "y": -99999999.0, "wkb": None, "srid": None},
}


@pytest.mark.parametrize("form", _FORMS)
def test_a_placeholder_of_debezium_is_the_value_before_in_each_form(form: str) -> None:
    row, kept = {"id": 1, "large": _FORMS[form], "n": 2}, {"id": 1, "n": 2}
    event = {"op": "u", "before": None, "after": row, "source": SOURCE}
    unwrapped = {**row, "__op": "u", "__source_lsn": 3, "__source_ts_ms": 4}
    with_both = {**event, "before": {"id": 1, "large": "old", "n": 1}}
    for line in (event, unwrapped, {**event, "before": row}, with_both):
        (change,) = changes(DebeziumJson(), line)
        expected = ({**row, "large": "old"}, ()) if line is with_both else (kept, ("large",))
        assert (json.loads(change.row), change.unchanged) == expected
    for line in ({**event, "op": "c"}, {**unwrapped, "__op": "c"}):  # of an update that has changed the primary key
        with pytest.raises(ValueError, match="another key and leaves out large, which only the old key's row has: .* FULL"):
            changes(DebeziumJson(), line)


@pytest.mark.parametrize(
    ("placeholder", "value"),
    [("NA", "NA"), ("NA", ["NA"]), ("NA", [78, 65]), ("hex:ff00", "/wA="), ("hex:ff00", [255, 0]), ("[0]", [0])],
)
def test_a_placeholder_is_recognized_by_its_name(placeholder: str, value: object) -> None:
    line = {"op": "u", "after": {"id": 1, "large": value}, "source": SOURCE}
    (as_data,) = changes(DebeziumJson(), line)
    assert json.loads(as_data.row)["large"] == value
    (change,) = changes(DebeziumJson((), "", None, [placeholder]), line)
    assert (json.loads(change.row), change.unchanged) == ({"id": 1}, ("large",))


def test_what_only_looks_like_a_placeholder_is_a_value() -> None:
    for value in (
        "x__debezium_unavailable_value",
        [95],
        [95, 95],
        ["a", _PLACEHOLDER],
        {"x": -99999999.0, "y": 1.0},
        [],
        {},
        None,
        -99999999,
        [True] * 28,
    ):
        (change,) = changes(DebeziumJson(), {"op": "u", "after": {"id": 1, "large": value}, "source": SOURCE})
        assert (json.loads(change.row)["large"], change.unchanged) == (value, ())


def test_a_column_named_payload_is_null_in_an_unwrapped_event_and_the_event_no_tombstone() -> None:
    (change,) = changes(DebeziumJson(), {"id": 1, "payload": None, "__op": "c", "__source_lsn": 3, "__source_ts_ms": 4})
    assert json.loads(change.row) == {"id": 1, "payload": None}
    assert not changes(DebeziumJson(), {"schema": None, "payload": None}, {"payload": None})


def test_a_tombstone_that_is_the_only_sign_of_a_delete_is_refused_wherever_it_stands() -> None:
    event = {"id": 1, "__op": "c", "__source_lsn": 3, "__source_ts_ms": 4}
    for lines in ((event, None), (None, event), (event, {"schema": None, "payload": None})):
        with pytest.raises(ValueError, match="does not say of which row, .*delete.tombstone.handling.mode=rewrite"):
            changes(DebeziumJson(), *lines)
    told = [{**event, "__deleted": "false"}, {**event, "__deleted": "true", "__op": "d"}, None]
    assert [change.operation for change in changes(DebeziumJson(), *told)] == ["i", "d"]


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
    file = File(path="deep.jsonl", bytes=len(deep), shown="deep.jsonl", reader=DebeziumLines(), written=0)
    (marked,) = DebeziumLines().marked(Part(0, file, 0, 0))
    assert marked.faults == {0: "nested too deeply"}
