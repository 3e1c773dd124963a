"""A time is the instant that DuckDB reads, in every format and unit: as event time, position, value and key."""

import datetime as dt
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from beam_joins.io import ReadChangelog
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.changelogs.read_records import ReadParts
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.read_plan import ReadPlan
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Run, read_lines, write

COLUMNS = Columns(key=("id",), timestamp="at", sequence="position")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST, LAST = (int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) for year in (1, 9999))
FIRST_NS, LAST_NS = (int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) for year in (1678, 2262))
KINDS = [*(pa.timestamp(unit, zone) for unit in PER_SECOND for zone in (None, "UTC", "Europe/Vienna")), pa.date32(), pa.date64()]
"""Arrow's types of instants and days."""
NOT_OF_AVRO = [kind for kind in KINDS if pa.types.is_timestamp(kind) and kind.unit == "s"]
Rows = dict[int, tuple[int, int, int | str]]


def table_of(kind: pa.DataType, first_id: int = 0) -> pa.Table:
    """Rows with times of a type, drawn by its name, in three columns; those of nanoseconds are of whole microseconds."""
    draw = random.Random(str(kind))
    if pa.types.is_date(kind):
        days = pa.array([draw.randrange(FIRST // 86_400, LAST // 86_400) for _ in range(50)], pa.int32())
        times = days.cast(pa.date32()).cast(kind)
    else:
        low, high = (FIRST_NS, LAST_NS) if kind.unit == "ns" else (FIRST, LAST)
        step = min(PER_SECOND[kind.unit], 10**6)
        numbers = [draw.randrange(low * step, high * step) * (PER_SECOND[kind.unit] // step) for _ in range(50)]
        times = pa.array(numbers, pa.int64()).cast(kind)
    return pa.table({"id": pa.array(range(first_id, first_id + 50)), "at": times, "position": times, "value": times})


def records(pattern: Path, columns: Columns = COLUMNS, key: str = "whole numbers") -> list[dict[str, Any]]:
    changelog = find_changelog("rows", str(pattern), columns)
    reader = ReadParts("rows", ColumnReader(ReadPlan(columns=columns, key=(key,))), "fail")
    reader.start_bundle()
    return [row for part in changelog.parts() for batch in reader.process(part) for row in batch.to_pylist()]


def read(pattern: Path) -> Rows:
    """By key the event time, the position and the value of each row."""
    return {row["(key)"]: (row["(time)"], row["(position)"], json.loads(row["json lines"])["value"]) for row in records(pattern)}


def read_by_duckdb(pattern: Path, kind: pa.DataType) -> Rows:
    is_date, is_zoned = pa.types.is_date(kind), pa.types.is_timestamp(kind) and kind.tz is not None
    at, position, instant = (f'epoch_us("{name}"{"::TIMESTAMPTZ" if is_zoned else ""})' for name in ("at", "position", "value"))
    value = "strftime(value, '%Y-%m-%d')" if is_date else instant
    with duckdb.connect() as connection:  # The module's connection remembers the file that had this path before.
        rows = connection.sql(f"SELECT id, {at}, {position}, {value} FROM read_parquet('{pattern}')").fetchall()
    return {key: (at, position, value) for key, at, position, value in rows}


def write_avro(table: pa.Table, path: Path) -> None:
    kind = table.schema.field("at").type
    if pa.types.is_date(kind):
        stored = {"type": "int", "logicalType": "date"}
    else:
        unit = {"ms": "millis", "us": "micros", "ns": "nanos"}[kind.unit]
        stored = {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-{unit}"}
    names = ("at", "position", "value")
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, *({"name": n, "type": stored} for n in names)]}
    numbers = table
    for n, name in enumerate(names, 1):
        column = table[name].cast(pa.date32()).cast(pa.int32()) if pa.types.is_date(kind) else table[name].cast(pa.int64())
        numbers = numbers.set_column(n, name, column)
    with path.open("wb") as file:
        fastavro.writer(file, schema, numbers.to_pylist())


def write_texts(table: pa.Table, path: Path) -> None:
    """ISO 8601."""
    kind = table.schema.field("at").type
    for n, name in enumerate(("at", "position", "value"), 1):
        column = table[name].cast(pa.date32() if pa.types.is_date(kind) else pa.timestamp(kind.unit)).cast(pa.string())
        table = table.set_column(n, name, pa.compute.replace_substring(column, " ", "T"))
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": pq.write_table,
    "arrow": lambda table, path: feather.write_feather(table, str(path)),
    "avro": write_avro,
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_times_of_each_type_are_the_instants_that_duckdb_reads(tmp_path: Path, kind: pa.DataType) -> None:
    table = table_of(kind)
    pq.write_table(table, tmp_path / "a.parquet")
    expected = read_by_duckdb(tmp_path / "a.parquet", kind)
    assert len(expected) == len(table)
    for suffix, written in WRITERS.items():
        if suffix == "avro" and kind in NOT_OF_AVRO:
            continue
        written(table, tmp_path / f"b.{suffix}")
        assert read(tmp_path / f"b.{suffix}") == expected, suffix
        changelog = find_changelog("rows", str(tmp_path / f"b.{suffix}"), replace(COLUMNS, key=("value",)))
        keys = records(tmp_path / f"b.{suffix}", replace(COLUMNS, key=("value",)), changelog.kind_of("value") or "")
        assert sorted(row["(key)"] for row in keys) == sorted(value for _, _, value in expected.values()), suffix


def test_times_of_96_bits_are_the_instants_that_duckdb_reads(tmp_path: Path) -> None:
    pq.write_table(table_of(pa.timestamp("ns")), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert read(tmp_path / "a.parquet") == read_by_duckdb(tmp_path / "a.parquet", pa.timestamp("ns"))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_texts_of_times_are_the_same_event_times(tmp_path: Path, suffix: str) -> None:
    for kind in (pa.timestamp("s"), pa.timestamp("us"), pa.date32()):
        table = table_of(kind).drop_columns("position")
        pq.write_table(table.append_column("position", table["at"]), tmp_path / "a.parquet")
        expected = read_by_duckdb(tmp_path / "a.parquet", kind)
        write_texts(table_of(kind), tmp_path / f"a.{suffix}")
        rows = records(tmp_path / f"a.{suffix}", Columns(key=("id",), timestamp="at"))
        assert {row["(key)"]: row["(time)"] for row in rows} == {key: at for key, (at, *_) in expected.items()}, kind


def test_files_of_one_input_may_have_other_units(tmp_path: Path) -> None:
    units = ("s", "ms", "us", "ns")
    for n, unit in enumerate(units):
        pq.write_table(table_of(pa.timestamp(unit), 50 * n), tmp_path / f"{n}.parquet")
    expected = {key: row for n in range(4) for key, row in read_by_duckdb(tmp_path / f"{n}.parquet", pa.timestamp(units[n])).items()}
    assert len(expected) == 200
    assert read(tmp_path / "*.parquet") == expected


AHEAD = [
    {"id": 1, "at": "2026-11-01T00:00:00Z"},
    {"id": 2, "at": "2999-01-01T00:00:00Z"},
    {"id": 3, "at": "2999-01-02T00:00:00Z"},
    {"id": 4, "at": "2026-11-02"},
]
"""Records of which two are of the far future."""


@pytest.mark.parametrize("options", [[], ["--sequence-by=id"]])
@pytest.mark.parametrize("rows", [AHEAD, [*AHEAD, {"id": 5, "at": 1}]], ids=["many at a time", "one by one"])
def test_records_of_the_far_future_are_named_and_refused_if_that_is_asked(
    beam_joins: Run, rows: list[Row], options: list[str]
) -> None:
    write("a.jsonl", *rows)
    plain = ["table", "--input=a.jsonl", "--timestamp-by=at", *(options or ["--sequence-by="]), "--apply-as-deletes="]
    job = [*plain, "--latest=out.jsonl"]
    ran = beam_joins(*job)
    assert "2 records of the rows are a day or more ahead of the clock (a.jsonl, line 3: 2999-01-02T00:00:00Z, " in ran.out
    assert "days ahead): in incremental runs those before are late; --max-ahead refuses such records" in ran.out
    assert len(read_lines(Path("out.jsonl"))) == len(rows)
    refused = beam_joins(*job, "--max-ahead=12h")
    assert refused.code == 2
    assert "a.jsonl, line 2: column 'at' is 2999-01-01T00:00:00Z, ahead of the clock: --max-ahead says at most 20" in refused.err
    dropped = beam_joins(*job, "--max-ahead=12h", "--on-bad-record=drop")
    assert "ahead of the clock (" not in dropped.out
    assert {row["id"] for row in read_lines(Path("out.jsonl"))} == {row["id"] for row in rows} - {2, 3}
    assert "ahead" not in beam_joins(*job, "--max-ahead=500000d").out


def test_the_most_that_a_time_may_be_ahead_is_checked_and_no_part_of_a_state(beam_joins: Run) -> None:
    with pytest.raises(ValueError, match="max_ahead=-1 is negative: give a span of time of 0 or more"):
        ReadChangelog("a.jsonl", key="id", timestamp_by="at", max_ahead=-1)
    with pytest.raises(ValueError, match="max_ahead= needs timestamp_by=: records without a time are not ahead"):
        ReadChangelog("a.jsonl", key="id", max_ahead=1)
    job = ["table", "--input=[abc].jsonl", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes=", "--latest=out.jsonl"]
    for name, row, more in (("a", AHEAD[0], []), ("b", AHEAD[3], ["--max-ahead=1d"]), ("c", AHEAD[1], ["--max-ahead=2d"])):
        write(f"{name}.jsonl", row)
        ran = beam_joins(*job, "--state-dir=state", *more)
        assert ran.code == (2 if name == "c" else 0), ran.err
    assert "--max-ahead: '1 day' is not a time: give a number with ms, s, m, h or d" in beam_joins(*job, "--max-ahead=1 day").err
