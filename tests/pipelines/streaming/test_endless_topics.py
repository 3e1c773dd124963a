"""WriteKafka of tables that never end: each change comes at least once, the same each time, and a row's in order."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import runner
from beam_joins.io import ReadChangelog, ReadGrowingChangelog, WriteKafka
from beam_joins.pipelines.flink import flink_job
from tests.pipelines.streaming.broker import Broker
from tests.pipelines.streaming.jobs import FIRST, MANY_RESTARTS, STEP, kill, python_workers, wait_until
from tests.pipelines.streaming.shop import write
from tests.pipelines.streaming.test_write_kafka import Record, records

pytestmark = pytest.mark.flink

SCHEMA = pa.schema({"id": pa.int64(), "by": pa.int64(), "n": pa.int64(), "op": pa.string(), "at": pa.int64()})
FLINK = ("--runner=FlinkRunner", "--flink_memory=1g", "--streaming", "--checkpointing_interval=500", "--parallelism=2", MANY_RESTARTS)


def written(pipeline: beam.Pipeline, broker: Broker, topic: str, folder: Path, *, follow: bool) -> None:
    """Write the orders of a folder."""
    of_rows: dict[str, Any] = {"key": "id", "timestamp_by": "at", "apply_as_deletes": {"op": ["d"]}, "except_columns": ["op", "at"]}
    path = f"{folder}/orders/*.jsonl"
    read = (
        ReadGrowingChangelog(path, out_of_orderness=30, schema=SCHEMA, **of_rows)
        if follow
        else ReadChangelog(path, schema=SCHEMA, **of_rows)
    )
    _ = pipeline | read | WriteKafka(topic, bootstrap_servers=broker.address, key="id", partitions=3)


def bounded(broker: Broker, tmp_path: Path, topic: str, numbers: range) -> list[Record]:
    """The records of a bounded run."""
    folder = tmp_path / f"bounded-{numbers[-1]}"
    folder.mkdir()
    write(folder, numbers, "a")
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        written(pipeline, broker, topic, folder, follow=False)
    return records(broker, topic)


def position(record: Record) -> int:
    return int(record.headers["position"])


def in_time(actual: Sequence[Record], numbers: range) -> list[tuple[Any, ...]]:
    """Those that the watermark has passed when all rows are there, each once, in the order of the partition: the watermark
    stays 30 seconds behind the last row, and a tick more.
    """
    until = FIRST + numbers[-1] * STEP - 32_000_000
    passed = [each for each in actual if position(each) < until]
    return list(dict.fromkeys((each.partition, each.key, position(each), repr(each.value), each.millis) for each in passed))


def of_rows(actual: Sequence[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """The records of each row, in their order."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for each in actual:
        rows.setdefault(each[1], []).append(each)
    return rows


def test_on_flink_they_come_again_when_workers_are_killed(flink: None, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    broker.make_topic("endless-flink", partitions=3)
    expected = bounded(broker, tmp_path, "bounded-flink", range(2_000))
    write(tmp_path / "in", range(1_000), "a")
    with runner(PipelineOptions(list(FLINK))) as on_flink:
        pipeline = beam.Pipeline(options=on_flink)
        written(pipeline, broker, "endless-flink", tmp_path / "in", follow=True)
        result = pipeline.run()
        job = flink_job(result, on_flink)
        first = range(1_000)
        wait_until(lambda: of_rows(in_time(records(broker, "endless-flink"), first)) == of_rows(in_time(expected, first)) != {})
        kill(python_workers())
        write(tmp_path / "in", range(1_000, 2_000), "b")
        whole = range(2_000)
        wait_until(lambda: of_rows(in_time(records(broker, "endless-flink"), whole)) == of_rows(in_time(expected, whole)))
        job.cancel()


def test_on_prism_they_come_once(prism: str, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    numbers = range(1_500)
    expected = bounded(broker, tmp_path, "bounded-prism", numbers)
    write(tmp_path / "in", numbers, "a")
    flags = ["--runner=PrismRunner", f"--prism_location={prism}", "--environment_type=LOOPBACK", "--streaming"]
    pipeline = beam.Pipeline(options=PipelineOptions([*flags, "--experiments=prism_disable_sdf_split"]))
    written(pipeline, broker, "endless-prism", tmp_path / "in", follow=True)
    broker.make_topic("endless-prism", partitions=3)
    result = pipeline.run()
    wait_until(lambda: of_rows(in_time(records(broker, "endless-prism"), numbers)) == of_rows(in_time(expected, numbers)) != {})
    result.cancel()
    actual = records(broker, "endless-prism")
    assert len({(each.key, position(each)) for each in actual}) == len(actual)
