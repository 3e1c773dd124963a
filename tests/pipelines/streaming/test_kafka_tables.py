"""Tables of topics with envelopes: those of the same lines in a file, and what cannot be read is named."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import TableToChanges
from beam_joins.io import ReadChangeEvents, ReadKafkaChangeEvents
from tests.pipelines.events import AVRO, AVRO_ROW, TYPES, avro, event
from tests.pipelines.streaming.registry import Registry, encoded
from tests.pipelines.test_envelopes import debezium, debezium_with_schema, maxwell, unwrapped

pytestmark = pytest.mark.flink

FORMATS: dict[str, Any] = {
    "debezium": ("debezium", debezium),
    "debezium-schema": ("debezium", debezium_with_schema),
    "debezium-unwrapped": ("debezium", unwrapped),
    "maxwell": ("maxwell", maxwell),
}
ROWS = [
    {"id": number % 4, "amount": number / 4, "op": "d" if number % 7 == 6 else "u", "lsn": number, "updated_at": number * 1_000_000}
    for number in range(1, 40)
]
AVRO_COLUMNS = pa.schema([TYPES.field(name) for name in AVRO_ROW])
SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.decimal128(9, 2), "updated_at": pa.int64()})


@contextmanager
def pipeline() -> Iterator[beam.Pipeline]:
    with beam.Pipeline(runner=FnApiRunner()) as made:
        yield made


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["dicts", "columns"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.each_value
def test_the_table_of_a_topic_is_that_of_the_same_lines_in_a_file(broker, tmp_path: Path, name: str, schema: Any) -> None:
    envelope, lines_of = FORMATS[name]
    topic = f"table-{name}-{schema is None}"
    path = tmp_path / "lines.jsonl"
    lines = {number: list(lines_of([row for row in ROWS if row["id"] % 2 == number], "orders", "id")) for number in range(2)}
    path.write_text("".join(json.dumps(line) + "\n" for number in lines for line in lines[number]))
    broker.make_topic(topic, partitions=2)
    for partition, some in lines.items():
        records = [(b"k", None if line is None else json.dumps(line).encode(), 1) for line in some]
        broker.put(topic, records * 2, first=partition)
    expected = tmp_path / "expected"
    with pipeline() as files:
        table = files | ReadChangeEvents(str(path), format=envelope, key="id", schema=schema)
        _ = table | TableToChanges() | beam.Map(repr) | beam.io.WriteToText(str(expected), shard_name_template="")
    with pipeline() as topics:
        source = ReadKafkaChangeEvents(
            topic, format=envelope, key="id", schema=schema, bootstrap_servers=broker.address, follow=False, table="orders"
        )
        assert_that(topics | source | TableToChanges() | beam.Map(repr), equal_to(expected.read_text().splitlines()))
    assert len(expected.read_text().splitlines()) > 30


@pytest.mark.parametrize("schema", [None, AVRO_COLUMNS], ids=["dicts", "columns"])
def test_the_table_of_a_topic_in_avro_is_that_of_the_same_records_in_a_file(broker, tmp_path: Path, schema: Any) -> None:
    topic = f"avro-{schema is None}"
    wider = copy.deepcopy(AVRO)
    wider["fields"].append({"name": "transaction", "type": ["null", "string"], "default": None})
    rows = [{**AVRO_ROW, "id": number % 4, "text": f"{number}"} for number in range(40)]
    events = [event(row, "d" if number % 7 == 6 else "u", lsn=number) for number, row in enumerate(rows, 1)]
    path = avro(str(tmp_path / "events.avro"), *events)
    broker.make_topic(topic, partitions=2)
    with Registry.started() as registry:
        for number, some in ((3, AVRO), (4, wider)):
            registry.put(number, some)
        for partition in range(2):
            of_partition = [each for each, row in zip(events, rows, strict=True) if row["id"] % 2 == partition]
            values = [encoded(3 + (number > 9), each, wider if number > 9 else AVRO) for number, each in enumerate(of_partition)]
            broker.put(topic, [(b"k", value, 1) for value in (*values, None)] * 2, first=partition)
        expected = tmp_path / "expected"
        with pipeline() as files:
            table = files | ReadChangeEvents(path, format="debezium", key="id", schema=schema)
            _ = table | TableToChanges() | beam.Map(repr) | beam.io.WriteToText(str(expected), shard_name_template="")
        with pipeline() as topics:
            source = ReadKafkaChangeEvents(
                topic,
                format="debezium",
                key="id",
                schema=schema,
                schema_registry=registry.url,
                bootstrap_servers=broker.address,
                follow=False,
            )
            assert_that(topics | source | TableToChanges() | beam.Map(repr), equal_to(expected.read_text().splitlines()))
    assert len(expected.read_text().splitlines()) > 30
    assert set(registry.asked) == {"/schemas/ids/3", "/schemas/ids/4"}


def test_a_value_that_is_no_envelope_is_named_by_its_offset(broker) -> None:
    broker.make_topic("no-envelope", partitions=1)
    broker.put("no-envelope", [(b"k", json.dumps({"op": "d", "source": {"table": "t", "lsn": 1}}).encode(), 1)])
    with (
        pytest.raises(Exception, match="no-envelope, partition 0, offset 0: an event of operation 'd' without its row"),
        pipeline() as p,
    ):
        p | ReadKafkaChangeEvents("no-envelope", format="debezium", key="id", bootstrap_servers=broker.address, follow=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "wal2json"}, "format='wal2json': choose one of 'debezium', 'maxwell'"),
        ({"format": None}, "format=None: choose one of 'debezium', 'maxwell'"),
        ({"key": []}, "give the name of a column, or several"),
        ({"schema": "id"}, "schema='id': give a pyarrow.Schema or None"),
        ({"key": "ID", "schema": SCHEMA}, "schema= has no column 'ID'"),
        ({"start": "first"}, "start='first': choose one of"),
    ],
)
def test_a_wrong_option_lists_the_choices(options: dict[str, Any], message: str) -> None:
    inputs: dict[str, Any] = {"format": "debezium", "key": "id", **options}
    with pytest.raises(ValueError, match=message):
        ReadKafkaChangeEvents("t", bootstrap_servers="localhost:9092", **inputs)
