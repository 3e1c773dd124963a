"""ReadChangeEvents: the types that Debezium's schemas say."""

import json
from base64 import b64encode
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.types.column_kind import NAMED, decimal_kind
from tests.pipelines.events import COLUMNS, EXPECTED, STORED, TIME, TYPES, event, lines, read, schema_of
from tests.pipelines.orders_run import Run
from tests.pipelines.test_envelopes import changes

pytestmark = pytest.mark.usefixtures("own_directory")


def test_the_schema_part_of_an_event_says_the_types_of_the_columns_and_what_their_values_mean() -> None:
    path = lines(
        "t.jsonl",
        {"schema": schema_of(), "payload": event(STORED)},
        {"schema": schema_of(), "payload": event(dict.fromkeys(STORED) | {"id": 8})},
    )
    kind, rows = read(path, key="id")
    assert pa.schema(list(kind)) == TYPES
    assert sorted(rows, key=lambda row: row["id"]) == [EXPECTED, {**dict.fromkeys(EXPECTED), "id": 8}]


def test_without_a_schema_the_same_values_are_as_they_are_stored() -> None:
    kind, rows = read(lines("t.jsonl", event(STORED)), key="id")
    assert not isinstance(kind, pa.DataType)
    assert rows == [STORED]


def test_dicts_have_the_values_as_they_are_meant_in_json_too() -> None:
    _, (row,) = read(lines("t.jsonl", {"schema": schema_of(), "payload": event(STORED)}), key="id", schema=None)
    assert {name: row[name] for name in ("price", "day", "micros", "clock", "inner")} == {
        "price": -12345678.90,
        "day": "2026-01-02",
        "micros": "2026-01-02T03:04:05.678901",
        "clock": "12:30:00.000001",
        "inner": {"day": "1970-01-02", "n": 2**60 + 1},
    }
    (change,) = changes(DebeziumJson(), {"schema": schema_of(), "payload": event(STORED)})
    assert b'"price":-12345678.90,' in change.row


def test_the_orders_command_writes_dates_and_decimals_as_they_are_meant(run: Run) -> None:
    columns = [*COLUMNS[:1], ("by", "int64", {}), *COLUMNS[7:8], *COLUMNS[9:10]]
    order = {name: STORED.get(name, 1) for name, *_ in columns}
    lines("o.jsonl", {"schema": schema_of(columns), "payload": event(order)})
    lines("c.jsonl", event({"id": 1, "name": "Ann"}))
    options = [f"--{side}-format=debezium" for side in ("orders", "customers")] + ["--orders-key=id", "--customers-key=id"]
    ran = run("--orders", "o.jsonl", "--customers", "c.jsonl", *options, "--foreign-key=by", "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    assert Path("l.jsonl").read_text() == '{"id":7,"by":1,"price":-12345678.90,"day":"2026-01-02","customer":{"id":1,"name":"Ann"}}\n'


def test_a_column_that_changes_its_type_or_comes_later_is_refused_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"schema": schema_of(COLUMNS[:1]), "payload": event({"id": 1})}
    more = {"schema": schema_of(COLUMNS[:2]), "payload": event({"id": 2, "tiny": 1}, lsn=9)}
    other = {"schema": schema_of([("id", "int64", {})]), "payload": event({"id": 3}, lsn=10)}
    with monkeypatch.context() as looking:
        looking.setattr("beam_joins.pipelines.changelogs.changelog_files.LOOK_RECORDS", 1)
        with pytest.raises(
            Exception, match=r"t\.jsonl, line 2: a column 'tiny' that the first changes did not have: say with schema="
        ):
            read(lines("t.jsonl", first, more), key="id")
        with pytest.raises(Exception, match=r"t\.jsonl, line 2: column 'id' is int64 here, and int32 in the first changes"):
            read(lines("t.jsonl", first, other), key="id")
    columns = pa.schema([("id", pa.int64()), ("tiny", pa.int64())])
    assert len(read(lines("t.jsonl", first, more, other), key="id", schema=columns)[1]) == 3
    assert read(lines("t.jsonl", first, other), key="id")[1] == [{"id": 1}, {"id": 3}]
    text = {"schema": schema_of([("id", "string", {})]), "payload": event({"id": "x"}, lsn=11)}
    with pytest.raises(ValueError, match="column 'id' is int32 in some changes and string in others: say with schema= what it is"):
        read(lines("t.jsonl", first, text), key="id")


def test_with_a_state_a_column_may_come_or_get_wider_and_older_events_are_read_in_it() -> None:
    def day(name: str, number: int, columns: list[Any], row: dict[str, Any]) -> list[Any]:
        path = lines(f"{name}.jsonl", {"schema": schema_of(columns), "payload": event({"id": number, **row}, lsn=number)})
        return sorted(read(path, key="id", state="state")[1], key=lambda row: row["id"])

    key, narrow, wide = ("id", "int32", {}), ("n", "int16", {}), ("n", "int64", {})
    assert day("1", 1, [key, narrow], {"n": 5}) == [{"id": 1, "n": 5}]
    more = ("name", "string", {})
    second = [{"id": 1, "n": 5, "name": None}, {"id": 2, "n": 2**40, "name": "Ann"}]
    assert day("2", 2, [key, wide, more], {"n": 2**40, "name": "Ann"}) == second
    third = [*second, {"id": 3, "n": 7, "name": None}]
    assert day("3", 3, [key, narrow], {"n": 7}) == third
    with pytest.raises(Exception, match="column 'n' is string here, and int64 in the first changes: say with schema= what it is"):
        day("4", 4, [key, ("n", "string", {})], {"n": "x"})


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        (
            "day",
            10**9,
            "column 'day' is not of type date32.*: .*; what no calendar has, such as infinity, is read by schema= with text",
        ),
        ("day", 2**31 - 1, "column 'day' is not of type date32.*'infinity'"),
        ("clock", 90_000_000_000, "column 'clock' is not of type time64.*25:00:00.000000"),
        ("price", b64encode((10**13).to_bytes(6, "big")).decode(), "column 'price' is not of type decimal128"),
        ("zoned", "infinity", "column 'zoned' is not of type timestamp"),
        ("id", "seven", "column 'id' is not of type int32"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_refused_with_its_line(column: str, value: Any, sentence: str) -> None:
    good = {"schema": schema_of(), "payload": event(STORED)}
    path = lines("t.jsonl", good, {"schema": schema_of(), "payload": event({**STORED, column: value}, lsn=9)})
    with pytest.raises(Exception, match=rf"t\.jsonl, line 2: .*{sentence}"):
        read(path, key="long")


def test_what_no_calendar_has_is_text_as_postgresql_and_mysql_write_it_where_text_is_asked_for() -> None:
    columns = {"day": "Date", "at": "MicroTimestamp", "short": "Timestamp", "delay": "Time"}
    described = schema_of([("id", "int64", {}), *((name, "int64", {"name": f"{TIME}.{kind}"}) for name, kind in columns.items())])
    stored = [
        {"day": 2**31 - 1, "at": 9223372036825200000, "short": 9223372036825200, "delay": -90_000_000},
        {"day": -(2**31), "at": -9223372036832400000, "short": -9223372036832400, "delay": 86_400_000},
        {"day": 6_585_322, "at": -62_135_596_800_000_001, "short": -62_167_219_200_000, "delay": 3_020_399_000},
        {"day": 0, "at": 9223372036825200, "short": 0, "delay": 0},
    ]
    written = [
        {"day": "infinity", "at": "infinity", "short": "infinity", "delay": "-25:00:00.000"},
        {"day": "-infinity", "at": "-infinity", "short": "-infinity", "delay": "24:00:00.000"},
        {"day": "20000-01-01", "at": "0001-12-31T23:59:59.999999 BC", "short": "0001-01-01T00:00:00.000 BC", "delay": "838:59:59.000"},
        {"day": "1970-01-01", "at": "2262-04-11T23:47:16.825200", "short": "1970-01-01T00:00:00.000", "delay": "00:00:00.000"},
    ]
    path = lines("t.jsonl", *({"schema": described, "payload": event({"id": n, **row}, lsn=n)} for n, row in enumerate(stored, 1)))
    expected = [{"id": n, **row} for n, row in enumerate(written, 1)]
    texts = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in columns)])
    for columns_read in (texts, None):
        rows = read(path, key="id", schema=columns_read)[1]
        assert sorted(rows, key=lambda row: row["id"]) == expected
    with pytest.raises(Exception, match=r"t\.jsonl, line 1: column 'day' is not of type date32.*schema= with text"):
        read(path, key="id")


def test_a_key_may_lie_within_a_column() -> None:
    rows = [event({"_id": {"n": n, "s": "x"}, "v": n}, lsn=n) for n in (1, 2)]
    assert read(lines("t.jsonl", *rows), key="_id.n")[1] == [{"_id": {"n": n, "s": "x"}, "v": n} for n in (1, 2)]
    inner = ("_id", "struct", {"fields": [{"field": "n", "type": "int64"}, {"field": "s", "type": "string"}]})
    typed = [{"schema": schema_of([inner, ("v", "int64", {})]), "payload": row} for row in rows]
    for key in ("_id.n", ["_id.n", "_id.s"]):
        assert len(read(lines("t.jsonl", *typed), key=key)[1]) == 2


def test_stored_values_and_texts_of_the_same_are_read_alike() -> None:
    price = decimal_kind(2, 5).text
    assert price is not None
    assert [price(value) for value in ("AJY=", b"\x00\x96", Decimal("1.50"), 1.5)] == [b"1.50", b"1.50", b"1.50", b"1.5"]
    for name, value in (
        (f"{TIME}.Date", "2026-01-02"),
        (f"{TIME}.MicroTime", "12:30:00"),
        (f"{TIME}.Timestamp", "2026-01-02T00:00:00"),
    ):
        text = NAMED[name].text
        assert text is not None
        assert text(value) == json.dumps(value).encode()


def test_other_values_of_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="schema='all': give a pyarrow.Schema, .*; or 'declared' or None"):
        ReadChangeEvents("t.jsonl", format="debezium", schema="all")  # type: ignore[arg-type]
    path = lines("t.jsonl", {"schema": schema_of(COLUMNS[:1]), "payload": event({"id": 1})})
    with pytest.raises(ValueError, match="have no column 'idd' .key=.: t.jsonl has .*id"):
        _ = beam.Pipeline() | ReadChangeEvents(path, format="debezium", key="idd")
