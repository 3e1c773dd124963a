"""CSV as programs export it: other delimiters, encodings, newlines in quoted fields, and headers that name no columns."""

import csv
import gzip
import io
import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import TableToChanges
from beam_joins.io import ReadChangelog
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.csv import CsvReader
from beam_joins.pipelines.formats.csv_schema import CsvText
from beam_joins.pipelines.formats.read_plan import ReadPlan
from tests.pipelines.join_run import refused
from tests.pipelines.orders_run import Run, read_lines

COLUMNS = Columns(key=("id",), timestamp="at")
ROWS = [
    {"id": 1, "at": 1, "name": 'Müller, "Ann"; a|b', "note": "one\ntwo\n\nthree"},
    {"id": 2, "at": 2, "name": "Żółć", "note": None},
    {"id": 3, "at": 3, "name": '5" pipe', "note": "plain"},
]


def written(rows: list[dict[str, Any]], delimiter: str = ",", end: str = "\n") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def both_ways(path: Path, columns: Columns = COLUMNS) -> tuple[list[Any], list[Any], list[str]]:
    """The rows and the faults of a file: as commands read it, and with these one by one, as ReadChangelog does."""
    changelog = find_changelog("rows", str(path), columns)
    assert changelog.parts()
    plan = ReadPlan(columns=columns, key=("whole numbers",), taken=tuple((name, name) for name in ("id", "at", "name", "note")))
    many, one, faults = [], [], []
    for part in changelog.parts():
        for made in ColumnReader(plan).made(part):
            many += [line for batch in made.elements for line in batch["json lines"].to_pylist()]
            faults += [f"{CsvReader().where(part, place)}: {fault}" for place, fault in made.faults]
        for raw in CsvReader().rows(part, None):
            one += [row for n in range(len(raw.places)) if isinstance(row := raw.row(n), dict)]
    return list(map(orjson.loads, many)), one, faults


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le with a mark", "utf-32"])
@pytest.mark.each_value
def test_delimiters_of_the_header_and_encodings_with_a_mark_are_read(tmp_path: Path, delimiter: str, end: str, encoding: str) -> None:
    text = written(ROWS, delimiter, end)
    path = tmp_path / "rows.csv"
    path.write_bytes(("\ufeff" + text).encode("utf-16-le") if " " in encoding else text.encode(encoding))
    many, one, faults = both_ways(path)
    assert sorted(many, key=lambda row: row["id"]) == one == ROWS
    assert faults == []
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert both_ways(packed)[1] == ROWS


def test_an_option_says_what_the_file_does_not_show(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = [{"id": 1, "at": 1, "name": "Müller €", "note": "a,b"}]
    path.write_bytes(written(rows, ";").encode("cp1252"))
    assert both_ways(path, Columns(key=("id",), timestamp="at", csv=CsvText(encoding="cp1252")))[1] == rows
    path.write_text("id,at;name,at\n1,2;x,3\n")
    changelog = find_changelog("rows", str(path), Columns(key=("id,at",), timestamp="name,at", csv=CsvText(";")))
    assert changelog.rows_have == ("id,at", "name,at")


@pytest.mark.parametrize("header", ["id", "id,at", "a;b,c", '"a;b",c', "a;b|c"])
def test_a_header_with_a_comma_or_with_two_others_is_split_by_commas(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n")
    names = next(csv.reader([header]))
    assert find_changelog("rows", str(path), COLUMNS).rows_have == tuple(names)


def test_quoted_newlines_are_read_wherever_blocks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    pieces = ["x", '"', "\n", "\r\n", ",", "ü", "\n\n", "7,8,a,b\n", ""]
    rows = [{"id": n, "at": n, "name": "".join(rng.choices(pieces, k=5)), "note": f"n{n}"} for n in range(400)]
    expected = [{**row, "name": row["name"] or None} for row in rows]
    path = tmp_path / "rows.csv"
    path.write_bytes(written(rows).encode())
    for size in (64, 100, 333, 4 << 20):
        monkeypatch.setattr("beam_joins.pipelines.formats.line_files.BLOCK_BYTES", size)
        many, one, faults = both_ways(path)
        assert (sorted(many, key=lambda row: row["id"]), faults) == (expected, [])
        assert one == expected
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 1_000)
    assert len(find_changelog("rows", str(path), COLUMNS).parts()) == 1
    assert both_ways(path)[1] == expected


def test_a_quote_without_an_end_makes_one_bad_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    rest = "".join(f"{n},{n},ok,\n" for n in range(2, 60))
    path.write_text(f'id,at,name,note\n1,1,"open,\n{rest}60,60,"fine",\n61,61,"open at the end,\n')
    for size in (50, 4 << 20):
        monkeypatch.setattr("beam_joins.pipelines.formats.line_files.BLOCK_BYTES", size)
        many, one, faults = both_ways(path)
        assert [row["id"] for row in one] == sorted(row["id"] for row in many) == list(range(2, 61))
        assert [fault.partition(":")[0] for fault in faults] == ["line 2", "line 62"]
        assert all("a quoted field does not end in its line" in fault for fault in faults)


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (b",at,lsn\n1,2,3\n", [], "rows: p.csv has no name for column 1 of 3 in its header: write one there"),
        (
            b"sep=;\r\nid;name\r\n1;x\r\n",
            [],
            "rows: p.csv begins with 'sep=;', a line for Excel above the names of its columns: leave that line out",
        ),
        (
            b"id,at,id\n1,2,3\n",
            [],
            "rows: p.csv has 'id' in its header as columns 1 and 3: give each column another name",
        ),
        (b",\n", [], "rows: p.csv begins with b',\\n', where a CSV file has the names of its columns: add that line"),
        (
            "id,größe\n1,2\n".encode("latin-1"),
            [],
            "rows: p.csv is not UTF-8 in line 1 (byte 0xf6): say with --encoding what it is, as in --encoding=cp1252 or latin-1",
        ),
        (
            "id,updated_at,name\n1,2,a\n2,2,Müller\n".encode("latin-1"),
            ["--sequence-by=", "--apply-as-deletes="],
            "rows: p.csv, line 3: column 'name' is not UTF-8 (byte 0xfc): say with --encoding what it is, as in --encoding=cp1252 or "
            "latin-1 (--on-bad-record=drop goes on without such records)",
        ),
        (
            b"id\n1\n",
            ["--encoding=ascii", "--key=x"],
            "rows have no column 'x' (--key): p.csv has id; ",
        ),
        (b"id\n\x81\n", ["--encoding=cp1252"], "rows: p.csv is not text of the encoding cp1252: "),
        (b"\xff\xfei\x00d\x00\n", [], "rows: p.csv is not text of the encoding utf-16: "),
        (
            b'id,updated_at,name\n1,2,"a \\"b\\" c"\n',
            ["--sequence-by=", "--apply-as-deletes="],
            "rows: p.csv, line 2: quotes have a backslash before them, where CSV doubles them: write the file so",
        ),
        (b"PK\x03\x04\x14\x00", [], "rows: p.csv is a ZIP archive, as spreadsheets (.xlsx) are: "),
    ],
)
def test_what_is_no_csv_of_columns_is_one_sentence(beam_joins: Run, content: bytes, options: list[str], sentence: str) -> None:
    Path("p.csv").write_bytes(content)
    assert refused(beam_joins("table", "--input", "p.csv", "--latest", "l.jsonl", *options)).startswith(sentence)


def test_the_options_are_for_csv(beam_joins: Run) -> None:
    said = refused(beam_joins("table", "--input", "l.jsonl", "--delimiter=;", "--latest", "x.jsonl"))
    assert said == "--delimiter is for CSV, and l.jsonl finds none"


def test_commands_and_read_changelog_read_the_same(beam_joins: Run) -> None:
    Path("p.csv").write_bytes(written([{**row, "name": "Müller"} for row in ROWS], ";", "\r\n").encode("latin-1"))
    ran = beam_joins("table", "--input", "p.csv", "--encoding=latin-1", "--timestamp-by=at", "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    expected = [{**row, "name": "Müller"} for row in ROWS]
    assert sorted(read_lines(Path("l.jsonl")), key=lambda row: row["id"]) == expected
    with beam.Pipeline() as pipeline:
        read = ReadChangelog("p.csv", key="id", timestamp_by="at", delimiter=";", encoding="latin-1")
        assert_that(pipeline | read | TableToChanges() | beam.Map(lambda change: change.new), equal_to(expected))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delimiter": ":"}, "':' is no delimiter of CSV: give one of , ; tab |"),
        ({"encoding": "klingon"}, "'klingon' is no encoding of text: give one such as utf-8, cp1252"),
    ],
)
def test_read_changelog_refuses_wrong_options_when_it_is_made(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("|", r"\|")):
        ReadChangelog("nowhere.csv", key="id", timestamp_by="at", **options)


ODD: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
    "one value": (
        {"a.csv": 'id,name,off,"net, EUR"\n1,"Ann\n",5,1\n2,Bob,abc,N/A\n3,Eve,6,2.5\n4,Jo,7,N/A\n5,Al,7,3\n'},
        [],
        [
            "column 'off' is text because of 'abc' in a.csv, line 4 (--schema-overrides off:int64 makes it a bad record)",
            "column 'net, EUR' is text because of 'N/A' in a.csv, line 4, and in 1 more record "
            "(--schema-overrides '\"net, EUR\":double' makes it a bad record)",
        ],
    ),
    "a compressed file, and truth values": (
        {"a.csv.gz": "id,flag\n1,true\n2,False\n3,oui\n"},
        [],
        ["column 'flag' is text because of 'oui' in a.csv.gz, line 4 (--schema-overrides flag:bool makes it a bad record)"],
    ),
    "codes with zeros, a declared column, two values, half of the values": (
        {"a.csv": "id,zip,b,c,d\n1,12345,1,1,1\n2,01234,2,x,x\n3,12345,x,y,1\n4,12345,3,4,x\n"},
        ["--schema-overrides=b:string"],
        [],
    ),
    "several files": (
        {"1.csv": "id,a,b\n1,1,1\n2,2,2\n3,x,x\n", "2.csv": "id,a,b\n4,4,text\n5,5,words\n"},
        [],
        ["column 'a' is text because of 'x' in 1.csv, line 4 (--schema-overrides a:int64 makes it a bad record)"],
    ),
    "more columns than three": (
        {"a.csv": "id,a,b,c,d,e\n1,1,1,1,1,1\n2,x,x,x,x,x\n3,2,2,2,2,2\n"},
        [],
        [
            *(
                f"column '{each}' is text because of 'x' in a.csv, line 3 (--schema-overrides {each}:int64 makes it a bad record)"
                for each in "abc"
            ),
            "of rows 2 more columns became text because of one value",
        ],
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_the_only_value_that_makes_text_of_a_column_is_named_in_a_remark(beam_joins: Run, name: str) -> None:
    files, options, expected = ODD[name]
    Path("in").mkdir()
    for file, text in files.items():
        Path("in", file).write_bytes(gzip.compress(text.encode()) if file.endswith("gz") else text.encode())
    ran = beam_joins("table", "--input=in/*", "--key=id", *options, "--latest=out.jsonl")
    assert ran.code == 0, ran.err
    assert [line.strip().replace("in/", "") for line in ran.out.splitlines() if "because of" in line] == expected


def test_the_option_of_the_remark_makes_a_bad_record_of_the_value(beam_joins: Run) -> None:
    Path("a.csv").write_text(ODD["one value"][0]["a.csv"])
    options = ["--key=id", '--schema-overrides="net, EUR":double', "--on-bad-record=drop", "--latest=out.jsonl"]
    ran = beam_joins("table", "--input=a.csv", *options)
    assert ran.code == 0, ran.err
    assert [row["net, EUR"] for row in read_lines(Path("out.jsonl"))] == [1, 2.5, 3]
