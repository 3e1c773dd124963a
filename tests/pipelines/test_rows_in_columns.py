"""Records that are read many at a time give the same rows, the same columns and the same faults as those that
are read one by one.
"""

import datetime as dt
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.errors import InputError
from beam_joins.keys.opaque import python_values
from beam_joins.options.operations import DELETES, NOT_NULL
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.column_reader import made_of
from beam_joins.pipelines.changelogs.row_types import row_types
from beam_joins.pipelines.commands.join_columns import joiner_of
from beam_joins.pipelines.commands.select import Share
from beam_joins.pipelines.formats.avro import AvroReader
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.columnar import column_rows, readable, unit_of
from beam_joins.pipelines.formats.csv import CsvReader
from beam_joins.pipelines.formats.csv_schema import Layout
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.json_lines import JsonLinesReader, json_rows
from beam_joins.pipelines.formats.parquet import ParquetReader, require_held
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows, ignored_rows, many_at_a_time
from tests.examples import examples

COLUMNS = Columns(key=("id",), timestamp="at", sequence="lsn", within=("seq",), delete="op", side="orders")
READING = ReadPlan(columns=COLUMNS, key=("whole numbers",), reference=("by",), refers=("text",), numbers=("amount",), added="customer")
TYPED = pa.schema({"amount": pa.float64(), "id": pa.int64(), "by": pa.string(), "x": pa.string()})
TIMED = ReadPlan(columns=Columns(key=("id",), timestamp="at", sequence="lsn"), key=("whole numbers",))
GOOD = {"id": "7", "at": "5", "lsn": "1", "seq": "2", "op": '"c"', "by": '"ann"', "amount": "0.5"}

STRINGS = [
    *('""', '"a"'),
    '"\\u00e9\\n"',
    '"é"',
    r'"\"op\":1,"',
    r'"x\\"',
    '", 1e400"',
    '": NaN"',
    '"{}"',
    '"op"',
    '"d"',
    '"u"',
    '"\\/"',
]
NUMBERS = [
    *["0", "-0", "-0.0", "1", "0.3", "0.30", "0.30000000000000001", "0.30000000000000004", "1e5", "1E+2", "1e400", "1e-400", "-5"],
    *["123456789012345678901234567890", "9223372036854775807", "9223372036854775808", "9" * 400, "9007199254740993.25", "5e-324"],
    *["9e308", "100000e304", "0.00000000001e315"],
]
NESTED = ["{}", '{"op":"d","lsn":3}', '[{"op": "d"}]', '{"a":{"customer":1}}', "[]", "[1, 2]", "[" * 1_200 + "]" * 1_200]
OTHERS = [
    "null",
    "true",
    "false",
    "NaN",
    "Infinity",
    "nul",
    "",
    '"2026-01-01T00:00:00Z"',
    '"2026-01-01 00:00:00.5+01:00"',
    '"7"',
    '"+7"',
    '"07"',
]
TIMES = [
    '"2026-02-30T00:00:00"',
    '"2026-01-01T24:00:00"',
    '"20260101T000000"',
    '"1712011512301"',
    '"0001-01-01T00:00:00Z"',
    '"2026-01-01"',
]
EVERY = [*STRINGS, *NUMBERS, *NESTED, "null", "true", "NaN", "-Infinity"]
VALID = st.sampled_from(EVERY)
ANY = st.sampled_from([*STRINGS, *NUMBERS, *NESTED, *OTHERS, *TIMES])
OF_COLUMN = {
    "id": st.sampled_from(["1", "-0", "9223372036854775807", "null"]),
    "at": st.sampled_from(["1", "0", "-7", "9223372036854775807"]),
    "lsn": st.sampled_from(["3", "9223372036854775807", "null"]),
    "seq": st.sampled_from(["3", "-3", "null"]),
    "op": st.sampled_from(['"d"', '"U"', '"x"', '"\\u0064"', "null"]),
    "by": st.sampled_from(['"b"', '""', r'"\"op\":1"', r'"\\"', "null"]),
    "amount": st.sampled_from([*NUMBERS, "null"]),
}
"""Values that Arrow takes for a column."""
EVERY_NAME = ["customer", "x", "ö", r"\u006fp", r"x\"op", r"op\\", "O", "a b", "op", "seq"]
NAMES = st.sampled_from(EVERY_NAME)
SPACE = st.sampled_from(["", "", "", " ", "\t", "  "])
EVERY_BROKEN = ["", "  ", "[1]", "5", "{", '{"id":1}{"id":2}', '"op"', "\v", "\x00", '{"id":7,}', '{"op":{', '},"x":1}', "\ufeff{}"]
BROKEN = st.sampled_from(EVERY_BROKEN)


@st.composite
def tame_lines(draw: Any) -> str:
    """A line that Arrow takes for most of the values."""
    members = dict(GOOD)
    for name in draw(st.lists(st.sampled_from(list(GOOD)), max_size=2, unique=True)):
        members[name] = draw(OF_COLUMN[name])
    for name in draw(st.lists(st.sampled_from(list(GOOD)), max_size=1)):
        del members[name]
    return line_of(draw, [*members.items(), *draw(st.lists(st.tuples(NAMES, VALID), max_size=2))])


@st.composite
def wild_lines(draw: Any) -> str:
    """A line that Arrow mostly refuses."""
    if draw(st.booleans()):
        return str(draw(BROKEN))
    members = dict(GOOD)
    for name in draw(st.lists(st.sampled_from(list(GOOD)), max_size=2, unique=True)):
        members[name] = draw(ANY)
    return line_of(draw, [*members.items(), *draw(st.lists(st.tuples(NAMES, ANY), max_size=1))])


def line_of(draw: Any, pairs: list[tuple[str, str]]) -> str:
    space = draw(SPACE)
    inner = f"{space},{space}".join(f'"{name}"{space}:{space}{value}' for name, value in draw(st.permutations(pairs)))
    return f"{draw(SPACE)}{{{space}{inner}{space}}}{draw(SPACE)}"


def records(source: Any, part: Part, plan: ReadPlan, one_by_one: bool) -> tuple[dict[int, Any], list[str], int]:
    """The records of a part by their places, the first faults, and how many bad records there are."""
    actual, faults = {}, list[tuple[int, str]]()
    for raw in source.rows(part, plan):
        given = RawRows(raw.places, raw.row, line=raw.line) if one_by_one else raw
        made = made_of(given, plan)
        faults += made.faults
        for batch in made.elements:
            assert batch.schema.equals(plan.schema)
            for row in python_values(batch.to_struct_array()):
                if "json lines" in row:
                    row["json lines"] = json.loads(row["json lines"], parse_float=Decimal)
                actual[row["(place)"]] = row
    return actual, [fault for _, fault in faults[:3]], len(faults)


def both(source: Any, data: bytes, plan: ReadPlan, layout: Layout = ()) -> tuple[Any, Any]:
    with tempfile.NamedTemporaryFile(suffix=".x") as file:
        file.write(data)
        file.flush()
        part = Part(
            3,
            File(path=file.name, bytes=len(data), shown="o", reader=CsvReader() if layout else JsonLinesReader(), layout=layout),
            0,
            0,
        )
        one, other = (records(source, part, plan, one_by_one) for one_by_one in (False, True))
    return one, other


FORMS = (ReadPlan.of_rows(COLUMNS, TYPED), ReadPlan.of_objects(COLUMNS, [("id",)], ["x", "op"]))
"""What a table in Python needs."""


@pytest.mark.slow
@examples(200)
@given(st.lists(st.deferred(tame_lines), max_size=5), st.sampled_from(FORMS))
def test_lines_are_the_same_typed_rows_and_the_same_dicts_many_at_a_time_and_one_by_one(rows: list[str], plan: ReadPlan) -> None:
    fast, exact = both(JsonLinesReader(), "\n".join(rows).encode(), plan)
    assert fast == exact


@pytest.mark.parametrize("name", EVERY_NAME)
def test_a_row_with_any_other_member_is_the_same_in_both_ways(name: str) -> None:
    good = ",".join(f'"{column}":{value}' for column, value in GOOD.items())
    spelt = good.replace('"op"', r'"\u006fp"')
    for value in EVERY:
        for line in (f'{{{good},"{name}":{value}}}', f'{{ "{name}" : {value} , {good}, "last": 1 }}', f'{{"{name}":{value},{spelt}}}'):
            fast, exact = both(JsonLinesReader(), f"{{{good}}}\n{line}\n".encode(), READING)
            assert fast == exact, line


DAY = dt.date(2026, 3, 1)
NOON = dt.datetime(2026, 3, 1, 12)
MICROS = 1_772_366_400_000_000
MIDNIGHT = MICROS - 43_200_000_000
SEVEN = "00000000-0000-0000-0000-000000000007"
IN_TYPES: list[tuple[pa.DataType, Any, Any, int | None, str]] = [
    # type and value; the key, the event time and position, and the JSON text that they are
    (pa.date32(), DAY, "2026-03-01", MIDNIGHT, '"2026-03-01"'),
    (pa.date64(), DAY, "2026-03-01", MIDNIGHT, '"2026-03-01"'),
    *((pa.timestamp(unit, zone), NOON, MICROS, MICROS, f"{MICROS}") for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    (pa.timestamp("ms", "Asia/Kolkata"), NOON.replace(tzinfo=dt.UTC), MICROS, MICROS, f"{MICROS}"),
    (pa.decimal128(38, 0), Decimal(7), 7, 7, "7"),
    (pa.decimal128(10, 2), Decimal("7.00"), 7, 7, "7.00"),
    (pa.decimal256(76, 0), Decimal(-7), -7, -7, "-7"),
    (pa.uuid(), UUID(SEVEN).bytes, SEVEN, None, f'"{SEVEN}"'),
    (pa.time32("s"), dt.time(8), "08:00:00", None, '"08:00:00"'),
    (pa.time64("ns"), dt.time(8, 0, 0, 5), "08:00:00.000005", None, '"08:00:00.000005"'),
    (pa.duration("ms"), dt.timedelta(seconds=7), 7_000_000, 7_000_000, "7000000"),
]


def rows_of(column: pa.Array, role: str, kind: str = "whole numbers") -> tuple[list[Any], list[str]]:
    """The rows of a column in a role, read many at a time and one by one, which is the same, and the faults."""
    about: dict[str, Any] = {"id": range(len(column)), "at": range(len(column)), "lsn": range(len(column)), role: column}
    batch = readable(pa.record_batch(about))
    columns = Columns(key=("id",), timestamp="at", sequence="lsn")
    plan = ReadPlan(columns=columns, key=(kind,))
    read = []
    for one_by_one in (False, True):
        raw = column_rows(batch, pa.array(range(len(column))), plan)
        given = RawRows(raw.places, raw.row, texts=raw.texts) if one_by_one else raw
        made = made_of(given, plan)
        read.append(([row for each in made.elements for row in each.to_pylist()], [fault for _, fault in made.faults]))
    assert read[0] == read[1]
    return read[0]


@pytest.mark.parametrize(("kind", "value", "key", "time", "text"), IN_TYPES, ids=[f"{kind}-{value}" for kind, value, *_ in IN_TYPES])
def test_a_value_of_any_type_is_the_same_key_time_position_and_text(
    kind: pa.DataType, value: Any, key: Any, time: int | None, text: str
) -> None:
    column = pa.array([value, None], kind)
    (row, missing), _ = rows_of(column, "id", "text" if isinstance(key, str) else "whole numbers")
    assert (row["(key)"], missing["(key)"]) == (key, None)
    assert row["json lines"].startswith(b'{"id":%b,' % text.encode())
    for role in ("at", "lsn"):
        given, _ = rows_of(column.slice(0, 1), role)
        assert [row["(time)" if role == "at" else "(position)"] for row in given] == ([] if time is None else [time])


@pytest.mark.parametrize(
    ("kind", "stored", "time"),
    [
        (pa.timestamp("us"), -(10**17), -(10**17)),
        (pa.timestamp("ms"), 10**14, 10**17),
        (pa.timestamp("s"), -(10**11), -(10**17)),
        (pa.date32(), 4_000_000, 4_000_000 * 86_400_000_000),
    ],
)
def test_instants_that_nanoseconds_and_calendars_do_not_hold_are_right_many_at_a_time(
    kind: pa.DataType, stored: int, time: int
) -> None:
    column = pa.array([stored], pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    batch = column_rows(pa.record_batch({"id": [1], "at": column, "lsn": [1]}), pa.array([0]), TIMED)
    assert made_of(batch, TIMED).elements[0]["(time)"].to_pylist() == [time]


@pytest.mark.parametrize(
    ("role", "column", "fault"),
    [
        ("id", pa.array([Decimal("7.50")]), "column 'id' is no key: 7.50 (keys are whole numbers, text, true or false)"),
        ("id", pa.array([Decimal(10**30)]), f"column 'id' does not fit in 64 bits: {10**30}"),
        ("id", pa.array([DAY]), "column 'id' holds whole numbers, but here text: '2026-03-01'"),
        ("lsn", pa.array([Decimal("7.5")]), "column 'lsn' is not a whole number: 7.5 (of times microseconds count"),
        ("lsn", pa.array([1_001], pa.timestamp("ns")), "column 'lsn' is not a whole number: 1.001 (of times microseconds count"),
        ("lsn", pa.array([dt.time(8)]), "column 'lsn' is not a whole number: '08:00:00'"),
        ("at", pa.array([dt.time(8)]), "column 'at' is not a time: '08:00:00'"),
    ],
)
def test_a_value_that_is_no_key_time_or_position_is_named_as_people_write_it(role: str, column: pa.Array, fault: str) -> None:
    rows, (said,) = rows_of(column, role)
    assert rows == []
    assert said.startswith(fault)


def test_a_time_that_microseconds_do_not_hold_is_refused_with_its_column() -> None:
    column = pa.array([2**60], pa.timestamp("ms"))
    with pytest.raises(ValueError, match=r"column 'at' has a time of type timestamp\[ms\] that microseconds in 64 bits do not hold"):
        column_rows(pa.record_batch({"id": [1], "at": column, "lsn": [1]}), pa.array([0]), TIMED)


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        *((pa.timestamp(unit), "us") for unit in ("s", "ms", "us", "ns")),
        *((kind, "us") for kind in (pa.date32(), pa.date64())),
        *((kind, None) for kind in (pa.int64(), pa.string(), pa.decimal128(38, 0))),
    ],
    ids=str,
)
def test_a_type_of_times_says_what_they_count(kind: pa.DataType, unit: str | None) -> None:
    assert unit_of(pa.schema({"at": kind}), "at") == unit


@pytest.mark.parametrize(
    ("kind", "what"), [(pa.time32("ms"), "times of day"), (pa.time64("ns"), "times of day"), (pa.duration("s"), "durations")]
)
def test_times_of_day_and_durations_are_refused_as_event_times(kind: pa.DataType, what: str) -> None:
    with pytest.raises(ValueError, match=rf"has {what} in column 'at' .*take a column with the date as well"):
        unit_of(pa.schema({"at": kind}), "at")


@pytest.mark.parametrize("of", ["a column", "a struct", "a list"])
@pytest.mark.parametrize("year", [1500, 1700, 2262, 9999])
def test_times_of_96_bits_are_read_as_they_are_or_refused(tmp_path: Path, of: str, year: int) -> None:
    times = pa.array([dt.datetime(year, 1, 1), None], pa.timestamp("us"))
    made = {"a column": times, "a struct": pa.StructArray.from_arrays([times], ["t"]), "a list": pa.array([[times[0].as_py()]])}[of]
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"at": made}), path, use_deprecated_int96_timestamps=True)
    with pq.ParquetFile(path) as parquet:
        if 1678 <= year <= 2262:
            require_held(path, parquet, [0])
        else:
            with pytest.raises(ValueError, match=r"has a time in column 'at' \(INT96\) that nanoseconds in 64 bits do not hold"):
                require_held(path, parquet, [0])
        require_held(path, parquet, [0], ["other"])


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ({"type": "int", "logicalType": "date"}, DAY, DAY),
        ({"type": "long", "logicalType": "timestamp-millis"}, NOON, MICROS),
        ({"type": "long", "logicalType": "timestamp-micros"}, NOON, MICROS),
        ({"type": "long", "logicalType": "timestamp-nanos"}, MICROS * 1_000, MICROS),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, NOON, MICROS),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, NOON, MICROS),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, MICROS * 1_000 + 1, Decimal(f"{MICROS}.001")),
        ({"type": "int", "logicalType": "time-millis"}, dt.time(8), "08:00:00"),
        ({"type": "long", "logicalType": "time-micros"}, dt.time(8, 0, 0, 5), "08:00:00.000005"),
        ({"type": "string", "logicalType": "uuid"}, UUID(SEVEN), SEVEN),
        ({"type": "fixed", "size": 16, "name": "u", "logicalType": "uuid"}, UUID(SEVEN).bytes, SEVEN),
    ],
    ids=lambda value: value.get("logicalType") if isinstance(value, dict) else None,
)
def test_values_of_avros_logical_types_have_no_unit(tmp_path: Path, kind: dict[str, Any], value: Any, told: Any) -> None:
    path = tmp_path / "a.avro"
    aware = value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) and not kind["logicalType"].startswith("local") else value
    with path.open("wb") as file:
        fields = [{"name": "v", "type": ["null", kind]}]
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [{"v": aware}, {"v": None}])
    file_ = File(path=str(path), bytes=path.stat().st_size, shown="a.avro", reader=AvroReader())
    assert list(AvroReader().first(file_)) == [{"v": told}, {"v": None}]
    if kind["logicalType"].startswith("time-"):
        with pytest.raises(ValueError, match="has times of day in column 'v' .*: take a column with the date as well"):
            AvroReader().unit(file_, "v")
    else:
        assert AvroReader().unit(file_, "v") == (None if kind["logicalType"] == "uuid" else "us")


@pytest.mark.parametrize("broken", EVERY_BROKEN)
def test_rows_beside_any_broken_line_are_the_same_in_both_ways(broken: str) -> None:
    good = "{" + ",".join(f'"{column}":{value}' for column, value in GOOD.items()) + "}"
    fast, exact = both(JsonLinesReader(), f"{good}\n{broken}\n{good}".encode(), READING)
    assert fast == exact
    assert len(fast[0]) == 2 or broken.startswith("\ufeff")


@examples(300)
@given(st.lists(tame_lines(), min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_lines_that_arrow_takes_are_the_same_rows_many_at_a_time_and_one_by_one(rows: list[str], newline: str, ends: bool) -> None:
    fast, exact = both(JsonLinesReader(), (newline.join(rows) + newline * ends).encode(), READING)
    assert fast == exact


@examples(300)
@given(st.lists(tame_lines(), max_size=2), wild_lines(), st.lists(tame_lines(), max_size=2))
def test_lines_among_which_one_is_refused_are_the_same_rows_many_at_a_time_and_one_by_one(
    before: list[str], line: str, after: list[str]
) -> None:
    fast, exact = both(JsonLinesReader(), "\n".join([*before, line, *after]).encode(), READING)
    assert fast == exact


@examples(200)
@given(
    st.lists(
        st.tuples(st.sampled_from([*OTHERS, *TIMES, *STRINGS]), st.sampled_from(['"7"', '"-7"', '"+7"', '"07"', '" 7"', '"x"'])),
        max_size=4,
    )
)
def test_times_and_sequences_as_text_are_the_same_many_at_a_time_and_one_by_one(texts: list[tuple[str, str]]) -> None:
    rows = [{**GOOD, "at": at, "lsn": lsn} for at, lsn in [('"2026-01-01T00:00:00"', '"1"'), *texts] if at.startswith('"')]
    data = "\n".join("{" + ",".join(f'"{name}":{value}' for name, value in row.items()) + "}" for row in rows).encode()
    fast, exact = both(JsonLinesReader(), data, READING)
    assert fast == exact


@examples(100)
@given(tame_lines(), st.binary(max_size=3))
def test_lines_that_are_not_utf_8_are_bad_records_however_they_are_read(line: str, octets: bytes) -> None:
    data = line.encode() + b"\n" + json.dumps({"x": "_"}).encode().replace(b"_", octets) + b"\n"
    fast, exact = both(JsonLinesReader(), data, READING)
    assert fast == exact


WORDS = ["", "7", "-7", "07", "+7", "1.5", "1.50", "1e3", "1e400", "nan", "inf", "0.3", "true", "TRUE", "yes", "d", "D", "ann", "é"]
QUOTED = [
    '"a,b"',
    '"a ""b"""',
    '"',
    'a"b',
    '""',
    " 7",
    "1_000",
    "9223372036854775808",
    "12345678901.25",
    "2026-01-01T00:00:00Z",
    "\\",
    "x\ty",
]
FIELDS = st.sampled_from([*WORDS, *QUOTED])
LAYOUT = (
    *(("id", "int64"), ("at", "int64"), ("lsn", "int64"), ("seq", "int64"), ("op", "string"), ("by", "string")),
    *(("amount", "decimal(12,2)"), ("share", "double"), ("paid", "bool")),
)


@st.composite
def fields(draw: Any) -> str:
    given = ["7", "5", "1", "2", "c", "ann", "0.5", "0.25", "true"]
    for n in draw(st.lists(st.integers(0, 8), max_size=2)):
        given[n] = draw(FIELDS)
    return ",".join([*given, *(["more"] if draw(st.integers(0, 20)) == 0 else [])])


@pytest.mark.slow
@examples(400)
@given(st.lists(fields(), min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_lines_of_csv_are_the_same_rows_many_at_a_time_and_one_by_one(rows: list[str], newline: str) -> None:
    header = ",".join(name for name, _ in LAYOUT)
    for plan in (READING, *FORMS):
        fast, exact = both(CsvReader(), newline.join([header, *rows, ""]).encode(), plan, LAYOUT)
        assert fast == exact


@pytest.mark.parametrize(
    "written",
    [
        json.dumps,
        lambda row: json.dumps(row, separators=(",", ":")),
        lambda row: json.dumps(dict(reversed(row.items()))) + "\r",
        lambda row: json.dumps({**row, "lines": [{"sku": "a", "n": 2}], "note": 'said "no"\n', "größe": "é"}, ensure_ascii=False),
        lambda row: json.dumps({**row, "at": "2026-01-01T00:00:00.5+01:00", "lsn": "17", "op": "D"}),
        lambda row: json.dumps({**row, "op": True, "by": None, "amount": None}),
    ],
)
def test_rows_as_they_usually_are_are_never_read_one_by_one(written: Callable[[Any], str], tmp_path: Path) -> None:
    row = {name: json.loads(value) for name, value in GOOD.items()}
    path = tmp_path / "o.jsonl"
    path.write_text("".join(f"{written({**row, 'id': n})}\n" for n in range(50)))
    part = Part(0, File(path=str(path), bytes=path.stat().st_size, shown="o", reader=JsonLinesReader()), 0, 0)
    (raw,) = JsonLinesReader().rows(part, READING)
    batch, sure = many_at_a_time(raw, READING)
    assert sure.all()
    assert batch is not None
    assert [json.loads(text)["id"] for text in batch["json lines"].to_pylist()] == list(range(50))
    assert not {"op", "lsn", "seq"} & json.loads(batch["json lines"][0].as_py()).keys()


@pytest.mark.parametrize(
    ("order", "customer", "expected"),
    [
        (b"{}", b"{}", {"customer": {}}),
        (b"{ }", b"{ }", {"customer": {}}),
        (b'{"a":1 }', None, {"a": 1, "customer": None}),
        (b'{"a":"}"}', b'{"b":2}', {"a": "}", "customer": {"b": 2}}),
    ],
)
def test_a_customer_is_put_into_an_order_of_any_form(order: bytes, customer: bytes | None, expected: dict[str, Any]) -> None:
    join = joiner_of({0: Share(), 1: Share(nested='the "customer"')}, [["json lines"]] * 2, ["json lines"])
    sides = [pa.record_batch({"json lines": pa.array([row, b'{"z":0}'], pa.binary())}) for row in (order, customer)]
    joined = join(*sides)
    expected = {('the "customer"' if name == "customer" else name): value for name, value in expected.items()}
    assert json.loads(joined["json lines"][0].as_py()) == expected
    assert joined["found"].to_pylist() == [customer is not None, True]


FEED = Columns(key=("id",), timestamp="at", sequence="lsn", delete="op", ignored=frozenset({"update_preimage", "-u"}))


def test_records_that_are_no_change_are_told_from_others_many_at_a_time_and_one_by_one() -> None:
    lines = [{"id": n, "at": 5, "lsn": n, "op": op} for n, op in enumerate(["+I", "UPDATE_PREIMAGE", "-U", "-D", "x", None])]
    plan = ReadPlan(columns=FEED, key=("whole numbers",))
    raw = json_rows(b"".join(json.dumps(line).encode() + b"\n" for line in lines), 0, plan)
    assert raw is not None
    assert ignored_rows(raw, plan).tolist() == [FEED.is_ignored(line) for line in lines] == [False, True, True, False, False, False]
    assert [FEED.fault(line) is None for line in lines] == [True, True, True, True, False, False]
    _, sure = many_at_a_time(raw, plan)
    assert sure.tolist() == [True, False, False, True, False, False]


@pytest.mark.parametrize("deletes", [DELETES, frozenset({NOT_NULL})])
def test_a_time_in_the_column_of_deletes_marks_a_deleted_row_where_null_alone_is_an_upsert(deletes: frozenset[str]) -> None:
    columns = replace(FEED, deletes=deletes, upserts=frozenset({"null"}), ignored=frozenset())
    lines = [{"id": n, "at": 5, "lsn": n, "op": op} for n, op in enumerate(["2026-03-01T09:00:00Z", "2026-03-01", "x", None])]
    del lines[-1]["op"]
    plan = ReadPlan(columns=columns, key=("whole numbers",))
    raw = json_rows(b"".join(json.dumps(line).encode() + b"\n" for line in lines), 0, plan)
    assert raw is not None
    (batch,) = made_of(raw, plan).elements
    any_value = NOT_NULL in deletes
    assert batch["(deleted)"].to_pylist() == [True, True, *([True] if any_value else []), False]
    assert [columns.is_delete(line) for line in lines] == [True, True, any_value, False]
    assert (columns.fault(lines[2]) is None) == any_value


def test_text_of_parquet_without_its_mark_is_text_where_that_of_the_operation_is_without_it_too(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [b"a1"], "op": [b"c"], "lsn": [7], "at": [5]}), path)
    columns = Columns(key=("id",), timestamp="at", sequence="lsn", delete="op")
    changelog = find_changelog("rows", str(path), columns)
    assert changelog.first == ({"id": "a1", "op": "c", "lsn": 7, "at": 5},)
    assert row_types(changelog) == pa.schema([("id", pa.string()), ("at", pa.int64())])
    (raw,) = ParquetReader().rows(changelog.parts()[0], ReadPlan(columns=columns))
    batch, sure = many_at_a_time(raw, ReadPlan(columns=columns))
    assert sure.all()
    assert batch is not None
    assert batch["json lines"].to_pylist() == [b'{"id":"a1","at":5}']
    assert find_changelog("rows", str(path), replace(columns, delete=None)).first[0]["id"] == b"a1"


def test_bytes_that_are_no_text_are_refused_where_text_is_without_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [b"a1"], "photo": [b"\xff\xfe"], "op": [b"c"], "at": [5]}), path)
    with pytest.raises(InputError, match=r"t.parquet has bytes that are no text in its column 'photo', .*: write it with the mark"):
        find_changelog("rows", str(path), Columns(key=("id",), timestamp="at", delete="op"))
