"""StreamTableJoin and StreamForeignKeyJoin on both runners, their other output, and what they refuse."""

import random

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue

from beam_joins import (
    Change,
    Dropped,
    StreamForeignKeyJoin,
    StreamTableJoin,
    TableFromChangelog,
    Window,
    Windowed,
    as_windowed_table,
    vectorized,
    with_key,
)
from tests.transforms.counted import dropped as dropped_records

USERS = [
    {"id": "ann", "lsn": 2, "name": "Ann"},
    {"id": "ann", "lsn": 5, "name": "Anna"},
    {"id": "ann", "lsn": 8, "name": None},
    {"id": "bob", "lsn": 3, "name": "Bob"},
]
CLICKS = [
    ("ann", {"lsn": 1, "at": 70}),
    ("ann", {"lsn": 5, "at": 60}),
    ("ann", {"lsn": 7, "at": 50}),
    ("bob", {"lsn": 7, "at": 40}),
    ("ann", {"lsn": 9, "at": 30}),
    ("cid", {"lsn": 9, "at": 20}),
]
INNER = [("ann", "5 Anna", 60), ("ann", "7 Anna", 50), ("bob", "7 Bob", 40)]
LEFT = [*INNER, ("ann", "1 -", 70), ("ann", "9 -", 30), ("cid", "9 -", 20)]


def users(p, tag=""):
    cdc = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", "apply_as_deletes": lambda row: row["name"] is None}
    return p | f"users{tag}" >> beam.Create(random.Random(tag).sample(USERS, len(USERS))) | f"table{tag}" >> TableFromChangelog(**cdc)


def clicks(p, tag="", *, keyed=lambda key, click: (key, click)):
    return (
        p
        | f"clicks{tag}" >> beam.Create(random.Random(tag).sample(CLICKS, len(CLICKS)))
        | f"times{tag}" >> beam.Map(lambda row: TimestampedValue(keyed(*row), row[1]["at"]))
    )


def joiner(click, user):
    return f"{click['lsn']} {user['name'] if user else '-'}"


def with_time(element, time=beam.DoFn.TimestampParam):
    return (*element, time.micros // 1_000_000)


@pytest.mark.parametrize("partitions", [1, 7])
@pytest.mark.each_value
def test_a_record_sees_the_row_as_of_its_position_on_every_runner(pipeline, partitions):
    with pipeline(partitions) as p:
        for how, expected in (("inner", INNER), ("left", LEFT)):
            tag = f" {how}"
            options = {"how": how, "sequence_by": "lsn"}
            table, stream = users(p, tag), clicks(p, tag)
            joined = (stream, table) | f"join{tag}" >> StreamTableJoin(joiner, **options)
            assert_that(joined | f"timed{tag}" >> beam.Map(with_time), equal_to(expected), label=f"the join{tag}")
            by_user = clicks(p, f" by user{tag}", keyed=lambda key, click: (None, {**click, "user": key}))
            foreign = (by_user, table) | f"foreign{tag}" >> StreamForeignKeyJoin(joiner, foreign_key="user", **options)
            nobody = [(None, value, time) for _, value, time in expected]
            assert_that(foreign | f"foreign timed{tag}" >> beam.Map(with_time), equal_to(nobody), label=f"the foreign join{tag}")


@pytest.mark.parametrize("partitions", [1, 7])
def test_a_stream_of_arrow_batches_gives_what_its_pairs_give(pipeline, partitions):
    rows = pa.table({"user": [user for user, _ in CLICKS], **{name: [click[name] for _, click in CLICKS] for name in ("lsn", "at")}})
    by_name = {"lsn": "stream.lsn", "name": "table.name"}
    given = vectorized(lambda click, user: {"lsn": click["lsn"], "name": user["name"]})
    text = {"joiner": joiner, "schema": pa.string()}
    with pipeline(partitions) as p:
        for how, expected in (("inner", INNER), ("left", LEFT)):
            options = {"how": how, "timestamp_by": "at", "sequence_by": "lsn"}
            stream = p | f"clicks {how}" >> beam.Create([rows.slice(0, 2), rows.slice(2)])
            table = (
                p
                | f"users {how}" >> beam.Create([pa.Table.from_pylist(USERS)])
                | f"table {how}"
                >> TableFromChangelog(
                    key="id", sequence_by="lsn", timestamp_by="lsn", apply_as_deletes=vectorized(lambda row: row["name"].is_null())
                )
            )
            for n, join in enumerate(
                [
                    StreamTableJoin(key="user", **text, **options),
                    StreamForeignKeyJoin(key="user", foreign_key="user", **text, **options),
                    StreamForeignKeyJoin(key="user", foreign_key=lambda key, click: click["user"], **text, **options),
                    StreamTableJoin(by_name, key="user", **options),
                    StreamForeignKeyJoin(given, key="user", foreign_key=vectorized(lambda row: row["user"]), **options),
                ]
            ):
                joined = (stream, table) | f"join {how} {n}" >> join
                assert_that(joined | f"rows {how} {n}" >> beam.FlatMap(in_pairs), equal_to(expected), label=f"{how} {n}")


def in_pairs(batch):
    for row in batch.to_pylist():
        value = row["value"]
        text = value if isinstance(value, str) else f"{value['lsn']} {value['name'] or '-'}"
        yield row["key"], text, row["timestamp"]


def test_a_joiner_may_want_the_key_which_is_that_of_the_stream(direct):
    with direct() as p:
        by_user = clicks(p, keyed=lambda key, click: (click["lsn"] * 1.0, {**click, "user": key}))
        join = StreamForeignKeyJoin(
            with_key(lambda key, click, user: (key, user and user["name"])), foreign_key="user", sequence_by="lsn"
        )
        joined = (by_user, users(p)) | join | beam.Map(repr)
        assert_that(joined, equal_to(["(5.0, (5.0, 'Anna'))", "(7.0, (7.0, 'Anna'))", "(7.0, (7.0, 'Bob'))"]))


def test_without_a_sequence_the_position_is_the_event_time(direct):
    with direct() as p:
        prices = p | beam.Create([("k", "old", 10), ("k", "new", 20)]) | beam.Map(lambda row: TimestampedValue(row[:2], row[2]))
        sales = (
            p | "sales" >> beam.Create([("k", 9), ("k", 10), ("k", 25)]) | "at" >> beam.Map(lambda row: TimestampedValue(row, row[1]))
        )
        joined = (sales, prices | TableFromChangelog()) | StreamTableJoin(lambda sale, price: (sale, price), how="left")
        assert_that(joined, equal_to([("k", (9, None)), ("k", (10, "old")), ("k", (25, "new"))]))


def test_nulls_are_dropped_and_counted_and_a_left_join_keeps_null_keys(direct):
    p = direct()
    table = p | "table" >> beam.Create([Change("k", None, "row", 0, -1)])
    rows = [TimestampedValue(row, 3) for row in [("k", "v"), ("k", None), (None, "v"), (None, None)]]
    stream = p | "stream" >> beam.Create(rows)
    for how, kept, dropped in (("inner", [], ["null_key"]), ("left", [(None, ("v", None), 3)], [])):
        outputs = (stream, table) | how >> StreamTableJoin(lambda v, row: (v, row), how=how).with_outputs()
        joined = outputs.stream | f"{how} timed" >> beam.Map(with_time)
        assert_that(joined, equal_to([("k", ("v", "row"), 3), *kept]), label=f"{how} joined")
        reasons = outputs.dropped | f"{how} reasons" >> beam.Map(lambda record: record.reason)
        assert_that(reasons, equal_to(["null_value", "null_value", *dropped]), label=f"{how} dropped")
    result = p.run()
    result.wait_until_finish()
    assert dropped_records(result) == {"dropped_null_value": 4, "dropped_null_key": 1}


def test_a_null_foreign_key_is_dropped_or_kept_without_a_row_and_a_null_key_is_fine(direct):
    with direct() as p:
        table = p | "table" >> beam.Create([Change("f", None, "row", 0, -1)])
        rows = [
            TimestampedValue(row, 3) for row in [("k", "f|1"), (None, "f|2"), ("k", "|3"), (None, "|4"), ("k", "g|5"), ("k", None)]
        ]
        stream = p | "stream" >> beam.Create(rows)
        joined = [("k", ("f|1", "row")), (None, ("f|2", "row"))]
        alone = [("k", ("|3", None)), (None, ("|4", None)), ("k", ("g|5", None))]
        dropped = [Dropped("null_foreign_key", ("k", "|3"), 3_000_000), Dropped("null_foreign_key", (None, "|4"), 3_000_000)]
        null_value = Dropped("null_value", ("k", None), 3_000_000)
        for how, results, reasons in (("inner", joined, dropped), ("left", joined + alone, [])):
            join = StreamForeignKeyJoin(
                lambda value, row: (value, row), foreign_key=lambda key, value: value.partition("|")[0] or None, how=how
            )
            outputs = (stream, table) | how >> join.with_outputs()
            assert_that(outputs.stream, equal_to(results), label=f"{how} joined")
            assert_that(outputs.dropped, equal_to([*reasons, null_value]), label=f"{how} dropped")


def test_a_row_of_a_windowed_table_is_a_foreign_key(direct):
    with direct() as p:
        table = as_windowed_table(p | "table" >> beam.Create([Change(Windowed("page", Window(0, 10)), None, 3, 0, -1)]))
        stream = p | "stream" >> beam.Create([TimestampedValue(("page", 7), 20), TimestampedValue(("page", 17), 20)])
        join = StreamForeignKeyJoin(
            lambda at, count: (at, count), foreign_key=lambda key, at: Windowed(key, Window(at // 10 * 10, at // 10 * 10 + 10))
        )
        assert_that((stream, table) | join, equal_to([("page", (7, 3))]))


def test_a_result_of_none_is_a_result(direct):
    with direct() as p:
        table = p | "table" >> beam.Create([Change("k", None, "row", 0, -1)])
        stream = p | "stream" >> beam.Create([TimestampedValue(("k", "v"), 0)])
        assert_that((stream, table) | StreamTableJoin(lambda value, row: None), equal_to([("k", None)]))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"how": "outer"}, "how='outer': choose one of 'inner', 'left'"),
        ({"joiner": None}, "joiner=None: give a function"),
        ({"foreign_key": 7}, "foreign_key=7: give a field name, a list of field names, or a function of key and value"),
        ({"sequence_by": ""}, "sequence_by=''"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        StreamForeignKeyJoin(**{"foreign_key": "user", "joiner": joiner, **options})
    if "foreign_key" not in options:
        with pytest.raises(ValueError, match=complaint):
            StreamTableJoin(**{"joiner": joiner, **options})


def test_what_is_not_a_stream_and_a_table_is_refused(direct):
    p = direct()
    stream, table = clicks(p), users(p)
    with pytest.raises(ValueError, match=r"a stream and a table: \(stream, table\) \| StreamTableJoin"):
        _ = stream | "alone" >> StreamTableJoin(joiner)
    with pytest.raises(ValueError, match="takes a stream of .key, value. pairs here, not a table"):
        _ = (table, table) | "tables" >> StreamTableJoin(joiner, sequence_by="lsn")
    with pytest.raises(ValueError, match="a table is a collection of Change, but has Tuple"):
        _ = (stream, p | beam.Create([("ann", "Ann")])) | "streams" >> StreamTableJoin(joiner)
    with pytest.raises(
        ValueError, match="a table ordered by a sequence for a stream ordered by event time.*give the stream sequence_by="
    ):
        _ = (stream, table) | "by time" >> StreamTableJoin(joiner)
    by_time = p | "timed" >> beam.Create([("ann", "Ann")]) | "time table" >> TableFromChangelog()
    with pytest.raises(ValueError, match="a table ordered by event time for a stream ordered by a sequence.*leave sequence_by= out"):
        _ = (stream, by_time) | "by sequence" >> StreamTableJoin(joiner, sequence_by="lsn")


def test_a_foreign_key_of_another_type_than_the_key_of_the_table_is_named(direct):
    with pytest.raises(Exception, match="the key that StreamForeignKeyJoin looks up 7 of type int cannot be written"), direct() as p:
        table = p | "table" >> beam.Create([("7", "seven")]) | TableFromChangelog()
        stream = p | "stream" >> beam.Create([("k", 7)])
        _ = (stream, table) | StreamForeignKeyJoin(lambda value, row: row, foreign_key=lambda key, value: value)
