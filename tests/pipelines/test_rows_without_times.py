"""Rows without a time: all at one position, where the last one of a key counts, and no result has a time that nobody gave."""

import itertools
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import apache_beam as beam
import deltalake
import fastavro
import msgspec
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from beam_joins import Change, ForeignKeyJoin, InputError, LatestTable, StreamTableJoin, TableTableJoin, TableToChanges
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.io import ReadChangeEvents, ReadChangelog, ReadGrowingChangelog, WriteChangelog
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.output_records import As
from tests.pipelines.join_run import refused
from tests.pipelines.orders_run import Run
from tests.pipelines.test_formats_of_results import READERS

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "at": pa.int64(), "lsn": pa.int64()})
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "Ann", "at": 9, "lsn": 5},
    {"id": 2, "name": "Bob", "at": 3, "lsn": 4},
    {"id": 1, "name": "Anna", "at": 7, "lsn": 6},
    {"id": 2, "name": "Bob", "at": 3, "lsn": 4},
    {"id": 1, "name": "An", "at": 8, "lsn": 2},
]


def write_avro(path: Path) -> None:
    fields = [{"name": name, "type": "string" if name == "name" else "long"} for name in SCHEMA.names]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, ROWS)


def write_arrow(path: Path) -> None:
    with pa.ipc.new_file(path, SCHEMA) as file:
        file.write_table(pa.Table.from_pylist(ROWS, SCHEMA))


FORMATS: dict[str, Callable[[Path], Any]] = {
    "jsonl": lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in ROWS)),
    "csv": lambda path: path.write_text("\n".join(["id,name,at,lsn", *(",".join(map(str, row.values())) for row in ROWS)])),
    "avro": write_avro,
    "parquet": lambda path: pq.write_table(pa.Table.from_pylist(ROWS, SCHEMA), path),
    "arrow": write_arrow,
    "msgpack": lambda path: path.write_bytes(b"".join(map(msgspec.msgpack.encode, ROWS))),
}
ORDERS: list[tuple[str | None, str | None]] = [(None, None), (None, "lsn"), ("at", None), ("at", "lsn")]
NEEDED = "incremental runs need a time or a sequence, by which later rows replace earlier ones"
EXPORT = "where each file is the whole table, give --snapshots; else name a column with a time"
NO_PAIRS = [("pairs", "csv"), ("pairs", "csv.gz")]
MADE: list[Any] = []


@pytest.fixture(autouse=True)
def _(own_directory: Path) -> None:
    MADE.clear()


def expected(time: str | None, sequence: str | None) -> list[tuple[Any, ...]]:
    """The changes by the rule: by position, then by time, then in the order of the records."""

    def time_of(row: dict[str, Any]) -> int:
        return NO_TIME if time is None else int(row[time])

    def position_of(row: dict[str, Any]) -> int:
        return time_of(row) if sequence is None else int(row[sequence])

    changes = []
    for key in (1, 2):
        rows = sorted((row for row in ROWS if row["id"] == key), key=lambda row: (position_of(row), time_of(row)))
        last = {position_of(row): row for row in rows}
        for old, new in itertools.pairwise([None, *last.values()]):
            assert new is not None
            changes.append((key, old and old["name"], new["name"], time_of(new), position_of(new)))
    return sorted(changes, key=repr)


def keep(element: Any) -> None:
    MADE.append(element)


def in_python(read: Any) -> list[Change[Any, Any]]:
    MADE.clear()
    with beam.Pipeline() as pipeline:
        _ = pipeline | read | TableToChanges() | beam.Map(keep)
    return list(MADE)


@pytest.mark.parametrize(("time", "sequence"), ORDERS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("schema", [None, "declared", SCHEMA], ids=["none", "declared", "schema"])
@pytest.mark.each_value
def test_each_format_gives_the_changes_by_the_rule_to_a_python_user(
    format: str, time: str | None, sequence: str | None, schema: Any
) -> None:
    FORMATS[format](Path(f"r.{format}"))
    made = in_python(ReadChangelog(f"r.{format}", key="id", timestamp_by=time, sequence_by=sequence, schema=schema))
    names = [(each.key, each.old and each.old["name"], each.new["name"], each.timestamp, each.position) for each in made]
    assert sorted(names, key=repr) == expected(time, sequence)


@pytest.mark.parametrize(("time", "sequence"), ORDERS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.each_value
def test_each_format_gives_the_same_changes_to_a_command_whose_results_have_null_for_no_time(
    beam_joins: Run, format: str, suffix: str, time: str | None, sequence: str | None
) -> None:
    FORMATS[format](Path(f"r.{format}"))
    options = [f"--timestamp-by={time or ''}", f"--sequence-by={sequence or ''}", "--apply-as-deletes="]
    ran = beam_joins("table", "--input", f"r.{format}", *options, "--output", f"e.{suffix}", "--latest", f"l.{suffix}")
    assert ran.code == 0, ran.err
    changes = READERS[suffix](Path(f"e.{suffix}"))
    names = [(each["key"], each["old"] and each["old"]["name"], each["new"]["name"], each["position"]) for each in changes]
    rule = [(*each[:3], None if each[4] == NO_TIME else each[4]) for each in expected(time, sequence)]
    assert sorted(names, key=repr) == sorted(rule, key=repr)
    assert {each["timestamp"] is None for each in changes} == {time is None}
    assert str(NO_TIME) not in ran.out
    assert len(READERS[suffix](Path(f"l.{suffix}"))) == 2


def test_a_record_without_a_time_is_at_the_time_of_an_element_without_one() -> None:
    columns = Columns(key=("id",))
    assert columns.time_of({"id": 1}) == columns.position_of({"id": 1}) == NO_TIME == MIN_TIMESTAMP.micros
    assert (columns.fault({"id": 1}), columns.about_the_change(), columns.is_ordered) == (None, (), False)
    by_sequence = Columns(key=("id",), sequence="lsn")
    assert (by_sequence.time_of({"lsn": 7}), by_sequence.position_of({"lsn": 7}), by_sequence.is_ordered) == (NO_TIME, 7, True)
    assert by_sequence.fault({"id": 1, "lsn": "x"}) == "column 'lsn' is not a whole number: 'x'"


def test_files_are_in_the_order_of_their_paths() -> None:
    for name, rows in (("r2.csv", "2,z\n"), ("r1.csv", "1,x\n2,x\n"), ("r3.csv", "1,y\n")):
        Path(name).write_text(f"id,name\n{rows}")
    assert sorted((each.key, each.new["name"]) for each in in_python(ReadChangelog("r*.csv", key="id"))) == [(1, "y"), (2, "z")]


def test_the_last_of_a_delete_and_a_row_counts() -> None:
    Path("r.csv").write_text("id,op,name\n1,c,a\n1,d,a\n2,d,b\n2,c,b\n,c,x\n")
    read = ReadChangelog("r.csv", key="id", apply_as_deletes={"op": ["d"]}, except_columns=["op"])
    assert in_python(read) == [Change(2, None, {"id": 2, "name": "b"}, NO_TIME, NO_TIME)]


def test_what_is_dropped_is_counted(beam_joins: Run) -> None:
    Path("c.csv").write_text("Customer ID;Full Name\n0001;Ann\n0001;Ann\n0002;Bob\n0002;Rob\n;nobody\n")
    ran = beam_joins("table", "--input", "c.csv", "--key", "Customer ID", "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    assert sorted(Path("l.jsonl").read_text().splitlines()) == [
        '{"Customer ID":"0001","Full Name":"Ann"}',
        '{"Customer ID":"0002","Full Name":"Rob"}',
    ]
    reasons = re.findall(r"  rows +(\d+)  .*\((\w+)\)\n", ran.out)
    assert reasons == [("1", "ambiguous_position"), ("1", "duplicate_position"), ("1", "null_key")]
    assert (
        "  rows have no column 'updated_at' or 'lsn' or 'op': the rows have no time (--timestamp-by=), the last row of a key counts "
        "(--sequence-by=) and no row is a delete (--apply-as-deletes=)"
    ) in ran.out


ORDER_ROWS = [("1", "0001", "2026-03-01"), ("2", "0002", "2026-03-02"), ("1", "0003", "2026-03-03"), ("3", "0009", "2026-03-04")]
CUSTOMERS = "Customer ID;Full Name\n0001;Ann\n0002;Bob\n0002;Rob\n0004;Cy\n"
NAMES = {"0001": "Ann", "0002": "Rob", "0004": "Cy"}


def joined_by_hand(how: str) -> list[tuple[str | None, str | None]]:
    """The final orders, as they refer, with the names; customers are there before all orders."""
    refers = {order: customer for order, customer, _ in ORDER_ROWS}
    found = [(order, NAMES.get(customer)) for order, customer in refers.items()]
    matched = [pair for pair in found if pair[1] is not None]
    alone: list[tuple[str | None, str | None]] = [(None, name) for key, name in NAMES.items() if key not in refers.values()]
    return {
        "inner": matched,
        "left": found,
        "right": [*matched, *alone],
        "outer": [*found, *alone],
        "semi": [(order, None) for order, _ in matched],
        "anti": [(order, None) for order, name in found if name is None],
    }[how]


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer", "semi", "anti"])
@pytest.mark.parametrize("by", ["time", "sequence", "nothing"])
@pytest.mark.each_value
def test_rows_without_a_time_are_there_before_all_others(beam_joins: Run, how: str, by: str) -> None:
    third = {"time": "Last Modified", "sequence": "lsn", "nothing": "n"}[by]
    of = {"time": lambda day: day, "sequence": lambda day: day[-2:], "nothing": lambda day: "1"}[by]
    lines = [f"{order},{customer},{of(day)}" for order, customer, day in ORDER_ROWS]
    Path("o.csv").write_text("\n".join([f"Order No,Customer ID,{third}", *lines]))
    Path("c.csv").write_text(CUSTOMERS)
    ran = beam_joins(
        *("join", "--how", how, "--left", "o.csv", "--left-key", "Order No", "--left-apply-as-deletes="),
        *(["--left-timestamp-by=Last Modified"] if by == "time" else []),
        *(
            "--right",
            "c.csv",
            "--right-key",
            "Customer ID",
            "--foreign-key",
            "Customer ID",
            "--output",
            "e.jsonl",
            "--latest",
            "l.jsonl",
        ),
    )
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in Path("l.jsonl").read_text().splitlines()]
    actual = [(row["Order No"] and str(row["Order No"]), row.get("Full Name")) for row in rows]
    assert sorted(actual, key=repr) == sorted(joined_by_hand(how), key=repr)
    changes = [json.loads(line) for line in Path("e.jsonl").read_text().splitlines()]
    assert str(NO_TIME) not in Path("e.jsonl").read_text()
    positions = [each["position"] is not None for each in changes]
    assert positions == sorted(positions), "without a position before all others"
    for each in changes:
        is_alone = each["key"] and isinstance(each["key"], dict) and each["key"]["primary_key"] is None and each["op"] == "insert"
        has_time = by == "time" and not (is_alone and each["position"] is None)
        assert (each["timestamp"] is not None) == has_time, each


def test_rows_that_a_sequence_orders_join_rows_that_nothing_orders_in_python() -> None:
    FORMATS["parquet"](Path("o.parquet"))
    Path("c.csv").write_text("id,city\n1,Rome\n2,Oslo\n")
    with beam.Pipeline() as pipeline:
        orders = pipeline | "o" >> ReadChangelog("o.parquet", key="id", sequence_by="lsn")
        cities = pipeline | "c" >> ReadChangelog("c.csv", key="id")
        joined = (orders, cities) | TableTableJoin(lambda left, right: (left["name"], right["city"]))
        again = (joined, cities) | ForeignKeyJoin(lambda left, right: (*left, right["city"]), foreign_key=lambda *_: 1)
        stream = pipeline | beam.Create([(1, "x")])
        looked_up = (stream, cities) | StreamTableJoin(lambda value, row: (value, row["city"]))
        changes = joined | "joined" >> TableToChanges(), again | "again" >> TableToChanges()
        _ = (*changes, looked_up) | beam.Flatten() | beam.Map(keep)
    names = [(1, None, "An", 2), (1, "An", "Ann", 5), (1, "Ann", "Anna", 6), (2, None, "Bob", 4)]
    rows = {1: ("Rome",), 2: ("Oslo",)}
    expected_changes = [
        Change(key, old and (old, *rows[key], *more), (new, *rows[key], *more), NO_TIME, position)
        for key, old, new, position in names
        for more in ((), ("Rome",))
    ]
    assert sorted(map(repr, MADE)) == sorted(map(repr, [(1, ("x", "Rome")), *expected_changes]))


@pytest.mark.parametrize(("records", "format"), [each for each in itertools.product(get_args(As), READERS) if each not in NO_PAIRS])
def test_no_record_of_a_writer_has_a_time_that_nobody_gave(records: Any, format: str) -> None:
    FORMATS["jsonl"](Path("r.jsonl"))
    with beam.Pipeline() as pipeline:
        table = pipeline | ReadChangelog("r.jsonl", key="id", schema=SCHEMA, except_columns=["at", "lsn"])
        _ = table | WriteChangelog(f"w.{format}", records=records, key="id")
    written = READERS[format](Path(f"w.{format}"))
    rows = [each.get("payload", each) for each in written]
    assert len(rows) == 2
    for row in rows:
        assert (row.get("timestamp"), row.get("ts_ms")) == (None, None)
        if records == "pairs":
            assert (row["source"]["ts_ms"], row["source"]["ts_us"], row["source"]["lsn"]) == (None, None, NO_TIME)
        elif records != "rows":
            assert row["position"] == (None if records == "changes" else NO_TIME)


@pytest.mark.parametrize("format", ["jsonl", "avro", "parquet", "arrow"])
def test_what_is_written_makes_the_same_table_when_it_is_read_again(format: str) -> None:
    FORMATS["jsonl"](Path("r.jsonl"))
    with beam.Pipeline() as pipeline:
        table = pipeline | ReadChangelog("r.jsonl", key="id", schema=SCHEMA, except_columns=["at", "lsn"])
        _ = table | "pairs" >> WriteChangelog(f"p.{format}", records="pairs", key="id", table="t")
        _ = table | "upserts" >> WriteChangelog(f"u.{format}", key="id")
    rows = [Change(key, None, {"id": key, "name": name}, NO_TIME, NO_TIME) for key, name in ((1, "An"), (2, "Bob"))]
    pairs = in_python(ReadChangeEvents(f"p.{format}", format="debezium", table="t", key="id"))
    assert sorted(pairs, key=lambda change: change.key) == rows
    marks = ["timestamp", "position", "deleted"]
    upserts = ReadChangelog(
        f"u.{format}", key="id", sequence_by="position", apply_as_deletes={"deleted": ["true"]}, except_columns=marks
    )
    assert sorted(in_python(upserts), key=lambda change: change.key) == rows


def test_the_final_rows_of_a_typed_table_have_null_for_no_time() -> None:
    FORMATS["parquet"](Path("r.parquet"))
    with beam.Pipeline() as pipeline:
        _ = pipeline | ReadChangelog("r.parquet", key="id") | LatestTable() | beam.Map(keep)
    assert [row["timestamp"] for batch in MADE for row in batch.to_pylist()] == [None, None]


@pytest.mark.parametrize("options", [[], ["--follow"], ["--dry-run"]])
def test_incremental_runs_over_rows_that_nothing_orders_are_refused(beam_joins: Run, options: list[str]) -> None:
    Path("c.csv").write_text("id,name\n1,Ann\n")
    empty = ["--timestamp-by=", "--sequence-by=", "--apply-as-deletes="]
    said = refused(beam_joins("table", "--input", "c.csv", *empty, "--state-dir", "s", "--changes", "out", *options))
    assert said == f"rows: {NEEDED}: {EXPORT}"
    assert not Path("s").exists()


@pytest.mark.parametrize(
    ("header", "row", "options", "said"),
    [
        ("id,n,who", "7,1,x", [], "give --sequence-by=n with --timestamp-by="),
        ("id,Last Modified", "7,2026-03-01", [], "give --timestamp-by='Last Modified' with --sequence-by="),
        ("id,made,n,paid", "7,2026-03-01,1,2026-03-02", [], "give --timestamp-by=made or --timestamp-by=paid with --sequence-by="),
        ("id,made", "7,2026-03-01", ["--sequence-by="], "give --timestamp-by=made"),
        ("id,who", "7,x", [], EXPORT),
    ],
)
def test_columns_that_may_order_the_rows_of_incremental_runs_are_named(
    beam_joins: Run, header: str, row: str, options: list[str], said: str
) -> None:
    Path("c.csv").write_text(f"{header}\n{row}\n")
    refusal = refused(beam_joins("table", "--input", "c.csv", *options, "--state-dir", "s", "--latest", "l.jsonl"))
    assert refusal.endswith(
        f" has {header.replace(',', ', ')}; name others with these options, or give --apply-as-deletes= if there is none; "
        f"{NEEDED}: {said}"
    )
    if said.startswith("give"):  # no run is refused that does as it is told
        told = shlex.split(said.removeprefix("give ").replace(" with", "").partition(" or ")[0])
        ran = beam_joins(
            "table", "--input", "c.csv", "--sequence-by=", *told, "--apply-as-deletes=", "--state-dir", "s", "--latest", "l.jsonl"
        )
        assert ran.code == 0, ran.err


def test_a_state_of_a_pipeline_over_rows_that_nothing_orders_is_refused() -> None:
    Path("c.csv").write_text("id,name\n1,Ann\n")
    pipeline = beam.Pipeline(options=PipelineOptions(["--beam_joins_state=s"]))
    remedy = EXPORT.replace("give --snapshots", "read them with ReadSnapshots")
    said = f"the files: {NEEDED}: {remedy}"
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        _ = pipeline | ReadChangelog("c.csv", key="id")
    Path("c.csv").write_text("id,name,made at\n1,Ann,2026-03-01\n")
    with pytest.raises(InputError, match=f"^the files: {NEEDED}: give timestamp_by='made at'$"):
        _ = pipeline | "again" >> ReadChangelog("c.csv", key="id")


def test_incremental_runs_by_a_sequence_need_no_time(beam_joins: Run) -> None:
    options = [
        "--timestamp-by=",
        "--sequence-by=n",
        "--apply-as-deletes=",
        "--state-dir",
        "s",
        "--changes",
        "out",
        "--latest",
        "l.jsonl",
    ]
    Path("in").mkdir()
    for run, rows in enumerate(("1,1,a\n2,2,b\n", "1,3,c\n")):
        Path(f"in/{run}.csv").write_text(f"id,n,name\n{rows}")
        ran = beam_joins("table", "--input", "in", *options)
        assert ran.code == 0, ran.err
    assert json.loads(Path("out/changes-000002.jsonl").read_text()) == {
        **{"key": 1, "op": "update", "old": {"id": 1, "name": "a"}, "new": {"id": 1, "name": "c"}},
        **{"timestamp": None, "position": 3},
    }


def test_a_changelog_that_grows_needs_a_time() -> None:
    with pytest.raises(ValueError, match="timestamp_by=None: give the column with the event time"):
        ReadGrowingChangelog("r.jsonl", key="id", timestamp_by=None)  # type: ignore[arg-type]


def test_the_report_and_the_plan_have_no_times_of_rows_without_them(beam_joins: Run) -> None:
    Path("c.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    ran = beam_joins("table", "--input", "c.csv", "--latest", "l.jsonl", "--report", "r.html")
    assert ran.code == 0, ran.err
    page = Path("r.html").read_text()
    assert str(NO_TIME) not in page
    assert "-292" not in page, "the year of the first time"
    planned = beam_joins("table", "--input", "c.csv", "--dry-run").out
    assert "    sequence     none: the last row of a key counts\n    time         none\n" in planned


def test_rows_without_a_time_are_merged_into_a_delta_table(beam_joins: Run) -> None:
    Path("c.csv").write_text(CUSTOMERS)
    for _ in range(2):
        ran = beam_joins("table", "--input", "c.csv", "--key", "Customer ID", "--to", "delta:lake")
        assert ran.code == 0, ran.err
    rows = deltalake.DeltaTable("lake").to_pyarrow_table().to_pylist()
    assert {row["Customer ID"]: row["Full Name"] for row in rows} == NAMES
    assert len(rows) == len(NAMES)


def test_rows_without_a_time_are_merged_into_a_table_of_postgresql(postgres: str, beam_joins: Run) -> None:
    Path("c.csv").write_text(CUSTOMERS)
    parts = psycopg.conninfo.conninfo_to_dict(postgres)
    to = f"postgres://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}?table=without_times"
    for _ in range(2):
        ran = beam_joins("table", "--input", "c.csv", "--key", "Customer ID", "--to", to)
        assert ran.code == 0, ran.err
    with psycopg.connect(postgres) as connection:
        rows = connection.execute('SELECT "Customer ID", "Full Name" FROM without_times_live').fetchall()
    assert sorted(rows) == sorted(NAMES.items())
