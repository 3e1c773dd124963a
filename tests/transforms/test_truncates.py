"""TableFromChangelog and readers of envelopes: what empties a table."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import Change, TableFromChangelog, TableToChanges
from beam_joins.io import ReadChangeEvents
from tests.transforms.unbounded_runs import arrivals, given_bounded, given_unbounded, history, two_sources

ROWS = [
    {"id": 1, "op": "u", "n": 1, "lsn": 1},
    {"id": 2, "op": "u", "n": 2, "lsn": 2},
    {"id": None, "op": "T", "n": None, "lsn": 3},
    {"id": 2, "op": "u", "n": 4, "lsn": 4},
    {"id": None, "op": "t", "n": None, "lsn": 5},
]
TABLE = [
    Change(1, None, {"n": 1}, 1, 1),
    Change(1, {"n": 1}, None, 3, 3),
    Change(2, None, {"n": 2}, 2, 2),
    Change(2, {"n": 2}, None, 3, 3),
    Change(2, None, {"n": 4}, 4, 4),
    Change(2, {"n": 4}, None, 5, 5),
]
OPTIONS: dict[str, Any] = {
    "key": "id",
    "sequence_by": "lsn",
    "timestamp_by": "lsn",
    "apply_as_deletes": {"op": ["d"]},
    "except_columns": ["id", "op", "lsn"],
}
MEANS: dict[str, Any] = {"words": {"op": ["t"]}, "function": lambda row: row["op"] in "tT"}


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("typed", [False, True], ids=["dicts", "columns"])
def test_a_truncate_deletes_all_rows_in_all_partitions(direct, means, typed):
    inputs = [pa.Table.from_pylist(ROWS[::-1])] if typed else ROWS[::-1]
    with direct() as p:
        log = p | beam.Create(inputs).with_output_types(pa.Table if typed else dict)
        table = log | TableFromChangelog(**OPTIONS, apply_as_truncates=MEANS[means])
        assert_that(table | TableToChanges(), equal_to(TABLE))


def test_a_run_that_goes_on_with_a_truncate_alone_deletes_what_the_runs_before_have_left(tmp_path):
    actual = []
    for n, rows in enumerate((ROWS[:2], ROWS[2:3], ROWS[3:4], ROWS[4:])):
        options = PipelineOptions([f"--beam_joins_state={tmp_path / 'state'}", "--beam_joins_partitions=3"])
        with beam.Pipeline(runner=FnApiRunner(), options=options) as p:
            log = p | beam.Create([pa.Table.from_pylist(rows, ROWS_SCHEMA)]).with_output_types(pa.Table)
            table = log | "table" >> TableFromChangelog(**OPTIONS, apply_as_truncates={"op": ["t"]})
            _ = table | TableToChanges() | beam.Map(repr) | beam.io.WriteToText(str(tmp_path / f"out-{n}"), shard_name_template="")
        actual += (tmp_path / f"out-{n}").read_text().splitlines()
    assert sorted(actual) == sorted(map(repr, TABLE))


ROWS_SCHEMA = pa.schema({"id": pa.int64(), "op": pa.string(), "n": pa.int64(), "lsn": pa.int64()})


def truncated(left, right):
    """The table of an input in which the records of one key empty it."""
    rows = left | beam.Map(lambda pair: {"id": pair[0], "value": pair[1], "op": "t" if pair[0] == "d" else "u"})
    table = rows | TableFromChangelog(key="id", apply_as_truncates={"op": ["t"]}, except_columns=["op"])
    return table | TableToChanges() | beam.Map(lambda change: (change.key, change.old, change.new, change.position))


@pytest.mark.usefixtures("prism")
def test_unbounded_input_with_truncates_gives_what_bounded_input_gives():
    events = history(5, events=60)
    expected = given_bounded(events, truncated)
    assert sum(new is None for (_, _, new, _), _ in expected) > 5
    seen = given_unbounded("prism", two_sources, arrivals(events, 2), truncated)
    assert sorted(repr(change) for change, _ in seen) == sorted(repr(change) for change, _ in expected)


@pytest.mark.slow
def test_a_late_row_from_before_a_truncate_is_stale_whether_its_key_was_known_or_not(tmp_path):
    actual, stale = [], []
    late = [{"id": 1, "op": "u", "n": 9, "lsn": 2}, {"id": 7, "op": "u", "n": 9, "lsn": 2}, {"id": 8, "op": "u", "n": 9, "lsn": 4}]
    for n, rows in enumerate((ROWS[:2], ROWS[2:3], [{"id": 3, "op": "u", "n": 3, "lsn": 6}], late)):
        options = PipelineOptions([f"--beam_joins_state={tmp_path / 'state'}", "--beam_joins_partitions=3"])
        with beam.Pipeline(runner=FnApiRunner(), options=options) as p:
            log = p | beam.Create([pa.Table.from_pylist(rows, ROWS_SCHEMA)]).with_output_types(pa.Table)
            parts = log | "table" >> TableFromChangelog(**OPTIONS, apply_as_truncates={"op": ["t"]}).with_outputs()
            for name, inputs in (("out", parts.table | TableToChanges()), ("stale", parts.dropped | "Apart" >> beam.Filter(is_stale))):
                _ = (
                    inputs
                    | f"Text {name}" >> beam.Map(repr)
                    | name >> beam.io.WriteToText(str(tmp_path / f"{name}-{n}"), shard_name_template="")
                )
        actual += (tmp_path / f"out-{n}").read_text().splitlines()
        stale += (tmp_path / f"stale-{n}").read_text().splitlines()
    assert sorted(actual) == sorted(map(repr, [*TABLE[:4], Change(3, None, {"n": 3}, 6, 6), Change(8, None, {"n": 9}, 4, 7)]))
    assert len(stale) == 2


def is_stale(dropped: Any) -> bool:
    return dropped.reason == "late_stale"


def test_a_record_whose_function_fails_is_among_the_bad_ones_alone(direct):
    def empties(row):
        return {"u": False, "T": True}[row["op"]]

    with direct() as p:
        log = p | beam.Create([*ROWS[:3], {**ROWS[3], "op": "?"}])
        parts = log | TableFromChangelog(**OPTIONS, apply_as_truncates=empties).with_exception_handling()
        table, bad = parts if isinstance(parts, tuple) else (parts.table, parts.bad)
        assert_that(table | TableToChanges(), equal_to(TABLE[:4]), label="table")
        assert_that(bad | beam.Map(lambda each: each[0]["op"]), equal_to(["?"]), label="bad")


def test_a_truncate_without_a_sequence_is_dropped(direct):
    with direct() as p:
        log = p | beam.Create([ROWS[0], {**ROWS[2], "lsn": None}])
        parts = log | TableFromChangelog(**{**OPTIONS, "timestamp_by": lambda row: 1}, apply_as_truncates={"op": ["t"]}).with_outputs()
        assert_that(parts.table | TableToChanges(), equal_to(TABLE[:1]), label="table")
        assert_that(parts.dropped | beam.Map(lambda dropped: dropped.reason), equal_to(["null_sequence"]), label="dropped")


@pytest.mark.parametrize("wrong", ["op", {}, {"op": []}, {"op": "t"}, {"a": ["t"], "b": ["t"]}])
def test_a_wrong_option_is_refused(wrong):
    with pytest.raises(ValueError, match="give a function that is true for an element that empties the table"):
        TableFromChangelog(key="id", apply_as_truncates=wrong)


def debezium(op: str, lsn: int, after: Any = None) -> dict[str, Any]:
    return {"op": op, "after": after, "source": {"table": "t", "schema": "public", "lsn": lsn, "ts_us": lsn}}


PLACE = {"timestamp": "1970-01-01 00:00:00+00", "xid": 1}


def wal2json(kind: str, lsn: int, row: dict[str, Any] | None = None) -> dict[str, Any]:
    change: dict[str, Any] = {"kind": kind, "schema": "public", "table": "t"}
    if row is not None:
        change |= {"columnnames": [*row], "columntypes": ["bigint"] * len(row), "columnvalues": [*row.values()]}
    return {**PLACE, "nextlsn": f"0/{lsn}", "change": [change]}


ENVELOPES: dict[str, tuple[Any, list[Any]]] = {
    "debezium": (debezium, [("c", 1, {"id": 1}), ("c", 2, {"id": 2}), ("t", 3), ("c", 4, {"id": 2})]),
    "wal2json": (wal2json, [("insert", 1, {"id": 1}), ("insert", 2, {"id": 2}), ("truncate", 3), ("insert", 4, {"id": 2})]),
}


@pytest.mark.parametrize("schema", [None, pa.schema({"id": pa.int64()})], ids=["dicts", "columns"])
@pytest.mark.parametrize("name", ENVELOPES)
def test_readers_of_envelopes_apply_truncates(tmp_path: Path, name: Any, schema: Any) -> None:
    made, events = ENVELOPES[name]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(made(*event)) + "\n" for event in events))
    with beam.Pipeline(runner=FnApiRunner()) as p:
        table = p | ReadChangeEvents(str(path), format=name, key="id", schema=schema)
        seen = table | TableToChanges() | beam.Map(lambda change: (change.key, change.new, change.position))
        assert_that(seen, equal_to([(1, {"id": 1}, 1), (1, None, 3), (2, {"id": 2}, 2), (2, None, 3), (2, {"id": 2}, 4)]))
