"""WindowedStreamJoin on both runners, its other outputs, and what it refuses."""

import random
from datetime import timedelta

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration

from beam_joins import Dropped, TableFromChangelog, WindowedStreamJoin
from beam_joins.functions.marked_functions import with_key
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions
from tests.transforms.counted import dropped

VIEWS = [("ad", "v100", 100), ("ad", "v150", 150), ("ad", "v900", 900), ("other", "w100", 100), ("other", "w100", 100)]
CLICKS = [("ad", "c110", 110), ("ad", "c160", 160), ("ad", "c50", 50), ("other", "d161", 161)]
INNER = [("ad", "v100-c110", 110), ("ad", "v100-c160", 160), ("ad", "v150-c160", 160)]
LEFT = [*INNER, ("ad", "v900--", 900), ("other", "w100--", 100), ("other", "w100--", 100)]
OUTER = [*LEFT, ("ad", "--c50", 50), ("other", "--d161", 161)]
WINDOW = {"before": 0, "after": timedelta(minutes=1), "grace": Duration(10)}


def timed(row):
    return TimestampedValue(tuple(row[:2]), row[2])


def stream(p, name, rows, *, seed=0):
    shuffled = random.Random(seed).sample(rows, len(rows))
    return p | f"{name} {seed}" >> beam.Create(shuffled) | f"{name} times {seed}" >> beam.Map(timed).with_output_types(tuple[str, str])


def joiner(left, right):
    return f"{left or '-'}-{right or '-'}"


def with_time(element, time=beam.DoFn.TimestampParam):
    return (*element, time.micros / 1_000_000)


def times(pcoll, label):
    return pcoll | f"times of {label}" >> beam.Map(with_time)


@pytest.mark.parametrize(("seed", "partitions"), [(1, 1), (2, 7)])
@pytest.mark.each_value
def test_every_kind_of_join_is_the_same_in_any_order_and_partitioning_on_every_runner(pipeline, seed, partitions):
    with pipeline() as p:
        p.options.view_as(ReplayOptions).beam_joins_partitions = partitions
        views, clicks = stream(p, "views", VIEWS, seed=seed), stream(p, "clicks", CLICKS, seed=seed)
        for how, expected in (("inner", INNER), ("left", LEFT), ("outer", OUTER)):
            joined = (views, clicks) | how >> WindowedStreamJoin(joiner, how=how, **WINDOW)
            assert_that(times(joined, how), equal_to(expected), label=f"is the join {how}")


def test_a_stream_is_joined_with_itself_in_the_order_of_a_sequence_on_every_runner(pipeline):
    with pipeline() as p:
        arrivals = p | beam.Create([("k", {"offset": 1, "at": 100}), ("k", {"offset": 2, "at": 200}), ("k", {"offset": 3, "at": 105})])
        arrivals |= beam.Map(lambda row: TimestampedValue(row, row[1]["at"]))
        outputs = (arrivals, arrivals) | "itself" >> WindowedStreamJoin(
            lambda left, right: (left["offset"], right and right["offset"]),
            how="left",
            before=0,
            after=10,
            grace=5,
            sequence_by="offset",
        ).with_outputs()
        assert_that(outputs.stream, equal_to([("k", (1, 1)), ("k", (2, 2))]), label="joined with itself")
        late = ("k", {"offset": 3, "at": 105})
        expected = [Dropped("late_left", late, 105_000_000), Dropped("late_right", late, 105_000_000)]
        assert_that(outputs.late, equal_to(expected), label="late")


def test_null_keys_and_null_values_are_dropped_and_counted_by_an_inner_join(direct):
    rows = [(None, "nobody's", 1), ("k", None, 2), (None, None, 3), ("k", "v", 4)]
    p = direct()
    nulls = p | beam.Create(rows) | beam.Map(timed)
    outputs = (nulls, stream(p, "right", [("k", "w", 5)])) | WindowedStreamJoin(joiner, before=9, after=9, grace=0).with_outputs()
    assert_that(outputs.stream, equal_to([("k", "v-w")]), label="joined")
    expected = [
        Dropped("null_key", (None, "nobody's"), 1_000_000),
        Dropped("null_value", ("k", None), 2_000_000),
        Dropped("null_value", (None, None), 3_000_000),
    ]
    assert_that(outputs.dropped, equal_to(expected), label="dropped")
    assert_that(outputs.late, equal_to([]), label="late")
    result = p.run()
    result.wait_until_finish()
    assert dropped(result) == {"dropped_null_key": 1, "dropped_null_value": 2}


def test_where_records_are_kept_one_without_a_key_gives_its_result_at_once(direct):
    with direct() as p:
        left, right = (
            p | name >> beam.Create([(None, name, at), (None, None, at), ("k", name, at)]) | f"{name} times" >> beam.Map(timed)
            for name, at in (("left", 7), ("right", 8))
        )
        for how, expected in (
            ("left", [(None, "left--", 7), ("k", "left-right", 8)]),
            ("outer", [(None, "left--", 7), (None, "--right", 8), ("k", "left-right", 8)]),
        ):
            outputs = (left, right) | f"{how} join" >> WindowedStreamJoin(joiner, how=how, before=1, after=1, grace=0).with_outputs()
            assert_that(times(outputs.stream, how), equal_to(expected), label=f"{how} joined")
            reasons = outputs.dropped | f"{how} reasons" >> beam.Map(lambda dropped: dropped.reason)
            unused = ["null_value"] * 2 + ["null_key"] * (how == "left")
            assert_that(reasons, equal_to(unused), label=f"{how} dropped")


def test_a_late_record_is_counted(direct):
    p = direct()
    left = stream(p, "left", [("k", "2", 100), ("k", "1", 200), ("k", "3", 10)])
    right = stream(p, "right", [("k", "9", 10)])
    _ = (left, right) | WindowedStreamJoin(joiner, before=0, after=0, grace=0, sequence_by=lambda key, value: int(value))
    result = p.run()
    result.wait_until_finish()
    assert dropped(result) == {"dropped_late_left": 2, "dropped_late_right": 1}


def test_a_record_without_a_sequence_is_dropped(direct):
    with direct() as p:
        left = p | beam.Create([("k", {"offset": None})])
        outputs = (left, left) | WindowedStreamJoin(joiner, before=0, after=0, grace=0, sequence_by="offset").with_outputs()
        assert_that(outputs.dropped | beam.Map(lambda dropped: dropped.reason), equal_to(["null_sequence", "null_sequence"]))


def test_a_result_of_none_is_a_result(direct):
    with direct() as p:
        left = stream(p, "left", [("k", "v", 1)])
        assert_that((left, left) | WindowedStreamJoin(lambda a, b: None, before=0, after=0, grace=0), equal_to([("k", None)]))


def test_a_joiner_may_want_the_key(direct):
    with direct() as p:
        left, right = stream(p, "left", [("k", "v", 1), ("l", "w", 1)]), stream(p, "right", [("k", "x", 1)])
        named = with_key(lambda key, one, other: f"{key}: {one} {other}")
        joined = (left, right) | WindowedStreamJoin(named, how="left", before=0, after=0, grace=0)
        assert_that(joined, equal_to([("k", "k: v x"), ("l", "l: w None")]))


def test_joins_follow_one_another(direct):
    with direct() as p:
        views, clicks = stream(p, "views", VIEWS), stream(p, "clicks", CLICKS)
        joined = (views, clicks) | "first" >> WindowedStreamJoin(joiner, **WINDOW)
        again = (joined, clicks) | "second" >> WindowedStreamJoin(joiner, before=0, after=0, grace=0)
        expected = [("ad", "v100-c110-c110"), ("ad", "v100-c160-c160"), ("ad", "v150-c160-c160")]
        assert_that(again, equal_to(expected))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"how": "right"}, "how='right': choose one of 'inner', 'left', 'outer'"),
        ({"before": -2}, "before=-2 and after=1 are negative together: no record matches; give a sum of 0 or more"),
        ({"after": timedelta(seconds=-1)}, "before=0 and after=.* are negative together"),
        ({"grace": Duration(-1)}, "grace=.* is negative"),
        ({"grace": None}, "grace=None: give a span of time: seconds, a timedelta or a Beam Duration"),
        ({"grace": float("inf")}, "grace=inf: give a span"),
        ({"before": "1h"}, "before='1h': give a span"),
        ({"before": timedelta.max}, "before=.* does not fit in 64 bits of microseconds: give a span of less than 292,000 years"),
        ({"after": 1e300}, "after=1e.300 does not fit in 64 bits"),
        ({"grace": Duration(micros=2**63)}, "grace=.* does not fit in 64 bits"),
        ({"sequence_by": 7}, "sequence_by=7: give a field name, a list of field names, or a function"),
        ({"joiner": "both"}, "joiner='both': give a function"),
        ({"stream_schemas": pa.schema([])}, "stream_schemas=.*: give the pyarrow.Schema of the left and of the right stream"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        WindowedStreamJoin(**{"joiner": joiner, "before": 0, "after": 1, "grace": 0, **options})


def test_grace_must_be_said():
    with pytest.raises(TypeError, match="grace"):
        WindowedStreamJoin(joiner, before=0, after=1)


def test_what_is_not_two_streams_is_refused(direct):
    p = direct()
    left = stream(p, "left", VIEWS)
    join = WindowedStreamJoin(joiner, **WINDOW)
    with pytest.raises(ValueError, match=r"takes two streams: \(left, right\) \| WindowedStreamJoin"):
        _ = left | "alone" >> join
    with pytest.raises(ValueError, match=r"not a table: apply TableToStream\(\)"):
        _ = (left, left | TableFromChangelog()) | "a table" >> join
    with pytest.raises(ValueError, match="global window"):
        _ = (left, left | beam.WindowInto(FixedWindows(10))) | "windowed" >> join
    with pytest.raises(ValueError, match="never equal"):
        _ = (left, p | beam.Create([(1, "v")])) | "other keys" >> join


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"key": "k"}, "key="),
        ({"timestamp_by": "at"}, "timestamp_by="),
        ({"key": ["k"], "timestamp_by": "at"}, "key= and timestamp_by="),
    ],
)
def test_options_of_columns_are_refused_for_records(direct, options, named):
    p = direct()
    both = stream(p, "left", VIEWS), stream(p, "right", CLICKS)
    with pytest.raises(ValueError, match=f"WindowedStreamJoin takes {named} for streams in columns only"):
        _ = both | WindowedStreamJoin(joiner, **WINDOW, **options)


@pytest.mark.parametrize(
    ("in_columns", "message"), [(0, "columns on the left and records on the right"), (1, "records on the left and columns")]
)
def test_one_stream_in_columns_and_one_in_records_are_refused(direct, in_columns, message):
    p = direct()
    streams = [stream(p, "records", VIEWS), p | beam.Create([]).with_output_types(pa.Table)]
    with pytest.raises(ValueError, match=f"WindowedStreamJoin got {message}.*: give both streams in one form"):
        _ = tuple(streams if in_columns else streams[::-1]) | WindowedStreamJoin(joiner, **WINDOW, key="k", timestamp_by="at")


def test_a_negative_bound_leaves_out_records_that_are_too_close(direct):
    with direct() as p:
        views, clicks = stream(p, "left", [("k", "v", 100)]), stream(p, "right", [("k", "a", 105), ("k", "b", 110), ("k", "c", 170)])
        after = (views, clicks) | "after" >> WindowedStreamJoin(joiner, before=-10, after=60, grace=0)
        before = (clicks, views) | "before" >> WindowedStreamJoin(joiner, how="left", before=60, after=timedelta(seconds=-10), grace=0)
        assert_that(after, equal_to([("k", "v-b")]), "pairs after")
        assert_that(before, equal_to([("k", "a--"), ("k", "b-v"), ("k", "c--")]), "pairs before")


def test_the_largest_span_of_64_bits_is_one(direct):
    longest = Duration(micros=2**63 - 1)
    with direct() as p:
        both = stream(p, "left", [("k", "l", -8e12)]), stream(p, "right", [("k", "r", 1e12)])
        assert_that(both | WindowedStreamJoin(joiner, before=longest, after=longest, grace=longest), equal_to([("k", "l-r")]))


@pytest.mark.parametrize(
    ("element", "options", "complaint"),
    [
        ("k", {}, "a stream is of .key, value. pairs, but has str"),
        (
            ("k", "v"),
            {"sequence_by": lambda key, value: "first"},
            "sequence_by gave 'first' of type str: a position is a whole number",
        ),
    ],
)
def test_an_element_that_cannot_be_used_is_named(direct, element, options, complaint):
    with pytest.raises(Exception, match=complaint), direct() as p:
        left = p | beam.Create([element])
        _ = (left, left) | WindowedStreamJoin(joiner, **WINDOW, **options)
