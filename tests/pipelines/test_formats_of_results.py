"""Results of the commands in typed columns: the same in every format, exact, and refused in a sentence."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.join_run import BY, FILES, LEFT, RIGHT, TEA, refused
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Run, read_avro, read_lines, write


def comma_separated(path: Path) -> list[Row]:
    """Rows whose fields are JSON where they can be."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [{name: value_of(field) for name, field in row.items()} for row in csv.DictReader(io.StringIO(text.decode()))]


def value_of(field: str) -> Any:
    try:
        return json.loads(field) if field else None
    except ValueError:
        return field


def read_msgpack(path: Path) -> list[Row]:
    """The maps of a file, as those of an array of as many."""
    data = path.read_bytes()
    for count in range(len(data) + 1):
        with suppress(msgspec.DecodeError):
            return list(msgspec.msgpack.decode(b"\xdd" + count.to_bytes(4, "big") + data))
    raise AssertionError(f"{path} is not MessagePack")


READERS: dict[str, Callable[[Path], list[Row]]] = {
    "jsonl": read_lines,
    "avro": lambda path: list(read_avro(path)),
    "parquet": lambda path: pq.read_table(path).to_pylist(),
    "arrow": lambda path: pa.ipc.open_file(path).read_all().to_pylist(),
    "csv": comma_separated,
    "csv.gz": comma_separated,
    "msgpack": read_msgpack,
}
IN_COLUMNS = [suffix for suffix in READERS if suffix != "jsonl"]
SELECT = ["--select", "left.id, left.by, right.name as who"]


@pytest.mark.parametrize("suffix", IN_COLUMNS)
def test_a_result_of_any_format_has_the_changes_and_rows_of_the_lines(beam_joins: Run, suffix: str) -> None:
    asked = ["join", *BY, "--how", "outer", *SELECT]
    assert beam_joins(*asked, "--output", "e.jsonl", "--latest", "now.jsonl").code == 0
    ran = beam_joins(*asked, "--output", f"e.{suffix}", "--latest", f"now.{suffix}")
    assert ran.code == 0, ran.err
    expected = read_lines(Path("e.jsonl"))
    actual = READERS[suffix](Path(f"e.{suffix}"))
    for change in (*expected, *actual):
        del change["timestamp"]
    assert actual == expected, "in the same order, too"
    assert READERS[suffix](Path(f"now.{suffix}")) == read_lines(Path("now.jsonl"))


def test_lines_and_columns_can_be_written_by_one_run(beam_joins: Run) -> None:
    Path("l.jsonl").write_text('{"id":1,"by":"a","n":2.50,"op":"c","lsn":1,"updated_at":1}\n')
    ran = beam_joins("join", *BY, "--select", "left.n", "--output", "e.parquet", "--latest", "now.jsonl", "--parts")
    assert ran.code == 0, ran.err
    assert [row["new"] for path in Path().glob("e-*.parquet") for row in pq.read_table(path).to_pylist()] == [{"n": 2.5}]
    assert "".join(path.read_text() for path in Path().glob("now-*.jsonl")) == '{"n":2.50}\n'


MIXED = [{"a": 1}, [1, 2.50], "text", 7, True, None]
NUMBERS: list[tuple[list[str], pa.DataType, list[Any]]] = [
    (["1", "-9223372036854775808", "null"], pa.int64(), [1, -(2**63), None]),
    (["1", "18446744073709551617"], pa.decimal128(38, 0), [Decimal(1), Decimal(2**64 + 1)]),
    (["1", str(10**60)], pa.decimal256(76, 0), [Decimal(1), Decimal(10**60)]),
    (["2.50", "7"], pa.float64(), [2.5, 7.0]),
    (["9007199254740993.25", "0.1"], pa.decimal128(38, 2), [Decimal("9007199254740993.25"), Decimal("0.10")]),
    (["true", "false"], pa.bool_(), [True, False]),
    ([json.dumps(each) for each in MIXED], pa.string(), ['{"a": 1}', "[1, 2.5]", "text", "7", "true", None]),
]


@pytest.mark.parametrize(("texts", "kind", "expected"), NUMBERS)
def test_a_column_of_json_has_a_type_that_holds_its_values_exactly(
    beam_joins: Run, texts: list[str], kind: pa.DataType, expected: list[Any]
) -> None:
    lines = (f'{{"id":{n},"x":{text},"op":"c","lsn":{n},"updated_at":{n}}}\n' for n, text in enumerate(texts))
    Path("x.jsonl").write_text("".join(lines))
    ran = beam_joins("table", "--input", "x.jsonl", "--latest", "now.parquet", "--output", "e.avro")
    assert ran.code == 0, ran.err
    actual = pq.read_table("now.parquet")
    assert actual.schema.field("x").type == kind
    assert [row["x"] for row in sorted(actual.to_pylist(), key=lambda row: row["id"])] == expected
    assert [change["new"]["x"] for change in read_avro(Path("e.avro"))] == expected


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "avro"])
def test_types_of_files_stay_what_they_are(beam_joins: Run, suffix: str) -> None:
    types = {"d": pa.date32(), "t": pa.timestamp("us", "UTC"), "b": pa.binary(), "l": pa.list_(pa.int64()), "p": pa.decimal128(9, 2)}
    about = {"id": pa.int64(), "op": pa.string(), "lsn": pa.int64(), "updated_at": pa.timestamp("us", "UTC")}
    row = {"id": 1, "op": "c", "lsn": 1, "updated_at": 5, "d": 20_000, "t": 7, "b": b"\0\xff", "l": [1, None], "p": Decimal("1.50")}
    pq.write_table(pa.Table.from_pylist([row], pa.schema({**about, **types})), "x.parquet")
    assert beam_joins("table", "--input", "x.parquet", "--latest", f"now.{suffix}").code == 0
    again = beam_joins("table", "--input", f"now.{suffix}", "--sequence-by=", "--apply-as-deletes=", "--latest", "again.parquet")
    assert again.code == 0, again.err
    kept = [name for name in pq.read_schema("x.parquet").names if name not in ("op", "lsn")]
    assert pq.read_table("again.parquet").equals(pq.read_table("x.parquet", columns=kept))


def test_a_number_that_does_not_fit_its_column_is_a_bad_record(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.sampling.LOOK_RECORDS", 2)
    lines = [json.dumps(each) for each in (TEA, {**TEA, "id": 2, "n": 2.5, "lsn": 2})]
    long = json.dumps({**TEA, "id": 3, "lsn": 3}).replace('"n": 5', '"n": 9007199254740993.25')
    Path("x.jsonl").write_text("\n".join([*lines, long]) + "\n")
    asked = ["table", "--input", "x.jsonl", "--latest", "now.parquet"]
    sentence = refused(beam_joins(*asked))
    assert sentence.startswith(
        "rows: x.jsonl, line 3: column 'n' is of type double, which does not hold all digits of 9007199254740993.25 (--schema"
    )
    ran = beam_joins(*asked, "--on-bad-record", "drop")
    assert (ran.code, sorted(row["id"] for row in pq.read_table("now.parquet").to_pylist())) == (0, [1, 2])
    assert beam_joins(*asked, "--schema-overrides", "n:decimal(20,2)").code == 0
    assert sorted(row["n"] for row in pq.read_table("now.parquet").to_pylist())[-1] == Decimal("9007199254740993.25")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--select", 'left.id as "a b"', "--latest", "x.avro"], "--latest: x.avro: column 'a b': Avro takes letters, digits and _"),
        (["--left-schema-overrides", "nr:int64", "--latest", "x.csv"], "left rows have no column 'nr' (--left-schema-overrides)"),
        (["--left-key", "id,by", "--latest", "x.csv", "--foreign-key="], "--left-key is of the columns id, by and --right-key of"),
        (["--foreign-key", "by,n", "--latest", "x.csv"], "--foreign-key is of the columns by, n and --right-key of the column id"),
        (["--foreign-key", "by,nr", "--latest", "x.csv"], "left rows have no column 'nr' (--foreign-key)"),
        (["--left-key", ",", "--latest", "x.csv"], "--left-key must name a column"),
    ],
)
def test_what_cannot_be_written_or_joined_is_one_sentence(beam_joins: Run, options: list[str], message: str) -> None:
    assert refused(beam_joins("join", *BY, *options)).startswith(message)
    assert sorted(path.name for path in Path().iterdir()) == ["l.jsonl", "r.jsonl"]


REGIONS = [{**row, "region": region} for row in RIGHT for region in ("eu", "us")]
OF_REGIONS = [{**row, "region": "us" if row["lsn"] % 2 else "eu"} for row in LEFT]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_keys_of_several_columns_are_joined_column_by_column(beam_joins: Run, suffix: str) -> None:
    write("l.jsonl", *OF_REGIONS)
    write("r.jsonl", *({"nr": row.pop("id"), **row} for row in map(dict, REGIONS)))
    keys = ["--left-key", "region,id", "--right-key", "region, nr", "--foreign-key", "region,by"]
    select = ["--select", "left.id, right.region, right.name"]
    ran = beam_joins("join", *FILES, *keys, *select, "--how", "outer", "--output", f"e.{suffix}", "--report", "report.html")
    assert ran.code == 0, ran.err
    last: dict[str, Any] = {}
    for change in READERS[suffix](Path(f"e.{suffix}")):
        last[json.dumps(change["key"])] = change["new"]
    left = {(row["region"], row["id"]): row for row in OF_REGIONS}
    right = {(row["region"], row["id"]): row for row in REGIONS}
    expected, referred = [], set()
    for (region, number), row in left.items():
        referred.add((region, row["by"]))
        other = right.get((region, row["by"]), {})
        key = {"region": region, "nr": row["by"]} if row["by"] else None
        expected.append((key, {"region": region, "id": number}, [number, other.get("region"), other.get("name")]))
    for (region, number), row in right.items():
        if (region, number) not in referred:
            expected.append(({"region": region, "nr": number}, None, [None, region, row["name"]]))
    actual = [(*json.loads(key).values(), list(new.values())) for key, new in last.items() if new]
    assert sorted(map(json.dumps, actual)) == sorted(map(json.dumps, expected))


def test_a_table_by_several_columns_goes_on_in_later_runs_and_drops_keys_with_a_null(beam_joins: Run) -> None:
    Path("in").mkdir()
    asked = ["table", "--input", "in", "--key", "by,id", "--state-dir", "state", "--latest", "now.parquet", "--json", "s.json"]
    for number, rows in enumerate((LEFT[:2], LEFT[2:], [{**LEFT[1], "op": "d", "lsn": 9}]), 1):
        write(f"in/{number}.jsonl", *rows)
        ran = beam_joins(*asked)
        assert ran.code == 0, ran.err
    assert sorted((row["by"], row["id"]) for row in pq.read_table("now.parquet").to_pylist()) == [("a", 1), ("b", 1)]
    write("in/4.jsonl", {**LEFT[2], "lsn": 10})
    assert beam_joins(*asked).code == 0
    assert json.loads(Path("s.json").read_text())["inputs"]["input"]["dropped_records"] == {"null_key": 1}


def test_envelopes_that_say_types_and_a_key_of_two_columns_give_these(beam_joins: Run) -> None:
    columns = [
        {"name": "region", "type": "text", "value": "eu"},
        {"name": "id", "type": "integer", "value": 1},
        {"name": "paid", "type": "numeric(12,2)", "value": 1.50},
        {"name": "day", "type": "date", "value": "2026-03-01"},
    ]
    at = {"lsn": "0/10", "nextlsn": "0/20", "timestamp": "2026-03-01 08:00:00+00"}
    change = {"action": "I", **at, "schema": "s", "table": "t", "columns": columns, "pk": [{"name": "region"}, {"name": "id"}]}
    write("w.jsonl", {"action": "B", **at}, change, {"action": "C", **at})
    ran = beam_joins("table", "--input", "w.jsonl", "--format", "wal2json", "--output", "e.parquet", "--latest", "now.avro")
    assert ran.code == 0, ran.err
    (actual,) = pq.read_table("e.parquet").to_pylist()
    assert actual["key"] == {"region": "eu", "id": 1}
    (row,) = read_avro(Path("now.avro"))
    assert actual["new"] == row
    assert (row["paid"], str(row["day"])) == (Decimal("1.50"), "2026-03-01")


def test_a_type_of_avro_that_has_itself_within_is_text_there(beam_joins: Run) -> None:
    about = [("op", "string"), ("lsn", "long"), ("updated_at", "long"), ("id", "long"), ("more", ["null", "Node"])]
    schema = {"type": "record", "name": "Node", "fields": [{"name": name, "type": kind} for name, kind in about]}
    leaf = {"op": "", "lsn": 0, "updated_at": 0, "id": 3, "more": None}
    row = {"op": "c", "lsn": 1, "updated_at": 1, "id": 1, "more": {**leaf, "id": 2, "more": leaf}}
    with Path("x.avro").open("wb") as file:
        fastavro.writer(file, schema, [row])
    ran = beam_joins("table", "--input", "x.avro", "--latest", "now.parquet")
    assert ran.code == 0, ran.err
    (actual,) = pq.read_table("now.parquet").to_pylist()
    assert (actual["more"]["id"], json.loads(actual["more"]["more"])["id"]) == (2, 3)
