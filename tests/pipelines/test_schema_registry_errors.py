"""Avro values of topics that cannot be read, and registries that do not answer: what is wrong, and where."""

import socket
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.errors import InputError
from beam_joins.io import ReadKafkaChangeEvents
from beam_joins.pipelines.systems.kafka.event_topics import EnvelopedRecords
from beam_joins.pipelines.systems.kafka.schema_registry import registry_settings
from tests.pipelines.events import AVRO, AVRO_ROW, TYPES, event
from tests.pipelines.streaming.registered import QUICK, flat, plan, records, rows, unwrapped
from tests.pipelines.streaming.registry import Registry, encoded

SMALL = flat("Order", ("id", "long"))
VALUE = encoded(1, unwrapped(1, id=1), SMALL)


@pytest.mark.parametrize(
    ("value", "message"),
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
def test_a_value_that_cannot_be_read_is_named_by_topic_partition_and_offset(registry: Registry, value: bytes, message: str) -> None:
    registry.put(1, SMALL)
    registry.put(2, '"bytes"')
    registry.put(3, 'syntax = "proto3";', kind="PROTOBUF")
    registry.put(4, {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "shop.Unknown"}]})
    registry.put(5, "shop.Gone", "shop.Gone")
    registry.put(6, ["null", SMALL])
    registry.put(8, {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
    with pytest.raises(InputError, match=f"^shop, partition 3, offset 0: .*{message}"):
        rows(records(registry), value)


@pytest.mark.parametrize("count", [200, pytest.param(2_000, marks=pytest.mark.sweep)])
def test_a_damaged_value_is_a_row_or_is_named(registry: Registry, count: int) -> None:
    registry.put(1, AVRO)
    whole, random = encoded(1, event(AVRO_ROW, lsn=1), AVRO), Random(1)
    actual = [records(registry, columns) for columns in (None, pa.schema([TYPES.field(name) for name in AVRO_ROW]))]
    named = 0
    for _ in range(count):
        value = bytearray(whole)
        for _ in range(random.randint(1, 3)):
            value[random.randrange(5, len(value))] ^= 1 << random.randrange(8)
        for each in actual:
            try:
                assert len(rows(each, bytes(value))) <= 1
            except InputError as error:
                assert str(error).startswith("shop, partition 3, offset 0: ")
                named += 1
    assert named > count / 2


def test_a_registry_that_does_not_answer_or_refuses_is_named_without_its_password(registry: Registry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings = registry_settings({"url": f"http://ann:secret@127.0.0.1:{port}/r", **QUICK})
    message = (
        rf"^shop, partition 3, offset 0: the registry http://127\.0\.0\.1:{port}/r does not give schema 1 "
        r"\(.*refused.*\): see that the workers reach it"
    )
    with pytest.raises(InputError, match=message):
        rows(EnvelopedRecords("debezium", "", ("id",), plan(), settings), VALUE)
    settings = registry_settings({"url": registry.url, "ssl.ca.location": "absent.pem"})
    with pytest.raises(InputError, match="offset 0: the registry .* does not give schema 1 .*No such file"):
        rows(EnvelopedRecords("debezium", "", ("id",), plan(), settings), VALUE)
    registry.user = "bob:other"
    message = (
        "the registry http://127.0.0.1:.* refuses to give schema 1: give credentials in schema_registry=, such as basic.auth.user.info"
    )
    with pytest.raises(InputError, match=message):
        rows(records(registry), VALUE)


def test_numbered_values_without_a_registry_are_told_apart_from_json() -> None:
    with pytest.raises(
        InputError, match="offset 0: not JSON, but Avro with the number of a schema, as it seems: give schema_registry="
    ):
        rows(EnvelopedRecords("debezium", "", ("id",), plan(), None), VALUE)


@pytest.mark.parametrize(
    ("registry", "format", "message"),
    [
        (
            "registry:8081",
            "debezium",
            r"schema_registry=: give the address of the registry \(http://HOST:PORT\), or settings of which 'url' is one",
        ),
        ({"basic.auth.user.info": "a:b"}, "debezium", "settings of which 'url' is one"),
        ("http://one:8081,two", "debezium", "give the address of the registry"),
        (8081, "debezium", "give the address of the registry"),
        ({"url": "http://one", "basic.auth": "a:b"}, "debezium", "schema_registry=: Unrecognized properties: basic.auth"),
        ({"url": "http://one", "basic.auth.user.info": "a"}, "debezium", "schema_registry=: basic.auth.user.info must be in the form"),
        ("http://one", "maxwell", "schema_registry= is for format='debezium'"),
    ],
)
def test_a_registry_that_is_none_is_refused_before_anything_is_read(registry: Any, format: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadKafkaChangeEvents("t", format=format, key="id", schema_registry=registry, bootstrap_servers="localhost:9092")


def test_a_pipeline_is_built_without_the_registry(registry: Registry) -> None:
    settings = {"url": registry.url, "ssl.ca.location": "/of/the/workers.pem"}
    ReadKafkaChangeEvents("t", format="debezium", key="id", schema_registry=settings, bootstrap_servers="localhost:9092")
    assert registry.asked == []
