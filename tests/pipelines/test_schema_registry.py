"""Avro values of topics whose schemas are in a registry: the rows of the same records in a file, and what
cannot be read is named.
"""

import base64
import datetime as dt
import json
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from beam_joins.errors import InputError
from beam_joins.keys.opaque import python_values
from beam_joins.pipelines.formats.changelog_columns import DELETED, LEFT_OUT, LIFE, LOG, ORDER, PLACE, POSITION, TIME
from beam_joins.pipelines.formats.envelopes.row_change import content
from beam_joins.pipelines.formats.types.exact_json import loads
from beam_joins.pipelines.systems.kafka.event_topics import EnvelopedRecords
from beam_joins.pipelines.systems.kafka.kafka_records import Records
from beam_joins.tables.key_handover import Life
from tests.pipelines.events import AVRO, AVRO_ROW, EXPECTED, TYPES, avro, event, read
from tests.pipelines.streaming.registered import Message, flat, plan, records, rows, unwrapped
from tests.pipelines.streaming.registry import Registry, encoded

COLUMNS = pa.schema([TYPES.field(name) for name in AVRO_ROW])
NUMBER = 0x01020304


@pytest.mark.usefixtures("own_directory")
def test_values_have_the_rows_and_the_types_of_the_same_records_in_a_file(registry: Registry) -> None:
    registry.put(NUMBER, AVRO)
    events = [event(AVRO_ROW, lsn=1), event({**AVRO_ROW, "id": 8, "tiny": None, "price": Decimal("0.05")}, "u", lsn=2)]
    values = [encoded(NUMBER, each, AVRO) for each in events]
    kind, in_file = read(avro("t.avro", *events), key="id", schema=COLUMNS)
    actual = rows(records(registry, COLUMNS), *values)
    assert actual == sorted(in_file, key=lambda row: row["id"])
    assert actual[0] == {name: EXPECTED[name] for name in AVRO_ROW}
    _, in_dicts = read("t.avro", key="id", schema=None)
    assert rows(records(registry), *values) == sorted(in_dicts, key=lambda row: row["id"])


def test_a_value_is_the_byte_0_the_number_of_its_schema_and_avro(registry: Registry) -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}, {"name": "lsn", "type": "long"}]}
    fields = [("op", "string"), ("before", ["null", row]), ("after", ["null", "Value"]), ("source", source)]
    registry.put(258, {"type": "record", "name": "Envelope", "fields": [{"name": name, "type": kind} for name, kind in fields]})
    insert = b"\x00\x00\x00\x01\x02" + b"\x02c" + b"\x00" + b"\x02\x0e\x06Ann" + b"\x0a\x02"
    delete = b"\x00\x00\x00\x01\x02" + b"\x02d" + b"\x02\x0e\x06Ann" + b"\x00" + b"\x0c\x04"
    piece = records(registry).piece(9, [Message(insert), Message(delete, 8), Message(None, 9)])
    ann = content(b'{"id":7,"name":"Ann"}')
    (batch,) = [element.value for element in piece.elements]
    names = [TIME, POSITION, ORDER, DELETED, PLACE, LOG, LEFT_OUT, LIFE]
    lives = [Life(arrives=True, after=ann, alone=True).text(), Life(before=ann).text()]
    message = [(5_000, 1, 0, False, 7, None, None, lives[0]), (6_000, 2, 0, True, 8, None, None, lives[1])]
    assert list(zip(*(batch[name].to_pylist() for name in names), strict=True)) == message
    assert [row["name"] for row in python_values(batch["object"])] == ["Ann", "Ann"]
    assert (piece.largest, piece.rows) == (6_000, 2)


def test_a_schema_that_changes_within_a_topic_is_asked_for_once_by_its_number(registry: Registry) -> None:
    before, after = flat("Order", ("id", "int")), flat("Order", ("id", "long"), ("amount", "double"))
    registry.put(1, before)
    registry.put(2, after)
    columns = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    values = [encoded(1, unwrapped(5, id=1), before), encoded(2, unwrapped(6, id=2, amount=1.5), after)]
    actual = records(registry, columns)
    for _ in range(2):
        assert rows(actual, *values, *values) == [{"id": 1, "amount": None}, {"id": 2, "amount": 1.5}] * 2
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/2"]
    assert rows(records(registry), *values) == [{"id": 1}, {"id": 2, "amount": 1.5}]


def test_a_schema_may_refer_to_others_which_refer_to_one_another(registry: Registry) -> None:
    day = {
        "type": "record",
        "name": "Day",
        "namespace": "a",
        "fields": [{"name": "at", "type": {"type": "int", "logicalType": "date"}}],
    }
    span = {
        "type": "record",
        "name": "Span",
        "namespace": "b",
        "fields": [{"name": "first", "type": "a.Day"}, {"name": "last", "type": ["null", "a.Day"]}],
    }
    order = flat("Order", ("id", "long"), ("span", "b.Span"), ("day", "a.Day"), namespace="c")
    registry.put(1, day, subject="a.Day")
    registry.put(2, span, "a.Day", subject="b.Span")
    registry.put(3, order, "b.Span", "a.Day")
    whole = flat(
        "Order", ("id", "long"), ("span", {**span, "fields": [{"name": "first", "type": day}, span["fields"][1]]}), ("day", "a.Day")
    )
    days = [{"at": dt.date(2026, 1, n)} for n in (1, 2, 3)]
    row = {"id": 1, "span": {"first": days[0], "last": days[1]}, "day": days[2]}
    of_day = pa.struct([("at", pa.date32())])
    columns = pa.schema([("id", pa.int64()), ("span", pa.struct([("first", of_day), ("last", of_day)])), ("day", of_day)])
    assert rows(records(registry, columns), encoded(3, unwrapped(1, **row), whole)) == [row]
    assert registry.asked == ["/schemas/ids/3", "/subjects/b.Span/versions/1", "/subjects/a.Day/versions/1"]


@pytest.mark.parametrize("refers", [True, False], ids=["references", "within"])
def test_a_schema_may_be_a_union_of_the_events_of_several_tables(registry: Registry, refers: bool) -> None:
    order, customer = flat("Order", ("id", "long"), ("amount", "int")), flat("Customer", ("id", "long"), ("name", "string"))
    if refers:
        registry.put(1, order, subject="shop.Order")
        registry.put(2, customer, subject="shop.Customer")
        registry.put(3, ["null", "shop.Order", "shop.Customer"], "shop.Order", "shop.Customer")
    else:
        registry.put(3, ["null", order, customer])
    union = ["null", order, customer]
    values = [
        encoded(3, ("shop.Order", unwrapped(1, id=7, amount=2)), union),
        encoded(3, ("shop.Customer", unwrapped(2, "customers", id=7, name="Ann")), union),
        encoded(3, None, union),
    ]
    assert rows(records(registry, table="customers"), *values) == [{"id": 7, "name": "Ann"}]
    assert rows(records(registry), *values) == [{"id": 7, "amount": 2}, {"id": 7, "name": "Ann"}]


def test_tombstones_that_are_the_only_sign_of_deletes_are_refused_whatever_the_schema(registry: Registry) -> None:
    unmarked = [flat("Order", ("id", kind)) for kind in ("int", "long")]
    for number, schema in enumerate(unmarked):
        schema["fields"] = [field for field in schema["fields"] if field["name"] != "__deleted"]
        registry.put(number, schema)
    actual = records(registry)
    row = {name: value for name, value in unwrapped(1, id=1).items() if name != "__deleted"}
    assert rows(actual, *(encoded(number, row, schema) for number, schema in enumerate(unmarked))) == [{"id": 1}] * 2
    with pytest.raises(InputError, match="shop, partition 3, offset 0: a tombstone among unwrapped events without __deleted"):
        rows(actual, None)


KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
ROW = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}
SOURCE = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}, {"name": "lsn", "type": "long"}]}
FIELDS = [("op", "string"), ("before", ["null", ROW]), ("after", ["null", "Value"]), ("source", SOURCE)]
EVENT = {"type": "record", "name": "Envelope", "fields": [{"name": name, "type": kind} for name, kind in FIELDS]}
NAMED = {**KEY, "fields": [{"name": "name", "type": "string"}]}


@pytest.mark.parametrize("is_unwrapped", [True, False])
def test_a_tombstone_whose_delete_event_is_gone_deletes_the_row_of_its_key(registry: Registry, is_unwrapped: bool) -> None:
    value_schema = flat("Order", ("id", "long"), ("name", "string")) if is_unwrapped else EVENT
    for number, schema in enumerate((value_schema, KEY, NAMED)):
        registry.put(number, schema)

    def event_of(n: int, op: str = "c") -> bytes:
        row = {"id": n, "name": "a"}
        images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        marked = unwrapped(n, **row) | ({"__deleted": "true"} if op == "d" else {})
        return encoded(0, marked if is_unwrapped else {"op": op, "source": {"ts_ms": 5, "lsn": n}, **images}, value_schema)

    keys = [encoded(1, {"id": n}, KEY) for n in range(4)]
    told = [(event_of(1), keys[1]), (event_of(2), keys[2]), (event_of(2, "d"), keys[2]), (None, keys[2]), (event_of(3), keys[3])]
    alone = [(None, keys[1]), (None, b"text"), (None, encoded(2, {"name": "a"}, NAMED)), (None, None)]
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    actual, place, seen = records(registry, columns), 0, []
    for piece in (told, alone):
        messages = [Message(value, place + n, key) for n, (value, key) in enumerate(piece)]
        batches = [each.value for each in actual.piece(9, messages).elements]
        seen += [row for batch in batches for row in batch.select(["id", DELETED, POSITION, ORDER]).to_pylist()]
        place += len(piece)
    assert [tuple(row.values()) for row in seen] == [
        (1, False, 1, 0),
        (2, False, 2, 0),
        (2, True, 2, 0),
        (3, False, 3, 0),
        (1, True, 3, 1),
    ]


def test_a_registry_that_is_away_or_busy_for_a_moment_is_asked_again(registry: Registry) -> None:
    registry.put(NUMBER, AVRO)
    registry.dropped, registry.busy = 1, 2
    assert rows(records(registry, COLUMNS), encoded(NUMBER, event(AVRO_ROW), AVRO))[0]["id"] == 7
    assert len(registry.asked) == 3


def test_a_registry_gets_the_credentials_of_the_settings(registry: Registry) -> None:
    registry.put(NUMBER, AVRO)
    registry.user = "ann:secret"
    inputs = records(registry, COLUMNS, **{"basic.auth.user.info": "ann:secret"})
    in_worker = pickle.loads(pickle.dumps(inputs))
    assert rows(in_worker, encoded(NUMBER, event(AVRO_ROW), AVRO))[0]["id"] == 7


def test_rows_in_dicts_are_those_of_the_same_events_in_json_with_a_schema(registry: Registry) -> None:
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    price = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    schema = flat("Order", ("id", "long"), ("day", day), ("price", price))
    registry.put(1, schema)
    in_avro = rows(records(registry), encoded(1, unwrapped(1, id=1, day=20_455, price=Decimal("1.10")), schema))
    message = [
        {"field": "id", "type": "int64"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    ]
    payload = unwrapped(1, id=1, day=20_455, price=base64.b64encode((110).to_bytes(2, "big")).decode())
    line = json.dumps({"schema": {"type": "struct", "fields": message}, "payload": payload}).encode()
    in_json = rows(EnvelopedRecords("debezium", "", ("id",), plan(), None), line)
    assert in_avro == in_json == [{"id": 1, "day": "2026-01-02", "price": loads(b"1.10")}]


ROW = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "day", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
    ],
}
PAYMENTS = [
    {"id": 1, "day": 20_455, "amount": Decimal("123456789012345678.10")},
    {"id": 2, "day": None, "amount": Decimal("-0.05")},
]


def test_records_without_envelopes_are_dicts_or_columns_of_the_same_meaning(registry: Registry) -> None:
    registry.put(7, ROW)
    messages = [Message(encoded(7, each, ROW), number) for number, each in enumerate(PAYMENTS)]
    inputs = {"url": registry.url}
    in_dicts = Records.of("avro", None, None, inputs).piece(9, [*messages, Message(None, 2)])
    expected = [{"id": 1, "day": "2026-01-02", "amount": PAYMENTS[0]["amount"]}, {"id": 2, "day": None, "amount": -0.05}]
    assert in_dicts.elements == [((b"k", value), number * 1_000) for number, value in enumerate([*expected, None])]
    names = {
        "kafka_offset": pa.int64(),
        "amount": pa.decimal128(20, 2),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "kafka_key": pa.binary(),
    }
    schema = pa.schema({**names, "kafka_timestamp": pa.int64()})
    (batch,) = Records.of("avro", None, schema, inputs).piece(9, [*messages, Message(None, 2)]).elements
    actual = [tuple(row.values()) for row in batch.value.to_pylist()]
    assert actual == [
        (0, PAYMENTS[0]["amount"], dt.date(2026, 1, 2), None, b"k", 0),
        (1, PAYMENTS[1]["amount"], None, None, b"k", 1_000),
        (2, None, None, None, b"k", 2_000),
    ]
    assert batch.value.schema == schema


def test_a_record_without_an_envelope_that_cannot_be_read_is_named_once(registry: Registry) -> None:
    registry.put(7, ROW)
    messages = [Message(encoded(7, PAYMENTS[0], ROW), 0), Message(b"{}", 1)]
    for schema in (None, pa.schema({"id": pa.int64(), "kafka_timestamp": pa.int64()})):
        with pytest.raises(InputError, match="^shop, partition 3, offset 1: the value does not begin with the byte 0"):
            Records.of("avro", None, schema, {"url": registry.url}).piece(9, messages)
    wrong = pa.schema({"id": pa.date32(), "kafka_timestamp": pa.int64()})
    with pytest.raises(InputError, match="^shop, partition 3, offset 0: column 'id' is not of type date32"):
        Records.of("avro", None, wrong, {"url": registry.url}).piece(9, messages[:1])
