"""Lines that Arrow reads otherwise than they are to be read, and compressed files of lines."""

import bz2
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
import zstandard

from beam_joins.errors import InputError
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.formats.avro import read_records
from beam_joins.pipelines.formats.avro_blocks import avro_reason
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.csv import CsvReader
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.json_lines import JsonLinesReader
from beam_joins.pipelines.formats.read_plan import ReadPlan
from tests.pipelines.orders_run import GOOD, Run, dropped_in, numbers, one_sentence, read_lines, write
from tests.pipelines.test_rows_in_columns import GOOD as TEXTS
from tests.pipelines.test_rows_in_columns import LAYOUT, READING, both

CUSTOMER = {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1}
FILES = ("--customers", "c.jsonl", "--latest", "l.jsonl", "--on-bad-record", "drop")
LINE = ",".join(f'"{name}":{value}' for name, value in TEXTS.items())
HEADER = ",".join(name for name, _ in LAYOUT)


def fields(by: str) -> str:
    return f"7,5,1,2,c,{by},0.5,0.25,true"


@pytest.mark.parametrize("by", ['"a"b', '"a" ', '""x', '"a""b"c"', 'a"b', '"a\rb"', "a\rb"])
def test_a_line_of_csv_is_a_bad_record_or_not_whatever_lines_are_beside_it(by: str) -> None:
    for beside in (fields("ann"), "one field"):
        fast, exact = both(CsvReader(), "\n".join([HEADER, fields("ann"), fields(by), beside]).encode(), READING, LAYOUT)
        assert fast == exact
        assert len(fast[0]) + fast[2] == 3


def test_a_carriage_return_within_a_line_of_csv_begins_no_record_and_a_newline_in_quotes_ends_none() -> None:
    two_in_one, one_in_two = f"{fields('ann')}\r{fields('bob')}", fields('"a\nb"')
    fast, exact = both(CsvReader(), "\n".join([HEADER, fields("ann"), two_in_one, one_in_two]).encode(), READING, LAYOUT)
    assert fast == exact
    assert (len(fast[0]), fast[2]) == (2, 1)


def test_a_csv_file_whose_lines_end_in_carriage_returns_alone_is_refused_and_not_taken_for_an_empty_one(run: Run) -> None:
    write("c.jsonl", CUSTOMER)
    Path("o.csv").write_bytes(b"\r".join([",".join(GOOD).encode(), ",".join(map(str, GOOD.values())).encode()]))
    assert one_sentence(run("--orders", "o.csv", *FILES)).startswith("orders: o.csv has lines that end with a carriage return alone: ")


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_field_of_csv_may_be_as_long_as_its_line(quote: str) -> None:
    long = f"{quote}{'x' * 200_000}{quote}"
    fast, exact = both(CsvReader(), "\n".join([HEADER, fields("ann"), fields(long), fields("+")]).encode(), READING, LAYOUT)
    assert fast == exact
    assert len(fast[0]) == 3


@pytest.mark.parametrize("column", ["amount", "x"])
def test_a_long_number_with_a_short_exponent_may_be_beyond_the_range_of_doubles(column: str) -> None:
    beyond = ",".join(f'"{name}":{value}' for name, value in {**TEXTS, column: "9" * 250 + "e99"}.items())
    fast, exact = both(JsonLinesReader(), f"{{{LINE}}}\n{{{beyond}}}\n".encode(), READING)
    assert fast == exact
    assert (len(fast[0]), fast[2]) == (1, 1)


def test_an_orders_own_column_is_found_however_it_is_spelt() -> None:
    plan = replace(READING, columns=Columns(key=("id",), timestamp="at"), added="a/b")
    fast, exact = both(JsonLinesReader(), f'{{{LINE}}}\n{{{LINE},"a\\/b":1}}\n'.encode(), plan)
    assert fast == exact
    assert (len(fast[0]), fast[2]) == (1, 1)


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("zst", zstandard.compress)])
def test_compressed_lines_may_be_cut_into_several_streams_anywhere(run: Run, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    write("c.jsonl", CUSTOMER)
    rows = [{**GOOD, "order_id": n, "lsn": n + 1, "name": "é"} for n in range(50)]
    as_json = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    as_csv = "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]).encode()
    for name, data in ((f"o.jsonl.{suffix}", as_json), (f"o.csv.{suffix}", as_csv)):
        Path(name).write_bytes(b"".join(compress(data[start : start + 333]) for start in range(0, len(data), 333)))
        ran = run("--orders", name, *FILES)
        assert ran.code == 0, ran.err
        actual = {row["order_id"]: row for row in read_lines(Path("l.jsonl"))}
        assert sorted(actual) == list(range(50))
        assert all(row["name"] == "é" for row in actual.values())


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("zst", zstandard.compress)])
def test_a_compressed_file_that_is_cut_off_is_no_shorter_file(run: Run, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    write("c.jsonl", CUSTOMER)
    lines = b"".join(json.dumps({**GOOD, "order_id": n}).encode() + b"\n" for n in range(100))
    Path(f"o.jsonl.{suffix}").write_bytes(compress(lines) + compress(lines)[:-9])
    ran = run("--orders", f"o.jsonl.{suffix}", *FILES)
    assert ran.code != 0
    assert not Path("l.jsonl").exists()


@pytest.mark.parametrize("bad", [1.5, [1], {"a": 1}])
@pytest.mark.parametrize("where", ["order_id", "customer_id", "customers"])
@pytest.mark.each_value
def test_a_first_record_whose_key_is_none_does_not_say_what_keys_are(run: Run, bad: Any, where: str) -> None:
    order, customer = {**GOOD, "order_id": 2}, {**CUSTOMER, "lsn": 2}
    if where == "customers":
        write("c.jsonl", {**customer, "customer_id": bad}, customer)
        write("o.jsonl", order)
    else:
        write("c.jsonl", *([customer] if where == "order_id" else []))
        write("o.jsonl", {**GOOD, where: bad}, order)
    ran = run("--orders", "o.jsonl", *FILES, "--how", "left")
    assert ran.code == 0, ran.err
    assert [row["order_id"] for row in read_lines(Path("l.jsonl"))] == [2]
    assert dropped_in(numbers(ran.out)) == {("customers" if where == "customers" else "orders", "bad_record"): 1}


@pytest.mark.parametrize("kind_and_text", ["int64 02116", "int64 -07", "double +1.5", "double 007.5", "decimal(9,2) 01.5"])
def test_digits_that_may_be_no_number_are_refused_in_a_column_that_is_not_declared(tmp_path: Path, kind_and_text: str) -> None:
    kind, text = kind_and_text.split()
    path = tmp_path / "zips.csv"
    path.write_text(f"zip,id\n94107,1\n{text},2\n")
    file = File(
        path=str(path), bytes=path.stat().st_size, shown=path.name, reader=CsvReader(), layout=(("zip", kind), ("id", "int64"))
    )
    plan = ReadPlan(columns=Columns(key=("id",), timestamp="id", side="left"), key=("whole numbers",))
    for read in (plan, None):
        raw = next(CsvReader().rows(Part(0, file, 0, file.bytes), read))
        fault = raw.row(1)
        assert raw.sure is None or not raw.sure[1]
        assert isinstance(fault, str)
        assert fault.startswith(f"column 'zip' is '{text}', which may be no number")
        assert (f"schema= (string or {kind})" if read is None else f"--left-schema-overrides (zip:string or zip:{kind})") in fault
    row = next(CsvReader().rows(Part(0, replace(file, declared=("zip",)), 0, file.bytes), plan)).row(1)
    assert isinstance(row, dict)
    assert float(row["zip"]) == float(text)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".jsonl", ".jsonl.gz"])
def test_a_file_without_any_byte_has_no_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"part{suffix}"
    path.touch()
    changelog = find_changelog("rows", str(path), Columns(key=("id",), timestamp="at"))
    assert (changelog.first, changelog.types) == ((), ())
    source = CsvReader() if "csv" in suffix else JsonLinesReader()
    assert [raw for part in changelog.parts() for raw in source.rows(part, None)] == []


@pytest.mark.parametrize("suffix", [".avro", ".parquet", ".arrow"])
def test_a_file_of_a_format_with_a_schema_is_refused_where_it_is_empty(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"part{suffix}"
    path.touch()
    with pytest.raises(InputError, match=rf"rows: .*part{suffix} is empty, where a file of .* has at least its schema: leave it out"):
        find_changelog("rows", str(path), Columns(key=("id",), timestamp="at"))


def test_avro_that_is_compressed_with_snappy_is_read_and_a_codec_that_is_not_there_names_its_package(tmp_path: Path) -> None:
    path, schema = tmp_path / "t.avro", {"type": "record", "name": "T", "fields": [{"name": "id", "type": "long"}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"id": 7}], codec="snappy")
    assert [record for _, record in read_records(str(path), 0, path.stat().st_size)] == [{"id": 7}]
    lacking = ValueError("lz4 codec is supported but you need to install one of the following libraries: ('lz4',)")
    assert avro_reason(lacking) == "it is compressed with lz4, which takes a package that is not installed: pip install lz4"
