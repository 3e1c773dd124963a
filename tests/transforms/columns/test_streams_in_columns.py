"""WindowedStreamJoin of streams in columns: what comes out is what comes out of the same join of records."""

import random
from collections import Counter

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from beam_joins import WindowedStreamJoin, vectorized
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions
from tests.transforms.columns.both_forms import CUTS, batches, compared, one_batch

STREAM = pa.schema([("k", pa.string()), ("l", pa.int16()), ("at", pa.int64()), ("offset", pa.int64()), ("v", pa.string())])
SECOND = 1_000_000
VALUES = pa.schema([("l", pa.string()), ("r", pa.string())])
SPANS = {"before": 4, "after": 9, "grace": 6}
JOINERS = [
    lambda left, right: {"l": left and left["v"], "r": right and right["v"]},
    vectorized(lambda left, right: {"l": left["v"], "r": right["v"]}),
    {"l": "left.v", "r": pc.field("right", "v")},
]


def stream_rows(seed, count=40):
    """Records of few keys at few times, out of order, some without a key or an offset."""
    chance = random.Random(seed)
    return [
        {
            "k": chance.choice(["a", "a", "b", None] if i % 5 == 0 else ["a", "b", "c"]),
            "l": i % 2,
            "at": chance.randrange(60) * SECOND,
            "offset": None if i % 13 == 6 else i + chance.randrange(8),
            "v": f"v{i}",
        }
        for i in range(count)
    ]


def pairs(p, name, rows, key):
    """The stream one record at a time: what has a null part in its key has a null key."""

    def timed(row):
        parts = tuple(row[name] for name in key) if isinstance(key, list) else row[key]
        return TimestampedValue(
            (None if parts is None or (isinstance(parts, tuple) and None in parts) else parts, row), Timestamp(micros=row["at"])
        )

    return p | f"{name} rows" >> beam.Create(rows) | f"{name} times" >> beam.Map(timed)


def with_time(element, time=beam.DoFn.TimestampParam):
    return (*element, time.micros)


def columns_of(joiner):
    """The option that a joiner of records needs in columns."""
    return {"schema": VALUES} if joiner is JOINERS[0] else {}


def rows_of_batch(batch):
    assert batch.schema.names == ["key", "value", "timestamp"]
    keys = (tuple(key.values()) if isinstance(key, dict) else key for key in batch["key"].to_pylist())
    return zip(keys, batch["value"].to_pylist(), batch["timestamp"].to_pylist(), strict=True)


def value_of(dropped):
    """A dropped record, of which records in columns have the value alone."""
    return repr((dropped.reason, dropped.record[1] if isinstance(dropped.record, tuple) else dropped.record, dropped.timestamp))


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "cut", "joiner"), [(*cut, joiner) for cut, joiner in zip(CUTS, JOINERS, strict=True)])
@pytest.mark.parametrize(("key", "sequence_by"), [("k", "offset"), (["k", "l"], None)])
@pytest.mark.each_value
def test_a_join_of_streams_gives_the_same_in_both_forms(direct, key, sequence_by, partitions, cut, joiner):
    sides = stream_rows(1), stream_rows(2)
    empty = [f"late {how}" for how in ("inner", "left", "outer") if sequence_by is None]
    empty += [f"dropped {how}" for how in ("outer", "left") if sequence_by is None and how == "outer"]
    with compared(direct(), empty) as (p, both):
        p.options.view_as(ReplayOptions).beam_joins_partitions = partitions
        streams = tuple(pairs(p, name, rows, key) for name, rows in zip(("left", "right"), sides, strict=True))
        tables = tuple(batches(p, f"batches {i}", rows, STREAM, cut) for i, rows in enumerate(sides))
        for how in ("inner", "left", "outer"):
            options = {**SPANS, "how": how, "sequence_by": sequence_by}
            join = WindowedStreamJoin(joiner, key=key, timestamp_by="at", **options, **columns_of(joiner)).with_outputs()
            outputs = tables | f"{how} of batches" >> join
            both.add(how, "columns", outputs.stream | f"rows of {how}" >> beam.FlatMap(rows_of_batch))
            both.add(f"late {how}", "columns", outputs.late)
            both.add(f"dropped {how}", "columns", outputs.dropped, value_of)
            outputs = streams | how >> WindowedStreamJoin(JOINERS[0], **options).with_outputs()
            both.add(how, "records", outputs.stream | f"times of {how}" >> beam.Map(with_time))
            both.add(f"late {how}", "records", outputs.late)
            both.add(f"dropped {how}", "records", outputs.dropped, value_of)


def test_a_sequence_may_be_a_function_of_key_and_value_in_both_forms(direct):
    """So the transform's documentation says."""
    sides = stream_rows(1), stream_rows(2)
    with compared(direct()) as (p, both):
        options = {"joiner": JOINERS[0], **SPANS, "sequence_by": lambda key, row: row["offset"]}
        left, right = (pairs(p, f"side {i}", rows, "k") for i, rows in enumerate(sides))
        both.add("joined", "records", (left, right) | "records" >> WindowedStreamJoin(**options) | beam.Map(with_time))
        tables = tuple(batches(p, f"batches {i}", rows, STREAM) for i, rows in enumerate(sides))
        joined = tables | "columns" >> WindowedStreamJoin(**options, key="k", timestamp_by="at", schema=VALUES)
        both.add("joined", "columns", joined | beam.FlatMap(rows_of_batch))


def test_a_record_without_key_and_sequence_is_dropped_for_the_same_reason_in_both_forms(direct):
    rows = [{"k": None, "l": 0, "at": 0, "offset": None, "v": "v"}]
    with compared(direct()) as (p, both):
        options = {"joiner": JOINERS[0], **SPANS, "sequence_by": "offset"}
        stream, table = pairs(p, "stream", rows, "k"), batches(p, "batches", rows, STREAM)
        both.add(
            "dropped", "records", ((stream, stream) | "records" >> WindowedStreamJoin(**options).with_outputs()).dropped, value_of
        )
        join = WindowedStreamJoin(**options, key="k", timestamp_by="at", schema=VALUES).with_outputs()
        both.add("dropped", "columns", ((table, table) | "columns" >> join).dropped, value_of)


@pytest.mark.slow
def test_either_stream_may_be_empty_and_times_lie_at_the_ends_of_what_beam_has(direct):
    ends = [MIN_TIMESTAMP.micros, -1, MAX_TIMESTAMP.micros]
    rows = [{"k": "a", "l": 0, "at": at, "offset": i, "v": str(i)} for i, at in enumerate(ends)]
    alone = [("a", {"l": str(i), "r": None}, at) for i, at in enumerate(ends)]
    with direct() as p:
        some = batches(p, "some", rows, STREAM)
        join = {"how": "outer", **SPANS, "key": "k", "timestamp_by": "at"}
        for name, cut in (("no batch", lambda table: []), ("an empty batch", one_batch)):
            none = batches(p, name, [], STREAM, cut)
            schemas = None if cut is one_batch else (STREAM, STREAM)
            for joiner in (JOINERS[0], {"l": "left.v", "r": "right.v"}):
                kind = f"{name} {type(joiner).__name__}"
                outer = WindowedStreamJoin(joiner, **join, **columns_of(joiner), stream_schemas=schemas)
                left = (some, none) | f"left {kind}" >> outer | f"left rows {kind}" >> beam.FlatMap(rows_of_batch)
                right = (none, some) | f"right {kind}" >> outer | f"right rows {kind}" >> beam.FlatMap(rows_of_batch)
                assert_that(left, equal_to(alone), label=f"left alone {kind}")
                mirrored = [(key, {"l": None, "r": value["l"]}, at) for key, value, at in alone]
                assert_that(right, equal_to(mirrored), label=f"right alone {kind}")
                assert_that((none, none) | f"nothing {kind}" >> outer, equal_to([]), label=f"nothing of {kind}")


def test_a_result_of_null_is_a_result(direct):
    with direct() as p:
        stream = batches(p, "stream", stream_rows(1)[1:3], STREAM)
        join = {**SPANS, "key": "k", "timestamp_by": "at", "how": "left"}
        nulls = (stream, stream) | WindowedStreamJoin(lambda left, right: None, schema=VALUES, **join)
        assert_that(nulls | beam.FlatMap(rows_of_batch) | beam.Map(lambda row: row[1]), check_nulls)


def check_nulls(values):
    assert values
    assert set(values) == {None}


@pytest.mark.parametrize("missing", ["key", "timestamp_by"])
def test_streams_in_columns_need_key_and_time(direct, missing):
    p = direct()
    stream = batches(p, "stream", [], STREAM)
    options = {"key": "k", "timestamp_by": "at", missing: None}
    with pytest.raises(ValueError, match="streams in columns needs key= and timestamp_by=: the names of their columns"):
        _ = (stream, stream) | WindowedStreamJoin(JOINERS[0], **SPANS, **options)


def test_a_joiner_of_records_says_what_columns_it_gives(direct):
    p = direct()
    stream = batches(p, "stream", [], STREAM)
    with pytest.raises(ValueError, match="a joiner of one record does not say what columns they have: give schema="):
        _ = (stream, stream) | WindowedStreamJoin(JOINERS[0], **SPANS, key="k", timestamp_by="at")
    records = p | beam.Create([("k", 1)])
    with pytest.raises(ValueError, match="joins records here, and schema= is for streams in columns"):
        _ = (records, records) | "records" >> WindowedStreamJoin(JOINERS[0], **SPANS, schema=VALUES)


def test_a_joiner_of_columns_does_not_join_records(direct):
    p = direct()
    stream = p | beam.Create([("k", 1)])
    with pytest.raises(ValueError, match="WindowedStreamJoin joins records, and its joiner is of columns"):
        _ = (stream, stream) | WindowedStreamJoin({"x": "left.v"}, **SPANS)


@pytest.mark.parametrize(
    ("joiner", "options", "message"),
    [
        ({"x": "left.nope"}, {}, "joiner: the left table has no column 'nope'; it has k, l, at, offset, v"),
        ({"x": pc.field("right", "nope")}, {}, "nope"),
        (vectorized(lambda left, right: {"x": left["nope"]}), {}, "nope"),
        ({"x": "left.v"}, {"key": "nope"}, "key='nope': there is no such column; there are k, l, at, offset, v"),
        ({"x": "left.v"}, {"sequence_by": "nope"}, "sequence_by='nope': there is no such column"),
        ({"x": "left.v"}, {"timestamp_by": "v"}, "timestamp_by gave times of type string"),
    ],
)
def test_a_column_that_there_is_not_is_refused_at_construction(direct, joiner, options, message):
    stream = batches(direct(), "stream", [], STREAM)
    with pytest.raises((ValueError, KeyError), match=message):
        _ = (stream, stream) | WindowedStreamJoin(joiner, **{**SPANS, "key": "k", "timestamp_by": "at", **options})


def test_the_columns_of_a_result_are_known_to_the_next_join(direct):
    with direct() as p:
        stream = batches(p, "stream", stream_rows(1), STREAM)
        join = {"before": 0, "after": 0, "grace": 0, "timestamp_by": "at", "key": "k"}
        once = (stream, stream) | "once" >> WindowedStreamJoin({"v": "left.v"}, **join)
        again = {**join, "key": "key", "timestamp_by": "timestamp"}
        twice = (once, once) | "twice" >> WindowedStreamJoin({"w": "left.value"}, **again)
        expected = Counter((row["k"], row["at"]) for row in stream_rows(1) if row["k"] is not None)
        rows = twice | beam.FlatMap(rows_of_batch) | beam.Map(lambda row: (row[0], row[2]))
        assert_that(rows, equal_to([place for place, count in expected.items() for _ in range(count**4)]))
