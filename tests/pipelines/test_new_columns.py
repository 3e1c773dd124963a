"""Files of a later run have other columns than those before: results get the new ones, and no history is read again."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_joins.pipelines.systems.write_duck_lake import load
from tests.pipelines.orders_run import Run

Rows = Sequence[Mapping[str, Any]]
ABOUT = ("op", "lsn", "updated_at")
DAYS: list[tuple[Rows, Rows]] = [
    (
        [{"id": 1, "by": 7, "amount": 5, "lsn": 1}, {"id": 2, "by": 8, "amount": 6, "lsn": 2}],
        [{"id": 7, "name": "Ann", "lsn": 3}],
    ),
    (
        [{"id": 1, "by": 7, "note": "hi", "name": "box", "amount": 9, "lsn": 11}],
        [{"id": 8, "city": "Rome", "name": "Bob", "lsn": 12}],
    ),
    (
        [{"id": 3, "by": 7, "amount": 4, "lsn": 21}],
        [{"id": 7, "name": "Anna", "lsn": 22}],
    ),
]
"""The rows of both sides in each of three days; those of the second have more columns, one with a name of the other side."""
LATEST = {
    1: {"left_id": 1, "by": 7, "amount": 9, "note": "hi", "left_name": "box", "right_id": 7, "name": "Anna", "city": None},
    2: {"left_id": 2, "by": 8, "amount": 6, "note": None, "left_name": None, "right_id": 8, "name": "Bob", "city": "Rome"},
    3: {"left_id": 3, "by": 7, "amount": 4, "note": None, "left_name": None, "right_id": 7, "name": "Anna", "city": None},
}


def _parquet(path: Path, rows: Rows) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows)), path.with_suffix(".parquet"))


def _lines(path: Path, rows: Rows) -> None:
    path.with_suffix(".jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _csv(path: Path, rows: Rows) -> None:
    with path.with_suffix(".csv").open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _avro(path: Path, rows: Rows) -> None:
    fields = [{"name": name, "type": "string" if isinstance(value, str) else "long"} for name, value in rows[0].items()]
    with path.with_suffix(".avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, rows)


FORMATS: dict[str, Callable[[Path, Rows], None]] = {"parquet": _parquet, "jsonl": _lines, "csv": _csv, "avro": _avro}


def arrive(day: int, format_: str) -> None:
    """Write the files of a day into the folders ``left`` and ``right``."""
    for side, rows in zip(("left", "right"), DAYS[day], strict=True):
        Path(side).mkdir(exist_ok=True)
        FORMATS[format_](Path(side, f"{day}"), [{**row, "op": "c", "updated_at": row["lsn"]} for row in rows])


def join(beam_joins: Run, *places: str) -> str:
    ran = beam_joins("join", "--left", "left", "--right", "right", "--foreign-key", "by", "--state-dir", "state", *places)
    assert ran.code == 0, ran.err
    return ran.out


def rows_of(path: str) -> list[dict[str, Any]]:
    of_lines = map(json.loads, Path(path).read_text().splitlines()) if path.endswith(".jsonl") else ()
    rows = pq.read_table(path).to_pylist() if path.endswith(".parquet") else of_lines
    return [{name: value for name, value in row.items() if not name.endswith("updated_at")} for row in rows]


def whole(rows: Rows) -> dict[int, dict[str, Any]]:
    """The rows by their keys, with null for a column that the JSON of a row does not have."""
    return {row["left_id"]: dict.fromkeys(LATEST[1]) | row for row in rows}


@pytest.mark.slow
@pytest.mark.each_value
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("format_", FORMATS)
def test_the_rows_after_three_days_have_the_columns_of_all_days(beam_joins: Run, format_: str, suffix: str) -> None:
    said = []
    for day in range(3):
        arrive(day, format_)
        said.append(join(beam_joins, "--changes", f"out/*.{suffix}", "--latest", f"latest.{suffix}"))
    assert whole(rows_of(f"latest.{suffix}")) == LATEST
    assert ["new column note of left rows: rows of the runs before do not have it" in text for text in said] == [False, True, False]
    assert ["the new left rows have no column note: it is null in them" in text for text in said] == [False, False, True]


@pytest.mark.slow
@pytest.mark.each_value
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("format_", FORMATS)
def test_the_files_of_all_days_are_read_in_one_run_also_where_both_sides_are_read_again(
    beam_joins: Run, format_: str, suffix: str
) -> None:
    for day in range(3):
        arrive(day, format_)
    places = ["--changes", f"out/*.{suffix}", "--latest", f"latest.{suffix}"]
    for again in ([], ["--read-again", "left", "--read-again", "right"]):
        join(beam_joins, *places, *again)
        # both sides have the column from the first run on
        rows = [{"name" if name == "right_name" else name: row[name] for name in row} for row in rows_of(f"latest.{suffix}")]
        assert whole(rows) == LATEST


@pytest.mark.slow
def test_changes_have_old_rows_with_the_columns_that_they_had(beam_joins: Run) -> None:
    for day in range(3):
        arrive(day, "parquet")
        join(beam_joins, "--changes", "out/*.parquet")
    (of_first,) = [row for row in rows_of("out/000002.parquet") if row["key"] == 1]
    assert (of_first["old"]["amount"], of_first["old"]["note"], of_first["new"]["note"]) == (5, None, "hi")
    assert (of_first["old"]["name"], of_first["new"]["left_name"]) == ("Ann", "box")


@pytest.mark.slow
@pytest.mark.parametrize("to", ["delta:lake", "ducklake:c.ducklake?table=orders"])
def test_a_table_elsewhere_gets_the_new_columns(beam_joins: Run, to: str) -> None:
    for day in range(3):
        arrive(day, "parquet")
        join(beam_joins, "--to", to)
    if to.startswith("delta"):
        rows = deltalake.DeltaTable("lake").to_pyarrow_table().to_pylist()
    else:
        with duckdb.connect() as connection:
            load(connection)
            connection.execute("ATTACH 'ducklake:c.ducklake' AS lake")
            rows = connection.sql("FROM lake.orders").to_arrow_table().to_pylist()
    assert {row["left_id"]: {name: row[name] for name in LATEST[1]} for row in rows} == LATEST


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    after = {name: value for name, value in row.items() if name not in ABOUT}
    return {"before": None, "after": after, "op": "c", "source": {"lsn": row["lsn"], "ts_ms": row["lsn"]}, "ts_ms": row["lsn"]}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_events_of_a_table_that_got_a_column_give_rows_with_it(beam_joins: Run, suffix: str) -> None:
    envelopes = [each for side in ("left", "right") for each in (f"--{side}-format", "debezium", f"--{side}-key", "id")]
    for day in range(3):
        for side, rows in zip(("left", "right"), DAYS[day], strict=True):
            Path(side).mkdir(exist_ok=True)
            _lines(Path(side, f"{day}"), list(map(_event, rows)))
        join(beam_joins, *envelopes, "--changes", f"out/*.{suffix}", "--latest", f"latest.{suffix}")
    assert whole(rows_of(f"latest.{suffix}")) == LATEST


@pytest.mark.slow
def test_a_number_that_gets_wider_stays_a_number(beam_joins: Run) -> None:
    for number, (kind, amount) in enumerate([(pa.int32(), 5), (pa.int64(), 5 << 40)], 1):
        Path("rows").mkdir(exist_ok=True)
        rows = pa.table({"id": [number], "amount": pa.array([amount], kind), "op": ["c"], "lsn": [number], "updated_at": [number]})
        pq.write_table(rows, f"rows/{number}.parquet")
        ran = beam_joins("table", "--input", "rows", "--state-dir", "state", "--changes", "out/*.jsonl", "--latest", "latest.parquet")
        assert ran.code == 0, ran.err
    latest = pq.read_table("latest.parquet")
    assert latest.schema.field("amount").type == pa.int64()
    assert sorted(latest["amount"].to_pylist()) == [5, 5 << 40]
