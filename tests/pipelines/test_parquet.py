"""Parquet files as tables in columns, and back."""

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import ForeignKeyJoin, TableFromChangelog
from beam_joins.errors import InputError
from beam_joins.io import ReadChangelog, ReadGrowingFiles, ReadParquet, WriteParquet
from beam_joins.keys.opaque import opaque_values
from beam_joins.transforms.engine.stages import partitions
from beam_joins.transforms.engine.stages.partitions import (
    CORES,
    DEFAULT_PARTITIONS,
    PARTITION_BYTES,
    WORTHWHILE_BYTES,
    grown_partitions,
    suggested_partitions,
)

ROWS = pa.table({"id": [1, 2, None], "name": ["a", None, "c"], "deleted": [False, True, None]})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(ROWS, path, row_group_size=2)
    return path


def test_row_groups_come_out_as_tables(file):
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        batches = pipeline | ReadParquet(str(file))
        assert batches.element_type is pa.Table
        assert_that(batches | beam.Map(lambda table: table.to_pylist()), equal_to([ROWS[:2].to_pylist(), ROWS[2:].to_pylist()]))


def test_a_machine_that_has_another_file_refuses_it(file):
    for change, message in ((lambda: pq.write_table(ROWS[:0], file), " bytes on "), (file.unlink, " is not there on ")):
        with pytest.raises(InputError, match=f"{message}.*: all machines must reach"), beam.Pipeline() as pipeline:
            _ = pipeline | ReadParquet(str(file))
            change()


def test_only_the_columns_asked_for_are_read_and_counted(file):
    read = ReadParquet(str(file), columns=["name"])
    assert 0 < read.bytes < ReadParquet(str(file)).bytes
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        names = pipeline | read | beam.FlatMap(lambda table: table.to_pylist())
        assert_that(names, equal_to([{"name": "a"}, {"name": None}, {"name": "c"}]))


def test_what_is_written_is_what_was_read_under_numbered_names(file, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):  # the second run replaces what the first has written
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            _ = pipeline | ReadParquet(str(file)) | WriteParquet(str(out))
    assert [path.name for path in sorted(tmp_path.glob("out*"))] == ["out-00000-of-00001.parquet"]
    assert pq.read_table(tmp_path / "out-00000-of-00001.parquet").sort_by("id") == ROWS.sort_by("id")


def test_rows_are_cast_to_the_schema_given(file, tmp_path):
    schema = ROWS.schema.set(0, pa.field("id", pa.int16()))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = (
            pipeline
            | ReadParquet(str(file))
            | beam.Map(lambda table: table.to_batches()[0])
            | WriteParquet(f"{tmp_path}/out", schema=schema)
        )
    assert pq.read_schema(next(tmp_path.glob("out-*"))) == schema


def test_a_join_goes_from_files_to_files(tmp_path):
    pq.write_table(pa.table({"id": [1, 2], "customer": ["a", "b"], "lsn": [1, 2]}), tmp_path / "orders.parquet")
    pq.write_table(pa.table({"id": ["a"], "name": ["Ann"], "lsn": [3]}), tmp_path / "customers.parquet")
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        tables = tuple(
            pipeline
            | f"read {name}" >> ReadParquet(f"{tmp_path}/{name}.parquet")
            | name >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
            for name in ("orders", "customers")
        )
        joined = tables | ForeignKeyJoin(foreign_key="customer", joiner={"name": "right.name"})
        _ = joined | beam.Map(lambda batch: batch.to_arrow()) | WriteParquet(f"{tmp_path}/joined")
    written = pa.concat_tables(pq.read_table(path) for path in tmp_path.glob("joined-*"))
    assert written.to_pylist() == [{"key": 1, "old": None, "new": {"name": "Ann"}, "timestamp": 3, "position": 3}]


def test_a_path_without_a_file_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*none\.parquet"):
        ReadParquet(f"{tmp_path}/none.parquet")


@pytest.mark.parametrize("content", [b"", b"id,name\n1,a\n", b"PAR1"])
def test_a_file_that_is_no_parquet_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "no.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"no\.parquet is not a Parquet file, or is damaged"):
        _ = ReadParquet(str(path)).bytes


def test_a_truncated_file_is_refused_by_name(file):
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(InputError, match=r"in\.parquet is not a Parquet file, or is damaged"):
        _ = ReadParquet(str(file)).bytes


READERS = {
    "ReadParquet": ReadParquet,
    "ReadChangelog": lambda path: ReadChangelog(path, key="id", schema="inferred", timestamp_by="id"),
    "ReadGrowingFiles": lambda path: ReadGrowingFiles(path, timestamp_by="id", follow=False),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_page_with_another_bit_than_was_written_is_refused_by_each_reader(reader, file):
    numbers = pa.table({"id": [1_000_001, 1_000_002, 1_000_003]})
    pq.write_table(numbers, file, use_dictionary=False, compression="none", write_page_checksum=True)
    content = bytearray(file.read_bytes())
    content[content.index((1_000_002).to_bytes(8, "little"))] ^= 16
    file.write_bytes(content)
    with pytest.raises(Exception, match=r"in\.parquet.*could not verify page integrity"), beam.Pipeline() as pipeline:
        _ = pipeline | READERS[reader](str(file))


def test_commands_have_few_partitions_for_a_small_state_and_twice_as_many_or_more_while_it_grows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(partitions, "GROWING_WORTHWHILE_BYTES", each := 16 << 20)
    most = partitions.GROWING_PARTITIONS
    assert [grown_partitions(size) for size in (0, each, 2 * each, most * each, 100 << 30)] == [1, 1, 2, most, 200]
    assert [grown_partitions(size, 2) for size in (0, 3 * each, 4 * each, 100 << 30)] == [2, 2, 4, most]
    assert grown_partitions(100 << 30, 300) == 300


def test_partitions_are_suggested_by_size_from_one_for_each_core_over_the_default_to_more():
    assert suggested_partitions(0) == suggested_partitions(CORES * WORTHWHILE_BYTES) == CORES
    assert suggested_partitions(DEFAULT_PARTITIONS * WORTHWHILE_BYTES) == suggested_partitions(PARTITION_BYTES * DEFAULT_PARTITIONS)
    assert suggested_partitions(PARTITION_BYTES * DEFAULT_PARTITIONS) == DEFAULT_PARTITIONS
    assert suggested_partitions(100 * DEFAULT_PARTITIONS * PARTITION_BYTES + 1) == 100 * DEFAULT_PARTITIONS + 1


def test_columns_of_python_objects_are_refused_with_the_way_out(tmp_path):
    batch = pa.table({"key": [7], "value": opaque_values([{"a": 1}])})
    refused = pytest.raises(Exception, match=r"the column 'value' is of Python objects.*schema=, the columns of its result")
    with refused, beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create([batch]).with_output_types(pa.Table) | WriteParquet(str(tmp_path / "out"))
    assert list(tmp_path.glob("*.parquet")) == []
