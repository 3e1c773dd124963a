"""WriteDelta: what is of Delta alone; the rest is in test_merge_once.py."""

import json
import re
import subprocess
import sys
from typing import Any

import apache_beam as beam
import deltalake
import duckdb
import pyarrow as pa
import pytest

from beam_joins import Change
from beam_joins.errors import OutputError
from beam_joins.extras import installing
from beam_joins.io import WriteDelta
from beam_joins.pipelines.results import merge_once
from beam_joins.pipelines.results.run_mark import NotAsLeft
from beam_joins.pipelines.systems.delta import write_delta
from tests.pipelines.merged_tables import DELTA
from tests.pipelines.tables import SMALL, WIDE, WIDE_ROWS, run, shown, small, table_of

pytestmark = pytest.mark.usefixtures("own_directory")
OTHER = pa.table({"id": [9], "name": ["other"]})
FIRST = [small(1, 1, "a"), small(2, 2, "b"), small(3, 3, "c"), small(3, 4, None)]
SECOND = [small(1, 5, "aa"), small(2, 6, None), small(4, 7, "d")]


def writing(**options: Any) -> Any:
    return lambda table: table | "delta" >> WriteDelta("delta", key="id", **options)


def test_the_columns_of_a_delta_table_have_the_types_of_the_table() -> None:
    run([], WIDE, writing())
    schema = pa.schema(deltalake.DeltaTable("delta").schema())
    assert [str(schema.field(name).type) for name in ("amount", "day", "at", "zoned", "tiny", "single")] == [
        "decimal128(12, 2)",
        "date32[day]",
        "timestamp[us]",
        "timestamp[us, tz=UTC]",
        "int8",
        "float",
    ]


def test_a_merge_that_others_always_come_before_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_once, "ATTEMPTS", 1)
    merge, parts = DELTA.merge_of([(1, "a")])
    merge.merge([])
    other = DELTA.merge_of([(1, "b")], application="other")
    opened = deltalake.DeltaTable

    def overtaken(path: str, **options: Any) -> Any:
        table = opened(path, **options)
        monkeypatch.setattr(deltalake, "DeltaTable", opened)
        other[0].merge(other[1])
        return table

    overtaken.is_deltatable = opened.is_deltatable  # type: ignore[attr-defined]
    monkeypatch.setattr(deltalake, "DeltaTable", overtaken)
    with pytest.raises(OutputError, match="cannot write delta: others use it at each of 1 attempts"):
        merge.merge(parts)


@pytest.mark.parametrize(
    ("column", "kind"),
    [("clock", pa.time64("us")), ("fine", pa.timestamp("ns")), ("long", pa.decimal256(50, 2)), ("map", pa.map_(pa.int8(), pa.int8()))],
)
def test_a_column_that_delta_has_no_type_for_is_refused_when_the_transform_is_applied(column: str, kind: pa.DataType) -> None:
    pipeline = beam.Pipeline()
    with pytest.raises(ValueError, match=f"column '{column}' is .*, which Delta has no type for"):
        writing()(table_of(pipeline, [], SMALL.append(pa.field(column, kind))))


def test_what_cannot_be_written_is_refused_when_the_transform_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = beam.Pipeline()
    opaque = pipeline | "opaque" >> beam.Create([Change("k", None, 1, 1, 1)])
    with pytest.raises(ValueError, match="WriteDelta writes typed columns"):
        opaque | "of objects" >> WriteDelta("delta")
    with pytest.raises(ValueError, match="path=.*: give the path of a folder"):
        WriteDelta("")
    monkeypatch.setattr(write_delta, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=f"^Delta tables need deltalake: {re.escape(installing('delta'))}$"):
        WriteDelta("delta")


def test_duckdb_reads_the_same_rows() -> None:
    latest = run(WIDE_ROWS, WIDE, writing())
    dataset = deltalake.DeltaTable("delta").to_pyarrow_dataset()
    actual = duckdb.sql("SELECT id, amount, day, words, tiny FROM dataset ORDER BY id").to_arrow_table().to_pylist()
    assert actual == [{name: row[name] for name in ("id", "amount", "day", "words", "tiny")} for row in latest]
    assert dataset.count_rows() == 2


_SPARK = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(json.dumps([row.asDict() for row in spark.read.parquet(*sys.argv[1:]).collect()]))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.sweep
@pytest.mark.usefixtures("java_home")
def test_spark_reads_the_same_rows_from_the_files_that_the_log_names() -> None:
    run(FIRST, SMALL, writing())
    latest = run(FIRST + SECOND, SMALL, writing())
    files = deltalake.DeltaTable("delta").file_uris()
    # in a process of its own: gRPC's threads may end one that is forked here
    ran = subprocess.run([sys.executable, "-c", _SPARK, *files], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert shown(json.loads(ran.stdout)) == shown(latest)


@pytest.mark.parametrize(
    ("happened", "replaced"),
    [
        (lambda table: table.restore(1), "RESTORE, version 3"),
        (lambda table: deltalake.write_deltalake(table, OTHER, mode="overwrite"), "WRITE, version 3"),
        (lambda table: table.delete(), "DELETE, version 3"),
        (lambda table: (deltalake.write_deltalake(table, OTHER, mode="overwrite"), table.restore(2)), None),
        (lambda table: deltalake.write_deltalake(table, OTHER, mode="append"), None),
        (lambda table: (table.optimize.compact(), table.delete("id = 9")), None),
    ],
)
def test_a_table_whose_rows_have_been_replaced_since_the_last_run_is_refused(happened: Any, replaced: str | None) -> None:
    last = None
    for number in (1, 2):
        merge, parts = DELTA.merge_of([(number, "a")], run=number)
        _, last = merge.marked(parts, anew=False, last=last)
    happened(deltalake.DeltaTable("delta"))
    merge, parts = DELTA.merge_of([(3, "c")], run=3)
    if replaced is None:
        merge.marked(parts, anew=False, last=last)
        assert {1, 2, 3} <= {row["id"] for row in DELTA.rows()}
    else:
        with pytest.raises(NotAsLeft, match=f"^delta is not as the last run .* its rows have been replaced \\({replaced}\\)$"):
            merge.marked(parts, anew=False, last=last)
