"""A command and a Python user read the same changes with the same options, from each format."""

import datetime as dt
import gzip
import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, TableToChanges
from beam_joins.errors import InputError
from beam_joins.io import ReadChangeEvents, ReadChangelog, ReadGrowingChangelog
from beam_joins.pipelines.formats.changelog_columns import micros_of
from beam_joins.pipelines.formats.types.exact_json import dumps_line, loads
from beam_joins.pipelines.formats.types.target_types import parquet_type
from beam_joins.pipelines.systems.files import read_growing_changelog
from beam_joins.transforms.connect.tables import table_type
from tests.hostile.changelogs import WRITTEN
from tests.pipelines.orders_run import Run

ROWS = [
    {"order_id": n % 4, "customer_id": 7, "amount": n + 0.25, "status": "paid", "op": op, "lsn": n + 1, "updated_at": 10 * n}
    for n, op in enumerate("ccccuuduudcr")
]
PLAIN = {"key": "order_id", "timestamp_by": "updated_at", "sequence_by": "lsn", "apply_as_deletes": {"op": ["d", "delete"]}}
MADE: list[Change[Any, Any]] = []
TIME = re.compile(r"\d{4}-\d{2}-\d{2}T[\d:.]+Z?")


class Case(NamedTuple):
    """A file, and the same options of both."""

    name: str
    content: bytes
    command: Sequence[str]
    python: dict[str, Any]
    columns: Sequence[str] = ()
    """About the change, which rows of a command do not have."""


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def parquet(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def of_format(name: str, write: Callable[[list[Any]], bytes]) -> Case:
    format_ = name.split(".")[0]
    if format_ in ("orders", "zstd"):
        options = ["--key=order_id", "--timestamp-by=updated_at", "--sequence-by=lsn", "--apply-as-deletes=op=d,delete"]
        return Case(name, write(ROWS), options, PLAIN, ("op", "lsn"))
    envelopes: dict[str, Any] = {"format": format_, "key": "order_id", "table": "orders"}
    return Case(name, write(ROWS), [f"--format={format_}", "--key=order_id", "--table=orders"], envelopes)


AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901)
DAY, NOON = dt.date(2026, 1, 2), "2026-01-02T12:00:00"
CASES = {
    **{f"format {name}": of_format(name, write) for name, write in WRITTEN.items()},
    "times in ISO 8601": Case(
        "a.jsonl",
        lines(*({"id": n, "at": at} for n, at in enumerate([f"{NOON}Z", f"{NOON}+02:00", NOON, "2026-01-02", f"{NOON}.5Z"]))),
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at"},
    ),
    "milliseconds": Case(
        "a.jsonl",
        lines({"id": 1, "at": 1_767_000_000_123}, {"id": 1, "at": 1_767_000_000_124, "v": 1}),
        ["--key=id", "--timestamp-by=at", "--timestamp-unit=ms", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at", "timestamp_unit": "ms"},
    ),
    "times of columns": Case(
        "a.parquet",
        parquet(id=pa.array([1, 2]), at=pa.array([AT, AT], pa.timestamp("us")), day=pa.array([DAY, DAY]), lsn=pa.array([1, 2])),
        ["--key=id", "--timestamp-by=at", "--sequence-by=lsn", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at", "sequence_by": "lsn"},
        ("lsn",),
    ),
    "dates that order": Case(
        "a.parquet",
        parquet(id=pa.array([1, 1]), day=pa.array([DAY, DAY + dt.timedelta(1)])),
        ["--key=id", "--timestamp-by=day", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "day"},
    ),
    "words for deletes, for upserts and for no change": Case(
        "a.jsonl",
        lines(*({"id": 1, "at": n, "op": op, "v": n} for n, op in enumerate(["NEW", "OLD", "GONE", "New", "u"]))),
        [
            "--key=id",
            "--timestamp-by=at",
            "--sequence-by=",
            "--apply-as-deletes=op=gone",
            "--apply-as-upserts=op=new,u",
            "--ignored=op=old",
        ],
        {
            **{"key": "id", "timestamp_by": "at", "apply_as_deletes": {"op": ["gone"]}, "apply_as_upserts": {"op": ["new", "u"]}},
            "ignored": {"op": ["old"]},
        },
        ("op",),
    ),
    "a time that marks deletes": Case(
        "a.jsonl",
        lines({"id": 1, "at": 1, "gone": None}, {"id": 1, "at": 2, "gone": "2026-01-02"}, {"id": 2, "at": 3}),
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes=gone=not-null"],
        {"key": "id", "timestamp_by": "at", "apply_as_deletes": {"gone": ["not-null"]}},
        ("gone",),
    ),
    "truth values that mark deletes": Case(
        "a.jsonl",
        lines({"id": 1, "at": 1, "gone": False}, {"id": 1, "at": 2, "gone": True}),
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes=gone"],
        {"key": "id", "timestamp_by": "at", "apply_as_deletes": "gone"},
        ("gone",),
    ),
    "CSV with its delimiter and encoding": Case(
        "a.csv",
        'id;at;lsn;name\r\n1;5;1;Müller\r\n2;6;2;\r\n1;7;3;"a;b"\r\n'.encode("latin-1"),
        ["--key=id", "--timestamp-by=at", "--sequence-by=lsn", "--apply-as-deletes=", "--encoding=latin-1"],
        {"key": "id", "timestamp_by": "at", "sequence_by": "lsn", "encoding": "latin-1"},
        ("lsn",),
    ),
    "keys and sequences of several columns": Case(
        "a.jsonl",
        lines(*({"shop": "a", "nr": n % 2, "at": 5, "commit": n // 2, "lsn": n, "v": n} for n in range(6))),
        ["--key=shop,nr", "--timestamp-by=at", "--sequence-by=commit,lsn", "--apply-as-deletes="],
        {"key": ["shop", "nr"], "timestamp_by": "at", "sequence_by": ["commit", "lsn"]},
        ("commit", "lsn"),
    ),
    "records that nothing orders": Case(
        "a.jsonl",
        lines(*({"id": 1, "at": 5, "lsn": 7, "op": op, "v": n} for n, op in enumerate("cdu"))),
        ["--key=id", "--timestamp-by=at", "--sequence-by=lsn", "--apply-as-deletes=op=d"],
        {"key": "id", "timestamp_by": "at", "sequence_by": "lsn", "apply_as_deletes": {"op": ["d"]}},
        ("op", "lsn"),
    ),
    "numbers of many digits": Case(
        "a.jsonl",
        b'{"id": 1, "at": 1, "n": 9007199254740993.25, "m": 123456789012345678901234, "x": 1.50}\n{"id":2,"at":2,"n":1e-7}\n',
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at"},
    ),
    "bad records and null keys": Case(
        "a.jsonl",
        lines({"id": 1, "at": 1}, {"id": None, "at": 2}, {"at": 3}, {"id": 2, "at": "soon"}, {"id": 3}) + b"[1]\nx\n",
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes=", "--on-bad-record=drop"],
        {"key": "id", "timestamp_by": "at", "on_bad_record": "drop"},
    ),
    "columns of several kinds": Case(
        "a.jsonl",
        lines(
            {"id": 1, "at": 5, "n": 1, "m": 7, "large": 2**63, "flag": True, "text": 1, "row": {"a": 1}, "list": [1], "none": None},
            {"id": 2, "at": 6, "n": 2.5, "large": 1, "text": "a", "more": 1.5},
        ),
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at"},
    ),
    **{
        f"columns of {name}": Case(
            name,
            pack(b"Order No,n,m,flag,zip,Cust. No,none,at\n1,1,7,true,01234,a,,2026-01-02\n2,2.5,,FALSE,12345,7,,2026-01-03\n"),
            ["--key=Order No", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes="],
            {"key": "Order No", "timestamp_by": "at"},
        )
        for name, pack in {"a.csv": bytes, "a.csv.gz": gzip.compress}.items()
    },
    "numbers that begin with whole ones": Case(
        "a.csv",
        b"id,at,n,m\n" + b"".join(b"%d,%d,%d,\n" % (n, n, n) for n in range(10_000)) + b"1,10000,2.5,3\n",
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at"},
    ),
}


def keep(change: Change[Any, Any]) -> None:
    MADE.append(change)


def changes_of(case: Case, schema: Any) -> list[Change[Any, Any]]:
    MADE.clear()
    is_events = "format" in case.python
    reader: Any = ReadChangeEvents if is_events else ReadChangelog
    omitted = {} if is_events else {"except_columns": case.columns}
    with beam.Pipeline() as pipeline:
        _ = pipeline | reader(case.name, **case.python, **omitted, schema=schema) | TableToChanges() | beam.Map(keep)
    return list(MADE)


def as_json(value: Any) -> Any:
    """A value as a command writes it in JSON lines, times in microseconds."""
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, dt.datetime):
        return micros_of(value)
    if isinstance(value, str) and TIME.fullmatch(value):
        return micros_of(dt.datetime.fromisoformat(value))
    return value.isoformat() if isinstance(value, dt.date) else float(value) if isinstance(value, Decimal) else value


def text(*parts: Any) -> str:
    return dumps_line(as_json({str(n): part for n, part in enumerate(parts)})).decode()


@pytest.mark.parametrize("name", CASES)
def test_a_command_and_a_python_user_read_the_same_changes(beam_joins: Run, name: str) -> None:
    case = CASES[name]
    Path(case.name).write_bytes(case.content)
    ran = beam_joins("table", f"--input={case.name}", *case.command, "--output=out.jsonl")
    assert ran.code == 0, ran.err
    written = [loads(line) for line in Path("out.jsonl").read_bytes().splitlines()]
    expected = sorted(
        text(
            tuple(key.values()) if isinstance(key := each["key"], dict) else key,
            each["old"],
            each["new"],
            each["timestamp"],
            each["position"],
        )
        for each in written
    )
    assert expected
    made = changes_of(case, None)
    assert sorted(text(*change) for change in made) == expected


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        *((name, "declared") for name, case in CASES.items() if case.name.endswith((".parquet", ".arrow"))),
        *((name, "inferred") for name, case in CASES.items() if "format" not in case.python),
    ],
)
def test_the_columns_of_files_have_the_same_types_for_a_command_and_for_a_python_user(beam_joins: Run, name: str, schema: str) -> None:
    case = CASES[name]
    Path(case.name).write_bytes(case.content)
    ran = beam_joins("table", f"--input={case.name}", *case.command, "--latest=out.parquet")
    assert ran.code == 0, ran.err
    written = pq.read_table("out.parquet")
    last = {change.key: change.new for change in sorted(changes_of(case, schema), key=lambda change: change.position)}
    assert sorted((row for row in last.values() if row is not None), key=str) == sorted(written.to_pylist(), key=str)
    if schema == "inferred":
        table: Any = beam.Pipeline() | ReadChangelog(case.name, **case.python, except_columns=case.columns, schema=schema)
        types = pa.schema([field.with_type(parquet_type(field.name, field.type)) for field in table_type(table).value])
        assert types.remove_metadata() == written.schema.remove_metadata()


def rows_of(read: Any, *options: str) -> list[Any]:
    MADE.clear()
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        _ = pipeline | "Table" >> read | TableToChanges() | beam.Map(keep)
    return sorted((change.new for change in MADE), key=str)


LATER = {
    "a.jsonl": (
        lines(*({"id": n, "v": 1} for n in range(10_000))),
        lines({"id": -1, "v": 1.5}, {"id": -2, "v": "x"}, {"id": -3, "v": 1, "w": 1}, {"id": -4, "v": 2}, {"id": -5}),
    ),
    "a.csv": (
        b"id,v,text\n" + b"".join(b"%d,1,%s\n" % (n, b"x" * 100) for n in range(10_500)),
        b"-1,1.5,\n-2,x,\n-3,01,\n-4,2,\n-5,,\n",
    ),
}
"""The records that types are inferred of, and later ones, of which the first three do not fit."""


@pytest.mark.parametrize("name", LATER)
def test_a_later_record_that_does_not_fit_the_inferred_columns_is_a_bad_record_for_both(beam_joins: Run, name: str) -> None:
    Path(name).write_bytes(b"".join(LATER[name]))
    options = ["--timestamp-by=", "--sequence-by=", "--apply-as-deletes=", "--on-bad-record=drop", "--latest=out.parquet"]
    ran = beam_joins("table", f"--input={name}", "--key=id", *options)
    assert ran.code == 0, ran.err
    made = rows_of(ReadChangelog(name, key="id", schema="inferred", on_bad_record="drop"))
    assert made == sorted(pq.read_table("out.parquet").to_pylist(), key=str)
    assert {row["id"] for row in made if row["id"] < 0} == {-4, -5}
    with pytest.raises(Exception, match=rf"{name}, line 10,[0-9]+: column 'v' is not of type int64"):
        rows_of(ReadChangelog(name, key="id", schema="inferred"))


def test_a_column_that_the_first_records_do_not_have_is_named_with_the_remedy(own_directory: Path) -> None:
    Path("a.jsonl").write_bytes(LATER["a.jsonl"][0] + lines({"id": -3, "v": 1, "w": 1}))
    sentence = "line 10,001: column 'w' is none of those of the first records: name the columns that you want in schema="
    with pytest.raises(Exception, match=sentence):
        rows_of(ReadChangelog("a.jsonl", key="id", schema="inferred"))


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_the_inferred_types_are_those_of_the_first_run_with_a_state(own_directory: Path, suffix: str) -> None:
    for name, rows in (("0", [{"id": 1, "v": 1.5, "n": 1}]), ("1", [{"id": 2, "v": 2, "n": 2}]), ("2", [{"id": 3, "v": 3, "n": 3.5}])):
        text = "\n".join(["id,v,n,at", *(f"{row['id']},{row['v']},{row['n']},{name}" for row in rows)])
        content = text.encode() if suffix == "csv" else lines(*({**row, "at": int(name)} for row in rows))
        Path(f"{name}.{suffix}").write_bytes(content)

    def run(name: str) -> list[Any]:
        read = ReadChangelog(f"{name}.{suffix}", key="id", timestamp_by="at", schema="inferred", except_columns=["at"])
        return rows_of(read, "--beam_joins_state=state")

    assert run("0") == [{"id": 1, "v": 1.5, "n": 1}]
    ((row),) = run("1")
    assert (row, type(row["v"])) == ({"id": 2, "v": 2.0, "n": 2}, float)
    with pytest.raises(Exception, match="column 'n' is not of type int64"):
        run("2")


@pytest.mark.parametrize(("suffix", "empty"), [("jsonl", ""), ("csv", "id,v,at\n"), ("csv", "")])
def test_files_without_records_have_the_inferred_types_of_the_first_run_or_are_refused(
    own_directory: Path, suffix: str, empty: str
) -> None:
    Path(f"0.{suffix}").write_bytes(lines({"id": 1, "v": 1.5, "at": 0}) if suffix == "jsonl" else b"id,v,at\n1,1.5,0\n")
    Path(f"1.{suffix}").write_text(empty)

    def run(n: int, state: str) -> list[Any]:
        return rows_of(ReadChangelog(f"{n}.{suffix}", key="id", timestamp_by="at", schema="inferred"), f"--beam_joins_state={state}")

    with pytest.raises(InputError, match="have no record that shows the types of columns: give schema=, or begin with files that"):
        run(1, "new")
    assert run(0, "state") == [{"id": 1, "v": 1.5, "at": 0}]
    assert run(1, "state") == []


@pytest.mark.parametrize("name", ["a.jsonl", "a.avro", "a.parquet"])
def test_files_that_grow_have_the_same_inferred_types(own_directory: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(read_growing_changelog, "GrowingFiles", partial(to_the_end, read_growing_changelog.GrowingFiles))
    rows = [{"id": 1, "at": 5, "v": 1.5, "name": "Ann"}, {"id": 2, "at": 6, "v": 2.0, "name": None}]
    if name == "a.jsonl":
        Path(name).write_bytes(lines(*rows) + b'{"id":')
    elif name == "a.avro":
        fields = [{"name": "id", "type": "long"}, {"name": "at", "type": "long"}, {"name": "v", "type": "double"}]
        with Path(name).open("wb") as file:
            name_field = {"name": "name", "type": ["null", "string"]}
            fastavro.writer(file, {"type": "record", "name": "Row", "fields": [*fields, name_field]}, rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), name)
    options: dict[str, Any] = {"key": "id", "timestamp_by": "at", "schema": "inferred"}
    types = [
        table_type(beam.Pipeline() | reader(name, **options)).value  # type: ignore[operator]
        for reader in (ReadChangelog, ReadGrowingChangelog)
    ]
    assert types[0] == types[1]
    if name == "a.jsonl":
        Path(name).write_bytes(lines(*rows))
    assert rows_of(ReadGrowingChangelog(name, **options)) == rows
    if name == "a.jsonl":
        later = ReadGrowingChangelog(name, **options)
        Path(name).write_bytes(lines(*rows, {**rows[0], "more": 1}))
        with pytest.raises(Exception, match=r"a.jsonl: a record cannot be read .column 'more' is none of those of the first"):
            rows_of(later)


def to_the_end(growing_files: Any, *args: Any, follow: bool) -> Any:
    return growing_files(*args, follow=False)


def test_growing_files_without_a_file_have_no_inferred_types(own_directory: Path) -> None:
    with pytest.raises(InputError, match="there is no file a.jsonl"):
        ReadGrowingChangelog("a.jsonl", key="id", timestamp_by="at", schema="inferred")


def test_objects_are_text_in_inferred_columns_and_no_dot_of_a_key_leads_into_text(own_directory: Path) -> None:
    Path("a.jsonl").write_bytes(lines({"who": {"id": 1}, "v": 2}))
    assert rows_of(ReadChangelog("a.jsonl", key="v", schema="inferred")) == [{"who": '{"id": 1}', "v": 2}]
    with pytest.raises(
        ValueError, match=r"key=\['who.id'\]: column 'who' has the type extension<arrow.json> and no columns: give schema= with a"
    ):
        _ = beam.Pipeline() | ReadChangelog("a.jsonl", key="who.id", schema="inferred")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "schema", ["inferred", None, pa.schema([("Cust. No", pa.int64()), ("Größe", pa.string()), ('a "b", c', pa.int64())])]
)
def test_a_dot_in_the_name_of_a_column_leads_nowhere(own_directory: Path, suffix: str, schema: Any) -> None:
    row = {"Cust. No": 7, "Größe": "L", 'a "b", c': 5}
    Path("a.csv").write_text('Cust. No,Größe,"a ""b"", c"\n7,L,5\n')
    Path("a.jsonl").write_bytes(lines(row))
    pipeline = beam.Pipeline()
    key = ["Cust. No", 'a "b", c']
    read = ReadChangelog(f"a.{suffix}", key=key, sequence_by='a "b", c', apply_as_deletes={"Größe": ["gone"]}, schema=schema)
    with pytest.raises(Exception, match="column 'Größe' is 'L': add l to apply_as_upserts="):
        rows_of(read)
    read = ReadChangelog(f"a.{suffix}", key=key, sequence_by='a "b", c', schema=schema)
    with pipeline:
        changes = pipeline | read | TableToChanges() | beam.Map(lambda change: (change.key, change.new))
        assert_that(changes, equal_to([((7, 5), row)]))
