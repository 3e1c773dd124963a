"""Topics of a real broker: all records once, what is in them, and where a job goes on."""

import json
from itertools import pairwise

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import runner
from beam_joins.io import ReadKafka
from beam_joins.pipelines.flink import flink_job
from tests.pipelines.streaming.jobs import FIRST, count_windows, row, rows_of, wait_until, windows_of, written

pytestmark = pytest.mark.flink

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64(), "at": pa.int64(), "kafka_offset": pa.int64(), "kafka_partition": pa.int32()})
RECORDS = [(b"k", b'{"n": 1}', 1_000), (None, b'{"n": 2}', 2_000), (b"k", None, 3_000)]


def records(numbers: range) -> list[tuple[bytes, bytes, int]]:
    return [(b"%d" % row(number)["id"], json.dumps(row(number)).encode(), row(number)["at"] // 1_000) for number in numbers]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [((key, value), time) for key, value, time in RECORDS]),
        (
            {"value": "json", "timestamp_by": lambda key, value: 7_000 if value is None else value["n"] * 1_000},
            [((b"k", {"n": 1}), 1), ((None, {"n": 2}), 2), ((b"k", None), 7)],
        ),
    ],
    ids=["bytes", "json"],
)
def test_records_are_pairs_with_their_event_times(broker, options, expected):
    topic = f"pairs-{len(options)}"
    broker.make_topic(topic, partitions=2)
    broker.put(topic, RECORDS, partitions=2)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        actual = pipeline | ReadKafka(topic, bootstrap_servers=broker.address, follow=False, **options)
        timed = actual | beam.Map(lambda element, time=beam.DoFn.TimestampParam: (element, time.micros // 1_000))
        assert_that(timed, equal_to(expected))


def test_with_a_schema_records_are_batches_that_know_partition_key_and_offset(broker):
    broker.make_topic("batches", partitions=2)
    broker.put("batches", RECORDS, partitions=2)
    names = {"n": pa.int64(), "kafka_key": pa.binary(), "kafka_partition": pa.int32(), "kafka_offset": pa.int64()}
    schema = pa.schema({**names, "kafka_timestamp": pa.int64()})
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        source = ReadKafka("batches", bootstrap_servers=broker.address, follow=False, value="json", schema=schema)
        rows = pipeline | source | beam.FlatMap(lambda batch: [tuple(each.values()) for each in batch.to_pylist()])
        expected = [(1, b"k", 0, 0, 1_000_000), (2, None, 1, 0, 2_000_000), (None, b"k", 0, 1, 3_000_000)]
        assert_that(rows, equal_to(expected))


def test_marks_of_transactions_are_stepped_over(broker):
    broker.make_topic("transactions", partitions=1)
    for number in range(3):
        broker.put("transactions", records(range(number, number + 1)), partitions=1, transaction="t")
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        actual = pipeline | ReadKafka("transactions", bootstrap_servers=broker.address, follow=False, value="json")
        assert_that(actual | beam.Map(lambda pair: pair[1]["n"]), equal_to([0, 1, 2]))


@pytest.mark.parametrize(
    ("topic", "value", "message"),
    [
        ("absent", "bytes", "the topic absent cannot be read: .*[Uu]nknown topic"),
        ("text", "json", "text, partition 0, offset 0: unexpected character"),
    ],
)
def test_what_cannot_be_read_is_named(broker, topic, value, message):
    if topic == "text":
        broker.make_topic(topic, partitions=1)
        broker.put(topic, [(None, b"plain", 1)], partitions=1)
    with pytest.raises(Exception, match=message), beam.Pipeline(runner=FnApiRunner()) as pipeline:
        pipeline | ReadKafka(topic, bootstrap_servers=broker.address, follow=False, value=value)


def test_on_flink_a_topic_is_followed_and_a_stopped_job_goes_on_at_its_offsets(flink, broker, tmp_path):
    (tmp_path / "out").mkdir()
    broker.make_topic("live", partitions=3)
    flags = ["--runner=FlinkRunner", "--flink_memory=1g", "--streaming", "--checkpointing_interval=500"]
    savepoint: list[str] = []
    for before, after in pairwise((0, 1_500, 3_000)):
        with runner(PipelineOptions([*flags, *(f"--savepoint_path={path}" for path in savepoint)])) as on_flink:
            pipeline = beam.Pipeline(options=on_flink)
            source = ReadKafka(
                "live", bootstrap_servers=broker.address, value="json", schema=SCHEMA, timestamp_by="at", out_of_orderness=1
            )
            count_windows(pipeline | source | beam.FlatMap(rows_of), tmp_path / "out")
            result = pipeline.run()
            job = flink_job(result, on_flink)
            broker.put("live", records(range(before, after)), partitions=3)
            wait_until(lambda after=after: sorted(written(tmp_path / "out")) == windows_of(range(after - 10)))
            savepoint = [job.stop(str(tmp_path / "savepoints"))]
            assert result.wait_until_finish() == "DONE"
    numbers = sorted(number for _, _, actual in written(tmp_path / "out") for number in actual)
    assert numbers == list(range(len(numbers)))
    assert row(0)["at"] == FIRST


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "first"}, "start='first': choose one of 'earliest', 'latest'"),
        ({"value": "xml"}, "value='xml': choose one of 'bytes', 'json', 'avro'"),
        ({"value": "avro"}, "value='avro' and schema_registry= belong together"),
        ({"value": "json", "schema_registry": "http://one"}, "belong together: give both or none"),
        ({"topics": []}, "give the name of a topic"),
        ({"schema": SCHEMA}, "say value='json'"),
        ({"timestamp_by": "at"}, "without a schema give a function of key and value"),
    ],
)
def test_a_wrong_option_lists_the_choices(options, message):
    inputs = {"topics": "t", **options}
    with pytest.raises(ValueError, match=message):
        ReadKafka(inputs.pop("topics"), bootstrap_servers="localhost:9092", **inputs)
