"""Tables of topics with envelopes: those of the same lines in a file, and what cannot be read is named."""

import copy
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import LatestTable, StateFolder, TableToChanges
from beam_joins.errors import InputError
from beam_joins.io import ReadChangeEvents, ReadKafkaChangeEvents
from beam_joins.pipelines.systems.kafka import topic_rounds
from beam_joins.transforms.connect.runs import ReplayOptions
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


def _latest(broker: Any, topic: str, state: Path, tables: tuple[str, ...] = ("orders",), *, again: str = "", **options: Any) -> Any:
    """The number of records that a run reads of each table, and the tables' rows."""
    of_run = PipelineOptions([f"--beam_joins_state={state}", "--beam_joins_partitions=2", "--beam_joins_changed=rebuild"])
    of_run.view_as(ReplayOptions).beam_joins_read_again = [again] if again else []
    _read.clear()
    _rows.clear()
    with beam.Pipeline(runner=FnApiRunner(), options=of_run) as pipeline:
        for table in tables:
            read = ReadKafkaChangeEvents(
                topic, format="debezium", key="id", table=table, bootstrap_servers=broker.address, follow=False, **options
            )
            outputs = pipeline | table >> read.with_outputs()
            _ = outputs.counts | f"counts {table}" >> beam.Map(_count, table)
            latest = outputs.table | f"latest {table}" >> LatestTable()
            _ = latest | f"rows {table}" >> beam.FlatMap(_pairs) | f"keep {table}" >> beam.Map(_keep, table)
    return dict(_read), {table: {key: row for of, key, row in _rows if of == table} for table in tables}


_read: Counter[str] = Counter()
_rows: list[tuple[str, Any, Any]] = []


def _count(tally: Any, table: str) -> None:
    if tally.what == "read":
        _read[table] += tally.records


def _pairs(element: Any) -> list[tuple[Any, Any]]:
    if isinstance(element, tuple):
        return [element]
    return [(row["key"], row["value"]) for row in element.to_pylist()]


def _keep(pair: tuple[Any, Any], table: str) -> None:
    _rows.append((table, *pair))


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["dicts", "columns"])
def test_with_a_state_each_run_goes_on_at_the_offsets_of_the_one_before(broker, tmp_path: Path, schema: Any) -> None:
    topic, state, put = f"rounds-{schema is None}", tmp_path / "state", list[Any]()
    broker.make_topic(topic, partitions=1)
    for number, some in enumerate((ROWS[:12], ROWS[12:13], [], ROWS[13:])):
        lines = [None if line is None else json.dumps(line).encode() for line in debezium(some, "orders", "id")]
        put += lines
        broker.put(topic, [(b"k", line, 1) for line in lines])
        if number == 1:
            with pytest.MonkeyPatch.context() as patched, pytest.raises(ZeroDivisionError):
                patched.setattr(StateFolder, "commit", lambda *_: 1 // 0)
                _latest(broker, topic, state, schema=schema)
        read, rows = _latest(broker, topic, state, schema=schema)
        assert sum(read.values()) == len([line for line in lines if line is not None])
        whole, expected = _latest(broker, topic, tmp_path / f"whole-{number}", schema=schema)
        assert (rows, sum(whole.values()) >= sum(read.values())) == (expected, True)
    assert not any(state.rglob("*.jsonl"))
    assert _latest(broker, topic, state, schema=schema) == ({}, expected)
    assert _latest(broker, topic, state, schema=schema, again="orders/Table") == (whole, expected)
    assert _latest(broker, topic, state, schema=schema) == ({}, expected)


def test_two_tables_of_one_topic_are_read_each_and_a_later_one_reads_all(broker, tmp_path: Path) -> None:
    broker.make_topic("two-tables", partitions=1)
    for some in (ROWS[:5], ROWS[5:9]):
        for table in ("orders", "customers"):
            lines = [json.dumps(line).encode() for line in debezium(some, table, "id") if line is not None]
            broker.put("two-tables", [(b"k", line, 1) for line in lines])
        _, rows = _latest(broker, "two-tables", tmp_path / "state", ("orders", "customers"))
        assert rows["orders"] == rows["customers"] != {}
    anew = "the topic two-tables was made anew since the last run"
    with pytest.MonkeyPatch.context() as patched, pytest.raises(InputError, match=anew):
        patched.setattr(topic_rounds, "identity_of", lambda *_: "another")
        _latest(broker, "two-tables", tmp_path / "state", ("orders", "customers"))
