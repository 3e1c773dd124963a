"""WriteKafka: the records of a topic, their places, and each run once."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import LatestTable, TableFromChangelog
from beam_joins.errors import OutputError
from beam_joins.io import ReadKafka, ReadKafkaChangeEvents, WriteKafka
from beam_joins.pipelines.systems.kafka import write_kafka
from beam_joins.pipelines.systems.kafka.topic_producer import Numbers, TopicProducer
from tests.pipelines.streaming.jobs import wait_until
from tests.pipelines.streaming.kafka_streams import KafkaStreams
from tests.pipelines.streaming.registry import Registry
from tests.pipelines.tables import changes_anew

pytestmark = pytest.mark.flink

CHANGES = [("apple", 7, 1), ("pear", 3, 2), ("apple", 8, 3), ("apple", None, 4), ("plum", 1, 5)]
TYPES = pa.schema({"item": pa.string(), "count": pa.int64(), "lsn": pa.int64(), "at": pa.int64(), "gone": pa.bool_()})


class Record(NamedTuple):
    """A record as a consumer gets it."""

    partition: int
    key: str | None
    value: Any
    millis: int
    headers: dict[str, str]


@contextmanager
def table(changes: Sequence[Any] = CHANGES, state: Path | None = None, key: Any = "item", types: pa.Schema = TYPES) -> Iterator[Any]:
    """The table of changes, each a key, a count or None, and a position, of a run."""
    options = PipelineOptions([] if state is None else [f"--beam_joins_state={state}", "--beam_joins_partitions=2"])
    columns = [*([each[n] for each in changes] for n in (0, 1, 2)), [each[2] * 1_500_000 for each in changes]]
    rows = pa.table([*columns, [each[1] is None for each in changes]], schema=types)
    with beam.Pipeline(runner=FnApiRunner(), options=options) as pipeline:
        log = pipeline | beam.Create([rows]).with_output_types(pa.Table)
        made = TableFromChangelog(
            key=key, sequence_by="lsn", timestamp_by="at", apply_as_deletes="gone", except_columns=["lsn", "gone", "at"]
        )
        yield log | "stock" >> made


def records(broker: Any, topic: str, *, committed: bool = True) -> list[Record]:
    """The records of a topic, partition by partition."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": broker.address, "group.id": "tests", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed" if committed else "read_uncommitted"})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    read = []
    for partition in sorted(partitions):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while (message := consumer.poll(10)) is not None and message.error() is None:
            value, headers = message.value(), {name: text.decode() for name, text in message.headers() or ()}
            key = message.key()
            read.append(Record(partition, key and key.decode(), value and json.loads(value), message.timestamp()[1], headers))
    consumer.close()
    return read


def written(broker: Any, topic: str, **options: Any) -> WriteKafka:
    return WriteKafka(topic, bootstrap_servers=broker.address, **{"key": "item", "partitions": 2, **options})


def test_upserts_have_the_rows_after_changes_and_tombstones(broker) -> None:
    with table() as stock:
        assert_that(stock | written(broker, "upserts", partitions=1), equal_to([5]))
    actual = records(broker, "upserts")
    assert [(each.key, each.value) for each in actual] == [
        ("apple", {"item": "apple", "count": 7}),
        ("pear", {"item": "pear", "count": 3}),
        ("apple", {"item": "apple", "count": 8}),
        ("apple", None),
        ("plum", {"item": "plum", "count": 1}),
    ]
    assert [(each.millis, each.headers) for each in actual[:2]] == [
        (1500, {"position": "1", "timestamp": "1500000"}),
        (3000, {"position": "2", "timestamp": "3000000"}),
    ]


def test_records_are_in_the_partitions_of_javas_partitioner(broker, streams: KafkaStreams) -> None:
    with table([(f"item {number}", number, number) for number in range(1, 200)]) as stock:
        _ = stock | written(broker, "partitioned", partitions=7)
    actual = {each.key: each.partition for each in records(broker, "partitioned")}
    assert len(actual) == 199
    assert actual == {key: streams.partition(key.encode(), 7) for key in actual if key}


def test_kafka_streams_reads_the_rows_of_upserts_as_a_table(broker, streams: KafkaStreams, tmp_path: Path) -> None:
    for changes in (CHANGES[:2], CHANGES[2:]):
        with table(changes, tmp_path / "state") as stock:
            _ = stock | written(broker, "of-streams")
    expected = {"pear": {"item": "pear", "count": 3}, "plum": {"item": "plum", "count": 1}}
    with streams.table("of-streams") as rows:
        wait_until(lambda: {key: json.loads(value) for key, value in (rows.rows() or {}).items()} == expected)


def test_the_rows_of_upserts_are_read_back_as_the_same_table(broker) -> None:
    with table() as stock:
        _ = stock | written(broker, "upserts-back")
    of_kafka = {"kafka_header_position": pa.int64(), "kafka_timestamp": pa.int64(), "kafka_tombstone": pa.bool_()}
    schema = pa.schema({"kafka_key": pa.string(), "count": pa.int64(), **of_kafka})
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        read = pipeline | ReadKafka("upserts-back", bootstrap_servers=broker.address, value="json", schema=schema, follow=False)
        made = read | TableFromChangelog(
            key="kafka_key",
            sequence_by="kafka_header_position",
            timestamp_by="kafka_timestamp",
            apply_as_deletes="kafka_tombstone",
            except_columns=list(of_kafka),
        )
        assert_that(made | LatestTable() | beam.FlatMap(_pairs), equal_to([("pear", 3), ("plum", 1)]))


def _pairs(rows: pa.RecordBatch) -> list[tuple[Any, Any]]:
    return [(each["key"], each["value"]["count"]) for each in rows.to_pylist()]


@pytest.mark.parametrize("value", ["json", "avro"])
def test_pairs_are_read_back_as_the_same_table(broker, value: str) -> None:
    topic = f"pairs-{value}"
    with Registry.started() as registry:
        options = {"schema_registry": registry.url} if value == "avro" else {}
        with table() as stock:
            assert_that(stock | written(broker, topic, records="pairs", value=value, **options), equal_to([6]))
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            schema = pa.schema({"item": pa.string(), "count": pa.int64()})
            read = ReadKafkaChangeEvents(
                topic, format="debezium", key="item", schema=schema, bootstrap_servers=broker.address, follow=False, **options
            )
            assert_that(pipeline | read | LatestTable() | beam.FlatMap(_pairs), equal_to([("pear", 3), ("plum", 1)]))
    if value == "avro":
        assert registry.subjects == {f"{topic}-value": 1}


def test_runs_with_a_state_write_their_changes_once_each(broker, tmp_path: Path) -> None:
    for changes in (CHANGES[:2], CHANGES[2:]):
        with table(changes, tmp_path / "state") as stock:
            _ = stock | written(broker, "runs", partitions=1)
    assert [each.headers["position"] for each in records(broker, "runs")] == ["1", "2", "3", "4", "5"]


class Killed(Exception):
    pass


@pytest.mark.parametrize("step", ["begin", "middle", "offsets", "committed"])
def test_a_run_that_was_killed_at_any_step_counts_once_when_it_is_repeated(broker, tmp_path, monkeypatch, step) -> None:
    topic = f"killed-{step}"
    with table(CHANGES[:2], tmp_path / "state") as stock:
        _ = stock | written(broker, topic, partitions=1)
    with monkeypatch.context() as patched, pytest.raises(Exception, match="killed here"):
        _kill(patched, step)
        with table(CHANGES[2:], tmp_path / "state") as stock:
            _ = stock | written(broker, topic, partitions=1)
    with table(CHANGES[2:], tmp_path / "state") as stock:
        _ = stock | written(broker, topic, partitions=1)
    assert [each.headers["position"] for each in records(broker, topic)] == ["1", "2", "3", "4", "5"]


def _kill(patched: pytest.MonkeyPatch, step: str) -> None:
    """Have the process end at a step of the transaction, as far as Kafka sees: nothing is aborted."""

    def killed(*_: Any) -> None:
        raise Killed("killed here")

    if step == "committed":
        patched.setattr(write_kafka.MarkFile, "put", killed)
        return
    name = {"begin": "write", "middle": "close", "offsets": "_repeated"}[step]
    if step == "offsets":
        repeated = TopicProducer._repeated
        calls = list[int]()

        def after_the_first(self: TopicProducer, call: Any) -> None:
            calls.append(1)
            repeated(self, call)
            if len(calls) == 2:
                killed()

        patched.setattr(TopicProducer, name, after_the_first)
    else:
        patched.setattr(TopicProducer, name, killed)
    patched.setattr(TopicProducer, "_abort", lambda self: None)


def test_a_topic_that_was_made_anew_is_refused(broker, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    with table(CHANGES[:2], tmp_path / "state") as stock:
        _ = stock | written(broker, "anew", partitions=1)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for deleted in admin.delete_topics(["anew"]).values():
        deleted.result(30)
    with (
        pytest.raises(
            Exception, match=r"the topic anew of \S+ is not as the last run with this state has left it: it has been made anew"
        ),
        table(CHANGES[2:], tmp_path / "state") as stock,
    ):
        _ = stock | written(broker, "anew", partitions=1)


def test_another_number_of_partitions_is_refused(broker) -> None:
    broker.make_topic("of-three", partitions=3)
    with pytest.raises(Exception, match="has 3 partitions, and partitions=2: give the number that it has"), table() as stock:
        _ = stock | written(broker, "of-three")


def test_a_missing_topic_is_not_created_by_itself(broker) -> None:
    with pytest.raises(Exception, match="the topic absent cannot be written: .*: create it, or give partitions="), table() as stock:
        _ = stock | written(broker, "absent", partitions=None)


def test_a_record_that_is_too_large_is_named(broker) -> None:
    large = [("x" * 2_000_000, 1, 1)]
    with (
        pytest.raises(Exception, match=r"cannot write to the topic large .*: give the topic a larger max\.message\.bytes"),
        table(large) as stock,
    ):
        _ = stock | written(broker, "large")
    assert not records(broker, "large")


def test_a_broker_that_is_not_there_is_named() -> None:
    with pytest.raises(Exception, match=r"no Kafka broker at 127\.0\.0\.1:9 says which partitions"), table() as stock:
        _ = stock | WriteKafka("t", bootstrap_servers="127.0.0.1:9")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"records": "rows"}, "records='rows': choose one of 'upserts', 'pairs', 'changes'"),
        ({"value": "bytes"}, "value='bytes': choose one of 'json', 'avro'"),
        ({"key_format": "long"}, "key_format='long': choose one of 'text', 'json', 'avro'"),
        ({"value": "avro"}, "belong together: give both or none"),
        ({"schema_registry": "http://localhost:1"}, "belong together: give both or none"),
        ({"partitions": 0}, "partitions=0: give a number of partitions, or None"),
        ({"config": ["acks"]}, "give settings of librdkafka's producer"),
        ({"application": ""}, "application='': give a name, or leave it out"),
    ],
)
def test_a_wrong_option_lists_the_choices(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        WriteKafka("t", bootstrap_servers="localhost:9092", **options)


def test_keys_and_values_in_avro_are_registered_and_read_back(broker) -> None:
    with Registry.started() as registry:
        options: dict[str, Any] = {"value": "avro", "schema_registry": registry.url}
        with table() as stock:
            _ = stock | written(broker, "of-avro", key_format="avro", **options)
        assert set(registry.subjects) == {"of-avro-key", "of-avro-value"}
        key = json.loads(registry.schemas[registry.subjects["of-avro-key"]]["schema"])
        assert key == {"type": "record", "name": "of_avro_key", "fields": [{"name": "item", "type": "string"}]}
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            read = ReadKafka("of-avro", bootstrap_servers=broker.address, follow=False, **options)
            rows = [None, *({"item": item, "count": count} for item, count in (("apple", 7), ("apple", 8), ("pear", 3), ("plum", 1)))]
            assert_that(pipeline | read | beam.Values(), equal_to(rows))


def test_a_schema_that_is_not_compatible_ends_the_run_before_a_record_is_written(broker) -> None:
    with Registry.started() as registry:
        registry.incompatible = True
        options: dict[str, Any] = {"value": "avro", "schema_registry": registry.url}
        with pytest.raises(Exception, match="refuses the schema of narrower-value, which is not compatible"), table() as stock:
            _ = stock | written(broker, "narrower", **options)
    assert records(broker, "narrower", committed=False) == []


def test_a_later_run_of_the_application_is_not_overwritten(broker, tmp_path: Path) -> None:
    for number, changes in enumerate((CHANGES[:2], CHANGES[2:])):
        with table(changes, tmp_path / "state") as stock:
            _ = stock | written(broker, "later", application="shop")
        if not number:
            (tmp_path / "new").mkdir()
    with (
        pytest.raises(Exception, match="has had run 2 of 'shop', and this is run 1: begin with an empty state, or give application="),
        table(CHANGES, tmp_path / "new") as stock,
    ):
        _ = stock | written(broker, "later", application="shop")


def test_a_repeated_run_with_more_changes_writes_them_all(broker, tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as patched, pytest.raises(Exception, match="killed here"):
        _kill(patched, "committed")
        with table(CHANGES[:2], tmp_path / "state") as stock:
            _ = stock | written(broker, "more", partitions=1)
    with table(CHANGES, tmp_path / "state") as stock:
        _ = stock | written(broker, "more", partitions=1)
    assert [each.headers["position"] for each in records(broker, "more")] == ["1", "2", "1", "2", "3", "4", "5"]


ANEW = [(1, "a", 7), (2, "b", 7), (1, "c", 9)]


@pytest.mark.parametrize("of", ["pairs", "changes"])
def test_a_table_that_begins_anew_begins_with_a_truncate_in_each_partition(broker, of: str) -> None:
    topic = f"begins-anew-{of}"
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = changes_anew(pipeline, ANEW) | written(broker, topic, records=of, key="id", partitions=3)
    actual = records(broker, topic)
    first = {each.partition: each for each in reversed(actual)}
    assert sorted(first) == [0, 1, 2]
    assert all(each.key is None and each.headers["position"] == "7" for each in first.values())
    operations = [(each.value["payload"] if of == "pairs" else each.value)["op"] for each in first.values()]
    assert operations == ["t" if of == "pairs" else "truncate"] * 3
    assert sorted(each.headers["position"] for each in actual if each.key) == ["7", "7", "9"]


def test_upserts_of_a_table_that_begins_anew_are_refused(broker) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    with pytest.raises(ValueError, match="upserts cannot say that the rows of earlier runs are void: write to a new topic"):
        changes_anew(pipeline, ANEW) | written(broker, "refused", key="id")


def test_unbounded_input_is_written_as_it_comes(broker) -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        table = changes_anew(pipeline, ANEW, None, batches=2)
        table.is_bounded = False
        _ = table | written(broker, "endless", key="id", partitions=1)
    assert sorted((each.key, each.headers["position"]) for each in records(broker, "endless")) == [("1", "7"), ("1", "9"), ("2", "7")]


def test_an_earlier_run_of_the_application_is_fenced_off(broker) -> None:
    broker.make_topic("fenced", partitions=1)
    config = {"bootstrap.servers": broker.address, "transactional.id": "fenced"}
    earlier, later = (TopicProducer("fenced", 1, config, Numbers(), tombstones=False) for _ in range(2))
    earlier.take_over()
    later.take_over()
    with pytest.raises(OutputError, match="another run of this application has begun to write"), earlier.transaction("g", 1, ""):
        pass
