"""Numbers, times and words for true and false, as people write them into CSV files."""

import csv
import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_joins import TableToChanges
from beam_joins.errors import InputError
from beam_joins.io import ReadChangelog, ReadSnapshots
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.column_reader import ColumnReader
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.column_formats import column_format, plain_text, plain_texts, readings
from beam_joins.pipelines.formats.csv import CsvReader
from beam_joins.pipelines.formats.csv_schema import CsvText
from beam_joins.pipelines.formats.read_plan import ReadPlan
from tests.pipelines.join_run import refused
from tests.pipelines.orders_run import Run, read_lines

pytestmark = pytest.mark.usefixtures("own_directory")
MARKS = [("", ","), (".", ","), (" ", ","), ("'", "."), (",", "."), ("", "."), ("\u00a0", ",")]
TIMES = ["%d.%m.%Y %H:%M", "%m/%d/%Y", "%d.%m.%y", "%Y%m%d", "%d-%b-%Y %I:%M %p", "%Y/%m/%dT%H:%M:%S", "%d.%m.%Y %H:%M%z", "%j %Y"]
NAMES = ("id", "amount", "day", "paid")
numbers = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9)
times = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2068, 12, 31)).map(lambda time: time.replace(second=0, microsecond=0))


def written(number: Decimal, thousands: str, decimal: str) -> str:
    """A number, with another notation than the one that reads it."""
    return f"{number:,f}".replace(",", "\0").replace(".", decimal).replace("\0", thousands)


def sample(thousands: str, decimal: str) -> str:
    return f"1{thousands}234{decimal}5"


@given(numbers, st.sampled_from(MARKS))
def test_a_number_is_read_with_its_digits_from_any_format(number: Decimal, marks: tuple[str, str]) -> None:
    text = written(number, *marks)
    assert plain_text(text, [sample(*marks)]) == f"{number:f}"
    assert plain_text(text.lstrip("-") + "-", [sample(*marks)]) == f"-{abs(number):f}"


@given(times, st.sampled_from(TIMES))
def test_a_time_is_read_as_its_form_says(time: dt.datetime, form: str) -> None:
    text = plain_text(time.replace(tzinfo=dt.UTC).strftime(form), [form])
    assert text is not None
    expected = time.replace(tzinfo=dt.UTC) if "z" in form else time
    assert dt.datetime.fromisoformat(text) == (expected if "H" in form or "I" in form else dt.datetime.combine(time, dt.time()))


NEAR = st.one_of(
    st.from_regex(r"[-+]?[0-9]{0,4}[., ']?[0-9]{1,3}[.,]?[0-9]{0,3}(e[0-9])?[-+]?", fullmatch=True),
    st.from_regex(r"[0-9]{1,2}[./][0-9]{1,2}[./]([0-9]{2}|[0-9]{4})( [0-9]{1,2}:[0-9]{2})?\n?", fullmatch=True),
    st.builds(lambda time, form: time.strftime(form), times, st.sampled_from(TIMES)),
    st.builds(written, numbers, *map(st.sampled_from, (" .,'", ",."))),
    st.sampled_from(["ja", "NEIN", "", "007", "\u0663", "29.02.2026", "31.04.2026", "29.02.2024", "0,5-", "-0", "\u0661.\u0667.2026"]),
    st.text(max_size=5),
)
FORMATS = [*(sample(*marks) for marks in MARKS if marks[0] != marks[1]), *TIMES, "ja/nein", "ß/İ"]


@settings(max_examples=300)
@given(st.lists(st.none() | NEAR, max_size=8), st.lists(st.sampled_from(FORMATS), min_size=1, max_size=2))
def test_a_column_is_read_as_each_of_its_texts(texts: list[str | None], formats: list[str]) -> None:
    one_by_one = [None if text is None else plain_text(text, formats) for text in texts]
    assert plain_texts(pa.array(texts, pa.string()), formats).to_pylist() == one_by_one


@given(st.lists(NEAR, min_size=1, max_size=4))
def test_formats_that_may_be_those_of_a_column_read_all_of_its_texts_each_as_something_else(texts: list[str]) -> None:
    meanings = [tuple(plain_text(text, [each]) for text in texts) for each in readings(texts)]
    assert not any(None in each for each in meanings)
    assert len({*meanings}) == len(meanings)


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["2.672,36", "12,00"], ["1.234,5"]),
        (["2,5", "12,00"], ["1234,5"]),
        (["1 234,5", "1\u202f234,5"], ["1 234,5"]),
        (["1,234"], ["1234,5", "1,234.5"]),
        (["1,234", "12,345.60"], ["1,234.5"]),
        (["1.234.567"], ["1.234,5"]),
        (["13.07.2026 11:09"], ["%d.%m.%Y %H:%M"]),
        (["07/13/2026", "01/02/2026"], ["%m/%d/%Y"]),
        (["07/08/2026"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["13-JUL-26"], ["%d-%b-%y"]),
        (["ja", "Nein"], ["ja/nein"]),
        (["ja"], []),
        (["1.5", "2"], []),
        (["01067", "04109"], []),
        (["0151 234 567"], []),
        (["2026-07-13T11:09:00Z"], []),
        (["Hauptstr. 12"], []),
        (["2,50", "n/a"], []),
    ],
)
def test_a_look_at_texts_tells_their_format_and_two_where_two_fit(texts: list[str], formats: list[str]) -> None:
    assert list(readings(texts)) == formats


def write_csv(path: str, rows: Sequence[Sequence[str]], names: Sequence[str] = NAMES) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows([names, *rows])


def rows_of(path: str, columns: Columns) -> tuple[list[Any], list[str], Any]:
    """The rows of a file as commands read them, the faults, and the types of its columns."""
    changelog = find_changelog("rows", path, columns)
    plan = ReadPlan(columns=columns, key=("whole numbers",), taken=tuple((name, name) for name in NAMES))
    rows, faults = [], []
    for part in changelog.parts():
        for made in ColumnReader(plan).made(part):
            rows += [line for batch in made.elements for line in batch["json lines"].to_pylist()]
            faults += [f"{CsvReader().where(part, place)}: {fault}" for place, fault in made.faults]
    return rows, faults, changelog.types


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.none() | numbers, st.none() | times, st.sampled_from(["true", "false", ""])), min_size=1, max_size=9),
    st.sampled_from([marks for marks in MARKS if marks[0] != marks[1]]),
    st.sampled_from(["%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%d-%b-%Y %I:%M %p"]),
    st.sampled_from([(), (("amount", "decimal(12,2)"),), (("paid", "string"),)]),
)
def test_a_file_in_formats_is_read_as_the_same_file_without_them(rows: Any, marks: Any, form: str, declared: Any) -> None:
    plain, formatted = [], []
    for number, (amount, day, paid) in enumerate(rows):
        iso = "" if day is None else day.isoformat()
        plain.append((str(number), "" if amount is None else f"{amount:f}", iso, paid))
        as_text = "" if amount is None else written(amount, *marks)
        formatted.append(
            (str(number), as_text, "" if day is None else day.strftime(form), {"true": "Oui", "false": "non"}.get(paid, ""))
        )
    write_csv("plain.csv", plain)
    write_csv("formatted.csv", formatted)
    formats = (("amount", (sample(*marks),)), ("day", (form,)), ("paid", ("oui/non",)))
    columns = Columns(key=("id",), declared=declared)
    in_formats = Columns(key=("id",), declared=declared, csv=CsvText(formats=formats))
    rows_read, faults, types = rows_of("formatted.csv", in_formats)
    assert (rows_read, faults) == (rows_of("plain.csv", columns)[0], [])
    if all(any(row[place] for row in plain) for place in range(4)):
        assert types == rows_of("plain.csv", columns)[2]
    first = CsvReader().first(find_changelog("rows", "formatted.csv", in_formats).files[0])
    assert list(first) == list(CsvReader().first(find_changelog("rows", "plain.csv", columns).files[0]))


def test_a_text_in_another_format_is_a_bad_record_and_the_others_are_read() -> None:
    write_csv("rows.csv", [("1", "2.672,36", "13.07.2026", "ja"), ("2", "2.67", "14.07.2026", "ja"), ("3", "1,5", "31.06.2026", "ja")])
    formats = (("amount", ("1.234,5",)), ("day", ("%d.%m.%Y",)))
    rows, faults, types = rows_of("rows.csv", Columns(key=("id",), csv=CsvText(formats=formats)))
    assert rows == [b'{"id":1,"amount":2672.36,"day":"2026-07-13","paid":"ja"}']
    assert faults == [
        "line 3: column 'amount' is not in the format 1.234,5: '2.67'",
        "line 4: column 'day' is not in the format %d.%m.%Y: '31.06.2026'",
    ]
    assert dict(types) == {"id": "int64", "amount": "double", "day": "string", "paid": "string"}


def test_columns_without_values_yet_have_the_types_of_their_formats() -> None:
    write_csv("rows.csv", [("1", "", "", "")])
    formats = (("amount", ("1.234,5",)), ("day", ("%d.%m.%Y",)), ("paid", ("ja/nein",)))
    types = rows_of("rows.csv", Columns(key=("id",), csv=CsvText(formats=formats)))[2]
    assert dict(types) == {"id": "int64", "amount": "double", "day": "string", "paid": "bool"}


def table(*options: object) -> list[object]:
    return ["--input", "rows.csv", "--output", "out.jsonl", "--timestamp-by=", "--sequence-by=", "--apply-as-deletes=", *options]


def remarks(text: str) -> list[str]:
    return [line.strip() for line in text.partition("remarks\n")[2].splitlines()]


def test_a_remark_has_the_option_for_each_column_and_reads_none_by_itself(beam_joins: Run) -> None:
    rows = [
        ("1", "2.672,36", "13.07.2026 11:09", "ja", "07/08/2026", "1.250"),
        ("2", "12,00", "01.02.2026 11:09", "nein", "", "2.500"),
    ]
    write_csv("rows.csv", rows, [*NAMES, "us=", "weight"])
    ran = beam_joins("table", *table())
    assert ran.code == 0, ran.err
    said = [line for line in remarks(ran.out) if line.startswith("column")]
    assert said == [
        "column 'amount' of rows is text, such as '2.672,36' (--column-formats amount=1.234,5 reads it)",
        "column 'day' of rows is text, such as '13.07.2026 11:09' (--column-formats 'day=%d.%m.%Y %H:%M' reads it)",
        "column 'paid' of rows is text, such as 'ja' (--column-formats paid=ja/nein reads it)",
        "column 'us=' of rows is text, such as '07/08/2026', which means several things "
        "(--column-formats '\"us=\"=%d/%m/%Y' or '\"us=\"=%m/%d/%Y' says which)",
        "column 'weight' of rows is double, such as '1.250', which means several things "
        "(--column-formats weight=1234.5 or weight=1.234,5 says which)",
    ]
    assert read_lines(Path("out.jsonl"))[0]["new"]["amount"] == "2.672,36"
    formats = ["amount=1.234,5", "day=%d.%m.%Y %H:%M", "paid=ja/nein", '"us="=%m/%d/%Y', "weight=1.234,5"]
    ran = beam_joins("table", *table("--output", "again.jsonl", *(each for text in formats for each in ("--column-formats", text))))
    assert [line for line in remarks(ran.out) if line.startswith("column '")] == []
    assert read_lines(Path("again.jsonl"))[0]["new"] == {
        "id": 1, "amount": 2672.36, "day": "2026-07-13T11:09:00", "paid": True, "us=": "2026-07-08", "weight": 1250,
    }  # fmt: skip


def test_a_format_is_told_of_a_column_only_where_it_fits_in_all_files(beam_joins: Run) -> None:
    for name, amount in {"a": "12,50", "b": "7", "c": ""}.items():
        write_csv(f"{name}.csv", [("1", amount, "", "")])
    options = [*table("--input", "*.csv")]
    assert "column 'amount' of rows is text, such as '12,50'" in beam_joins("table", *options, "--output", "one.jsonl").out
    write_csv("d.csv", [("1", "n/a", "", "")])
    assert "column 'amount'" not in beam_joins("table", *options, "--output", "two.jsonl").out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--schema-overrides", "amount:decimal(12,2)"],
            "rows: rows.csv, line 2: column 'amount' is not of type decimal(12,2): '2.672,36': say how it is written, with "
            "--column-formats amount=1.234,5",
        ),
        (
            ["--timestamp-by", "day"],
            "rows: rows.csv, line 2: column 'day' is not a time: '13.07.2026', and no text in ISO 8601 such as 2026-11-01T08:00:00: "
            "say how it is written, with --column-formats day=%d.%m.%Y",
        ),
        (
            ["--column-formats", "amount"],
            "--column-formats: 'amount' is no column with a format: write COLUMN=FORMAT, as in amount=1.234,5",
        ),
        (["--column-formats", "none=1.234,5"], "rows have no column 'none' (--column-formats): rows.csv has id, amount, day, paid; "),
        (
            ["--column-formats", "amount=1.234.5"],
            "--column-formats: column 'amount': '1.234.5' is no format of a column: give a number as in '1.234,5', a form of "
            "strptime as in '%d.%m.%Y %H:%M', or words as in 'ja/nein'",
        ),
        (
            ["--column-formats", "day=%H:%M"],
            "--column-formats: column 'day': '%H:%M' does not say a day: write it as strptime does, such as ",
        ),
        (["--column-formats", "day=%d.%m.%Q"], "--column-formats: column 'day': %Q is none of %Y, %y, "),
        (["--column-formats", "day=%d.%d.%m.%Y"], "--column-formats: column 'day': '%d.%d.%m.%Y' is no form of times: "),
        (
            ["--column-formats", "day=%d.%m.%Y|ja/nein"],
            "--column-formats: column 'day' has formats of several types: %d.%m.%Y, ja/nein",
        ),
    ],
)
def test_a_wrong_or_a_missing_format_is_refused_with_a_sentence(options: list[str], sentence: str, beam_joins: Run) -> None:
    write_csv("rows.csv", [("1", "2.672,36", "13.07.2026", "ja")])
    assert refused(beam_joins("table", *table(*options))).startswith(sentence)


def test_formats_of_other_files_are_refused(beam_joins: Run) -> None:
    Path("rows.jsonl").write_text('{"id": 1, "amount": "1,5"}\n')
    options = table("--input", "rows.jsonl", "--column-formats", "amount=1.234,5")
    assert refused(beam_joins("table", *options)) == "--column-formats is for CSV, and rows.jsonl finds none"


def test_a_later_run_in_another_format_is_refused_until_all_is_read_again(beam_joins: Run) -> None:
    Path("in").mkdir()
    write_csv("in/a.csv", [("1", "1.234", "13.07.2026", "ja")])
    options = ["--input", "in/*.csv", "--latest", "out.jsonl", "--state-dir", "state", "--timestamp-by=day", "--sequence-by="]
    options += ["--apply-as-deletes=", "--column-formats", "day=%d.%m.%Y"]
    assert beam_joins("table", *options).code == 0
    assert json.loads(Path("out.jsonl").read_text())["amount"] == 1.234
    others = [*options, "--column-formats", "amount=1.234,5"]
    said = refused(beam_joins("table", *others))
    assert said.startswith(
        "--column-formats is ['day=%d.%m.%Y', 'amount=1.234,5'], but ['day=%d.%m.%Y'] in the runs before: give it as it was, or "
    )
    assert beam_joins("table", *others, "--read-again", "input", "--beam_joins_changed=rebuild").code == 0
    assert json.loads(Path("out.jsonl").read_text())["amount"] == 1234


def test_the_readers_of_python_take_formats_and_make_typed_columns_of_them() -> None:
    Path("in").mkdir()
    write_csv("in/2026-07-01.csv", [("1", "2.672,36", "13.07.2026 11:09", "ja")])
    write_csv("in/2026-07-02.csv", [("1", "2.672,37", "13.07.2026 11:09", "nein")])
    schema = pa.schema({"id": pa.int64(), "amount": pa.decimal128(12, 2), "day": pa.timestamp("us"), "paid": pa.bool_()})
    formats = {"amount": "1.234,5", "day": ["%m/%d/%Y", "%d.%m.%Y %H:%M"], "paid": "ja/nein"}
    day = dt.datetime(2026, 7, 13, 11, 9)
    first = {"id": 1, "amount": Decimal("2672.36"), "day": day, "paid": True}
    second = {"id": 1, "amount": Decimal("2672.37"), "day": day, "paid": False}
    with beam.Pipeline() as pipeline:
        read = ReadChangelog("in/2026-07-01.csv", key="id", timestamp_by="day", schema=schema, column_formats=formats)
        rows = pipeline | read | TableToChanges() | "Of rows" >> beam.Map(lambda change: (change.new, change.timestamp))
        assert_that(rows, equal_to([(first, 1_783_940_940_000_000)]), label="rows")
        snapshots = ReadSnapshots("in/*.csv", key="id", timestamp_in_path="%Y-%m-%d", schema=schema, column_formats=formats)
        changes = pipeline | snapshots | "Changes" >> TableToChanges() | beam.Map(lambda change: (change.old, change.new))
        assert_that(changes, equal_to([(None, first), (first, second)]), label="changes")


@pytest.mark.parametrize(
    ("formats", "sentence"),
    [
        ("1.234,5", "column_formats=: '1.234,5': give columns and their formats, as in {'amount': '1.234,5'}"),
        ({"a": 1234.5}, "column_formats=: column 'a' has 1234.5 for a format: give a number"),
        ({"a": []}, "column_formats=: column 'a' has [] for a format: give a number"),
        ({"a": "ja"}, "column_formats=: column 'a': 'ja' is no format of a column: give a number"),
        ({"a": "ja/JA"}, "column_formats=: column 'a': 'ja/JA' is no format of a column: give a number"),
    ],
)
def test_a_wrong_format_is_refused_at_construction(formats: Any, sentence: str) -> None:
    for reader in (ReadChangelog, ReadSnapshots):
        with pytest.raises(ValueError, match="column_formats=") as error:
            reader("rows.csv", key="id", column_formats=formats)
        assert str(error.value).startswith(sentence)
        assert not isinstance(error.value, InputError)


def test_a_form_of_times_with_a_wrong_type_of_part_is_refused() -> None:
    with pytest.raises(ValueError, match="%x is none of"):
        column_format("%x %Y-%m-%d")


def test_a_later_format_of_a_column_takes_the_place_of_an_earlier_one_and_several_stand_in_one_option(beam_joins: Run) -> None:
    write_csv("rows.csv", [("1", "2.672,36", "13.07.2026", ""), ("2", "1.000", "07/14/2026", "")])
    Path("o.toml").write_text('column-formats = ["amount=1,234.5", "day=%Y-%m-%d"]\n')
    formats = ["--column-formats", "amount=1.234,5", "--column-formats", "day=%d.%m.%Y|%m/%d/%Y"]
    ran = beam_joins("table", *table("--options", "o.toml", *formats, "--output", "out.jsonl"))
    assert ran.code == 0, ran
    rows = [(change["new"]["amount"], change["new"]["day"]) for change in read_lines(Path("out.jsonl"))]
    assert rows == [(2672.36, "2026-07-13"), (1000, "2026-07-14")]


def test_a_text_with_two_meanings_in_the_formats_of_its_column_is_a_bad_record() -> None:
    write_csv("rows.csv", [("1", "2.672,36", "13/07/2026", ""), ("2", "1.000", "07/13/2026", ""), ("3", "1,5", "07/08/2026", "")])
    formats = (("amount", ("1.234,5", "1,234.5")), ("day", ("%d/%m/%Y", "%m/%d/%Y")))
    rows, faults, _ = rows_of("rows.csv", Columns(key=("id",), csv=CsvText(formats=formats)))
    assert rows == [b'{"id":1,"amount":2672.36,"day":"2026-07-13","paid":null}']
    means = "is not in one of the formats, or means several things in them:"
    assert faults == [
        f"line 3: column 'amount' {means} 1.234,5 or 1,234.5: '1.000'",
        f"line 4: column 'day' {means} %d/%m/%Y or %m/%d/%Y: '07/08/2026'",
    ]


def test_a_format_that_no_text_is_in_is_refused_by_the_look_also_of_a_dry_run(beam_joins: Run) -> None:
    write_csv("rows.csv", [("1", "2.672,36", "13.07.2026", "")])
    sentence = "rows: rows.csv has no text in column 'day' in the format %Y-%m-%d, but such as '13.07.2026'"
    for dry in ([], ["--dry-run"]):
        assert refused(beam_joins("table", *table("--column-formats", "day=%Y-%m-%d", *dry))) == sentence
