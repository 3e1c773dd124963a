"""Plain changelogs in files as tables: the same rows in each format give the table that the same records in
memory give.
"""

import datetime as dt
import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, LatestTable, TableToChanges, TableToRows
from beam_joins.errors import InputError, StateRefused
from beam_joins.io import ReadChangeEvents, ReadChangelog, WriteParquet

ROWS: list[dict[str, Any]] = [
    {"id": 1, "shop": "a", "price": "9007199254740993.25", "at": 10, "lsn": 3, "op": "u"},
    {"id": 1, "shop": "a", "price": "1.50", "at": 5, "lsn": 2, "op": "c"},
    {"id": 2, "shop": "b", "price": None, "at": 7, "lsn": 4, "op": "c"},
    {"id": 2, "shop": "b", "price": None, "at": 8, "lsn": 5, "op": "d"},
]
SCHEMA = pa.schema(
    {"id": pa.int64(), "shop": pa.string(), "price": pa.decimal128(20, 2), "at": pa.int64(), "lsn": pa.int64(), "op": pa.string()}
)
EXACT = [{**row, "price": None if row["price"] is None else Decimal(row["price"])} for row in ROWS]
ABOUT = ["at", "lsn", "op"]
BIG, SMALL = {"id": 1, "shop": "a", "price": Decimal("9007199254740993.25")}, {"id": 1, "shop": "a", "price": Decimal("1.50")}
OTHER = {"id": 2, "shop": "b", "price": None}
EXPECTED = [
    Change(1, None, SMALL, timestamp=5, position=2),
    Change(1, SMALL, BIG, timestamp=10, position=3),
    Change(2, None, OTHER, timestamp=7, position=4),
    Change(2, OTHER, None, timestamp=8, position=5),
]


def write_json_lines(path: Path, rows: Sequence[dict[str, Any]] = ROWS) -> None:
    lines = [json.dumps(row).replace(f'"{row["price"]}"', str(row["price"])) for row in rows]
    path.write_text("\n".join(lines))


def write_csv(path: Path) -> None:
    lines = [",".join("" if value is None else str(value) for value in row.values()) for row in ROWS]
    path.write_text("\n".join([",".join(SCHEMA.names), *lines]))


def write_avro(path: Path) -> None:
    kinds: dict[str, Any] = {"price": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}]}
    fields = [{"name": name, "type": kinds.get(name, "string" if name in ("shop", "op") else "long")} for name in SCHEMA.names]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, EXACT)


def write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(EXACT, SCHEMA), path, row_group_size=2)


def write_arrow(path: Path) -> None:
    with pa.ipc.new_file(path, SCHEMA) as file:
        file.write_table(pa.Table.from_pylist(EXACT, SCHEMA), max_chunksize=2)


FORMATS: dict[str, Callable[[Path], None]] = {
    "jsonl": write_json_lines,
    "csv": write_csv,
    "avro": write_avro,
    "parquet": write_parquet,
    "arrow": write_arrow,
}


MADE: list[Change[Any, Any]] = []


def keep(change: Change[Any, Any]) -> None:
    MADE.append(change)


def changes_of(read: ReadChangelog) -> list[Change[Any, Any]]:
    MADE.clear()
    with beam.Pipeline(options=PipelineOptions(["--runner=DirectRunner"])) as pipeline:
        _ = pipeline | read | TableToChanges() | beam.Map(keep)
    return sorted(MADE, key=lambda change: change.position)


@pytest.fixture(params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / f"rows.{request.param}"
    FORMATS[request.param](path)
    return str(path)


@pytest.mark.parametrize("schema", [SCHEMA, "declared", None], ids=["schema", "declared", "none"])
@pytest.mark.each_value
def test_each_format_gives_the_same_exact_table(path: str, schema: Any) -> None:
    read = ReadChangelog(
        path, key="id", schema=schema, timestamp_by="at", sequence_by="lsn", apply_as_deletes={"op": ["d"]}, except_columns=ABOUT
    )
    assert changes_of(read) == EXPECTED


def test_a_key_may_be_of_several_columns(path: str) -> None:
    read = ReadChangelog(path, key=["shop", "id"], timestamp_by="at", sequence_by="lsn", except_columns=ABOUT)
    assert {change.key for change in changes_of(read)} == {("a", 1), ("b", 2)}


def test_records_that_nothing_else_orders_are_in_the_order_of_the_file(path: str) -> None:
    read = ReadChangelog(path, key="shop", schema=SCHEMA, timestamp_by="id", except_columns=ABOUT)
    assert [change.new for change in changes_of(read)] == [SMALL, OTHER]


def test_a_column_that_a_schema_leaves_out_may_be_left_out_again(path: str) -> None:
    schema = pa.schema([field for field in SCHEMA if field.name not in ABOUT])
    options: dict[str, Any] = {"key": "shop", "schema": schema, "timestamp_by": "id"}
    assert changes_of(ReadChangelog(path, except_columns=ABOUT, **options)) == changes_of(ReadChangelog(path, **options))
    with pytest.raises(InputError, match="no column 'nr' .except_columns=."):
        changes_of(ReadChangelog(path, except_columns=["nr"], **options))


@pytest.mark.parametrize(
    ("content", "message"), [("", " has 0 bytes on .*, and had 18 when the run began"), (None, " is not there on ")]
)
def test_a_machine_that_has_another_file_refuses_it(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1, "at": 1}')
    pipeline = beam.Pipeline()
    _ = pipeline | ReadChangelog(str(path), key="id", timestamp_by="at")
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(InputError, match=f"{path}{message}.*: all machines must reach"):
        pipeline.run()


def test_large_files_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 64)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"id": {n}, "at": {n}}}\n' for n in range(100)))
    made = changes_of(ReadChangelog(str(path), key="id", timestamp_by="at"))
    assert [change.new for change in made] == [{"id": n, "at": n} for n in range(100)]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "avro"])
def test_dates_are_event_times_and_positions_and_uuids_text(tmp_path: Path, suffix: str) -> None:
    name, path = "00000000-0000-0000-0000-000000000007", tmp_path / f"a.{suffix}"
    days = [dt.date(2026, 3, 2), dt.date(2026, 3, 1)]
    rows = pa.table({"id": pa.array([UUID(name).bytes] * 2, pa.uuid()), "day": days})
    if suffix == "avro":
        kinds = {"id": {"type": "string", "logicalType": "uuid"}, "day": {"type": "int", "logicalType": "date"}}
        with path.open("wb") as avro:
            fields = [{"name": column, "type": kind} for column, kind in kinds.items()]
            fastavro.writer(avro, {"type": "record", "name": "Row", "fields": fields}, rows.to_pylist())
    elif suffix == "arrow":
        with pa.ipc.new_file(path, rows.schema) as file:
            file.write_table(rows)
    else:
        pq.write_table(rows, path)
    made = changes_of(ReadChangelog(str(path), key="id", timestamp_by="day", sequence_by="day"))
    midnights = [1_772_323_200_000_000, 1_772_409_600_000_000]
    assert [(change.key, change.new, change.timestamp, change.position) for change in made] == [
        (name, {"id": name, "day": day}, at, at) for day, at in zip(reversed(days), midnights, strict=True)
    ]


def test_files_in_several_units_are_the_same_instants(tmp_path: Path) -> None:
    for n, unit in enumerate(("ms", "us", "s", "ns")):
        times = pa.array([1_000 + n, 2_000 - n], pa.int64()).cast(pa.timestamp("s", "UTC")).cast(pa.timestamp(unit, "UTC"))
        pq.write_table(pa.table({"id": [1, 1], "at": times}), tmp_path / f"{n}.parquet")
    made = changes_of(ReadChangelog(f"{tmp_path}/*.parquet", key="id", timestamp_by="at", sequence_by="at"))
    seconds = [1_000, 1_001, 1_002, 1_003, 1_997, 1_998, 1_999, 2_000]
    assert [(change.timestamp, change.position) for change in made] == [(1_000_000 * at, 1_000_000 * at) for at in seconds]


def test_times_of_day_are_refused_when_the_pipeline_is_built(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "at": pa.array([1], pa.time64("us"))}), tmp_path / "a.parquet")
    sentence = "has times of day in column 'at' (time64[us]): take a column with the date as well"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        _ = beam.Pipeline() | ReadChangelog(f"{tmp_path}/a.parquet", key="id", timestamp_by="at")


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("schema", ["declared", pa.schema({"id": pa.int64(), "at": pa.timestamp("us")})], ids=["declared", "schema"])
def test_times_without_a_zone_are_in_utc(tmp_path: Path, suffix: str, schema: Any) -> None:
    if suffix == "parquet":
        pq.write_table(pa.table({"id": [1], "at": pa.array([dt.datetime(1970, 1, 2)], pa.timestamp("us"))}), tmp_path / "a.parquet")
    else:
        lines = {"jsonl": '{"id": 1, "at": "1970-01-02T00:00:00"}', "csv": "id,at\n1,1970-01-02T00:00:00"}
        (tmp_path / f"a.{suffix}").write_text(lines[suffix])
    read = ReadChangelog(f"{tmp_path}/a.{suffix}", key="id", timestamp_by="at", schema=schema)
    assert [(change.timestamp, change.position) for change in changes_of(read)] == [(86_400_000_000, 86_400_000_000)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_whole_numbers_count_the_unit_that_the_option_says(tmp_path: Path, unit: Any) -> None:
    number = 86_400 * {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    (tmp_path / "a.jsonl").write_text(f'{{"id": 1, "at": {number}}}')
    read = ReadChangelog(f"{tmp_path}/a.jsonl", key="id", timestamp_by="at", timestamp_unit=unit)
    assert [(change.timestamp, change.new["at"]) for change in changes_of(read)] == [(86_400_000_000, number)]


def test_times_are_those_of_columns_of_timestamps(tmp_path: Path) -> None:
    time = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    pq.write_table(pa.table({"id": [1], "at": pa.array([time], pa.timestamp("ms", "UTC"))}), tmp_path / "rows.parquet")
    schema = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": TIMESTAMP}]}
    with (tmp_path / "rows.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"id": 1, "at": time}])
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "at": "2026-01-01T01:00:00+01:00"}')
    columns = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC")})
    for name, schema_ in (("parquet", "declared"), ("avro", None), ("jsonl", columns)):
        read: Any = ReadChangelog(str(tmp_path / f"rows.{name}"), key="id", schema=schema_, timestamp_by="at")
        assert [change.timestamp for change in changes_of(read)] == [1_767_225_600_000_000]


TIMESTAMP = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key": "id", "timestamp_by": ""}, "timestamp_by=.*: give the column with the event time"),
        ({"key": "id", "apply_as_truncates": {"op": ["t"]}}, "apply_as_truncates= needs timestamp_by= or sequence_by=: a truncate"),
        ({"key": None, "timestamp_by": "at"}, "key=None: give the name of a column, or several"),
        ({"key": "id", "timestamp_by": "at", "timestamp_unit": "h"}, "timestamp_unit='h': choose one of 'us', 'ms', 's', 'ns'"),
        (
            {"key": "id", "timestamp_by": "at", "apply_as_upserts": {"op": ["N"]}},
            "apply_as_upserts= names op and apply_as_deletes= names no column",
        ),
        ({"key": "id", "timestamp_by": "at", "apply_as_deletes": {"op": "d"}}, "give one column and some of its values"),
    ],
)
def test_wrong_options_are_refused_at_construction(tmp_path: Path, options: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ReadChangelog(str(tmp_path / "rows.jsonl"), **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key": "id", "timestamp_by": "when"}, "no column 'when' .* has id, shop, price, at, lsn, op"),
        ({"key": "nr", "timestamp_by": "at"}, "no column 'nr'"),
        ({"key": "id", "timestamp_by": "at", "sequence_by": ["lsn", "nr"]}, "no column 'nr'"),
        ({"key": "id", "timestamp_by": "at", "schema": pa.schema({"idd": pa.int64()})}, "no column 'idd' .schema=."),
        ({"key": "id", "timestamp_by": "at", "except_columns": ["nr"]}, "no column 'nr' .except_columns=."),
    ],
)
def test_columns_that_no_record_has_are_refused_when_the_pipeline_is_built(tmp_path: Path, options: Any, sentence: str) -> None:
    write_json_lines(tmp_path / "rows.jsonl")
    with pytest.raises(InputError, match=sentence):
        _ = beam.Pipeline() | ReadChangelog(str(tmp_path / "rows.jsonl"), **options)


def test_a_path_without_a_file_is_refused_when_the_pipeline_is_built(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file .*rows.jsonl"):
        _ = beam.Pipeline() | ReadChangelog(str(tmp_path / "rows.jsonl"), key="id", timestamp_by="at")


@pytest.mark.parametrize(
    ("name", "text", "schema", "sentence"),
    [
        ("rows.jsonl", '{"id": 1, "at": 2}\n\n[3]\n', None, "rows.jsonl, line 3: not a JSON object but .3."),
        ("rows.jsonl", '{"id": 1, "at": 2}\n{"id": 1', None, "rows.jsonl, line 2: not JSON"),
        ("rows.jsonl", '{"id": 1, "at": 2}\n{"id": 1.5, "at": 3}', {"id": pa.int64(), "at": pa.int64()}, "rows.jsonl, line 2: .*'id'"),
        ("rows.csv", "id,at\n1,2\n1,2,3\n", None, "rows.csv, line 3: 3 fields, where the header has 2"),
        ("rows.csv", "id,at\n1,2\nx,3\n", {"id": pa.int64(), "at": pa.int64()}, "rows.csv, line 3: .*'id'"),
    ],
)
def test_a_bad_record_fails_the_run_with_its_place(tmp_path: Path, name: str, text: str, schema: Any, sentence: str) -> None:
    (tmp_path / name).write_text(text)
    read = ReadChangelog(str(tmp_path / name), key="id", schema=None if schema is None else pa.schema(schema), timestamp_by="at")
    with pytest.raises(Exception, match=sentence):
        changes_of(read)


PLAIN_AT = pa.schema({"id": pa.int64(), "at": pa.int64()})
EVENT = '{"op": "c", "after": {"id": %s}, "source": {"table": "t", "lsn": 7, "ts_ms": 5}}'


@pytest.mark.parametrize(
    ("name", "text", "options", "places"),
    [
        ("rows.jsonl", '{"id": 1, "at": 2}\n[3]\n{"id": "x", "at": 3}\n{"id": 4, "at": 2}\n', {"schema": PLAIN_AT}, [2, 3]),
        ("rows.jsonl", '{"id": 1, "at": 2}\n[3]\n{"id": 4, "at": 2}\n{"id"', {"schema": None}, [2, 4]),
        ("rows.csv", "id,at\n1,2\n1,2,3\nx,3\n4,2\n", {"schema": PLAIN_AT}, [3, 4]),
        ("rows.jsonl", "\n".join([EVENT % 1, "{}", EVENT % '"x"', EVENT % 4]), {"schema": pa.schema({"id": pa.int64()})}, [2, 3]),
        ("rows.jsonl", "\n".join([EVENT % 1, "{}", EVENT % 4]), {"schema": None}, [2]),
    ],
)
def test_bad_records_are_dropped_each_with_a_sentence_and_counted(
    tmp_path: Path, name: str, text: str, options: dict[str, Any], places: list[int]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    of_kind: dict[str, Any] = {"format": "debezium", "key": "id"} if "source" in text else {"key": "id", "timestamp_by": "at"}
    pipeline = beam.Pipeline()
    reader: Any = ReadChangeEvents if "format" in of_kind else ReadChangelog
    read = pipeline | reader(str(path), on_bad_record="drop", **of_kind, **options).with_outputs()
    expected = [("bad_record", f"{path}, line {place}", 0) for place in places]
    shown = read.bad_records | beam.Map(lambda bad: (bad.reason, bad.record.split(":")[0], bad.timestamp))
    assert_that(shown, equal_to(expected))
    assert_that(read.table | TableToChanges() | beam.Map(lambda change: change.key), equal_to([1, 4]), label="keys")
    count = len(places)
    assert_that(read.counts | beam.Map(lambda count: (count[1], count[2])), equal_to([("read", 2 + count)]), label="counts")
    result = pipeline.run()
    result.wait_until_finish()
    counted = result.metrics().query(MetricsFilter().with_name("dropped_bad_record"))["counters"]
    assert [metric.committed for metric in counted] == [count]


BAD_PLACES: dict[str, tuple[str, str]] = {
    "no time": ('{"id": 3, "n": 5}', "bad_record"),
    "a null time": ('{"id": 3, "n": 5, "at": null}', "bad_record"),
    "a time of text": ('{"id": 3, "n": 5, "at": "soon"}', "bad_record"),
    "a time of digits in text": ('{"id": 3, "n": 5, "at": "1712011512301"}', "bad_record"),
    "a time beyond 64 bits": ('{"id": 3, "n": 5, "at": 99999999999999999999}', "bad_record"),
    "a time with a fraction": ('{"id": 3, "n": 5, "at": 1.5}', "bad_record"),
    "a time of true": ('{"id": 3, "n": 5, "at": true}', "bad_record"),
    "a time of several": ('{"id": 3, "n": 5, "at": [1]}', "bad_record"),
    "no key": ('{"n": 5, "at": 2}', "null_key"),
    "a null key": ('{"id": null, "n": 5, "at": 2}', "null_key"),
    "no sequence": ('{"id": 3, "at": 2}', "bad_record"),
    "a null sequence": ('{"id": 3, "n": null, "at": 2}', "null_sequence"),
    "a sequence of text": ('{"id": 3, "n": "x", "at": 2}', "bad_record"),
    "a sequence of several": ('{"id": 3, "n": [1, 2], "at": 2}', "bad_record"),
    "a sequence with a fraction": ('{"id": 3, "n": 1.5, "at": 2}', "bad_record"),
    "a sequence beyond 64 bits": ('{"id": 3, "n": -99999999999999999999, "at": 2}', "bad_record"),
}
"""Lines, and why each is dropped."""


@pytest.mark.parametrize("key", ["id", ["id", "id2"]])
@pytest.mark.parametrize(
    "schema", [None, pa.schema([(name, pa.int64()) for name in ("id", "id2", "n", "at")])], ids=["none", "schema"]
)
def test_records_without_a_key_a_time_or_a_sequence_are_dropped_with_a_schema_and_without(
    tmp_path: Path, schema: Any, key: Any
) -> None:
    path = tmp_path / "rows.jsonl"
    bad = [line.replace("{", '{"id2": 7, ', 1) for line, _ in BAD_PLACES.values()]
    good = [f'{{"id": {n}, "id2": 7, "n": {n}, "at": {n}}}' for n in (1, 2)]
    path.write_text("".join(f"{line}\n" for line in [good[0], *bad, good[1]]))
    with beam.Pipeline() as pipeline:
        read = ReadChangelog(str(path), key=key, timestamp_by="at", sequence_by="n", on_bad_record="drop", schema=schema)
        outputs = pipeline | read.with_outputs()
        keys = [1, 2] if key == "id" else [(1, 7), (2, 7)]
        assert_that(outputs.table | TableToChanges() | beam.Map(lambda change: change.key), equal_to(keys), label="keys")
        expected = [reason for _, reason in BAD_PLACES.values()]
        assert_that(
            outputs.dropped | beam.Map(lambda one: (one.reason, "(place)" in one.record)),
            equal_to([(reason, False) for reason in expected if reason != "bad_record"]),
            label="dropped",
        )
        places = [f"{path}, line {2 + n}" for n, reason in enumerate(expected) if reason == "bad_record"]
        assert_that(outputs.bad_records | beam.Map(lambda one: one.record.split(":")[0]), equal_to(places), label="bad")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_times_in_text_are_dropped_where_they_are_none_and_order_by_microseconds(tmp_path: Path, suffix: str) -> None:
    texts = ["2026-01-01T00:00:00Z", "2026-01-01", "2026-01-01T02:00:00+02:00", "soon", "2026-01-01T00:00:00.0000001Z", None]
    rows = [{"id": n, "at": text} for n, text in enumerate(texts)]
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    else:
        (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    read = ReadChangelog(str(tmp_path / f"rows.{suffix}"), key="id", timestamp_by="at", on_bad_record="drop")
    changes = changes_of(read)
    assert sorted(change.key for change in changes) == [0, 1, 2]
    assert {change.position for change in changes} == {1_767_225_600_000_000}


def test_one_bad_text_in_a_column_of_csv_does_not_make_bad_ones_of_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,n,at\n1,1,1\n2,2,soon\n3,x,3\n4,4,99999999999999999999\n5,5,\n6,6,2026-01-01\n")
    read = ReadChangelog(str(tmp_path / "rows.csv"), key="id", timestamp_by="at", sequence_by="n", on_bad_record="drop")
    assert [(change.key, change.new["at"]) for change in changes_of(read)] == [(1, 1), (6, "2026-01-01")]


def test_a_record_of_avro_that_does_not_fit_its_column_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "rows.avro"
    with path.open("wb") as file:
        fields = [{"name": name, "type": "long"} for name in ("id", "at")]
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, [{"id": 1, "at": 2}, {"id": 1 << 40, "at": 2}])
    schema = pa.schema({"id": pa.int32(), "at": pa.int64()})
    assert [
        change.key for change in changes_of(ReadChangelog(str(path), key="id", timestamp_by="at", schema=schema, on_bad_record="drop"))
    ] == [1]


def test_a_value_of_a_file_in_columns_that_does_not_fit_names_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1.5], "at": [2]}), tmp_path / "rows.parquet")
    read = ReadChangelog(str(tmp_path / "rows.parquet"), key="id", timestamp_by="at", schema=PLAIN_AT)
    with pytest.raises(Exception, match=r"rows\.parquet, row 1 of row group 1: a row gave 1\.5 \(float\) for the column 'id'"):
        changes_of(read)


def test_the_format_of_events_is_one_that_is_read() -> None:
    wrong: Any = "csv"
    with pytest.raises(ValueError, match="format='csv': choose one of 'debezium', 'wal2json', 'maxwell'"):
        ReadChangeEvents("a.jsonl", format=wrong, key="id")


@pytest.mark.parametrize("kind", ["avro", "parquet", "arrow"])
def test_a_truncated_file_fails_with_its_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{kind}"
    FORMATS[kind](path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(Exception, match=f"rows.{kind}.* (cut off|damaged)"):
        changes_of(ReadChangelog(str(path), key="id", timestamp_by="at"))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_feed_with_old_values_beside_new_ones_gives_the_rows_of_its_last_version(tmp_path: Path, suffix: str) -> None:
    versions = [(1, "new", "insert", 1), (3, "new", "insert", 1), (1, "paid", "update_postimage", 2), (1, "new", "update_preimage", 2)]
    versions += [(3, "sent", "insert", 3), (3, "new", "delete", 3)]
    rows = [dict(zip(("id", "state", "op", "version"), each, strict=True)) for each in versions]
    path = tmp_path / f"feed{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with beam.Pipeline() as pipeline:
        read = ReadChangelog(
            str(path),
            key="id",
            timestamp_by="version",
            sequence_by="version",
            apply_as_deletes={"op": ["delete"]},
            ignored={"op": ["update_preimage"]},
            except_columns=["op", "version"],
            schema=None,
        )
        latest = pipeline | read | LatestTable()
        assert_that(latest, equal_to([(1, {"id": 1, "state": "paid"}), (3, {"id": 3, "state": "sent"})]))


def test_a_column_of_truncates_that_no_record_has_is_named_with_its_option(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "rows.jsonl")
    with pytest.raises(ValueError, match=r"no column 'kind' \(apply_as_truncates=\)"):
        _ = beam.Pipeline() | ReadChangelog(
            str(tmp_path / "rows.jsonl"), key="id", timestamp_by="at", apply_as_truncates={"kind": ["t"]}
        )


class Product(NamedTuple):
    id: str
    price: float


def test_columns_of_a_class_are_read_leave_as_rows_and_are_written_as_parquet(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,price\na,1.5\nb,2\n")
    with beam.Pipeline() as pipeline:
        rows = pipeline | ReadChangelog(str(tmp_path / "p.csv"), key="id", schema=Product) | TableToRows(key="id")
        assert_that(rows, equal_to([beam.Row(id="a", price=1.5), beam.Row(id="b", price=2.0)]))
        _ = rows | WriteParquet(str(tmp_path / "rows"))
        read_again = beam.Pipeline.from_runner_api(pipeline.to_runner_api(), pipeline.runner, pipeline.options)
        assert len(read_again.transforms_stack[0].parts) == len(pipeline.transforms_stack[0].parts)  # as notebooks do
    written = pa.concat_tables(map(pq.read_table, tmp_path.glob("rows-*")))
    assert sorted(written.to_pylist(), key=str) == [{"id": "a", "price": 1.5}, {"id": "b", "price": 2.0}]


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def changes_of_runs(state: Path, *reads: Any, options: Sequence[str] = ()) -> list[Change[Any, Any]]:
    """The changes of the last of several runs with a state, which has the ``options``."""
    for number, read in enumerate(reads, 1):
        MADE.clear()
        of_run = options if number == len(reads) else ()
        with beam.Pipeline(options=PipelineOptions([f"--beam_joins_state={state}", *of_run])) as pipeline:
            _ = pipeline | "read" >> read | TableToChanges() | beam.Map(keep)
    return sorted(MADE, key=lambda change: change.position)


OTHER_OPTIONS = [
    ({}, {"key": "k"}, "key of its reader was ['id'] and is ['k']"),
    ({}, {"sequence_by": ["lsn", "k"]}, "sequence_by of its reader was ['lsn'] and is ['lsn', 'k']"),
    ({}, {"timestamp_by": "k"}, "timestamp_by of its reader was 't' and is 'k'"),
    ({}, {"timestamp_unit": "ms"}, "timestamp_unit of its reader was 'us' and is 'ms'"),
    ({}, {"apply_as_deletes": {"op": ["d", "r"]}}, "apply_as_deletes of its reader was {'op': ['d']} and is {'op': ['d', 'r']}"),
    ({}, {"except_columns": ["op", "k"]}, "except_columns of its reader was ['op'] and is ['k', 'op']"),
    ({"schema": "inferred"}, {"schema": "inferred", "key": "k"}, "key of its reader was ['id'] and is ['k']"),
]


@pytest.mark.parametrize(("one", "other", "sentence"), OTHER_OPTIONS)
def test_another_option_of_the_reader_is_refused_by_name_in_a_later_run(tmp_path: Path, one: Any, other: Any, sentence: str) -> None:
    options: Any = {
        "key": "id",
        "timestamp_by": "t",
        "sequence_by": "lsn",
        "apply_as_deletes": {"op": ["d"]},
        "except_columns": ["op"],
    }
    write_rows(tmp_path / "a.jsonl", [{"id": 1, "k": 5, "t": 7, "lsn": 1, "op": "c"}])
    reads = (ReadChangelog(str(tmp_path / "a.jsonl"), **{**options, **each}) for each in (one, other))
    with pytest.raises(StateRefused, match=re.escape(f"read/Table (TableFromChangelog): {sentence}")):
        changes_of_runs(tmp_path / "state", *reads)


def test_an_option_of_the_reader_in_another_form_and_one_that_changes_nothing_go_on(tmp_path: Path) -> None:
    for name, lsn in (("a", 1), ("b", 2)):
        write_rows(tmp_path / f"{name}.jsonl", [{"id": 1, "t": 7, "lsn": lsn, "op": "c"}])
    one: Any = {"key": "id", "sequence_by": "lsn", "apply_as_deletes": {"op": ["d", "D"]}, "except_columns": ["op", "t"]}
    other: Any = {"key": ["id"], "sequence_by": ["lsn"], "apply_as_deletes": {"op": ["D"]}, "except_columns": ["t", "op"]}
    reads = ReadChangelog(str(tmp_path / "a.jsonl"), **one), ReadChangelog(str(tmp_path / "b.jsonl"), **other, on_bad_record="drop")
    assert [(each.old["lsn"], each.new["lsn"]) for each in changes_of_runs(tmp_path / "state", *reads)] == [(1, 2)]


def test_a_column_that_had_no_value_takes_its_type_when_it_is_read_again(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [{"id": 1, "n": None, "t": 1}])
    write_rows(tmp_path / "b.jsonl", [{"id": 2, "n": 5, "t": 2}])
    first, second, both = (
        ReadChangelog(str(tmp_path / name), key="id", timestamp_by="t", schema="inferred")
        for name in ("a.jsonl", "b.jsonl", "*.jsonl")
    )
    sentence = (
        "column 'n' had no value in the runs before, which made it text, and is int64 now: give its whole input in this run with"
    )
    with pytest.raises(StateRefused, match=f"{sentence} --beam_joins_read_again=read/Table"):
        changes_of_runs(tmp_path / "state", first, second)
    made = changes_of_runs(tmp_path / "state", both, options=["--beam_joins_read_again=read/Table"])
    assert {each.key: each.new["n"] for each in made} == {1: None, 2: 5}
