"""ReadChangeEvents: the types that wal2json says, and updates without large values."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.pipelines.formats.types.postgres_types import arrow_type
from tests.pipelines.events import (
    AT,
    UTC_2026,
    event,
    lines,
    read,
)
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Run
from tests.pipelines.test_envelopes import PLACE

pytestmark = pytest.mark.usefixtures("own_directory")


POSTGRES: list[tuple[str, str, Any, pa.DataType, Any]] = [
    ("id", "integer", 1, pa.int32(), 1),
    ("price", "numeric(12,2)", 1.5, pa.decimal128(12, 2), Decimal("1.50")),
    ("any", "numeric", 1.25, pa.string(), "1.25"),
    ("at", "timestamp without time zone", "2026-01-02 03:04:05.678901", pa.timestamp("us"), UTC_2026),
    (
        "zoned",
        "timestamp(6) with time zone",
        "2026-01-02 04:04:05.678901+01",
        pa.timestamp("us", "UTC"),
        UTC_2026.replace(tzinfo=dt.UTC),
    ),
    ("day", "date", "2026-01-02", pa.date32(), dt.date(2026, 1, 2)),
    ("clock", "time without time zone", "12:30:00.5", pa.time64("us"), dt.time(12, 30, 0, 500_000)),
    ("yes", "boolean", True, pa.bool_(), True),
    ("real", "real", 0.5, pa.float32(), 0.5),
    ("name", "character varying(30)", "a", pa.string(), "a"),
    ("raw", "bytea", "00ff", pa.binary(), b"\x00\xff"),
    ("ints", "integer[]", "{1,2}", pa.string(), "{1,2}"),
]
ROW: Row = {name: value for name, _, value, *_ in POSTGRES}


def wal(version: int, *rows: tuple[str, Row, Row]) -> list[Row]:
    """Lines of wal2json: kind, new and old row."""
    types = {name: kind for name, kind, *_ in POSTGRES}
    if version == 1:
        made = []
        for kind, new, old in rows:
            change: Row = {"kind": kind, "schema": "public", "table": "t", "pk": {"pknames": ["id"]}}
            if new:
                change |= {"columnnames": [*new], "columntypes": [types[name] for name in new], "columnvalues": [*new.values()]}
            if old:
                change["oldkeys"] = {"keynames": [*old], "keytypes": [types[name] for name in old], "keyvalues": [*old.values()]}
            made.append(change)
        return [{**PLACE, "change": made}]
    columns = lambda row: [{"name": name, "type": types[name], "value": value} for name, value in row.items()]  # noqa: E731
    return (
        [{"action": "B", **PLACE}]
        + [
            {
                "action": kind[0].upper(),
                "schema": "public",
                "table": "t",
                "columns": columns(new),
                "identity": columns(old),
                "pk": [{"name": "id"}],
            }
            for kind, new, old in rows
        ]
        + [{"action": "C", **PLACE}]
    )


@pytest.mark.parametrize("version", [1, 2])
def test_wal2json_says_the_types_of_columns(version: int) -> None:
    second = {**ROW, "id": 2}
    path = lines("t.jsonl", *wal(version, ("insert", ROW, {}), ("insert", second, {}), ("delete", {}, {"id": 2})))
    kind, rows = read(path, "wal2json", table="t")
    assert pa.schema(list(kind)) == pa.schema([(name, kind) for name, _, _, kind, _ in POSTGRES])
    assert rows == [{name: value for name, *_, value in POSTGRES}]
    _, rows = read(path, "wal2json", table="t", schema=None)
    assert rows == [ROW]


def test_a_numeric_of_more_digits_than_arrow_has_is_text() -> None:
    assert arrow_type("numeric(100,2)") == pa.string()
    assert arrow_type("numeric(50,2)") == pa.decimal256(50, 2)
    assert arrow_type("numeric(3,-2)") == pa.string()


LARGE: Row = {"id": 1, "name": "a", "any": 5}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("schema", ["declared", None, pa.schema([("id", pa.int32()), ("name", pa.string())])])
@pytest.mark.each_value
def test_a_first_update_without_a_large_value_is_refused_if_any_change_shows_the_column(version: int, schema: Any) -> None:
    update = {"id": 1, "any": 6}
    path = lines("t.jsonl", *wal(version, ("update", update, {"id": 1}), ("insert", {**LARGE, "id": 2}, {})))
    with pytest.raises(
        Exception, match=r"the record with the key 1 at position \d+ leaves out name, .* and no earlier row of this key has it"
    ):
        read(path, "wal2json", table="t", schema=schema)


def test_an_update_is_not_refused_for_a_column_that_is_never_left_out() -> None:
    before = {"id": 1, "name": "a"}
    path = lines("t.jsonl", *wal(1, ("update", before, {"id": 1}), ("insert", {"id": 2, "name": "b", "price": 1}, {})))
    assert read(path, "wal2json", table="t")[1] == [
        {"id": 1, "name": "a", "price": None},
        {"id": 2, "name": "b", "price": Decimal("1.00")},
    ]


def test_updates_of_which_nothing_shows_that_they_are_whole_are_reported_in_one_sentence(
    caplog: pytest.LogCaptureFixture, run: Run
) -> None:
    updates = wal(1, ("update", LARGE, {"id": 1}))
    assert read(lines("t.jsonl", *updates), "wal2json", table="t")[1] == [{"id": 1, "name": "a", "any": "5"}]
    assert "no insert and no whole old row among the first changes says which columns t have" in caplog.text
    caplog.clear()
    read("t.jsonl", "wal2json", table="t", schema=pa.schema([("id", pa.int32())]))
    read(lines("t.jsonl", *wal(1, ("update", LARGE, LARGE))), "wal2json", table="t")
    assert "no insert" not in caplog.text
    lines("o.jsonl", *wal(1, ("update", LARGE, {"id": 1})))
    lines("c.jsonl", event({"id": 5}, ts_ms=AT // 1_000))
    options = ["--orders-format=wal2json", "--customers-format=debezium", "--customers-key=id", "--foreign-key=any"]
    ran = run("--orders", "o.jsonl", "--customers", "c.jsonl", *options, "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    assert "says which columns orders have: updates without a large value (TOAST)" in ran.out
