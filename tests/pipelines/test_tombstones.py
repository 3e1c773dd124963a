"""Tombstones of a topic whose delete events are gone."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins import LatestTable
from beam_joins.errors import InputError
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.formats.changelog_columns import DELETED
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.row_change import RowChange
from beam_joins.pipelines.formats.envelopes.tombstones import JsonEvents, Tombstones
from beam_joins.pipelines.systems.kafka.event_topics import EnvelopedRecords
from tests.pipelines.orders_run import Run, read_lines, write
from tests.pipelines.streaming.registered import plan

Pair = tuple[Any, Any]


class Record(NamedTuple):
    """A record of a topic as confluent-kafka gives it."""

    key_text: bytes | None
    text: bytes | None
    place: int

    def topic(self) -> str:
        return "shop"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.place

    def timestamp(self) -> tuple[int, int]:
        return 1, self.place

    def key(self) -> bytes | None:
        return self.key_text

    def value(self) -> bytes | None:
        return self.text


def records(*pairs: Pair) -> list[Record]:
    texts = [[None if each is None else json.dumps(each).encode() for each in pair] for pair in pairs]
    return [Record(key, value, place) for place, (key, value) in enumerate(texts)]


def event(op: str, n: int, lsn: int, **row: Any) -> Pair:
    whole = {"id": n, "name": "a", **row}
    source = {"connector": "postgresql", "ts_ms": lsn, "schema": "public", "table": "t", "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
    images = {"before": whole, "after": None} if op == "d" else {"before": None, "after": whole}
    return {"id": n}, {**images, "op": op, "ts_ms": lsn, "source": source}


def changes_of(*rounds: list[Record], key: tuple[str, ...] = ("id",)) -> tuple[list[tuple[str, Any, int, int | None]], DebeziumJson]:
    envelope, last, made = DebeziumJson(key), dict[str, str](), list[RowChange]()
    for some in rounds:
        for value in Tombstones(last, JsonEvents()).values(some):
            made += envelope.changes(value or b"null")
        last = json.loads(json.dumps(last))
    return [(change.operation, json.loads(change.row), change.position, change.order) for change in made], envelope


def test_a_tombstone_whose_event_is_gone_deletes_the_row_of_its_key_right_behind_the_event_before() -> None:
    made, _ = changes_of(records(event("c", 1, 10), event("c", 2, 11)), records(({"id": 1}, None), event("c", 3, 30)))
    assert made[2] == ("d", {"id": 1, "name": None}, 11, 12)
    assert [each[0] for each in made] == ["i", "i", "d", "i"]


def test_a_tombstone_behind_its_delete_is_nothing_and_one_behind_another_delete_is_a_delete() -> None:
    made, envelope = changes_of(records(event("c", 1, 10), event("d", 1, 20), ({"id": 1}, None), ({"id": 2}, None), ({"id": 3}, None)))
    assert [(each[0], each[1]["id"], each[2:]) for each in made[1:]] == [
        ("d", 1, (20, 20)),
        ("d", 2, (20, 21)),
        ("d", 3, (20, 21)),
    ]
    assert not envelope.skipped


def test_an_update_whose_text_has_the_sign_of_a_delete_is_none() -> None:
    made, _ = changes_of(records(event("u", 1, 10, name='"op": "d"'), ({"id": 1}, None)))
    assert [each[0] for each in made] == ["u", "d"]


def test_events_of_no_row_before_a_tombstone_say_nothing_of_it() -> None:
    heartbeat, message = ({"serverName": "s"}, {"ts_ms": 5}), ({"prefix": "p"}, {"op": "m", "ts_ms": 5, "source": {"lsn": 40}})
    made, _ = changes_of(records(event("c", 1, 10), event("c", 2, 11), heartbeat, message, ({"id": 1}, None)))
    assert made[-1] == ("d", {"id": 1, "name": None}, 11, 12)


def test_schemas_of_keys_and_values_are_kept() -> None:
    columns = [{"field": "id", "type": "int64"}, {"field": "day", "type": "int32", "name": "io.debezium.time.Date"}]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": columns}]}
    ((_, value),) = [event("c", 1, 10, day=20_000)]
    key = {"schema": {"type": "struct", "fields": columns}, "payload": {"id": 1, "day": 20_000}}
    made, _ = changes_of(records((key, {"schema": schema, "payload": value}), (key, None)), key=("id", "day"))
    assert made[-1] == ("d", {"id": 1, "name": None, "day": "2024-10-04"}, 10, 11)


def test_documents_of_mongodb_are_deleted_by_their_identity() -> None:
    source = {"connector": "mongodb", "ts_ms": 5_000, "db": "shop", "collection": "t", "ord": 1}
    created = {"op": "c", "after": '{"_id":{"$oid":"65"},"n":1}', "ts_ms": 5_000, "source": source}
    tombstones = [({"id": identity}, None) for identity in ('{"$oid":"64"}', "no JSON", None)]
    made, _ = changes_of(records(({"id": '{"$oid":"65"}'}, created), *tombstones), key=("_id",))
    assert [each[:2] for each in made[1:]] == [("d", {"_id": {"$oid": "64"}})]


def test_unwrapped_events_without_the_mark_of_deletes_have_them_by_their_keys() -> None:
    row = {"id": 1, "name": "a", "__op": "c", "__source_lsn": 3, "__source_ts_ms": 4}
    made, _ = changes_of(records(({"id": 1}, row), ({"id": 1}, None)))
    assert made == [("i", {"id": 1, "name": "a"}, 3, 0), ("d", {"id": 1, "name": None}, 3, 1)]
    rewritten = [({"id": 1}, {**row, "__deleted": deleted}) for deleted in ("false", "true")]
    made, _ = changes_of(records(*rewritten, ({"id": 1}, None), ({"id": 2}, None)))
    assert [(each[0], each[1]["id"]) for each in made] == [("i", 1), ("d", 1), ("d", 2)]


def test_a_tombstone_whose_key_is_another_one_is_counted() -> None:
    made, envelope = changes_of(records(event("c", 1, 10), event("c", 2, 11), ({"name": "a"}, None)))
    assert [each[0] for each in made] == ["i", "i"]
    assert envelope.skipped == {"tombstone_of_another_key": 1}


@pytest.mark.parametrize("key", [None, 1, "1", [], {}, {"other": 1}, {"schema": {}, "payload": 1}, {"payload": None}])
def test_a_tombstone_whose_key_says_of_no_row_is_passed_over(key: Any) -> None:
    made, _ = changes_of(records(event("c", 1, 10), (key, None)))
    assert [each[0] for each in made] == ["i"]


def test_tombstones_before_any_event_and_behind_no_events_are_passed_over() -> None:
    assert changes_of(records(({"id": 1}, None)))[0] == []
    for value in (
        [1],
        "text",
        {"payload": {"payload": 1}},
        {"op": "c"},
        {"op": [], "source": {}},
        {"op": "c", "source": 1, "after": {}},
    ):
        some = records(({"id": 2}, value), ({"id": 1}, None))
        assert list(Tombstones({}, JsonEvents()).values(some)) == [some[0].text, None]


def test_a_reader_in_python_deletes_too() -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    reader = EnvelopedRecords("debezium", "", ("id",), plan(columns), None)
    made = [reader.piece(9, some).elements for some in (records(event("c", 1, 10)), records(({"id": 1}, None)))]
    for elements, deleted in zip(made, (False, True), strict=True):
        (batch,) = (each.value for each in elements)
        assert batch.column("id").to_pylist() == [1], batch.schema
        assert batch.column(DELETED).to_pylist() == [deleted], batch.schema


def values(*pairs: Pair) -> list[Any]:
    """The records of a topic as a console consumer prints them, without their keys."""
    return [value for _, value in pairs]


TOMBSTONE: Pair = (None, None)


@pytest.mark.parametrize(
    ("lines", "counted"),
    [
        ((event("c", 1, 10), event("d", 1, 20), TOMBSTONE), {}),
        ((TOMBSTONE, event("d", 1, 20)), {"tombstone_alone": 1, "open_delete": 1}),
        ((event("d", 1, 20), event("d", 2, 21), TOMBSTONE, event("c", 3, 22)), {"open_delete": 1}),
        ((event("d", 1, 20), TOMBSTONE, TOMBSTONE), {"tombstone_alone": 1}),
    ],
)
def test_tombstones_and_deletes_of_all_tables_in_files_are_paired_in_their_order(lines: tuple[Pair, ...], counted: Any) -> None:
    envelope = DebeziumJson(("id",), "another", in_files=True)
    assert [list(envelope.changes(json.dumps(value).encode())) for value in values(*lines)] == [[]] * len(lines)
    assert +envelope.skipped == counted


def test_a_tombstone_alone_is_refused_behind_the_first_file_and_the_next_run_goes_on(beam_joins: Run) -> None:
    options = ("--format", "debezium", "--key", "id", "--latest", "now.jsonl", "--state-dir", "state")
    first = [TOMBSTONE, event("c", 1, 10), event("c", 2, 11), event("d", 2, 20)]
    Path("in").mkdir()
    for n, some in enumerate((first, [TOMBSTONE, event("c", 3, 30)], [TOMBSTONE, event("c", 4, 40)], [event("c", 4, 40)])):
        write(f"in/{n}.jsonl", *values(*some))
        ran = beam_joins("table", "--input", "in", *options)
        if n == 2:
            assert ran.code == 2
            assert "in/2.jsonl has tombstones (lines null) whose delete events were compacted away" in ran.err
            Path("in/2.jsonl").unlink()
    assert ran.code == 0, ran.err
    assert sorted(row["id"] for row in read_lines(Path("now.jsonl"))) == [1, 3, 4]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_files_that_are_read_in_one_run_pair_across_their_ends(tmp_path: Path, is_deleted: bool) -> None:
    write(tmp_path / "0.jsonl", *values(TOMBSTONE, event("c", 1, 10), *([event("d", 1, 20)] if is_deleted else [])))
    write(tmp_path / "1.jsonl", *values(TOMBSTONE, event("c", 2, 30)))

    def run() -> None:
        with beam.Pipeline() as pipeline:
            read = ReadChangeEvents(str(tmp_path / "*.jsonl"), format="debezium", key="id", schema=None)
            _ = pipeline | read | LatestTable()

    if is_deleted:
        run()
    else:
        with pytest.raises(InputError, match=r"1\.jsonl has tombstones"):
            run()
