"""Large values that changes leave out as they did not change: through the readers and commands, in any order,
cut anywhere.
"""

import json
import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_joins import InputRefused, LatestTable, TableFromChangelog, TableToChanges
from beam_joins.io import ReadChangeEvents, ReadKafkaChangeEvents
from beam_joins.pipelines.commands import programs as commands
from tests.pipelines.orders_run import read_lines

PLACEHOLDER = "__debezium_unavailable_value"
Row = dict[str, Any]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("by", pa.int64()), ("bio", pa.string())])


def event(lsn: int, after: Row | None, before: Row | None = None) -> Row:
    operation = "d" if after is None else "c" if before is None else "u"
    source = {"connector": "postgresql", "table": "t", "lsn": lsn, "ts_ms": lsn, "sequence": f'["{lsn}","{lsn}"]'}
    return {"op": operation, "before": before if after is None else None, "after": after, "source": source}


def history(seed: int, changes: int = 60) -> tuple[list[Row], dict[int, Row]]:
    """Events of a table in which half of the updates leave ``bio`` or the reference out, and the rows in the
    end.
    """
    chance, rows = random.Random(seed), dict[int, Row]()
    events = []
    for lsn in range(1, changes + 1):
        key = chance.randrange(6)
        old = rows.get(key)
        if old is not None and chance.random() < 0.2:
            events.append(event(lsn, None, rows.pop(key)))
            continue
        row = {"id": key, "name": f"n{lsn}", "by": chance.randrange(3), "bio": f"long {lsn}"}
        if old is None:
            rows[key] = row
            events.append(event(lsn, row))
            continue
        left_out = {name for name in ("bio", "name") if chance.random() < 0.5}
        rows[key] = {name: old[name] if name in left_out else value for name, value in row.items()}
        events.append(event(lsn, {name: PLACEHOLDER if name in left_out else value for name, value in row.items()}, old))
    return events, rows


def write(path: Path, events: list[Row]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    return str(path)


def by_id(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["id"]))


_seen: list[Any] = []


def _see(element: Any) -> None:
    _seen.append(element)


def seen(path: str, **options: Any) -> list[Any]:
    _seen.clear()
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        table = pipeline | ReadChangeEvents(path, format="debezium", key="id", **options) | LatestTable()
        _ = table | beam.Map(_see)
    return list(_seen)


@pytest.mark.parametrize("seed", range(4))
def test_the_rows_in_the_end_are_those_of_whole_events_in_any_order(tmp_path: Path, seed: int) -> None:
    events, rows = history(seed)
    random.Random(seed).shuffle(events)
    path = write(tmp_path / "t.jsonl", events)
    assert by_id([value for _, value in seen(path)]) == by_id(list(rows.values()))


@pytest.mark.parametrize("seed", range(3))
def test_typed_rows_are_the_same_and_a_column_that_nobody_reads_is_not_missed(tmp_path: Path, seed: int) -> None:
    events, rows = history(seed)
    path = write(tmp_path / "t.jsonl", events)
    for schema in (SCHEMA, SCHEMA.remove(3)):
        actual = [row["value"] for batch in seen(path, schema=schema) for row in batch.to_pylist()]
        assert by_id(actual) == by_id([{name: row[name] for name in schema.names} for row in rows.values()])


def test_an_event_without_an_earlier_row_is_refused_by_key_and_column_or_dropped_and_fine_where_nobody_reads_it(
    tmp_path: Path,
) -> None:
    first = event(1, {"id": 1, "name": "a", "by": 0, "bio": "long"})
    alone = event(2, {"id": 2, "name": "b", "by": 0, "bio": PLACEHOLDER}, {})
    path = write(tmp_path / "t.jsonl", [first, alone])
    with pytest.raises(InputRefused, match="the record with the key 2 at position 2 leaves out bio, .*REPLICA IDENTITY FULL"):
        seen(path)
    assert [key for key, _ in seen(path, without_earlier="drop")] == [1]
    assert sum(len(batch) for batch in seen(path, schema=SCHEMA.remove(3))) == 2


def table(tmp_path: Path, source: str, *options: str) -> int:
    latest = ("--latest", str(tmp_path / "now.jsonl"))
    return commands.main(["table", "--input", source, "--format", "debezium", "--key", "id", *latest, *options])


@pytest.mark.parametrize("seed", range(3))
def test_the_command_keeps_old_values_in_one_run_and_in_runs_that_go_on_cut_anywhere(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    events, rows = history(seed)
    assert table(tmp_path, write(tmp_path / "t.jsonl", events)) == 0
    assert by_id(read_lines(tmp_path / "now.jsonl")) == by_id(list(rows.values()))
    cut = random.Random(seed).randrange(10, 50)
    for number, part in enumerate((events[:cut], events[cut:])):
        write(tmp_path / "in" / f"{number}.jsonl", part)
        assert table(tmp_path, "in", "--state-dir", "state", "--changes", "changes") == 0
    assert by_id(read_lines(tmp_path / "now.jsonl")) == by_id(list(rows.values()))


@pytest.mark.parametrize("select", [(), ("--select", "left.id,left.bio as text,right.name as owner")])
def test_a_join_takes_old_values_for_its_reference_and_for_what_it_selects(
    tmp_path: Path, select: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    owners = [event(n + 1, {"id": str(n), "name": f"owner {n}"}) for n in range(3)]
    rows = [
        event(11, {"id": "7", "by": "1", "bio": "long", "n": 1}),
        event(12, {"id": "7", "by": PLACEHOLDER, "bio": PLACEHOLDER, "n": 2}, {}),
        event(13, {"id": "7", "by": "2", "bio": PLACEHOLDER, "n": 3}, {}),
    ]
    left, right = write(tmp_path / "left.jsonl", rows), write(tmp_path / "right.jsonl", owners)
    sides = [f"--{side}-{name}={value}" for side in ("left", "right") for name, value in (("format", "debezium"), ("key", "id"))]
    inputs = ["join", "--left", left, "--right", right, "--foreign-key", "by", *sides, *select, "--output", "all.jsonl"]
    assert commands.main(inputs) == 0
    news = [change["new"] for change in read_lines(tmp_path / "all.jsonl")]
    if select:
        assert news == [{"id": "7", "text": "long", "owner": f"owner {n}"} for n in (1, 1, 2)][-len(news) :]
        assert news[-1]["owner"] == "owner 2"
    else:
        assert [json.dumps(new).count("long") for new in news] == [1, 1, 1]
        assert ["owner 1" in json.dumps(new) for new in news] == [True, True, False]


@pytest.mark.parametrize("option", [{"unavailable_value": 5}, {"unavailable_value": [""]}, {"without_earlier": "pass"}])
def test_a_wrong_option_is_refused_when_it_is_given(tmp_path: Path, option: Row) -> None:
    path = write(tmp_path / "t.jsonl", [event(1, {"id": 1})])
    with pytest.raises(ValueError, match=next(iter(option))):
        ReadChangeEvents(path, format="debezium", key="id", **option)
    with pytest.raises(ValueError, match=next(iter(option))):
        ReadKafkaChangeEvents("t", format="debezium", key="id", bootstrap_servers="localhost:9092", **option)
    with pytest.raises(ValueError, match="unavailable_value= is for format='debezium'"):
        ReadKafkaChangeEvents("t", format="maxwell", key="id", bootstrap_servers="localhost:9092", unavailable_value="NA")


def test_a_function_makes_values_whole_that_are_no_mappings() -> None:
    _seen.clear()
    log = [(1, ("Ann", "long"), []), (2, ("Bob", None), ["bio"])]
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        table = (
            pipeline
            | beam.Create(log)
            | TableFromChangelog(
                key=lambda record: "k",
                sequence_by=lambda record: record[0],
                timestamp_by=lambda record: record[0],
                unchanged_by=lambda record: record[2],
                completed_by=lambda earlier, later, names: (later[0], (later[1][0], earlier[1][1]), []),
            )
        )
        _ = table | TableToChanges() | beam.Map(lambda change: _see(change.new))
    assert _seen == [log[0], (2, ("Bob", "long"), [])]
    with pytest.raises(ValueError, match="completed_by= needs unchanged_by="):
        TableFromChangelog(key="id", completed_by=dict)
