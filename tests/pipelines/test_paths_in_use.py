"""No result of a pipeline takes the place of a file that it reads, or is one that a later run would read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from deltalake import DeltaTable, write_deltalake

from beam_joins import TableFromChangelog
from beam_joins.errors import InputError
from beam_joins.io import (
    ReadChangeEvents,
    ReadChangelog,
    ReadDelta,
    ReadGrowingFiles,
    ReadParquet,
    WriteChangelog,
    WriteDelta,
    WriteParquet,
)
from beam_joins.pipelines.base.path_patterns import finds
from tests.pipelines.join_run import refused
from tests.pipelines.orders_run import Run

pytestmark = pytest.mark.usefixtures("own_directory")
LINE = '{"id":1,"v":2,"lsn":1}\n'
EVENT = '{"op":"c","after":{"id":1},"source":{"lsn":1,"ts_ms":5}}\n'
TYPES = pa.schema([("id", pa.int64()), ("lsn", pa.int64())])


def pipeline_of(state: bool = False) -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions(["--beam_joins_state=state"] if state else []))


def table_of(pipeline: beam.Pipeline) -> Any:
    rows = pipeline | beam.Create([pa.table({"id": [1], "lsn": [1]})]).with_output_types(pa.Table)
    return rows | TableFromChangelog(key="id", sequence_by="lsn")


def made(folder: str) -> None:
    Path(folder).mkdir()
    Path(folder, "x.jsonl").write_text(LINE)
    Path(folder, "e.jsonl").write_text(EVENT)
    pq.write_table(pa.table({"id": [1], "lsn": [1]}), Path(folder, "x.parquet"))
    pq.write_table(pa.table({"id": [1], "lsn": [1]}), Path(folder, "o-00000-of-00001.parquet"))


READERS: dict[str, Callable[[str], Any]] = {
    "rows": lambda path: ReadChangelog(path, key="id", sequence_by="lsn"),
    "events": lambda path: ReadChangeEvents(path, format="debezium", key="id"),
    "growing": lambda path: ReadGrowingFiles(path, timestamp_by="lsn", schema=TYPES, follow=False),
    "parquet": ReadParquet,
}


@pytest.mark.parametrize("writes_first", [False, True])
@pytest.mark.parametrize(
    ("reader", "read", "result"),
    [
        ("rows", "in/x.jsonl", "in/x.jsonl"),
        ("rows", "in/*.jsonl", "link/x.jsonl"),
        ("events", "link/e.jsonl", "in/e.jsonl"),
        ("growing", "in/x.jsonl", "in/x.jsonl"),
        ("parquet", "in/*.parquet", "in/x.parquet"),
    ],
)
def test_a_result_in_the_place_of_an_input_is_refused(reader: str, read: str, result: str, writes_first: bool) -> None:
    made("in")
    Path("link").symlink_to("in")
    pipeline = pipeline_of()
    with pytest.raises(InputError, match=r" is an input: give the result another name"):
        if writes_first:
            _ = table_of(pipeline) | WriteChangelog(result, key="id")
        _ = pipeline | "read" >> READERS[reader](read)
        _ = table_of(pipeline) | WriteChangelog(result, key="id")
    assert Path("in/x.jsonl").read_text() == LINE


@pytest.mark.parametrize("writes_first", [False, True])
@pytest.mark.parametrize("read", ["in/*.jsonl", "**/*.jsonl", "link/?-00000[0-9].jsonl"])
def test_with_a_state_a_result_that_a_later_run_would_read_is_refused(read: str, writes_first: bool) -> None:
    made("in")
    Path("in/e.jsonl").unlink()
    Path("in/a-000009.jsonl").write_text(LINE)
    Path("link").symlink_to("in")
    pipeline = pipeline_of(state=True)
    with pytest.raises(InputError, match=r"jsonl would read what is written to in/y-000001.jsonl: give the result another path"):
        if writes_first:
            _ = table_of(pipeline) | WriteChangelog("in/y.jsonl", key="id")
        _ = pipeline | "read" >> READERS["rows"](read)
        _ = table_of(pipeline) | WriteChangelog("in/y.jsonl", key="id")


def test_files_of_parquet_that_a_later_run_would_read_are_refused() -> None:
    made("in")
    pipeline = pipeline_of(state=True)
    rows = pipeline | ReadParquet("in/x*.parquet")
    with pytest.raises(InputError, match=r"would read what is written to in/x2-00000-of-00001.parquet"):
        _ = rows | WriteParquet("in/x2")
    _ = rows | "other" >> WriteParquet("in/o")


def test_a_path_that_is_written_twice_is_refused_and_one_beside_inputs_is_not() -> None:
    made("in")
    pipeline = pipeline_of()
    _ = pipeline | "read" >> READERS["rows"]("in/x*.jsonl")
    table = table_of(pipeline)
    _ = table | WriteChangelog("in/x-changes.jsonl", key="id")
    with pytest.raises(InputError, match="in/x-changes.jsonl is written twice in this pipeline: give each result its own path"):
        _ = table | "again" >> WriteChangelog("in/x-changes.jsonl", records="rows", key="id")


@pytest.mark.parametrize(
    ("pattern", "path", "is_found"),
    [
        ("a/b.jsonl", "a/b.jsonl", True),
        ("a/*.jsonl", "a/b/c.jsonl", False),
        ("a/*/c.jsonl", "a/b/c.jsonl", True),
        ("a/**/c.jsonl", "a/c.jsonl", True),
        ("a/**/c.jsonl", "a/b/b/c.jsonl", True),
        ("a/**/c.jsonl", "a/b/d.jsonl", False),
        ("folder", "folder/c.jsonl", True),
        ("folder", "folder/b/c.jsonl", False),
        ("s3://b/in", "s3://b/in/c.jsonl", True),
        ("s3://b/in/*.jsonl", "s3://b/in/c.jsonl", True),
        ("s3://b/in/*.jsonl", "s3://b/out/c.jsonl", False),
    ],
)
def test_a_pattern_finds_what_it_would_find_once_it_is_there(pattern: str, path: str, is_found: bool) -> None:
    Path("folder").mkdir()
    assert finds(pattern, path) == is_found


@pytest.mark.parametrize("writes_first", [False, True])
def test_a_delta_table_that_is_read_is_not_written(writes_first: bool) -> None:
    write_deltalake("t", pa.table({"id": [1]}))
    Path("link").symlink_to("t")
    pipeline = pipeline_of()
    with pytest.raises(InputError, match=r"is an input: give the result another name"):
        if writes_first:
            _ = table_of(pipeline) | WriteDelta("link", key="id")
        table = pipeline | ReadDelta("t", key="id")
        _ = table | WriteDelta("link", key="id")
    assert DeltaTable("t").version() == 0


def test_a_command_does_not_write_the_delta_table_that_it_reads(beam_joins: Run) -> None:
    write_deltalake("t", pa.table({"id": [1]}), configuration={"delta.enableChangeDataFeed": "true"})
    Path("link").symlink_to("t")
    for options in ([], ["--state-dir", "state"], ["--dry-run"]):
        ran = beam_joins("table", "--input", "delta:t", "--key", "id", "--to", "delta:link", *options)
        assert refused(ran) == "--to: delta:link is read by --input: name another table"
    assert DeltaTable("t").version() == 0
