"""TableFromChangelog: every option, everything it drops, and every argument it refuses."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from beam_joins import Change, Dropped, TableFromChangelog, TableToChanges
from beam_joins.elements.iso_times import NO_TIME
from tests.transforms.counted import dropped

LOG = [
    {"id": 1, "lsn": 10, "at": 5, "op": "c", "name": "Ann"},
    {"id": 2, "lsn": 11, "at": 6, "op": "c", "name": "Bob"},
    {"id": 1, "lsn": 12, "at": 4, "op": "u", "name": "Anna"},
    {"id": 2, "lsn": 13, "at": 8, "op": "d", "name": None},
    {"id": 2, "lsn": 14, "at": 8, "op": "d", "name": None},
]
CDC = {"key": "id", "sequence_by": "lsn", "timestamp_by": "at", "apply_as_deletes": lambda r: r["op"] == "d"}
ONLY_NAME = {**CDC, "except_columns": ["id", "lsn", "at", "op"]}
TABLE = [
    Change(1, None, {"name": "Ann"}, 5, 10),
    Change(1, {"name": "Ann"}, {"name": "Anna"}, 4, 12),
    Change(2, None, {"name": "Bob"}, 6, 11),
    Change(2, {"name": "Bob"}, None, 8, 13),
]


def test_a_changelog_in_any_order_is_one_table_on_every_runner(pipeline):
    for seed in (1, 2):
        with pipeline(partitions=seed) as p:
            shuffled = random.Random(seed).sample(LOG, len(LOG))
            assert_that(p | beam.Create(shuffled) | TableFromChangelog(**ONLY_NAME) | TableToChanges(), equal_to(TABLE))


def test_pairs_are_a_changelog_by_event_time(direct):
    pairs = [("k", 1, 30_000), ("k", None, 20_000), ("k", 2, 10_000), ("l", None, 10_000)]
    with direct() as p:
        log = p | beam.Create(pairs) | beam.Map(lambda r: TimestampedValue(r[:2], Timestamp(micros=r[2])))
        assert_that(
            log | TableFromChangelog() | TableToChanges(),
            equal_to(
                [Change("k", None, 2, 10_000, 10_000), Change("k", 2, None, 20_000, 20_000), Change("k", None, 1, 30_000, 30_000)]
            ),
        )


def test_changes_carry_their_event_time(pipeline):
    with pipeline() as p:
        times = (
            p
            | beam.Create(LOG)
            | TableFromChangelog(**CDC)
            | TableToChanges()
            | beam.Map(lambda change, time=beam.DoFn.TimestampParam: change.timestamp == time.micros)
        )
        assert_that(times, equal_to([True] * 4))


@pytest.mark.parametrize(
    ("emit", "expected"),
    [
        ("updates", [(None, 1), (1, 1), (1, None)]),
        ("changes", [(None, 1), (1, None)]),
        ("records", [(None, None), (None, 1), (1, 1), (1, None), (None, None)]),
    ],
)
def test_emit_says_which_records_become_changes(direct, emit, expected):
    log = [{"k": "k", "p": p, "v": v} for p, v in enumerate([None, 1, 1, None, None])]
    with direct() as p:
        changes = p | beam.Create(log) | TableFromChangelog(
            key="k", sequence_by="p", timestamp_by="p", apply_as_deletes=lambda r: r["v"] is None, except_columns=["k", "p"], emit=emit
        )  # fmt: skip
        pairs = changes | TableToChanges() | beam.Map(lambda c: (c.old and c.old["v"], c.new and c.new["v"]))
        assert_that(pairs, equal_to(expected))


def test_what_cannot_be_used_is_dropped_counted_and_an_output(direct):
    null_key = {"id": None, "lsn": 1, "at": 3}
    null_sequence = {"id": 1, "lsn": None, "at": 3}
    null_time = {"id": 1, "lsn": 1, "at": None}
    good = {"id": 1, "lsn": 1, "at": 3}
    p = direct()
    outputs = p | beam.Create([null_key, null_sequence, null_time, good, good]) | TableFromChangelog(
        key="id", sequence_by="lsn", timestamp_by="at"
    ).with_outputs()  # fmt: skip
    assert_that(outputs.table | TableToChanges(), equal_to([Change(1, None, good, 3, 1)]), label="the table")
    assert_that(
        outputs.dropped,
        equal_to([
            Dropped("null_key", null_key, 3),
            Dropped("null_sequence", null_sequence, 3),
            Dropped("null_timestamp", null_time, -(2**63) // 1000),
            Dropped("duplicate_position", (1, good), 3),
        ], equals_fn=lambda one, other: one[:2] == other[:2]),
        label="the dropped",
    )  # fmt: skip
    result = p.run()
    result.wait_until_finish()
    assert dropped(result) == {
        "dropped_null_key": 1, "dropped_null_sequence": 1, "dropped_null_timestamp": 1, "dropped_duplicate_position": 1
    }  # fmt: skip


def test_records_of_one_key_without_any_time_or_sequence_are_refused(direct):
    with pytest.raises(Exception, match="several records have the key 'k' and none has an event time"), direct() as p:
        _ = p | beam.Create([("k", "zzz"), ("k", "aaa")]) | TableFromChangelog()
    with direct() as p:
        table = p | beam.Create([("k", "zzz"), ("l", "aaa")]) | TableFromChangelog()
        assert_that(table | TableToChanges() | beam.Map(lambda change: change.new), equal_to(["zzz", "aaa"]))


def test_records_without_any_time_or_sequence_are_ordered_by_what_breaks_ties(direct):
    with direct() as p:
        log = p | beam.Create([{"id": 1, "n": n} for n in (2, 3, 1)])
        table = log | TableFromChangelog(key="id", tie_break_by="n")
        assert_that(table | TableToChanges(), equal_to([Change(1, None, {"id": 1, "n": 3}, NO_TIME, NO_TIME)]))


def test_a_dropped_record_carries_its_event_time(direct):
    with direct() as p:
        log = p | beam.Create([{"id": 1, "lsn": 1, "at": 7_000}] * 2)
        outputs = log | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="at").with_outputs()
        times = outputs.dropped | beam.Map(lambda dropped, time=beam.DoFn.TimestampParam: time.micros)
        assert_that(times, equal_to([7_000]))


def test_an_empty_changelog_is_an_empty_table(direct):
    with direct() as p:
        assert_that(p | beam.Create([]) | TableFromChangelog(key="id") | TableToChanges(), equal_to([]))


class Row(NamedTuple):
    shop: str
    number: int
    lsn: int


@dataclass(frozen=True)
class Item:
    code: str
    lsn: int


def code_of(item: Item) -> str:
    return item.code


@pytest.mark.parametrize(
    ("key", "element", "expected"),
    [
        pytest.param(["shop", "number"], Row("a", 1, 5), ("a", 1), id="several names make a tuple"),
        pytest.param("number", Row("a", 1, 5), 1, id="a field of a named tuple"),
        pytest.param(code_of, Item("x", 5), "x", id="a function with a return type"),
        pytest.param(lambda item: item.code, Item("x", 5), "x", id="a lambda"),
        pytest.param(["shop", "lsn"], {"shop": "a", "lsn": 5}, ("a", 5), id="columns of a mapping"),
    ],
)
def test_a_key_is_named_or_computed(direct, key, element, expected):
    with direct() as p:
        table = p | beam.Create([element]) | TableFromChangelog(key=key, sequence_by="lsn", timestamp_by="lsn")
        value = element._asdict() if isinstance(element, Row) else element  # a row with a Beam schema is typed
        assert_that(table | TableToChanges(), equal_to([Change(expected, None, value, 5, 5)]))


def test_a_composite_key_with_a_null_part_is_a_null_key(direct):
    with direct() as p:
        outputs = p | beam.Create([{"a": 1, "b": None}]) | TableFromChangelog(key=["a", "b"]).with_outputs()
        assert_that(outputs.dropped | beam.Map(lambda dropped: dropped.reason), equal_to(["null_key"]))


@pytest.mark.parametrize("time", [1_000_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), Timestamp(1)])
def test_a_time_is_micros_a_datetime_or_a_beam_timestamp(direct, time):
    with direct() as p:
        table = p | beam.Create([("k", 1)]) | TableFromChangelog(timestamp_by=lambda _: time)
        assert_that(table | TableToChanges(), equal_to([Change("k", None, 1, 1_000_000, 1_000_000)]))


@pytest.mark.parametrize(
    ("options", "record", "complaint"),
    [
        ({"key": "name"}, {"id": 1, "lsn": 2}, "no column 'name'; it has id, lsn"),
        ({"sequence_by": lambda _: "0/16B3748"}, ("k", 1), "sequence_by gave '0/16B3748' of type str"),
        ({"sequence_by": lambda _: 2**63}, ("k", 1), "does not fit in 64 bits"),
        ({"timestamp_by": lambda _: datetime(2020, 1, 1)}, ("k", 1), "a datetime with a time zone"),
        ({"timestamp_by": lambda _: "now"}, ("k", 1), "timestamp_by gave 'now' of type str"),
        ({}, {"id": 1}, "without key="),
        ({"except_columns": ["a"]}, ("k", 1), "except_columns needs mappings, not int"),
    ],
)
def test_a_record_that_makes_no_sense_stops_the_run_with_a_sentence(direct, options, record, complaint):
    with pytest.raises(Exception, match=complaint), direct() as p:
        _ = p | beam.Create([record]) | TableFromChangelog(**options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"key": 7}, "key=7: give a field name"),
        ({"key": []}, r"key=\[\]: give a field name"),
        ({"key": ["a", 1]}, "key="),
        ({"timestamp_by": 7}, "timestamp_by=7: give a field name or a function"),
        ({"sequence_by": ""}, "sequence_by=''"),
        ({"apply_as_deletes": 7}, "apply_as_deletes=7: give a function"),
        ({"except_columns": "op"}, "except_columns='op': give a list"),
        ({"emit": "all"}, "'updates', 'changes', 'records', 'latest'"),
        ({"schema": {"id": int}}, "schema=.*give a pyarrow.Schema, a NamedTuple class or a dataclass"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        TableFromChangelog(**options)


def test_windowed_and_unbounded_input_and_bad_keys_are_refused_when_applied(direct):
    p = direct()
    created = p | beam.Create([(object(), 1)])
    with pytest.raises(ValueError, match="global window"):
        _ = created | beam.WindowInto(FixedWindows(5)) | "windowed" >> TableFromChangelog()
    endless = p | "endless" >> beam.Create([("k", 1)])
    endless.is_bounded = False
    with pytest.raises(ValueError, match="bounded input only"):
        _ = endless | "unbounded" >> TableFromChangelog(emit="latest")

    class Plain:
        pass

    plain = p | "plain" >> beam.Create([]).with_output_types(tuple[Plain, int])
    with pytest.raises(ValueError, match="not deterministic"):
        _ = plain | "bad key" >> TableFromChangelog()
