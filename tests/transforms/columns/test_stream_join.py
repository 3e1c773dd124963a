"""Streams by key and closeness in time, against StreamJoin."""

from collections import Counter

import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.interval import Spans
from beam_joins.record import Record
from tests.transforms.columns.kernels import modest, stream_join, stream_join_with_core

KEYS = st.sampled_from([b"k", b"k", b"l", None])
HOWS = st.sampled_from(["inner", "left", "outer"])
ENDS = [-(2**63), MIN_TIMESTAMP.micros, -1, 0, MAX_TIMESTAMP.micros, 2**63 - 1]
EXTREME = st.builds(lambda end, by: min(max(end + by, ENDS[0]), ENDS[-1]), st.sampled_from(ENDS), st.integers(-2, 2))
SMALL = st.builds(Spans, st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
LARGE = st.integers(0, 3) | st.sampled_from([2**61, 2**63 - 1])


def streams(times, positions):
    """Records numbered by their values, so that each is known again."""
    record = st.tuples(KEYS, times, positions)

    def numbered(rows):
        return [Record(key, b"%d" % i, time, time if position is None else position) for i, (key, time, position) in enumerate(rows)]

    return st.lists(record, max_size=8).map(numbered)


IN_TIME = streams(st.integers(0, 15), st.none())
OUT_OF_ORDER = streams(st.integers(0, 15), st.integers(0, 6))


def check(left, right, how, spans):
    pairs, late = stream_join(left, right, how, spans)
    expected_pairs, expected_late = stream_join_with_core(left, right, how, spans)
    assert Counter(pairs) == Counter(expected_pairs)
    assert Counter(late) == Counter(expected_late)
    return late


@given(IN_TIME, IN_TIME, HOWS, SMALL)
@modest
def test_the_join_is_that_of_the_core_and_in_the_order_of_time_nothing_is_late(left, right, how, spans):
    assert check(left, right, how, spans) == []


@given(OUT_OF_ORDER, OUT_OF_ORDER, HOWS, SMALL)
@modest
def test_with_a_sequence_what_is_late_is_late_in_both(left, right, how, spans):
    check(left, right, how, spans)


@given(
    streams(EXTREME, st.none() | st.integers(0, 6) | EXTREME),
    streams(EXTREME, st.none() | EXTREME),
    HOWS,
    st.builds(Spans, LARGE, LARGE, LARGE),
)
@modest
def test_times_positions_and_spans_may_lie_at_the_ends_of_64_bits(left, right, how, spans):
    check(left, right, how, spans)


@given(OUT_OF_ORDER, HOWS, SMALL)
@modest
def test_a_stream_may_be_joined_with_itself(stream, how, spans):
    check(stream, stream, how, spans)


@given(st.data(), OUT_OF_ORDER, OUT_OF_ORDER, HOWS, SMALL)
@modest
def test_the_order_of_the_rows_does_not_matter(data, left, right, how, spans):
    shuffled = data.draw(st.permutations(left)), data.draw(st.permutations(right))
    one, other = stream_join(left, right, how, spans), stream_join(*shuffled, how, spans)
    assert [Counter(part) for part in one] == [Counter(part) for part in other]


@pytest.mark.parametrize(
    ("how", "alone"),
    [("inner", []), ("left", [("k", "l9", None, 9)]), ("outer", [("k", "l9", None, 9), ("k", None, "r1", 1)])],
)
def test_both_ends_of_the_span_belong_to_it(how, alone):
    left = [Record("k", f"l{time}", time, time) for time in (5, 9)]
    right = [Record("k", f"r{time}", time, time) for time in (1, 3, 5, 6)]
    pairs, late = stream_join(left, right, how, Spans(2, 1, 0))
    assert Counter(pairs) == Counter([("k", "l5", "r3", 5), ("k", "l5", "r5", 5), ("k", "l5", "r6", 6), *alone])
    assert late == []


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_either_side_may_be_without_a_row(how):
    rows = [Record({"a": 1}, "v", 1, 1)]
    spans = Spans(1, 1, 1)
    pairs, _ = stream_join(rows, [], how, spans)
    assert pairs == ([({"a": 1}, "v", None, 1)] if how != "inner" else [])
    pairs, _ = stream_join([], rows, how, spans)
    assert pairs == ([({"a": 1}, None, "v", 1)] if how == "outer" else [])
    assert stream_join([], [], how, spans) == ([], [])


def test_records_without_a_key_match_nothing_not_even_each_other():
    left, right = [Record(None, "l", 1, 1)], [Record(None, "r", 1, 1)]
    found = {how: Counter(stream_join(left, right, how, Spans(1, 1, 1))[0]) for how in ("inner", "left", "outer")}
    assert found["inner"] == Counter()
    assert found["left"] == Counter([(None, "l", None, 1)])
    assert found["outer"] == Counter([(None, "l", None, 1), (None, None, "r", 1)])


def test_keys_of_two_kinds_never_meet():
    assert stream_join([Record("7", "v", 1, 1)], [Record(7, "v", 1, 1)], "inner", Spans(1, 1, 1)) == ([], [])
