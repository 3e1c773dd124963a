"""Values that few formats have: UUIDs, nanoseconds, durations, far times, unions, at any depth; and files that are not as
others write them.
"""

import datetime as dt
import io
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from beam_joins.errors import InputError, OutputError
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.source_rows import SourceRows
from beam_joins.pipelines.formats.arrow import ArrowReader, whole_arrow
from beam_joins.pipelines.formats.avro import AvroEncoder, AvroReader, whole_avro, with_uuids_as_text
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.columnar import column_rows, row_dicts
from beam_joins.pipelines.formats.csv import CsvEncoder
from beam_joins.pipelines.formats.file_parts import File, Growing, NotWhole, Part
from beam_joins.pipelines.formats.json_lines import JsonEncoder, JsonLinesReader, whole_json
from beam_joins.pipelines.formats.msgpack import MsgpackEncoder, MsgpackReader
from beam_joins.pipelines.formats.parquet import ParquetReader, whole_parquet
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.registry import file_format
from beam_joins.pipelines.formats.types.exact_json import dumps_line, loads
from beam_joins.pipelines.formats.types.json_text import at_any_depth, nested_texts, stored, texts_of, texts_without_units
from beam_joins.pipelines.formats.types.kafka_connect import rows_of
from beam_joins.pipelines.systems.files.growing_files import Files
from beam_joins.values.arrow_types import python_list
from beam_joins.values.exact_casts import as_plain
from tests.beam_joins.types_of_columns import value_types

SEVEN = uuid.UUID(int=7)
NOON = dt.datetime(2026, 3, 1, 12)
MICROS = 1_772_366_400_000_000
FAR = 253_402_300_800  # the year 10000 in seconds
UUIDS = pa.array([SEVEN.bytes, None], pa.uuid())
READING = ReadPlan(columns=Columns(key=("id",), timestamp="at", sequence="lsn"), key=("whole numbers",))
MARK = b"\xef\xbb\xbf"
AT_NS = pa.timestamp("ns", "UTC")


def within(column: pa.Array, name: str = "x") -> pa.StructArray:
    return pa.StructArray.from_arrays([column], names=[name])


def csv_of(**columns: pa.Array) -> str:
    records = CsvEncoder(pa.schema([(name, column.type) for name, column in columns.items()]), pairs=False)
    written = io.BytesIO()
    records.writer(written).write(records.encoded(list(columns.values())))
    return written.getvalue().decode()


def avro_of(**columns: pa.Array) -> list[Any]:
    records = AvroEncoder(pa.schema([(name, column.type) for name, column in columns.items()]), pairs=False)
    encoded, written = records.encoded(list(columns.values())), io.BytesIO()
    writer = records.writer(written)
    writer.write(encoded)
    writer._writer.flush()
    return list(fastavro.reader(io.BytesIO(written.getvalue())))


def file_of(path: Path, format: str) -> File:
    return File(path=str(path), bytes=path.stat().st_size, shown=path.name, reader=file_format(format).reader)


def write_avro(path: Path, kind: Any, *values: Any) -> File:
    with path.open("wb") as file:
        schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}
        fastavro.writer(file, schema, [{"v": value} for value in values])
    return file_of(path, "avro")


@pytest.mark.parametrize("sample", list(value_types()), ids=lambda sample: str(sample.type))
def test_texts_of_any_type_are_json_and_its_rows_are_the_same_one_by_one(sample: Any) -> None:
    whole = as_plain(sample.column)
    for column in (whole, whole.slice(1), whole.slice(0, 0)):
        texts = texts_of(column)
        assert (texts.type, texts.is_valid()) == (pa.binary(), column.is_valid())
        assert at_any_depth(column, lambda leaf: leaf).to_pylist() == column.to_pylist()
        assert len(at_any_depth(column, stored)) == len(column)
        batch = pa.record_batch({"x": column})
        raw = column_rows(batch, pa.array(range(len(batch))), READING)
        assert raw.texts is not None
        one_by_one = [dumps_line(row) for row in row_dicts(batch)]
        assert [loads(text) for text in raw.texts.to_pylist()] == list(map(loads, one_by_one)) or "extension" in str(sample.type)


def test_uuids_are_text_in_json_lines_at_any_depth() -> None:
    columns = [UUIDS, within(UUIDS)]
    expected = {"u": str(SEVEN), "s": {"x": str(SEVEN)}}
    (line, _) = JsonEncoder(pa.schema([("u", pa.uuid()), ("s", columns[1].type)]), pairs=False).encoded(columns).to_pylist()
    assert json.loads(line) == expected
    (pair, _) = JsonEncoder(pa.schema([("u", pa.uuid()), ("s", columns[1].type)]), pairs=True).encoded(columns).to_pylist()
    (field, _) = json.loads(pair)["schema"]["fields"]
    assert (field["type"], field["name"], json.loads(pair)["payload"]) == ("string", "io.debezium.data.Uuid", expected)
    _, columns_of_pairs = rows_of(json.dumps(json.loads(pair)["schema"]).encode())
    assert columns_of_pairs is not None
    assert columns_of_pairs.types == pa.schema([("u", pa.string()), ("s", pa.struct([("x", pa.string())]))])


def test_uuids_have_their_logical_type_in_avro_and_are_read_as_text_at_any_depth() -> None:
    rows = avro_of(u=UUIDS, s=within(UUIDS), l=pa.ListArray.from_arrays([0, 1, 2], UUIDS))
    assert rows[0] == {"u": SEVEN, "s": {"x": SEVEN}, "l": [SEVEN]}
    assert with_uuids_as_text(rows[0]) == {"u": str(SEVEN), "s": {"x": str(SEVEN)}, "l": [str(SEVEN)]}


@pytest.mark.parametrize("nested", [lambda column: column, within, lambda column: pa.ListArray.from_arrays([0, 1], column)])
@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.timestamp("ns"), pa.duration("ns")], ids=str)
def test_nanoseconds_that_python_does_not_have_are_refused(kind: pa.DataType, nested: Callable[[pa.Array], pa.Array]) -> None:
    assert python_list(nested(pa.array([28_800_000_001_000], kind)))
    with pytest.raises(ValueError, match="would lose data: 28800000000001"):
        python_list(nested(pa.array([28_800_000_000_001], kind)))


LEAVES = [
    (pa.array([1, 28_800_000_000_000], pa.time64("ns")), ["00:00:00.000000001", "08:00:00"]),
    (pa.array([1_001, None], pa.timestamp("ns")), [1.001, None]),
    (pa.array([FAR, 0], pa.timestamp("s")), [FAR * 1_000_000, 0]),
    (pa.array([5, None], pa.duration("ms")), [5_000, None]),
    (pa.array([2_932_897, 0], pa.date32()), ["10000-01-01", "1970-01-01"]),
    (UUIDS, [str(SEVEN), None]),
]


@pytest.mark.parametrize(("column", "told"), LEAVES, ids=lambda value: str(getattr(value, "type", "")))
def test_times_within_others_are_written_as_those_outside(column: pa.Array, told: list[Any]) -> None:
    lists = pa.ListArray.from_arrays([0, 2], column)
    assert [text and json.loads(text) for text in texts_without_units(column).to_pylist()] == told
    assert json.loads(texts_without_units(lists)[0].as_py()) == told
    assert json.loads(texts_without_units(within(column))[0].as_py()) == {"x": told[0]}
    maps = pa.MapArray.from_arrays([0, 2], pa.array(["a", "b"]), column)
    assert json.loads(texts_without_units(maps)[0].as_py()) == [["a", told[0]], ["b", told[1]]]
    if column is not UUIDS:
        (row,) = row_dicts(pa.record_batch({"l": lists}))
        assert json.loads(dumps_line(row)) == {"l": told}


def test_a_far_time_within_a_list_is_refused_with_the_name_of_its_column() -> None:
    batch = pa.record_batch({"s": pa.array([[2**62]], pa.list_(pa.timestamp("s")))})
    for read in (lambda: list(row_dicts(batch)), lambda: column_rows(batch, pa.array([0]), READING)):
        with pytest.raises(
            ValueError, match=r"^column 's' has a time of type timestamp\[s\] that microseconds in 64 bits do not hold"
        ):
            read()
    with pytest.raises(OutputError, match="column 's': there is a time beyond the year 32767, 1000000000000 s since 1970"):
        csv_of(s=pa.array([[10**12]], pa.list_(pa.timestamp("s"))))
    with pytest.raises(OutputError, match=r"column 's' has a time of type duration\[s\] that microseconds"):
        csv_of(s=pa.array([2**62], pa.duration("s")))
    assert avro_of(s=pa.array([[0]], pa.list_(pa.timestamp("ms")))) == [{"s": [dt.datetime(1970, 1, 1)]}]
    assert AvroEncoder(pa.schema([("s", pa.list_(pa.timestamp("ms")))]), pairs=False).encoded(
        [pa.array([[FAR * 1000]], pa.list_(pa.timestamp("ms")))]
    )


def test_durations_and_nested_times_are_written_to_csv() -> None:
    written = csv_of(
        d=pa.array([5], pa.duration("s")),
        n=pa.array([5_001], pa.duration("ns")),
        s=pa.StructArray.from_arrays(
            [pa.array([1], pa.timestamp("ns")), pa.array([1], pa.time64("ns")), pa.array([5], pa.duration("ms"))],
            names=["at", "t", "d"],
        ),
        b=pa.array([b"\xff"]),
    )
    header, line = written.splitlines()
    assert header == '"d","n","s","b"'
    nested = '{""at"":""1970-01-01T00:00:00.000000001"",""t"":""00:00:00.000000001"",""d"":5000}'
    assert line == f'"5000000","5.001","{nested}","/w=="'


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC")], ids=str)
def test_nanoseconds_of_avro_are_read_and_written_in_their_type(tmp_path: Path, kind: pa.DataType) -> None:
    logical = {"type": "long", "logicalType": "timestamp-nanos" if kind.tz else "local-timestamp-nanos"}
    nested = {"type": "record", "name": "n", "fields": [{"name": "x", "type": ["null", logical]}, {"name": "u", "type": UUID}]}
    file = write_avro(tmp_path / "a.avro", nested, {"x": MICROS * 1_000 + 1, "u": SEVEN}, {"x": None, "u": SEVEN})
    typed = pa.schema([("v", pa.struct([("x", kind), ("u", pa.string())]))])
    plan = ReadPlan(columns=Columns(key=("id",), timestamp="at"), forms=("columns",), typed=typed)
    (raw,) = AvroReader().rows(Part(0, file, 0, file.bytes), plan)
    assert raw.structs is not None
    assert raw.structs.flatten()[0].flatten()[0].cast(pa.int64()).to_pylist() == [MICROS * 1_000 + 1, None]
    assert avro_of(n=pa.array([MICROS * 1_000 + 1, None], kind)) == [{"n": MICROS * 1_000 + 1}, {"n": None}]


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
UUID = {"type": "string", "logicalType": "uuid"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}


@pytest.mark.parametrize(
    ("kind", "values", "told", "unit"),
    [
        (["null", MILLIS, "string"], [NOON, "never", None], [MICROS, "never", None], "us"),
        (["null", "long", MILLIS], [NOON, 5], [MICROS, 5], "us"),
        (["null", {"type": "int", "logicalType": "time-millis"}, "string"], [dt.time(8), "x"], ["08:00:00", "x"], "(times of day)"),
        ({"type": "string", "logicalType": "timestamp-micros"}, ["2026-03-01"], ["2026-03-01"], None),
        ({"type": "string", "logicalType": "time-micros"}, ["x"], ["x"], None),
        (["null", NANOS, "string"], [1_000, "x"], [1, "x"], "us"),
        (["null", "int", NANOS], [1_000], [1_000], "us"),
        ({"type": "array", "items": ["null", MILLIS, UUID]}, [[NOON, SEVEN, None]], [[MICROS, str(SEVEN), None]], None),
        ({"type": "map", "values": MILLIS}, [{"a": NOON}], [{"a": MICROS}], None),
        ({"type": "fixed", "size": 2, "name": "f", "logicalType": "uuid"}, [b"ab"], [b"ab"], None),
    ],
)
def test_values_of_avro_are_what_they_are_in_unions_and_where_a_logical_type_is_none(
    tmp_path: Path, kind: Any, values: list[Any], told: list[Any], unit: str | None
) -> None:
    aware = [value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) else value for value in values]
    file = write_avro(tmp_path / "a.avro", kind, *aware)
    assert list(AvroReader().first(file)) == [{"v": value} for value in told]
    if unit == "(times of day)":
        with pytest.raises(ValueError, match="has times of day in column 'v'"):
            AvroReader().unit(file, "v")
    else:
        assert AvroReader().unit(file, "v") == unit


@pytest.mark.parametrize("columns", [None, ("a.b",), ("a",)])
def test_far_times_of_96_bits_are_refused_in_columns_with_a_point(tmp_path: Path, columns: tuple[str, ...] | None) -> None:
    path = str(tmp_path / "a.parquet")
    far = pa.array([dt.datetime(2300, 1, 1)], pa.timestamp("us"))
    pq.write_table(pa.table({"a.b": far, "at": [5]}), path, use_deprecated_int96_timestamps=True)
    growing = Growing(path, 0, True, None if columns is None else (*columns, "at"))
    if columns == ("a",):
        assert [row for _, block in whole_parquet(growing) for raw in block(None) for row in raw.objects()] == [{"at": 5}]
    else:
        with pytest.raises(ValueError, match=r"has a time in column 'a\.b' \(INT96\)"):
            list(whole_parquet(growing))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("nested", [False, True])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, suffix: str, nested: bool) -> None:
    one, path = pa.array([1]), tmp_path / f"a.{suffix}"
    twice = pa.StructArray.from_arrays([one, one], names=["b", "b"])
    table = pa.table([one, twice], names=["id", "a"]) if nested else pa.table([one, one, one], names=["id", "a.b", "a.b"])
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        feather.write_feather(table, str(path))
    reader, whole = (ParquetReader(), whole_parquet) if suffix == "parquet" else (ArrowReader(), whole_arrow)
    file, growing = file_of(path, suffix), Growing(str(path), 0, True, None)
    for read in (lambda: reader.types(file), lambda: reader.schema(file), lambda: list(whole(growing))):
        with pytest.raises(ValueError, match=r"^has two columns 'a\.b', where each has a name of its own"):
            read()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", " NaN", "[1,NaN]"])
@pytest.mark.parametrize("typed", [False, True])
def test_numbers_that_json_has_not_are_refused_in_growing_files(tmp_path: Path, number: str, typed: bool) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"at":1,"t":":NaN","v":0.5}}\n{{"at":1,"v":{number}}}\n')
    kind = pa.list_(pa.float64()) if "[" in number else pa.float64()
    schema = pa.schema([("at", pa.int64()), ("t", pa.string()), ("v", kind)]) if typed else None
    source = Files(SourceRows.of("at", schema), follow=False)
    with pytest.raises(InputError, match=r"a\.jsonl: a record cannot be read \("):
        list(source.pieces(str(path), ("", 0), (str(path), 1 << 60)))
    path.write_text('{"at":1,"t":"x:NaN"}\n')
    assert sum(piece.rows for piece in source.pieces(str(path), ("", 0), (str(path), 1 << 60))) == 1


@pytest.mark.parametrize("newline", ["", "\n"])
def test_a_byte_order_mark_before_lines_of_json_is_none_of_them(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "a.jsonl"
    lines = '{"id":1,"at":1,"lsn":1,"v":"a"}\n{"id":2,"at":1,"lsn":2,"v":"b"}' + newline
    for mark in (b"", MARK):
        path.write_bytes(mark + lines.encode())
        file, length = file_of(path, "json lines"), len(mark)
        rows = [{"id": 1, "at": 1, "lsn": 1, "v": "a"}, {"id": 2, "at": 1, "lsn": 2, "v": "b"}]
        assert list(JsonLinesReader().first(file)) == rows
        for plan in (None, READING):
            (raw,) = JsonLinesReader().rows(Part(0, file, 0, file.bytes), plan)
            assert (raw.columns is None) == (plan is None), "many at a time"
            assert [raw.row(n) for n in range(2)] == rows
            assert raw.places.to_pylist() == [length, length + lines.index("\n") + 1]
        pieces = list(whole_json(Growing(str(path), 0, True, None)))
        assert [row for _, block in pieces for raw in block(None) for row in raw.objects()] == rows
        assert pieces[-1][0] == length + len(lines)
    path.write_bytes(MARK)
    assert list(whole_json(Growing(str(path), 0, True, None))) == []
    path.write_bytes(MARK[:2])
    with pytest.raises(NotWhole):
        list(whole_json(Growing(str(path), 0, False, None)))


def test_the_places_of_a_growing_avro_file_are_in_the_order_of_its_records(tmp_path: Path) -> None:
    path = tmp_path / "rows.avro"
    with path.open("wb") as file:
        schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
        fastavro.writer(file, schema, [{"id": 7}] * 50_000, codec="deflate", sync_interval=10_000)
    blocks = [rows for _, block in whole_avro(Growing(str(path), 0, True, None)) for rows in block(None)]
    places = [place for rows in blocks for place in rows.places.to_pylist()]
    assert len(blocks) > 1
    assert places == sorted(set(places))


def test_nested_pairs_are_written_as_their_schema_says() -> None:
    rows = pa.StructArray.from_arrays([pa.array([1], pa.date32()), pa.array([1], pa.timestamp("us", "UTC"))], names=["d", "z"])
    (line,) = JsonEncoder(pa.schema([("s", rows.type)]), pairs=True).encoded([rows]).to_pylist()
    assert json.loads(line)["payload"] == {"s": {"d": 1, "z": "1970-01-01T00:00:00.000001Z"}}
    assert nested_texts(rows, texts_of).to_pylist() == [b'{"d":1,"z":1}']


@pytest.mark.parametrize("suffix", ["avro", "parquet"])
def test_a_column_may_be_declared_to_be_of_uuids(tmp_path: Path, suffix: str) -> None:
    path, schema = tmp_path / f"a.{suffix}", pa.schema([("v", pa.uuid())])
    if suffix == "avro":
        write_avro(path, UUID, SEVEN)
    else:
        pq.write_table(pa.table({"v": UUIDS.slice(0, 1)}), path)
    plan = ReadPlan(columns=Columns(key=(), timestamp="v"), key=(), forms=("row",), taken=(("v", "v"),), typed=schema)
    (raw,) = (AvroReader() if suffix == "avro" else ParquetReader()).rows(
        Part(0, file_of(path, suffix), 0, path.stat().st_size if suffix == "avro" else 1), plan
    )
    assert raw.structs is not None
    assert raw.structs.flatten()[0].to_pylist() == [SEVEN]


def test_values_of_messagepack_are_exact_and_damage_is_told_with_the_number_of_the_record(tmp_path: Path) -> None:
    nested = pa.array(
        [{"l": [b"\0\xff", None], "at": MICROS * 1_000 + 1}, None], pa.struct([("l", pa.list_(pa.binary())), ("at", AT_NS)])
    )
    columns = {
        "n": pa.array([2**64 - 1, None], pa.uint64()),
        "w": pa.array([Decimal(2**64 - 1), Decimal(2**64)]),
        "x": pa.array([0.1, -0.0]),
        "p": pa.array([None, "1.50"]).cast(pa.decimal128(9, 2)),
        "at": pa.array([MICROS * 1_000, -1], AT_NS),
        "far": pa.array([FAR, 1 << 33], pa.timestamp("s", "UTC")),
        "s": nested,
    }
    encoder = MsgpackEncoder(pa.schema([(name, column.type) for name, column in columns.items()]), pairs=False)
    encoded = b"".join(encoder.encoded(list(columns.values())).to_pylist())
    path = tmp_path / "a.msgpack"
    others = b"\x81\x91\x01\x02", b"\x81\xa1a\xa2\xc3\x28", b"\x81\xa1a\xd4\x05\x00", b"\x81\xa1a" + b"\x91" * 300 + b"\x01"
    path.write_bytes(encoded + msgspec.msgpack.encode([1]) + msgspec.msgpack.encode({1: 2}) + b"".join(others))
    file = file_of(path, "msgpack")
    (raw,) = MsgpackReader().rows(Part(3, file, 0, 0), None)
    noon = NOON.replace(tzinfo=dt.UTC)
    late, early = "2026-03-01T12:00:00.000000001Z", "1969-12-31T23:59:59.999999999Z"
    assert raw.objects() == [
        {
            "n": 2**64 - 1,
            "w": 2**64 - 1,
            "x": 0.1,
            "p": None,
            "at": noon,
            "far": "10000-01-01T00:00:00.000000000Z",
            "s": {"l": [b"\0\xff", None], "at": late},
        },
        {
            "n": None,
            "w": str(2**64),
            "x": -0.0,
            "p": "1.50",
            "at": early,
            "far": dt.datetime(2242, 3, 16, 12, 56, 32, tzinfo=dt.UTC),
            "s": None,
        },
        "not a map but [1]",
        "a name is no text: 1",
        "a name is no text: [1]",
        "a text is not UTF-8 (byte 0xc3): write what is no text as bytes",
        "a value is of the extension type 5, which is not known: write it as bytes or text",
        "nested too deeply",
    ]
    first, second = MsgpackReader().first(file)
    assert (first["at"], first["far"], second["at"]) == (MICROS, FAR * 1_000_000, Decimal("-0.001"))
    assert MsgpackReader().schema(file).field("at").type == AT_NS
    assert MsgpackReader().where(Part(3, file, 0, 0), raw.places[3].as_py()) == "record 4"
    for end, sentence in (
        (b"\x81\xa1a", "^is cut off within record 3$"),
        (b"\xdd\x3f\xff\xff\xff", "^is cut off within record 3$"),
        (b"\xc1", r"^is damaged in record 3 \(byte 0xc1 begins no value\)$"),
        (b"\x91" * 2_000, r"^is damaged in record 3 \(nested too deeply\)$"),
    ):
        path.write_bytes(encoded + end)
        with pytest.raises(ValueError, match=sentence):
            list(MsgpackReader().rows(Part(0, file, 0, 0), None))


def test_times_of_messagepack_are_not_mixed_with_numbers_and_order_nothing_but_events(tmp_path: Path) -> None:
    path = tmp_path / "a.msgpack"
    path.write_bytes(
        b"".join(msgspec.msgpack.encode({"at": at, "lsn": NOON.replace(tzinfo=dt.UTC)}) for at in (5, NOON.replace(tzinfo=dt.UTC)))
    )
    with pytest.raises(InputError, match=r"a\.msgpack has times and numbers in column 'at'"):
        find_changelog("rows", str(path), Columns(key=("at",), timestamp="at"))
    with pytest.raises(InputError, match=r"a\.msgpack has times in column 'lsn', which orders its records: write whole numbers"):
        find_changelog("rows", str(path), Columns(key=("at",), timestamp="lsn", sequence="lsn"))
