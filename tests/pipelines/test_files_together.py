"""The files of one changelog agree on what their columns are, in one run and in incremental runs."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import LatestTable
from beam_joins.io import ReadChangelog
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.types.typed_texts import typed
from tests.pipelines.orders_run import Run, read_lines

AT = 1_772_352_000
ZIPS = (
    "id,zip,lsn,op,updated_at\n1,02116,1,c,2026-03-01T08:00:00Z\n2,10001,2,c,2026-03-01T08:00:00Z\n",
    "id,zip,lsn,op,updated_at\n1,90210,3,u,2026-03-01T08:00:00Z\n",
)
_rows: list[Any] = []


def _see(row: Any) -> None:
    _rows.append(row)


def zips_by_library(pattern: str, *flags: str) -> dict[Any, str]:
    _rows.clear()
    with beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([*flags])) as p:
        read = p | ReadChangelog(pattern, key="zip", sequence_by="lsn", timestamp_by="lsn", except_columns=["op", "updated_at"])
        _ = read | LatestTable() | beam.Map(_see)
    return {key: row["id"] for key, row in _rows}


def table_of(beam_joins: Run, contents: Sequence[str], *options: str, runs: bool) -> Any:
    """The last run of ``table`` over these files, one a run or all in one."""
    Path("in").mkdir()
    for n, content in enumerate(contents):
        Path(f"in/{n}.csv").write_text(content)
        if runs or n == len(contents) - 1:
            ran = beam_joins("table", "--input", "in", "--state-dir", "state", *options, "--latest", "now.jsonl")
    return ran


@pytest.mark.parametrize(("contents", "runs"), [(ZIPS, False), (ZIPS[::-1], False), (ZIPS, True)])
def test_a_column_of_csv_is_text_in_all_files_where_it_is_in_one(beam_joins: Run, contents: Sequence[str], runs: bool) -> None:
    ran = table_of(beam_joins, contents, runs=runs)
    assert ran.code == 0, ran.err
    assert sorted(row["zip"] for row in read_lines(Path("now.jsonl"))) == ["10001", "90210"]


def test_text_in_a_column_that_had_numbers_in_the_first_run_is_refused_with_the_option(beam_joins: Run) -> None:
    ran = table_of(beam_joins, ZIPS[::-1], runs=True)
    assert ran.code == 2
    assert "column 'zip' is '02116', which may be no number" in ran.err
    assert "say from the first run on what it is, with --schema-overrides (zip:string or zip:int64)" in ran.err


def test_the_library_reads_it_so_in_one_run_and_in_runs_that_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for n, content in enumerate(
        ("zip,id,lsn,op,updated_at\n02116,1,1,c,1\n10001,2,2,c,1\n", "zip,id,lsn,op,updated_at\n10001,3,3,u,1\n")
    ):
        Path(f"{n}.csv").write_text(content)
    expected = {"02116": 1, "10001": 3}
    assert zips_by_library("?.csv") == expected
    assert zips_by_library("0.csv", "--beam_joins_state=state") == {"02116": 1, "10001": 2}
    assert zips_by_library("1.csv", "--beam_joins_state=state") == expected


def test_a_column_without_values_in_the_first_run_has_the_type_of_its_values_in_the_next(beam_joins: Run) -> None:
    header = "id,v,lsn,op,updated_at\n"
    contents = [f"{header}{line},2026-03-01T08:00:00Z\n" for line in ("1,,1,c", "7,5,2,c")]
    ran = table_of(beam_joins, contents, runs=True)
    assert ran.code == 0, ran.err
    assert sorted((row["id"], row["v"]) for row in read_lines(Path("now.jsonl"))) == [(1, None), (7, 5)]


def rows(**columns: Any) -> pa.Table:
    return pa.table({"id": [1], "op": ["u"], "lsn": [1], "updated_at": pa.array([AT * 10**6], pa.timestamp("us", "UTC")), **columns})


TIMES, NUMBERS = pa.array([AT * 1_000], pa.timestamp("ms")), pa.array([AT * 1_000 + 5_000])
MIXED: dict[str, tuple[list[Callable[[Path], None]], Sequence[str]]] = {
    "a sequence, in Parquet": (
        [
            lambda path: pq.write_table(rows(at=TIMES), path / "0.parquet"),
            lambda path: pq.write_table(rows(at=NUMBERS), path / "1.parquet"),
        ],
        ("--sequence-by", "at"),
    ),
    "a sequence, in Parquet and JSON lines": (
        [
            lambda path: pq.write_table(rows(at=TIMES), path / "0.parquet"),
            lambda path: (
                (path / "1.jsonl").write_text(json.dumps({"id": 1, "op": "u", "lsn": 1, "updated_at": AT, "at": AT}) + "\n") and None
            ),
        ],
        ("--sequence-by", "lsn,at"),
    ),
    "a value": (
        [
            lambda path: pq.write_table(rows(at=TIMES), path / "0.parquet"),
            lambda path: pq.write_table(rows(at=NUMBERS), path / "1.parquet"),
        ],
        (),
    ),
}


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("case", MIXED)
def test_times_in_one_file_and_numbers_in_another_are_refused(beam_joins: Run, case: str, runs: int) -> None:
    files, options = MIXED[case]
    Path("in").mkdir()
    for n, write in enumerate(files, 1):
        write(Path("in"))
        if n in (runs - 1, len(files)):
            ran = beam_joins("table", "--input", "in", "--state-dir", "state", *options, "--latest", "now.jsonl")
    assert ran.code == 2
    assert "column 'at' holds" in ran.err
    assert "write them as one, since nothing says what the numbers count" in ran.err


def test_nanoseconds_that_order_the_changes_are_refused_where_the_event_time_does(beam_joins: Run) -> None:
    at = pa.array([AT * 10**9 + 2, AT * 10**9 + 1], pa.timestamp("ns"))
    pq.write_table(pa.table({"id": [1, 1], "v": ["newer", "older"], "op": ["u", "u"], "at": at}), "ns.parquet")
    ran = beam_joins("table", "--input", "ns.parquet", "--sequence-by=", "--timestamp-by", "at", "--latest", "now.jsonl")
    assert ran.code == 2
    assert "column 'at' has nanoseconds, which microseconds do not order: name a column with whole numbers" in ran.err
    for unit, value in (("ns", 1_001), ("us", "1970-01-01T00:00:00.0000010010")):
        columns = Columns(key=("id",), timestamp="at", unit=unit)  # type: ignore[arg-type]
        assert "has nanoseconds" in (columns.fault({"id": 1, "at": value}) or "")
        assert columns.fault({"id": 1, "at": 2_000 if unit == "ns" else "1970-01-01T00:00:00.0000010000"}) is None


def test_a_float_that_is_a_whole_number_is_the_key(beam_joins: Run) -> None:
    left = pa.table({"id": [1, 2], "op": ["c"] * 2, "lsn": [1, 2], "updated_at": [AT] * 2, "customer": pa.array([5.0, None])})
    pq.write_table(left, "left.parquet")
    Path("right.csv").write_text("id,op,lsn,updated_at,name\n5,c,3,1772352000,Ann\n")
    for suffix in ("parquet", "csv"):
        Path("left.csv").write_text("id,op,lsn,updated_at,customer\n1,c,1,1772352000,5.0\n2,c,2,1772352000,\n")
        files = (
            "--left",
            f"left.{suffix}",
            "--right",
            "right.csv",
            "--left-key",
            "id",
            "--foreign-key",
            "customer",
            "--right-key",
            "id",
        )
        ran = beam_joins("join", *files, "--how", "left", "--latest", "now.jsonl")
        assert ran.code == 0, ran.err
        assert sorted((row["left_id"], row["name"]) for row in read_lines(Path("now.jsonl"))) == [(1, "Ann"), (2, None)]


def test_keys_of_times_never_meet_keys_of_numbers(beam_joins: Run) -> None:
    for side, at in (("left", TIMES), ("right", NUMBERS)):
        pq.write_table(rows(at=at), f"{side}.parquet")
    ran = beam_joins(
        "join", "--left", "left.parquet", "--right", "right.parquet", "--left-key", "at", "--right-key", "at", "--latest", "now.jsonl"
    )
    assert ran.code == 2
    assert "column 'at' holds times and the right rows' column 'at' whole numbers" in ran.err


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.float64(), 2**53 + 1), (pa.float64(), 12345678901234567890123), (pa.float32(), 2**24 + 1)]
)
def test_a_whole_number_that_a_column_of_floats_does_not_hold_is_refused(kind: pa.DataType, value: int) -> None:
    schema = pa.schema([("v", kind)])
    with pytest.raises(ValueError, match=f"column 'v' .* it does not hold all digits of {value}"):
        typed([b'{"v":0.5}', b'{"v":%d}' % value], schema)
    assert typed([b'{"v":0.5}', b'{"v":%d}' % 2**60], schema)["v"].to_pylist() == [0.5, 2.0**60]


def test_a_suffix_in_capitals_is_one(beam_joins: Run) -> None:
    Path("in").mkdir()
    for name, content in zip(("a.csv", "B.CSV"), ZIPS, strict=True):
        Path("in", name).write_text(content)
    ran = beam_joins("table", "--input", "in", "--state-dir", "state", "--latest", "now.jsonl")
    assert ran.code == 0, ran.err
    assert len(read_lines(Path("now.jsonl"))) == 2
    assert {row["zip"] for row in read_lines(Path("now.jsonl"))} == {"10001", "90210"}
