"""ReadChangeEvents: Debezium's events in Avro and Parquet, unwrapped ones, and what is about no row."""

import datetime as dt
import json
from pathlib import Path

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.metrics import MetricsFilter

from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from tests.pipelines.events import (
    AVRO,
    AVRO_ROW,
    EXPECTED,
    TIME,
    TYPES,
    avro,
    event,
    lines,
    read,
)
from tests.pipelines.orders_run import Run, dropped_in, numbers, one_sentence
from tests.pipelines.test_envelopes import SOURCE, changes

pytestmark = pytest.mark.usefixtures("own_directory")


def test_events_in_avro_give_what_the_same_events_give_in_json() -> None:
    records = [event(AVRO_ROW, lsn=1), event({**AVRO_ROW, "id": 8}, lsn=2), event({**AVRO_ROW, "id": 8}, "d", lsn=3)]
    kind, rows = read(avro("t.avro", *records), key="id", table="public.orders")
    assert {field.name: field.type for field in kind} == {name: TYPES.field(name).type for name in AVRO_ROW}
    assert rows == [{name: EXPECTED[name] for name in AVRO_ROW}]


def test_events_in_avro_are_read_in_parts_and_those_of_other_tables_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 5_000)
    records = [event({**AVRO_ROW, "id": n, "text": f"{n}" * 50}, lsn=n, table="orders" if n % 2 else "others") for n in range(1, 401)]
    with Path("t.avro").open("wb") as file:
        fastavro.writer(file, AVRO, records, sync_interval=2_000)
    _, rows = read("t.avro", key="id", table="orders")
    assert sorted(row["id"] for row in rows) == list(range(1, 401, 2))


def test_an_avro_file_that_is_cut_off_or_of_something_else_is_refused_with_its_name() -> None:
    whole = Path(avro("t.avro", *(event({**AVRO_ROW, "text": f"{n}" * 9_000}, lsn=n) for n in range(9)))).read_bytes()
    Path("t.avro").write_bytes(whole[:-5_000])
    with pytest.raises(Exception, match=r"t\.avro is damaged or cut off after record"):
        read("t.avro", key="id")
    Path("t.avro").write_bytes(b"")
    with pytest.raises(ValueError, match=r"t\.avro is empty"):
        read("t.avro", key="id")
    other = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": "int"}]}
    with pytest.raises(Exception, match=r"t\.avro, record 1: no Debezium event"):
        read(avro("t.avro", {"id": 1}, schema=other), key="id")
    kind, rows = read(avro("t.avro", schema=AVRO), key="id")
    assert rows == []


def test_rows_of_parquet_in_debeziums_form_have_its_types() -> None:
    table = pa.Table.from_pylist([event({"id": 1, "day": dt.date(2026, 1, 2)}), event({"id": 1, "day": None}, "u", lsn=9)])
    pq.write_table(table, "t.parquet", row_group_size=1)
    kind, rows = read("t.parquet", key="id")
    assert kind == pa.struct([("day", pa.date32()), ("id", pa.int64())]) or kind == pa.struct(
        [("id", pa.int64()), ("day", pa.date32())]
    )
    assert rows == [{"id": 1, "day": None}]
    Path("t.parquet").write_bytes(Path("t.parquet").read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"t\.parquet is not a Parquet file, or is damaged"):
        read("t.parquet", key="id")


UNWRAPPED = {"id": 1, "name": "a", "__op": "c", "__table": "t", "__source_ts_ms": 5, "__deleted": "false"}


def test_unwrapped_events_may_say_their_place_in_the_binary_log_or_their_time_alone() -> None:
    place = {"__source_file": "b.000002", "__source_pos": 7, "__source_row": 1, "__source_gtid": None}
    (change,) = changes(DebeziumJson((), "t"), {**UNWRAPPED, **place})
    assert (change.position, change.order, json.loads(change.row)) == ((2 << 40) + 7, 1, {"id": 1, "name": "a"})
    (change,) = changes(
        DebeziumJson((), "s.t"), {**UNWRAPPED, "__source_schema": "s", "__source_lsn": 9, "__source_sequence": '["8","9"]'}
    )
    assert (change.table, change.position, change.order) == ("s.t", 8, 9)
    path = lines(
        "t.jsonl",
        UNWRAPPED,
        {**UNWRAPPED, "name": "b", "__op": "u"},
        {**UNWRAPPED, "id": 2},
        {**UNWRAPPED, "id": 2, "name": None, "__deleted": True, "__op": "d"},
    )
    assert read(path, key="id")[1] == [{"id": 1, "name": "b"}]


def test_unwrapped_events_with_a_schema_and_in_avro_have_types_without_their_marks() -> None:
    fields = [("id", "int32"), ("day", "int32"), ("__op", "string"), ("__source_ts_ms", "int64"), ("__deleted", "string")]
    message = {
        "type": "struct",
        "fields": [{"field": name, "type": kind} | ({"name": f"{TIME}.Date"} if name == "day" else {}) for name, kind in fields],
    }
    row = {"id": 1, "day": 20_455, "__op": "u", "__source_ts_ms": 5, "__deleted": "false"}
    in_avro = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": name, "type": {"int32": "int", "int64": "long"}.get(kind, kind)} for name, kind in fields if name != "day"]
        + [{"name": "day", "type": {"type": "int", "connect.name": f"{TIME}.Date"}}],
    }
    for path in (lines("t.jsonl", {"schema": message, "payload": row}), avro("t.avro", row, schema=in_avro)):
        kind, rows = read(path, key="id")
        assert {field.name: field.type for field in kind} == {"id": pa.int32(), "day": pa.date32()}
        assert rows == [{"id": 1, "day": dt.date(2026, 1, 2)}]


def test_bounds_of_transactions_heartbeats_and_messages_are_passed_over_and_counted() -> None:
    begin = {"status": "BEGIN", "id": "571:1", "ts_ms": 5, "event_count": None, "data_collections": None}
    end = {**begin, "status": "END", "event_count": 1, "data_collections": [{"data_collection": "public.t", "event_count": 1}]}
    path = lines(
        "t.jsonl", begin, event({"id": 1}), end, {"schema": None, "payload": end}, {"ts_ms": 7}, {"op": "m", "source": SOURCE}, None
    )
    pipeline = beam.Pipeline()
    _ = pipeline | ReadChangeEvents(path, format="debezium", key="id")
    result = pipeline.run()
    result.wait_until_finish()
    counted = {
        each.key.metric.name: each.committed
        for each in result.metrics().query(MetricsFilter().with_namespace("beam_joins"))["counters"]
    }
    assert {name: count for name, count in counted.items() if name.startswith("skipped")} == {
        "skipped_transaction_metadata": 3,
        "skipped_heartbeat": 1,
        "skipped_message": 1,
    }


def test_a_bad_record_of_avro_can_be_dropped_by_the_orders_command(run: Run) -> None:
    avro("o.avro", event(AVRO_ROW, lsn=1), event(AVRO_ROW, "x", lsn=2))
    lines("c.jsonl", event({"id": 7}))
    options = [f"--{side}-format=debezium" for side in ("orders", "customers")] + ["--orders-key=id", "--customers-key=id"]
    files = ["--orders", "o.avro", "--customers", "c.jsonl", "--foreign-key=id", "--latest", "l.jsonl"]
    assert "o.avro, record 2: an event of the unknown operation 'x'" in one_sentence(run(*files, *options))
    ran = run(*files, *options, "--on-bad-record=drop")
    assert ran.code == 0, ran.err
    assert dropped_in(numbers(ran.out)) == {("orders", "bad_record"): 1}
    assert '"price":-12345678.90,"day":"2026-01-02"' in Path("l.jsonl").read_text()


def test_files_of_both_forms_and_empty_ones_make_one_table() -> None:
    Path("in").mkdir()
    avro("in/1.avro", event(AVRO_ROW, lsn=1))
    pq.write_table(pa.Table.from_pylist([event({"id": 7, "text": "new"}, "u", lsn=2)]), "in/2.parquet")
    lines("in/3.jsonl")
    rows = read("in/*", key="id", schema=pa.schema([("id", pa.int64()), ("text", pa.string())]))[1]
    assert rows == [{"id": 7, "text": "new"}]
