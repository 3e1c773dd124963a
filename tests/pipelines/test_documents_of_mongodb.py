"""MongoDB's documents in Debezium's events: one value is one key, in whichever form of extended JSON it is written."""

import json
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import ForeignKeyJoin, LatestTable
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.enveloped import changes_of
from beam_joins.pipelines.formats.types.extended_json import identity
from tests.pipelines.join_run import refused
from tests.pipelines.orders_run import Run, write

ID = {"$oid": "65f000000000000000000001"}
BYTES = "AAECAwQFBgcICQoLDA0ODw=="


def event(number: int, op: str, document: dict[str, Any] | None, *, before: dict[str, Any] | None = None) -> dict[str, Any]:
    before, after = (None if each is None else json.dumps(each) for each in (before, document))  # type: ignore[assignment]
    source = {"connector": "mongodb", "db": "shop", "collection": "c", "ts_ms": 1_000 * number, "ord": 1}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}


def latest(beam_joins: Run, key: str, *ids: Any) -> list[Any]:
    write("in.jsonl", *(event(n, "u", {"_id": each, "n": n}) for n, each in enumerate(ids, 1)))
    ran = beam_joins("table", "--input=in.jsonl", "--format=debezium", f"--key={key}", "--latest=out.jsonl")
    assert ran.code == 0, ran.err
    with open("out.jsonl") as file:
        return [json.loads(line) for line in file]


FORMS: dict[str, list[Any]] = {
    "ids of objects": [{"$oid": "65F000000000000000000001"}, ID],
    "numbers": [7, {"$numberInt": "7"}, {"$numberLong": "7"}, {"$numberDouble": "7.0"}, {"$numberDecimal": "7.0"}, 7.0],
    "dates": [{"$date": 1_000}, {"$date": "1970-01-01T00:00:01Z"}, {"$date": {"$numberLong": "1000"}}],
    "bytes": [
        {"$binary": {"base64": BYTES, "subType": "04"}},
        {"$binary": BYTES, "$type": "4"},
        {"$uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f"},
    ],
    "documents": [{"shop": 1, "n": {"$numberLong": "7"}}, {"shop": {"$numberDouble": "1.0"}, "n": 7}],
    "text": ["a", "a"],
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_one_value_are_one_key_and_rows_are_as_written(beam_joins: Run, name: str) -> None:
    forms = FORMS[name]
    assert latest(beam_joins, "_id", *forms) == [{"_id": forms[-1], "n": len(forms)}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ID, ID["$oid"]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"$date": 1}, 1),
        ({"$numberLong": "9223372036854775807"}, {"$numberLong": "9223372036854775806"}),
        ({"$binary": {"base64": BYTES, "subType": "03"}}, {"$binary": {"base64": BYTES, "subType": "04"}}),
    ],
)
def test_other_values_are_other_keys(one: Any, other: Any) -> None:
    assert identity(one) != (identity(other) if isinstance(other, dict) else other)


def test_a_key_may_be_a_member_of_extended_json(beam_joins: Run) -> None:
    assert latest(beam_joins, "_id.$oid", ID, ID) == [{"_id": ID, "n": 2}]
    write("in.jsonl", event(1, "c", {"_id": 5}))
    ran = beam_joins("table", "--input=in.jsonl", "--format=debezium", "--key=_id.$oid", "--latest=out.jsonl")
    assert "no column '_id.$oid'" in refused(ran)


@pytest.mark.parametrize(("of", "key", "reference"), [(ID, "_id", "of"), (ID["$oid"], "_id.$oid", "of"), (ID, "_id.$oid", "of.$oid")])
def test_a_reference_finds_its_document(beam_joins: Run, of: Any, key: str, reference: str) -> None:
    write("a.jsonl", event(1, "c", {"_id": 1, "of": of}))
    write("b.jsonl", event(1, "c", {"_id": ID, "name": "Ann"}))
    sides = [f"--{side}-{name}={value}" for side in ("left", "right") for name, value in (("format", "debezium"),)]
    given = ["--left=a.jsonl", "--right=b.jsonl", *sides, "--left-key=_id", f"--right-key={key}", f"--foreign-key={reference}"]
    ran = beam_joins("join", *given, "--select=left._id, right.name", "--latest=out.jsonl")
    assert ran.code == 0, ran.err
    with open("out.jsonl") as file:
        assert json.load(file) == {"_id": 1, "name": "Ann"}


def test_numbers_are_numbers_in_python(own_directory: Any) -> None:
    write("a.jsonl", event(1, "c", {"_id": 1, "of": 5}), event(2, "c", {"_id": 2, "of": {"$numberLong": "5"}}))
    write("b.jsonl", event(1, "c", {"_id": {"$numberLong": "5"}, "name": "Ann"}))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        left, right = (pipeline | name >> ReadChangeEvents(f"{name}.jsonl", format="debezium", key="_id") for name in "ab")
        rows = (left, right) | ForeignKeyJoin(lambda _, right: right["name"], foreign_key=lambda _, row: row["of"]) | LatestTable()
        assert_that(rows, equal_to([(1, "Ann"), (2, "Ann")]))


def test_a_document_in_other_files_is_no_key(beam_joins: Run) -> None:
    write("in.jsonl", {"id": {"a": 1}, "op": "c", "lsn": 1, "updated_at": 1})
    assert "is no key: {'a': 1}" in refused(beam_joins("table", "--input=in.jsonl", "--key=id", "--latest=out.jsonl"))


def test_an_update_without_its_document_names_the_settings_that_help() -> None:
    actual = changes_of(DebeziumJson(), json.dumps(event(1, "u", None)).encode())
    assert isinstance(actual, str)
    assert "capture.mode.full.update.type=post_image" in actual
