"""Avro values of topics whose schemas are in a registry: the rows of the same records in a file, and what cannot be read is named."""

import base64
import datetime as dt
import json
import pickle
import socket
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from beam_joins.pipelines.changelog_files.exact_json import loads
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.read_kafka_table import ReadKafkaTable
from beam_joins.pipelines.read_table import MARKS
from beam_joins.pipelines.sources.envelopes import EnvelopedRecords
from beam_joins.pipelines.sources.schema_registry import registry_settings
from tests.pipelines.events import AVRO, AVRO_ROW, EXPECTED, TYPES, avro, event, read
from tests.pipelines.naive_orders import Row
from tests.pipelines.streaming.registry import Registry, encoded

pytest.importorskip("confluent_kafka.schema_registry", reason="its client is not installed: pip install 'beam-joins[schema-registry]'")

COLUMNS = pa.schema([TYPES.field(name) for name in AVRO_ROW])
NUMBER = 0x01020304
QUICK = {"retries.wait.ms": 1}


class Message(NamedTuple):
    """A record as the consumer of confluent-kafka gives it."""

    data: bytes | None
    place: int = 7

    def topic(self) -> str:
        return "shop"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self.place

    def value(self) -> bytes | None:
        return self.data


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry.started() as started:
        yield started


def records(registry: Registry, schema: pa.Schema | None = None, table: str = "", **settings: Any) -> EnvelopedRecords:
    columns = None if schema is None else pa.schema([*schema, *MARKS])
    return EnvelopedRecords("debezium", table, ("id",), columns, registry_settings({"url": registry.url, **QUICK, **settings}))


def rows(found: EnvelopedRecords, *values: bytes | None) -> list[Row]:
    """The rows of values, those in columns too, without what their envelopes say."""
    elements = [each.value for each in found.piece(9, [Message(value, place) for place, value in enumerate(values)]).elements]
    each = [row for element in elements for row in ([element] if isinstance(element, dict) else element.to_pylist())]
    return [{name: value for name, value in row.items() if name not in MARKS.names} for row in each]


def flat(name: str, *fields: tuple[str, Any], namespace: str = "shop") -> Row:
    """The schema of unwrapped events."""
    about = (("__deleted", "string"), ("__source_ts_ms", "long"), ("__source_lsn", "long"), ("__table", "string"))
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [{"name": each, "type": kind} for each, kind in (*fields, *about)],
    }


def unwrapped(lsn: int, table: str = "orders", **row: Any) -> Row:
    return {**row, "__deleted": "false", "__source_ts_ms": lsn, "__source_lsn": lsn, "__table": table}


@pytest.mark.usefixtures("own_directory")
def test_values_have_the_rows_and_the_types_of_the_same_records_in_a_file(registry: Registry) -> None:
    registry.put(NUMBER, AVRO)
    events = [event(AVRO_ROW, lsn=1), event({**AVRO_ROW, "id": 8, "tiny": None, "price": Decimal("0.05")}, "u", lsn=2)]
    values = [encoded(NUMBER, each, AVRO) for each in events]
    kind, in_file = read(avro("t.avro", *events), key="id", schema=COLUMNS)
    found = rows(records(registry, COLUMNS), *values)
    assert found == sorted(in_file, key=lambda row: row["id"])
    assert found[0] == {name: EXPECTED[name] for name in AVRO_ROW}
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
    said = [tuple(element.value[name] for name in MARKS.names) for element in piece.elements]
    assert said == [("u", 5_000, 1, 0), ("d", 6_000, 2, 0)]
    assert [element.value["name"] for element in piece.elements] == ["Ann", "Ann"]
    assert (piece.largest, piece.rows) == (6_000, 2)


def test_a_schema_that_changes_within_a_topic_is_asked_for_once_by_its_number(registry: Registry) -> None:
    before, after = flat("Order", ("id", "int")), flat("Order", ("id", "long"), ("amount", "double"))
    registry.put(1, before)
    registry.put(2, after)
    columns = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    values = [encoded(1, unwrapped(5, id=1), before), encoded(2, unwrapped(6, id=2, amount=1.5), after)]
    found = records(registry, columns)
    for _ in range(2):
        assert rows(found, *values, *values) == [{"id": 1, "amount": None}, {"id": 2, "amount": 1.5}] * 2
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
    found = records(registry)
    row = {name: value for name, value in unwrapped(1, id=1).items() if name != "__deleted"}
    assert rows(found, *(encoded(number, row, schema) for number, schema in enumerate(unmarked))) == [{"id": 1}] * 2
    with pytest.raises(InputError, match="shop, partition 3, offset 0: a tombstone among unwrapped events without __deleted"):
        rows(found, None)


def test_a_registry_that_is_busy_for_a_moment_is_asked_again(registry: Registry) -> None:
    registry.put(NUMBER, AVRO)
    registry.busy = 2
    assert rows(records(registry, COLUMNS), encoded(NUMBER, event(AVRO_ROW), AVRO))[0]["id"] == 7
    assert len(registry.asked) == 3


def test_a_registry_gets_the_credentials_of_the_settings(registry: Registry) -> None:
    registry.put(NUMBER, AVRO)
    registry.user = "ann:secret"
    given = records(registry, COLUMNS, **{"basic.auth.user.info": "ann:secret"})
    in_worker = pickle.loads(pickle.dumps(given))
    assert rows(in_worker, encoded(NUMBER, event(AVRO_ROW), AVRO))[0]["id"] == 7


SMALL = flat("Order", ("id", "long"))
VALUE = encoded(1, unwrapped(1, id=1), SMALL)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            b'{"op": "c"}',
            "the value does not begin with the byte 0 and the number of a schema: .*AvroConverter, or leave out schema_registry=",
        ),
        (b"\x01" + VALUE[1:], "the value does not begin with the byte 0"),
        (VALUE[:4], "the value does not begin with the byte 0"),
        (VALUE[:-3], r"the value is damaged, or not of its schema 1 \("),
        (VALUE + b"x", r"the value is damaged, or not of its schema 1 \(1 bytes behind the record\)"),
        (encoded(2, b"", "bytes"), "schema 2 is not one of records: name the topic of a table"),
        (encoded(3, b"", "bytes"), "schema 3 is one of PROTOBUF: let the connector write with the AvroConverter"),
        (encoded(4, b"", "bytes"), r"schema 4 of the registry is no schema of Avro \("),
        (
            encoded(5, b"", "bytes"),
            "does not know version 1 of shop.Gone, to which schema 5 refers: give the one with which the topic was written",
        ),
        (encoded(6, 9, "long"), r"the value is damaged, or not of its schema 6 \("),
        (encoded(6, -1, "long"), r"the value is damaged, or not of its schema 6 \(member -1 of a union\)"),
        (
            encoded(9, b"", "bytes"),
            "the registry http://127.0.0.1:.* does not know schema 9: give the one with which the topic was written",
        ),
        (encoded(8, {"id": 1}, {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}), "no Debezium event"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_by_topic_partition_and_offset(registry: Registry, value: bytes, said: str) -> None:
    registry.put(1, SMALL)
    registry.put(2, '"bytes"')
    registry.put(3, 'syntax = "proto3";', kind="PROTOBUF")
    registry.put(4, {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "shop.Unknown"}]})
    registry.put(5, "shop.Gone", "shop.Gone")
    registry.put(6, ["null", SMALL])
    registry.put(8, {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
    with pytest.raises(InputError, match=f"^shop, partition 3, offset 0: .*{said}"):
        rows(records(registry), value)


def test_a_registry_that_does_not_answer_or_refuses_is_named_without_its_password(registry: Registry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings = registry_settings({"url": f"http://ann:secret@127.0.0.1:{port}/r", **QUICK})
    said = rf"^shop, partition 3, offset 0: the registry http://127\.0\.0\.1:{port}/r does not give schema 1 \(.*refused.*\): see that the workers reach it"
    with pytest.raises(InputError, match=said):
        rows(EnvelopedRecords("debezium", "", ("id",), None, settings), VALUE)
    registry.user = "bob:other"
    said = (
        "the registry http://127.0.0.1:.* refuses to give schema 1: give credentials in schema_registry=, such as basic.auth.user.info"
    )
    with pytest.raises(InputError, match=said):
        rows(records(registry), VALUE)


def test_numbered_values_without_a_registry_are_told_apart_from_json() -> None:
    with pytest.raises(
        InputError, match="offset 0: not JSON, but Avro with the number of a schema, as it seems: give schema_registry="
    ):
        rows(EnvelopedRecords("debezium", "", ("id",), None, None), VALUE)


def test_rows_in_dicts_are_those_of_the_same_events_in_json_with_a_schema(registry: Registry) -> None:
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    price = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    schema = flat("Order", ("id", "long"), ("day", day), ("price", price))
    registry.put(1, schema)
    in_avro = rows(records(registry), encoded(1, unwrapped(1, id=1, day=20_455, price=Decimal("1.10")), schema))
    said = [
        {"field": "id", "type": "int64"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    ]
    payload = unwrapped(1, id=1, day=20_455, price=base64.b64encode((110).to_bytes(2, "big")).decode())
    line = json.dumps({"schema": {"type": "struct", "fields": said}, "payload": payload}).encode()
    in_json = rows(EnvelopedRecords("debezium", "", ("id",), None, None), line)
    assert in_avro == in_json == [{"id": 1, "day": "2026-01-02", "price": loads(b"1.10")}]


@pytest.mark.parametrize(
    ("registry", "format", "said"),
    [
        (
            "registry:8081",
            "debezium",
            r"schema_registry=: give the address of the registry \(http://HOST:PORT\), or settings of which 'url' is one",
        ),
        ({"basic.auth.user.info": "a:b"}, "debezium", "settings of which 'url' is one"),
        ("http://one:8081,two", "debezium", "give the address of the registry"),
        ({"url": "http://one", "basic.auth": "a:b"}, "debezium", "schema_registry=: Unrecognized properties: basic.auth"),
        ({"url": "http://one", "basic.auth.user.info": "a"}, "debezium", "schema_registry=: basic.auth.user.info must be in the form"),
        ("http://one", "maxwell", "schema_registry= is for format='debezium'"),
    ],
)
def test_a_registry_that_is_none_is_refused_before_anything_is_read(registry: Any, format: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ReadKafkaTable("t", format=format, key="id", schema_registry=registry, bootstrap_servers="localhost:9092")


def test_a_pipeline_is_built_without_the_registry(registry: Registry) -> None:
    settings = {"url": registry.url, "ssl.ca.location": "/of/the/workers.pem"}
    ReadKafkaTable("t", format="debezium", key="id", schema_registry=settings, bootstrap_servers="localhost:9092")
    assert registry.asked == []
