"""Streams by key and closeness in time, against StreamJoin, and cut anywhere into steps."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.kernels.interval import IntervalState, Matches, Spans, step
from beam_joins.kernels.stream_time import ALWAYS, EARLIEST
from beam_joins.options.join_types import WindowedHow
from tests.beam_joins.kernels import modest, rows_of
from tests.properties.strategies import cuts, split
from tests.reference.record import Record
from tests.reference.stream_join import Late, StreamJoin


def bounded(bound, grace):
    """Spans of which one bound may be negative, and not their sum."""
    return (
        st.tuples(bound, bound)
        .filter(lambda bounds: sum(bounds) >= 0)
        .flatmap(lambda both: st.builds(Spans, *map(st.just, both), grace))
    )


KEYS = st.sampled_from([b"k", b"k", b"l", None])
HOWS = st.sampled_from(["inner", "left", "outer"])
ENDS = [-(2**63), MIN_TIMESTAMP.micros, -1, 0, MAX_TIMESTAMP.micros, 2**63 - 1]
EXTREME = st.builds(lambda end, by: min(max(end + by, ENDS[0]), ENDS[-1]), st.sampled_from(ENDS), st.integers(-2, 2))
SMALL = bounded(st.integers(-5, 6), st.integers(0, 6))
LARGE = bounded(
    st.integers(-3, 3) | st.sampled_from([-(2**63) + 1, -(2**61), 2**61, 2**63 - 1]), st.integers(0, 3) | st.just(2**63 - 1)
)


Pair = tuple[Any, Any, Any, int]


def pairs_of(actual: Matches) -> list[Pair]:
    """The results ``(key, left value, right value, time)``."""
    keys, values = ([rows[name].to_pylist() for rows in (actual.left, actual.right)] for name in ("key", "value"))
    return [
        (keys[0][i] if i >= 0 else keys[1][j], values[0][i] if i >= 0 else None, values[1][j] if j >= 0 else None, time)
        for i, j, time in zip(actual.left_index.tolist(), actual.right_index.tolist(), actual.timestamp.tolist(), strict=True)
    ]


def late_of(actual: Matches) -> list[Any]:
    """The values of the late rows of both sides."""
    return [(side, value) for side, rows in enumerate(actual.late) for value in rows["value"].to_pylist()]


def stream_join(left: Sequence[Record], right: Sequence[Record], how: WindowedHow, spans: Spans) -> tuple[list[Pair], list[Any]]:
    """The results and the late records of one step after which no record comes."""
    actual, state = step(None, rows_of(left), rows_of(right), how, spans, ALWAYS)
    assert not len(state.left)
    assert not len(state.right)
    return pairs_of(actual), late_of(actual)


def stream_join_with_core(
    left: Sequence[Record], right: Sequence[Record], how: WindowedHow, spans: Spans
) -> tuple[list[Pair], list[Any]]:
    """The same by :class:`StreamJoin`, with records without a key as the transform has them."""
    joins: dict[Any, StreamJoin[Any]] = defaultdict(lambda: StreamJoin(lambda a, b: (a, b), how, **spans._asdict()))
    groups: dict[Any, list[Record]] = defaultdict(list)
    pairs: list[Pair] = []
    for side, records in enumerate((left, right)):
        for record in records:
            if record.key is not None:
                groups[record.position, record.key].append(record._replace(input=side))
            elif how == "outer" or (how == "left" and side == 0):
                pairs.append((None, *((None, record.value) if side else (record.value, None)), record.timestamp))
    outputs = [out for (position, key) in sorted(groups) for out in joins[key].advance(position, groups[position, key])]
    outputs += [out for join in joins.values() for out in join.finish()]
    pairs += [(out.key, *out.value, out.timestamp) for out in outputs if not isinstance(out, Late)]
    return pairs, [(out.record.input, out.record.value) for out in outputs if isinstance(out, Late)]


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
    LARGE,
)
@modest
def test_times_positions_and_spans_may_lie_at_the_ends_of_64_bits(left, right, how, spans):
    check(left, right, how, spans)


@pytest.mark.parametrize(("spans", "time"), [(Spans(1, -1, 0), EARLIEST), (Spans(-1, 1, 0), ALWAYS)])
def test_an_interval_beyond_the_ends_of_64_bits_has_no_record(spans, time):
    record = [Record(b"k", b"0", time, 0)]
    assert check(record, record, "outer", spans) == []
    assert len(stream_join(record, record, "outer", spans)[0]) == 2


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


@pytest.mark.parametrize(
    ("spans", "times"), [(Spans(-2, 4, 0), [7, 8, 9]), (Spans(4, -2, 0), [1, 2, 3]), (Spans(-3, 3, 0), [8]), (Spans(3, -3, 0), [2])]
)
def test_a_negative_bound_keeps_records_close_to_each_other_apart(spans, times):
    left, right = [Record("k", "l", 5, 5)], [Record("k", f"r{time}", time, time) for time in range(12)]
    pairs, late = stream_join(left, right, "left", spans)
    assert Counter(pairs) == Counter([("k", "l", f"r{time}", max(5, time)) for time in times])
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
    actual = {how: Counter(stream_join(left, right, how, Spans(1, 1, 1))[0]) for how in ("inner", "left", "outer")}
    assert actual["inner"] == Counter()
    assert actual["left"] == Counter([(None, "l", None, 1)])
    assert actual["outer"] == Counter([(None, "l", None, 1), (None, None, "r", 1)])


def test_keys_of_two_kinds_never_meet():
    assert stream_join([Record("7", "v", 1, 1)], [Record(7, "v", 1, 1)], "inner", Spans(1, 1, 1)) == ([], [])


def in_steps(sides, how, spans, pieces, untils):
    """The results, the late records and the state after each step of rows that are cut up, and the results at
    the end.
    """
    state, actual, late, states = None, [], [], []
    for *rows, until in zip(*(split(side, pieces) for side in sides), untils, strict=True):
        matches, state = step(state, *rows, how, spans, until)
        actual += pairs_of(matches)
        late += late_of(matches)
        states.append(state)
    nothing = [rows.slice(0, 0).drop_columns("matched") for rows in (state.left, state.right)]
    return actual, late, states, pairs_of(step(state, *nothing, how, spans, ALWAYS)[0])


def content_of(state: IntervalState):
    return [Counter(map(repr, rows.to_pylist())) for rows in state]


def typed_keys(records):
    """Rows whose keys are of one type in every step."""
    return rows_of(records, pa.binary(), pa.binary())


@given(st.data(), OUT_OF_ORDER, OUT_OF_ORDER, HOWS, SMALL)
@modest
def test_a_history_cut_anywhere_gives_the_same_results_late_records_and_state(data, left, right, how, spans):
    sides, pieces = (typed_keys(left), typed_keys(right)), data.draw(cuts(range(7)))
    actual, late, states, rest = in_steps(sides, how, spans, pieces, [None] * (len(pieces) + 1))
    whole, whole_late, (state,), whole_rest = in_steps(sides, how, spans, [], [None])
    assert Counter(actual) == Counter(whole)
    assert Counter(late) == Counter(whole_late)
    assert content_of(states[-1]) == content_of(state)
    assert Counter(rest) == Counter(whole_rest)


@given(st.data(), IN_TIME, IN_TIME, HOWS, SMALL)
@modest
def test_by_event_time_a_result_comes_no_later_than_the_frontier_says_that_it_can(data, left, right, how, spans):
    sides, pieces = (typed_keys(left), typed_keys(right)), data.draw(cuts(range(16)))
    untils = [*pieces, 15]
    actual, late, states, rest = in_steps(sides, how, spans, pieces, untils)
    whole, _, (state,), whole_rest = in_steps(sides, how, spans, [], [15])
    assert late == []
    assert Counter(actual) == Counter(whole)
    assert content_of(states[-1]) == content_of(state)
    assert Counter(rest) == Counter(whole_rest)
    for until, step_state in zip(untils, states, strict=True):
        assert step_state.times.num_rows == 0
        for rows, span in ((step_state.left, spans.after), (step_state.right, spans.before)):
            assert all(time + span + spans.grace >= until for time in rows["timestamp"].to_pylist())


@given(OUT_OF_ORDER, OUT_OF_ORDER, HOWS, SMALL)
@modest
def test_a_step_after_which_nothing_comes_gives_everything(left, right, how, spans):
    sides = typed_keys(left), typed_keys(right)
    actual, late, (state,), rest = in_steps(sides, how, spans, [], [ALWAYS])
    expected, expected_late = stream_join(left, right, how, spans)
    assert Counter((pair[1:]) for pair in actual) == Counter(pair[1:] for pair in expected)
    assert Counter(late) == Counter(expected_late)
    assert rest == []
    assert [rows.num_rows for rows in state] == [0, 0, 0]
