"""A number that a double does not hold has the same value from every reader of JSON, with a schema and
without.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins import LatestTable
from beam_joins.io import ReadChangeEvents, ReadGrowingFiles
from beam_joins.pipelines.commands.programs import main
from beam_joins.pipelines.systems.kafka.kafka_records import Records
from tests.pipelines.streaming.registered import Message
from tests.transforms.unbounded_runs import _collect, _given

NUMBERS = ["9007199254740993.25", "123456789012345678.5", "0.1", "18446744073709551617"]
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.decimal128(38, 2)), ("at", pa.int64())])


def line(number: str, **others: Any) -> str:
    return "".join(json.dumps({"id": 1, "at": 5, **others})[:-1] + f', "n": {number}}}\n')


def rows_read(read: Any) -> list[Any]:
    """The rows that a reader gives."""
    _given.clear()
    with beam.Pipeline() as pipeline:
        _ = read(pipeline) | beam.Map(_collect)
    return [element for element, _ in _given]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_the_same_from_a_growing_file_a_topic_a_log_and_a_command(number: str, tmp_path: Path) -> None:
    exact = Decimal(number)
    file, log, latest = tmp_path / "rows.jsonl", tmp_path / "log.jsonl", tmp_path / "now.jsonl"
    file.write_text(line(number))
    event = line(number)[:-1]
    log.write_text(f'{{"op": "c", "before": null, "after": {event}, "source": {{"ts_ms": 5, "lsn": 1}}, "ts_ms": 5}}\n')

    (row,) = rows_read(lambda p: p | ReadGrowingFiles(str(file), timestamp_by="at", follow=False))
    ((_, of_table),) = rows_read(lambda p: p | ReadChangeEvents(str(log), format="debezium", key="id") | LatestTable())
    (of_topic,) = Records.of("json", None, None, None).piece(0, [Message(line(number).encode())]).elements
    assert main(["table", "--input", str(log), "--format", "debezium", "--key", "id", "--latest", str(latest)]) == 0
    assert f'"n":{number}' in latest.read_text().replace(" ", "")
    for actual in (row["n"], of_table["n"], of_topic.value[1]["n"]):
        assert Decimal(repr(actual) if isinstance(actual, float) else actual) == exact


@pytest.mark.parametrize("number", ["9007199254740993.25", "123456789012345678.5"])
def test_a_column_of_decimals_has_all_digits_from_a_growing_file_a_topic_and_a_log(number: str, tmp_path: Path) -> None:
    file, log = tmp_path / "rows.jsonl", tmp_path / "log.jsonl"
    file.write_text(line(number))
    log.write_text(f'{{"op": "c", "before": null, "after": {line(number)[:-1]}, "source": {{"ts_ms": 5, "lsn": 1}}, "ts_ms": 5}}\n')
    (batch,) = rows_read(lambda p: p | ReadGrowingFiles(str(file), timestamp_by="at", follow=False, schema=SCHEMA))
    (of_topic,) = Records.of("json", "at", SCHEMA, None).piece(0, [Message(line(number).encode())]).elements
    (of_log,) = rows_read(lambda p: p | ReadChangeEvents(str(log), format="debezium", key="id", schema=SCHEMA) | LatestTable())
    for actual in (batch, of_topic.value):
        assert actual["n"].to_pylist() == [Decimal(number)]
    assert of_log["value"][0].as_py()["n"] == Decimal(number)
