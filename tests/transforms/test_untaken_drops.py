"""Records that a transform drops are told at the end of a run, where nobody takes them as an output."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins import ForeignKeyJoin, LatestTable, TableFromChangelog
from beam_joins.io import ReadChangelog

ROWS = [{"id": 1, "lsn": 3, "of": "a"}, {"id": 2, "lsn": None, "of": "a"}, *({"id": None, "lsn": n, "of": "a"} for n in range(4, 40))]
OWNERS = [{"id": "a", "lsn": 1}]


def told(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    """The warnings of the package."""
    return sorted(each.getMessage() for each in caplog.records if each.name == "beam_joins" and each.levelno == logging.WARNING)


def table(pipeline: Any, name: str, rows: Sequence[dict[str, Any]]) -> Any:
    return pipeline | f"{name} rows" >> beam.Create(rows), name >> TableFromChangelog(key="id", sequence_by="lsn")


def test_each_transform_tells_once_how_many_records_it_has_dropped_and_why(
    direct: Callable[[], beam.Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    with direct() as pipeline:
        rows, orders = table(pipeline, "orders", [*ROWS, {"id": 5, "lsn": 50, "of": None}])
        owners, made = table(pipeline, "owners", OWNERS)
        _ = (rows | orders, owners | made) | ForeignKeyJoin(lambda order, owner: order["id"], foreign_key="of") | LatestTable()
    assert told(caplog) == [
        "ForeignKeyJoin has dropped 1 record (null_foreign_key 1): with_outputs() gives them as outputs",
        "orders has dropped 37 records (null_key 36, null_sequence 1): with_outputs() gives them as outputs",
    ]


def test_records_that_are_taken_as_an_output_are_not_told(
    direct: Callable[[], beam.Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    with direct() as pipeline:
        rows, orders = table(pipeline, "orders", ROWS)
        _ = rows | orders.with_outputs()
        others, more = table(pipeline, "orders more", OWNERS)
        _ = others | more
    assert told(caplog) == []


def test_a_reader_tells_its_bad_records_and_those_that_its_table_drops_as_one(
    direct: Callable[[], beam.Pipeline], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,n,lsn\n1,5,1\n2,five,2\n,6,3\n")
    schema = pa.schema({"id": pa.int64(), "n": pa.int64(), "lsn": pa.int64()})
    read = ReadChangelog(str(tmp_path / "a.csv"), key="id", sequence_by="lsn", schema=schema, on_bad_record="drop")
    with direct() as pipeline:
        _ = pipeline | "taken" >> read.with_outputs()
    assert told(caplog) == []
    with direct() as pipeline:
        _ = pipeline | "orders" >> read
    assert told(caplog) == ["orders has dropped 2 records (bad_record 1, null_key 1): with_outputs() gives them as outputs"]


def test_each_run_of_a_pipeline_tells_its_own(direct: Callable[[], beam.Pipeline], caplog: pytest.LogCaptureFixture) -> None:
    pipeline = direct()
    rows, orders = table(pipeline, "orders", ROWS[:2])
    _ = rows | orders
    for _ in range(2):
        pipeline.run().wait_until_finish()
    assert told(caplog) == ["orders has dropped 1 record (null_sequence 1): with_outputs() gives them as outputs"] * 2
