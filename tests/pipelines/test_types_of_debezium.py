"""ReadChangelog: the types that Debezium's schemas say."""

import json
from base64 import b64encode
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.io import ReadChangelog
from beam_joins.pipelines.formats.envelopes.column_kind import NAMED, decimal_kind
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
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
    assert rows[0] == EXPECTED
    assert rows[1] == {**dict.fromkeys(EXPECTED), "id": 8}


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
    assert (
        Path("l.jsonl").read_text() == '{"id":7,"by":1,"price":-12345678.90,"day":"2026-01-02","customer":{"id": 1, "name": "Ann"}}\n'
    )


def test_a_column_that_changes_its_type_or_comes_later_is_refused_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"schema": schema_of(COLUMNS[:1]), "payload": event({"id": 1})}
    more = {"schema": schema_of(COLUMNS[:2]), "payload": event({"id": 2, "tiny": 1}, lsn=9)}
    other = {"schema": schema_of([("id", "int64", {})]), "payload": event({"id": 3}, lsn=10)}
    with monkeypatch.context() as looking:
        looking.setattr("beam_joins.pipelines.changelogs.changelog.LOOK_RECORDS", 1)
        with pytest.raises(
            Exception, match=r"t\.jsonl, line 2: a column 'tiny' that the first changes did not have: say with schema="
        ):
            read(lines("t.jsonl", first, more), key="id")
        with pytest.raises(Exception, match=r"t\.jsonl, line 2: column 'id' is int64 here, and int32 in the first changes"):
            read(lines("t.jsonl", first, other), key="id")
    columns = pa.schema([("id", pa.int64()), ("tiny", pa.int64())])
    assert len(read(lines("t.jsonl", first, more, other), key="id", schema=columns)[1]) == 3
    with pytest.raises(ValueError, match="column 'id' is int32 in some changes and int64 in others"):
        read(lines("t.jsonl", first, other), key="id")


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("day", 10**9, "which no calendar has"),
        ("clock", 90_000_000_000, "which is no time of day"),
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


def test_what_schema_may_be_is_said() -> None:
    with pytest.raises(ValueError, match="schema='all': give a pyarrow.Schema, 'said' or None"):
        ReadChangelog("t.jsonl", format="debezium", schema="all")  # type: ignore[arg-type]
    path = lines("t.jsonl", {"schema": schema_of(COLUMNS[:1]), "payload": event({"id": 1})})
    with pytest.raises(ValueError, match="have no column 'idd' .key=.: t.jsonl has .*id"):
        ReadChangelog(path, format="debezium", key="idd")
