"""ReadChangeEvents of envelopes with a state: runs whose files say no types, or no key, have those of the others."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import Change, TableToChanges, content
from beam_joins.errors import InputError
from beam_joins.io import ReadChangeEvents
from tests.pipelines.events import lines, schema_of

pytestmark = pytest.mark.usefixtures("own_directory")
MADE: list[Change[Any, Any]] = []
TYPES = {"id": "integer", "v": "text"}
COLUMNS = [("id", "int32", {}), ("v", "string", {})]
Events = list[dict[str, Any]]
INSERT, DELETE, TRUNCATE = "insert", "delete", "truncate"


def keep(change: Change[Any, Any]) -> None:
    MADE.append(change)


def run(number: int, events: Events, state: str = "state", **options: Any) -> list[Change[Any, Any]]:
    MADE.clear()
    lines(f"log{number}.jsonl", *events)
    with beam.Pipeline(options=PipelineOptions([f"--beam_joins_state={state}", "--beam_joins_partitions=2"])) as pipeline:
        read = ReadChangeEvents(f"log{number}.jsonl", **options)
        _ = pipeline | "log" >> read | TableToChanges() | beam.Map(keep)
    return list(MADE)


def wal2json(commit: int, kind: str, row: dict[str, Any]) -> Events:
    place = {"timestamp": "2026-01-01 00:00:00+00", "lsn": f"0/{commit - 1:X}", "nextlsn": f"0/{commit:X}"}
    columns = [{"name": name, "type": TYPES[name], "value": value} for name, value in row.items()]
    change: dict[str, Any] = {"action": kind[0].upper(), "schema": "public", "table": "t", "lsn": f"0/{commit - 9:X}"}
    if kind != TRUNCATE:
        change |= {"columns" if kind == INSERT else "identity": columns, "pk": [{"name": "id", "type": "integer"}]}
    return [{"action": "B", **place}, change, {"action": "C", **place}]


def debezium(commit: int, kind: str, row: dict[str, Any]) -> Events:
    source = {"connector": "postgresql", "schema": "public", "table": "t", "lsn": commit, "sequence": json.dumps([str(commit)] * 2)}
    sides = {"before": row if kind == DELETE else None, "after": row if kind == INSERT else None}
    return [{**sides, "op": {INSERT: "c", DELETE: "d", TRUNCATE: "t"}[kind], "source": {**source, "ts_ms": 5}}]


def debezium_typed(commit: int, kind: str, row: dict[str, Any]) -> Events:
    return [{"schema": schema_of(COLUMNS), "payload": event} for event in debezium(commit, kind, row)]


def maxwell(commit: int, kind: str, row: dict[str, Any]) -> Events:
    seat = {"database": "d", "table": "t", "ts": 1_772_352_000, "primary_key_columns": ["id"], "commit": True}
    return [{**seat, "type": kind, "data": row, "position": f"binlog.000004:{commit}"}]


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "wal2json": (wal2json, {"format": "wal2json", "table": "public.t"}),
    "debezium": (debezium, {"format": "debezium", "table": "t", "key": "id"}),
    "debezium typed": (debezium_typed, {"format": "debezium", "table": "t", "key": "id"}),
    "maxwell": (maxwell, {"format": "maxwell", "table": "t"}),
}
ROWS = [(INSERT, {"id": 1, "v": "a"}), (INSERT, {"id": 2, "v": "b"})]


@pytest.mark.parametrize(
    ("form", "kind"),
    [(form, kind) for form in FORMS for kind in (DELETE, TRUNCATE) if (form, kind) != ("maxwell", TRUNCATE)],
)
def test_a_run_of_deletes_or_truncates_alone_has_the_types_and_the_key_of_the_runs_before(form: str, kind: str) -> None:
    event, options = FORMS[form]
    changes = run(1, [each for n, row in enumerate(ROWS) for each in event(100 + n, *row)], **options)
    changes += run(2, event(300, kind, {} if kind == TRUNCATE else {"id": 1, "v": "a"}), **options)
    assert [change.new for change in content_changes(changes)] == ([] if kind == TRUNCATE else [{"id": 2, "v": "b"}])


def content_changes(changes: list[Change[Any, Any]]) -> list[Change[Any, Any]]:
    rows = content(changes, 1 << 62)
    return [Change(key, None, value, 0, 0) for key, value in sorted(rows.items())]


@pytest.mark.parametrize("form", FORMS)
def test_a_first_run_of_deletes_alone_has_its_place_among_the_later_rows(form: str) -> None:
    event, options = FORMS[form]
    first = event(300, DELETE, {"id": 1})
    if form != "maxwell":
        first += event(301, TRUNCATE, {})
    assert run(1, first, **options) == []
    changes = run(2, [*event(200, *ROWS[0]), *event(400, *ROWS[1])], **options)
    assert content(changes, 1 << 62) == {2: {"id": 2, "v": "b"}}
    changes += run(3, event(500, DELETE, {"id": 2, "v": "b"}), **options)
    assert content(changes, 1 << 62) == {}


def test_files_that_wait_for_the_types_of_a_row_may_not_be_gone() -> None:
    event, options = FORMS["wal2json"]
    run(1, event(300, DELETE, {"id": 1}), **options)
    Path("log1.jsonl").unlink()
    with pytest.raises(InputError, match=r"log1\.jsonl is gone, which no run has read"):
        run(2, event(400, *ROWS[1]), **options)


def test_a_column_that_the_first_run_did_not_have_is_taken() -> None:
    event, options = FORMS["debezium typed"]
    run(1, event(100, *ROWS[0]), **options)
    more = [{"schema": schema_of([*COLUMNS, ("n", "int32", {})]), "payload": debezium(200, INSERT, {"id": 2, "v": "b", "n": 1})[0]}]
    assert [change.new for change in run(2, more, **options)] == [{"id": 2, "v": "b", "n": 1}]
    assert [change.new for change in run(3, event(300, INSERT, {"id": 3, "v": "c"}), **options)] == [{"id": 3, "v": "c", "n": None}]


def test_no_key_is_known_before_a_row_has_said_it() -> None:
    event, options = FORMS["wal2json"]
    with pytest.raises(InputError, match="no change says which columns are its primary key"):
        run(1, event(300, TRUNCATE, {}), **options)
