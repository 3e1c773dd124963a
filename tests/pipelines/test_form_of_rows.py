"""A row has one form, that of its input: each result has the same values of it, whatever its format and whatever others there are."""

import io
import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import msgpack
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from pyarrow import feather

from beam_joins.io import ReadChangelog, WriteChangelog
from beam_joins.pipelines.formats.types.exact_json import loads
from tests.pipelines.orders_run import Run

DAYS = [
    [
        {"id": 1, "amount": Decimal("12.50"), "v": {"a": 1}, "m": {"x": 5}, "lsn": 1},
        {"id": 2, "amount": Decimal("7.00"), "v": None, "m": None, "lsn": 2},
    ],
    [
        {"id": 2, "amount": Decimal("8.10"), "v": {"a": 2}, "m": {"y": 6}, "lsn": 3},
        {"id": 3, "amount": Decimal("0.25"), "v": {"a": None}, "m": {}, "lsn": 4},
    ],
]
TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("amount", pa.decimal128(12, 2)),
        ("v", pa.struct([("a", pa.int64())])),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("lsn", pa.int64()),
    ]
)
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "v", "type": ["null", {"type": "record", "name": "V", "fields": [{"name": "a", "type": ["null", "long"]}]}]},
        {"name": "m", "type": ["null", {"type": "map", "values": "long"}]},
        {"name": "lsn", "type": "long"},
    ],
}
TABLE = ["table", "--key=id", "--timestamp-by=", "--sequence-by=lsn", "--apply-as-deletes="]


def lines(rows: list[Any], space: str = "") -> bytes:
    texts = [json.dumps({**row, "amount": "AMOUNT"}, separators=(f",{space}", f":{space}")) for row in rows]
    return "".join(text.replace('"AMOUNT"', str(row["amount"])) + "\n" for text, row in zip(texts, rows, strict=True)).encode()


def debezium(rows: list[Any]) -> bytes:
    events = (b'{"op":"c","after":%b,"source":{"table":"t","lsn":%d,"ts_ms":5}}\n' % (lines([row])[:-1], row["lsn"]) for row in rows)
    return b"".join(events)


def csv(rows: list[Any]) -> bytes:
    return "".join(["id,amount,lsn\n", *(f"{row['id']},{row['amount']},{row['lsn']}\n" for row in rows)]).encode()


def avro(rows: list[Any]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, AVRO, rows)
    return file.getvalue()


def table(rows: list[Any]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "m": row["m"] and list(row["m"].items())} for row in rows], TYPES)


def parquet(rows: list[Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(table(rows), file)
    return file.getvalue()


def arrow(rows: list[Any]) -> bytes:
    file = io.BytesIO()
    feather.write_feather(table(rows), file)
    return file.getvalue()


def packed(rows: list[Any]) -> bytes:
    return b"".join(msgpack.packb({**row, "amount": float(row["amount"])}) for row in rows)


INPUTS: dict[str, tuple[str, Callable[[list[Any]], bytes], list[str]]] = {
    "lines": ("jsonl", lines, []),
    "lines with spaces": ("jsonl", lambda rows: lines(rows, " "), []),
    "envelopes": ("jsonl", debezium, ["--format=debezium", "--key=id"]),
    "csv": ("csv", csv, []),
    "avro": ("avro", avro, []),
    "parquet": ("parquet", parquet, []),
    "arrow": ("arrow", arrow, []),
    "msgpack": ("msgpack", packed, []),
}


def arrive(name: str, *days: int) -> list[str]:
    suffix, written, options = INPUTS[name]
    Path("in").mkdir(exist_ok=True)
    for day in days:
        Path(f"in/{day}.{suffix}").write_bytes(written(DAYS[day]))
    return [*(["table", *options] if options else TABLE), "--input=in/*"]


def ran(run: Run, *arguments: str) -> str:
    ended = run(*arguments)
    assert ended.code == 0, ended.err
    return ended.out


def values(line: bytes) -> dict[str, str]:
    """The values of a row in JSON lines, as they are written but for spaces."""
    made = {name: json.dumps(value) for name, value in json.loads(line, parse_float=str, parse_int=str).items()}
    return {name: text for name, text in made.items() if name not in ("timestamp", "position", "deleted")}


def written_in(path: str) -> list[dict[str, str]]:
    return sorted((values(line) for line in Path(path).read_bytes().splitlines()), key=str)


def plain(value: Any) -> Any:
    """The value of a column of a row, whatever format has kept it."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = json.loads(value)
    if isinstance(value, list) and all(isinstance(each, tuple | list) for each in value):
        value = dict(value)
    return float(value) if isinstance(value, Decimal | float) else value


def rows_in(path: str) -> list[Any]:
    """The rows in a file of any format, by what they mean."""
    if path.endswith(".jsonl"):
        rows = [loads(line) for line in Path(path).read_bytes().splitlines()]
    elif path.endswith(".csv"):
        as_written = pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
        rows = pa.csv.read_csv(path, convert_options=as_written).to_pylist()
    elif path.endswith(".avro"):
        with Path(path).open("rb") as file:
            rows = list(fastavro.reader(file))
    elif path.endswith(".msgpack"):
        rows = list(msgpack.Unpacker(io.BytesIO(Path(path).read_bytes())))
        rows = [{**row, "amount": float(row["amount"])} for row in rows]
    else:
        rows = (pq.read_table(path) if path.endswith(".parquet") else feather.read_table(path)).to_pylist()
    return sorted(({name: plain(value) for name, value in row.items()} for row in rows), key=lambda row: row["id"])


@pytest.mark.parametrize("name", INPUTS)
def test_all_results_in_json_lines_have_the_same_texts_of_values(beam_joins: Run, name: str) -> None:
    command = arrive(name, 0)
    ran(beam_joins, *command, "--latest=now.jsonl", "--output=changes.jsonl")
    ran(beam_joins, *command, "--latest=beside.parquet", "--output=upserts.jsonl", "--output-records=upserts")
    latest, as_text = written_in("now.jsonl"), partial(json.loads, parse_float=str, parse_int=str)
    changes = [as_text(line)["new"] for line in Path("changes.jsonl").read_bytes().splitlines()]
    assert sorted((values(json.dumps(row).encode()) for row in changes), key=str) == latest == written_in("upserts.jsonl")
    assert [row["amount"] for row in latest if row["id"] == '"1"'] == ['"12.5"' if name == "msgpack" else '"12.50"']
    if name != "csv":
        assert [row["v"] for row in latest if row["id"] == '"1"'] == ['{"a": "1"}']


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "avro", "csv", "msgpack"])
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.each_value
def test_rows_are_the_same_in_each_format_whatever_the_runs_before_wrote(beam_joins: Run, name: str, suffix: str) -> None:
    if suffix == "avro" and name in ("parquet", "arrow"):
        pytest.skip("Avro does not have maps of Arrow")
    command = [*arrive(name, 0), "--state-dir=state"]
    ran(beam_joins, *command, "--latest=now.jsonl")
    ran(beam_joins, *command, f"--latest=first.{suffix}")
    assert rows_in(f"first.{suffix}") == rows_in("now.jsonl")
    arrive(name, 1)
    ran(beam_joins, *command, f"--latest=now.{suffix}")
    ran(beam_joins, *command, "--latest=now.jsonl")
    ran(beam_joins, *command[:-1], "--latest=fresh.jsonl")
    assert written_in("now.jsonl") == written_in("fresh.jsonl")
    assert rows_in(f"now.{suffix}") == rows_in("now.jsonl")
    assert len(rows_in("now.jsonl")) == 3


@pytest.mark.parametrize("first", ["jsonl", "parquet"])
def test_a_column_of_numbers_and_objects_is_as_it_was_in_each_result(beam_joins: Run, first: str) -> None:
    Path("in.jsonl").write_text('{"id":1,"v":5,"lsn":1}\n{"id":2,"v":{"a":1.50},"lsn":2}\n{"id":3,"v":"x","lsn":3}\n')
    command = [*TABLE, "--input=in.jsonl"]
    ran(beam_joins, *command, "--output=u.jsonl", "--output-records=upserts", f"--latest=l.{first}")
    ran(beam_joins, *command, "--latest=l.jsonl")
    assert written_in("u.jsonl") == written_in("l.jsonl")
    assert '"v":{"a":1.50}' in Path("u.jsonl").read_text()
    ran(beam_joins, *command, "--latest=l.parquet")
    assert sorted(pq.read_table("l.parquet")["v"].to_pylist()) == ["5", "x", '{"a":1.50}']


def test_rows_with_texts_and_rows_with_types_are_joined_as_json(beam_joins: Run) -> None:
    arrive("lines", 0)
    pq.write_table(table(DAYS[0]).select(["id", "amount", "lsn"]), "right.parquet")
    sides = [
        f"--{side}-{option}"
        for side in ("left", "right")
        for option in ("key=id", "timestamp-by=", "sequence-by=lsn", "apply-as-deletes=")
    ]
    join = ["join", "--left=in/*", "--right=right.parquet", *sides]
    ran(beam_joins, *join, "--select=left.*, right as other", "--latest=now.jsonl", "--output=now.parquet", "--output-records=upserts")
    assert '"amount":12.50,"v":{"a":1},"m":{"x":5},"other":{"id":1,"amount":12.50}}' in Path("now.jsonl").read_text()
    assert [row["other"]["amount"] for row in pq.read_table("now.parquet").to_pylist()] == [Decimal("12.50"), Decimal("7.00")]


def test_a_python_program_writes_objects_that_it_has_read_as_objects(own_directory: Path) -> None:
    Path("in.jsonl").write_bytes(lines(DAYS[0]))
    with beam.Pipeline() as pipeline:
        read = ReadChangelog("in.jsonl", key="id", sequence_by="lsn", schema="inferred", except_columns=["lsn"])
        _ = pipeline | read | WriteChangelog("out.jsonl", records="rows", key="id")
    assert [loads(line) for line in sorted(Path("out.jsonl").read_bytes().splitlines())] == [
        {"id": 1, "amount": 12.5, "v": {"a": 1}, "m": {"x": 5}},
        {"id": 2, "amount": 7.0, "v": None, "m": None},
    ]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_columns_of_json_in_python_are_written_as_by_a_command(beam_joins: Run, suffix: str) -> None:
    rows = [
        '{"id":1,"amount":12.50,"lsn":1}',
        '{"id":2,"amount":7,"lsn":2}',
        '{"id":3,"amount":null,"lsn":3}',
        '{"id":4,"amount":1e3,"lsn":4}',
    ]
    Path("in.jsonl").write_text("\n".join(rows))
    Path("in.csv").write_text("id,amount,lsn\n1,12.50,1\n2,7,2\n3,,3\n4,1e3,4\n")
    schema = pa.schema({"id": pa.int64(), "amount": pa.json_(), "lsn": pa.int64()})
    with beam.Pipeline(options=PipelineOptions(["--beam_joins_partitions=1"])) as pipeline:
        read = ReadChangelog(f"in.{suffix}", key="id", sequence_by="lsn", schema=schema, except_columns=["lsn"])
        _ = pipeline | read | WriteChangelog("python.jsonl", records="rows", key="id")
    ran(beam_joins, *TABLE, f"--input=in.{suffix}", "--select=id, amount", "--latest=command.jsonl", "--beam_joins_partitions=1")
    assert written_in("python.jsonl") == written_in("command.jsonl")
    assert '"amount":12.50' in Path("python.jsonl").read_text()


def test_a_row_of_earlier_runs_that_does_not_fit_a_typed_result_is_named_with_what_to_do(beam_joins: Run) -> None:
    Path("in").mkdir()
    Path("in/1.jsonl").write_text('{"id":1,"v":5,"lsn":1}\n' * 20_000 + '{"id":2,"v":"x","lsn":2}\n')
    command = [*TABLE, "--input=in", "--state-dir=state"]
    ran(beam_joins, *command, "--latest=now.jsonl")
    ended = beam_joins(*command, "--latest=now.parquet")
    assert (ended.code, ended.out) == (2, "")
    assert """a row of the runs before, '{"id":2,"v":"x"}': column 'v' is not of type int64""" in ended.err
    assert "give --read-again input, which reads the rows again" in ended.err
    Path("in/2.jsonl").write_text('{"id":3,"v":"y","lsn":3}\n')
    ran(beam_joins, *command, "--latest=now.parquet")
    assert sorted(pq.read_table("now.parquet")["v"].to_pylist()) == ["5", "x", "y"]
