"""A bounded read is one bounded input, on every runner, however many rows it has and however slow it is."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import ForeignKeyJoin, TableFromChangelog
from beam_joins.errors import InputError
from beam_joins.io import ReadGrowingFiles, ReadKafkaChangeEvents
from beam_joins.pipelines.changelogs import source_reads
from beam_joins.pipelines.changelogs.source_reads import ReadPiece, ReadToEnd, Timed
from beam_joins.pipelines.runners.runner_setup import runner
from tests.pipelines.streaming.jobs import FIRST, Append, row, written

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64(), "at": pa.int64()})
DIRECT = ["--runner=DirectRunner"]


def facts_of(changes: pa.Table) -> dict[str, int]:
    """Tell a table apart from two tables of parts of its rows: an old value is missing for the first change
    of a key alone.
    """
    new, old = (pc.struct_field(changes[side], "n") for side in ("new", "old"))
    return {"changes": len(changes), "inserts": old.null_count, "new": pc.sum(new).as_py(), "old": pc.sum(old).as_py() or 0}


def expected(numbers: range) -> dict[str, int]:
    last = {row(number)["id"]: number for number in numbers}
    return {"changes": len(numbers), "inserts": len(last), "new": sum(numbers), "old": sum(numbers) - sum(last.values())}


def append_facts(table: Any, out: Path) -> None:
    facts = table | "Facts" >> beam.Map(lambda batch: facts_of(batch.to_arrow()))
    _ = facts | "Append" >> beam.ParDo(Append(out))


def facts_in(out: Path) -> dict[str, int]:
    actual = written(out)
    return {name: sum(each[name] for each in actual) for name in actual[0]}


@contextmanager
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    yield tmp_path / "in", tmp_path / "out"


def table_of_files(tmp_path: Path, numbers: range, flags: list[str], **options: Any) -> dict[str, int]:
    with folders(tmp_path) as (into, out):
        middle = numbers[len(numbers) // 2]
        pq.write_table(pa.Table.from_pylist(list(map(row, range(numbers[0], middle)))), into / "a.parquet", row_group_size=20_000)
        pq.write_table(pa.Table.from_pylist(list(map(row, range(middle, numbers[-1] + 1)))), into / "b.parquet", row_group_size=20_000)
        with runner(PipelineOptions(flags)) as ready, beam.Pipeline(options=ready) as pipeline:
            rows = pipeline | ReadGrowingFiles(f"{into}/*.parquet", schema=SCHEMA, follow=False, **{"timestamp_by": "at", **options})
            append_facts(rows | TableFromChangelog(key="id", timestamp_by="at"), out)
        return facts_in(out)


def test_more_rows_than_a_followed_source_gives_at_a_time_are_one_table_on_the_direct_runner(tmp_path: Path) -> None:
    assert table_of_files(tmp_path, range(320_000), DIRECT) == expected(range(320_000))


@pytest.mark.spark
@pytest.mark.sweep
def test_they_are_one_table_on_spark(tmp_path: Path) -> None:
    flags = ["--runner=SparkRunner", "--spark_master_url=local[2]"]
    assert table_of_files(tmp_path, range(120_000), flags) == expected(range(120_000))


@pytest.mark.flink
@pytest.mark.sweep
@pytest.mark.usefixtures("flink")
def test_they_are_one_table_on_flink(tmp_path: Path) -> None:
    flags = ["--runner=FlinkRunner", "--flink_memory=1g", "--parallelism=2", "--python_workers=2"]
    assert table_of_files(tmp_path, range(120_000), flags) == expected(range(120_000))


@pytest.mark.flink
def test_they_are_one_table_on_prism(prism: str, tmp_path: Path) -> None:
    flags = ["--runner=PrismRunner", f"--prism_location={prism}", "--environment_type=LOOPBACK"]
    assert table_of_files(tmp_path, range(120_000), flags) == expected(range(120_000))


class Slow:
    """A source of whole numbers up to an end, some at a time, each after a pause."""

    def __init__(self, end: int, at_a_time: int, pause: float) -> None:
        self._end = end
        self._at_a_time = at_a_time
        self._pause = pause

    def range(self, element: Any) -> tuple[int, int]:
        return 0, self._end

    def pieces(self, element: Any, place: int, end: int | None) -> Iterator[ReadPiece]:
        time.sleep(self._pause)
        some = [Timed(row(number), FIRST) for number in range(place, min(place + self._at_a_time, self._end))]
        if some:
            yield ReadPiece(place + len(some), some, FIRST, len(some))

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("pause", [0.04, pytest.param(0.2, marks=pytest.mark.sweep)])
def test_a_source_that_pauses_twenty_five_times_is_one_table(tmp_path: Path, pause: float) -> None:
    out, source = tmp_path, Slow(500, 20, pause)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | beam.Create(["slow"]) | ReadToEnd(source)
        table = rows | TableFromChangelog(key="id", timestamp_by="at", schema=SCHEMA)
        append_facts(table, out)
    assert facts_in(out) == expected(range(500))


def test_a_source_that_gives_nothing_more_before_its_end_fails_and_says_how_far_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_reads, "_SILENT_SECONDS", 0.1)

    class Silent(Slow):
        def range(self, element: Any) -> tuple[int, int]:
            return 0, 7

    with pytest.raises(InputError, match="topic: read up to 5 of 7, and nothing more has come"):
        pipeline = beam.Pipeline(runner=FnApiRunner())
        _ = pipeline | beam.Create(["topic"]) | ReadToEnd(Silent(5, 5, 0.02))
        pipeline.run().wait_until_finish()


@pytest.mark.flink
def test_a_topic_joined_by_reference_gives_the_rows_of_one_read(broker: Any, tmp_path: Path) -> None:
    orders = [{"id": n % 9_000, "customer": n * 7 % 300, "op": "d" if n % 11 == 0 else "u"} for n in range(110_000)]
    customers = [{"id": n, "name": f"c{n}", "op": "u"} for n in range(300)]
    last: dict[int, Any] = {}
    for order in orders:
        last[order["id"]] = None if order["op"] == "d" else f"c{order['customer']}"
    for topic, rows in (("bounded-customers", customers), ("bounded-orders", orders)):
        broker.make_topic(topic, partitions=1)
        broker.put(topic, ((b"k", json.dumps(debezium(each, number, topic)).encode(), 1) for number, each in enumerate(rows, 1)))
    schemas = {
        "bounded-orders": pa.schema({"id": pa.int64(), "customer": pa.int64()}),
        "bounded-customers": pa.schema({"id": pa.int64(), "name": pa.string()}),
    }
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        left, right = (
            pipeline
            | topic
            >> ReadKafkaChangeEvents(topic, format="debezium", key="id", schema=schema, bootstrap_servers=broker.address, follow=False)
            for topic, schema in schemas.items()
        )
        joined = (left, right) | ForeignKeyJoin({"name": "right.name"}, foreign_key="customer")
        final = joined | beam.FlatMap(lambda batch: [list(each) for each in rows_of(batch.to_arrow())])
        _ = final | beam.ParDo(Append(tmp_path))
    state: dict[int, Any] = {}
    for key, name, _ in sorted(written(tmp_path), key=lambda change: change[2]):
        state[key] = name
    assert {key: state.get(key) for key in last} == last


def rows_of(changes: pa.Table) -> Iterator[tuple[int, str | None, int]]:
    names = pc.struct_field(changes["new"], "name").to_pylist()
    return zip(changes["key"].to_pylist(), names, changes["position"].to_pylist(), strict=True)


def debezium(each: dict[str, Any], number: int, table: str) -> dict[str, Any]:
    values = {name: value for name, value in each.items() if name != "op"}
    before, after = (values, None) if each["op"] == "d" else (None, values)
    source = {"connector": "postgresql", "table": table, "lsn": number, "ts_ms": number}
    return {"before": before, "after": after, "op": each["op"], "source": source, "ts_ms": number}


class _Halves(beam.RestrictionProvider):
    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, 20)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return int(restriction.size())


_TRACKER = beam.DoFn.RestrictionParam(_Halves())


class InParts(beam.DoFn):
    """A bounded splittable DoFn that gives the rest back after ten rows, as a user might write one."""

    def process(self, element: Any, tracker: Any = _TRACKER) -> Iterator[Any]:
        start = tracker.current_restriction().start
        for number in range(start, start + 10):
            if not tracker.try_claim(number):
                return
            yield row(number)
        if start == 0:
            tracker.defer_remainder()


def test_bounded_input_that_goes_on_after_its_end_fails_and_never_starts_a_second_table() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    rows = pipeline | beam.Create([None]) | beam.ParDo(InParts())
    _ = rows | "the orders" >> TableFromChangelog(key="id", timestamp_by="at")
    with pytest.raises(InputError, match="the orders/Replay.* got rows after its input had ended"):
        pipeline.run().wait_until_finish()
