"""The core of the windowed stream join: examples by name, and the naive join of all with all as a property."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.reference.record import Record
from tests.reference.stream_join import Joined, Late, StreamJoin


def pair(left, right):
    return f"({'null' if left is None else left.decode()},{'null' if right is None else right.decode()})"


def steps(records, how, *, before, after, grace=0):
    """The outputs of each position, and those of the end."""
    core = StreamJoin(pair, how, before=before, after=after, grace=grace)
    by_position = defaultdict(list)
    for record in sorted(records, key=lambda record: (record.position, record.input)):
        by_position[record.position].append(record)
    return [list(core.advance(position, events)) for position, events in by_position.items()], list(core.finish())


def outputs(records, how, **spans):
    at_positions, at_end = steps(records, how, **spans)
    return [output for step in at_positions for output in step] + at_end


def in_order(*arrivals):
    """Records of one key: ("L" or "R", value, time), the position being the place in the list."""
    return [Record(b"k", value.encode(), time, i, "LR".index(side)) for i, (side, value, time) in enumerate(arrivals)]


def results(listed):
    return [(output.value, output.timestamp) for output in listed if isinstance(output, Joined)]


def test_the_published_example_of_kip_77_joins_every_pair_in_the_window_at_the_larger_time():
    arrivals = [
        ("L", "A", 3),
        ("R", "a", 4),
        ("L", "B", 5),
        ("R", "b", 6),
        ("L", "C", 9),
        ("R", "c", 10),
        ("R", "d", 14),
        ("L", "D", 15),
    ]
    at_positions, at_end = steps(in_order(*arrivals), "inner", before=15, after=15)
    assert [results(step) for step in at_positions] == [
        [],
        [("(A,a)", 4)],
        [("(B,a)", 5)],
        [("(A,b)", 6), ("(B,b)", 6)],
        [("(C,a)", 9), ("(C,b)", 9)],
        [("(A,c)", 10), ("(B,c)", 10), ("(C,c)", 10)],
        [("(A,d)", 14), ("(B,d)", 14), ("(C,d)", 14)],
        [("(D,a)", 15), ("(D,b)", 15), ("(D,c)", 15), ("(D,d)", 15)],
    ]
    assert at_end == []


def test_both_bounds_of_an_asymmetric_window_are_inclusive():
    arrivals = [("R", "a", 89), ("R", "b", 90), ("L", "A", 100), ("R", "c", 120), ("R", "d", 121)]
    assert results(outputs(in_order(*arrivals), "inner", before=10, after=20)) == [("(A,b)", 100), ("(A,c)", 120)]


@pytest.mark.parametrize(
    ("early", "late", "window"),
    [("L", "R", {"before": 0, "after": 9}), ("R", "L", {"before": 9, "after": 0})],
    ids=["after", "before"],
)
def test_a_record_is_kept_until_the_far_bound_of_its_own_window_is_passed(early, late, window):
    arrivals = [(early, "x", 0), (early, "y", 8), (late, "at the bound", 9), (late, "beyond", 10)]
    joined = [value for value, _ in results(outputs(in_order(*arrivals), "inner", **window))]
    assert len([value for value in joined if "x" in value]) == 1
    assert len([value for value in joined if "y" in value]) == 2


def test_a_window_of_no_width_joins_records_of_one_time():
    arrivals = [("L", "A", 10), ("R", "a", 10), ("R", "b", 11)]
    assert results(outputs(in_order(*arrivals), "inner", before=0, after=0)) == [("(A,a)", 10)]


def test_an_unmatched_record_comes_out_when_stream_time_has_passed_its_window_and_grace():
    arrivals = [("L", "A", 100), ("R", "at the boundary", 115), ("R", "beyond", 116)]
    at_positions, at_end = steps(in_order(*arrivals), "left", before=10, after=10, grace=5)
    assert [results(step) for step in at_positions] == [[], [], [("(A,null)", 100)]]
    assert at_end == []


def test_what_is_unmatched_in_the_end_comes_out_then():
    at_positions, at_end = steps(in_order(("L", "A", 100), ("R", "a", 300)), "outer", before=10, after=10, grace=500)
    assert [results(step) for step in at_positions] == [[], []]
    assert results(at_end) == [("(A,null)", 100), ("(null,a)", 300)]


def test_a_left_join_keeps_no_right_record_alone():
    assert results(outputs(in_order(("R", "a", 1)), "left", before=10, after=10)) == []


def test_a_record_later_than_grace_is_late_and_one_just_in_time_is_joined():
    arrivals = [("L", "A", 95), ("R", "x", 100), ("R", "in time", 95), ("R", "late", 94), ("L", "late too", 0)]
    records = in_order(*arrivals)
    listed = outputs(records, "left", before=10, after=3, grace=5)
    assert [output for output in listed if isinstance(output, Late)] == [Late(records[3]), Late(records[4])]
    assert results(listed) == [("(A,in time)", 95)]


def test_there_is_never_a_result_without_a_match_and_then_one_with():
    # Kafka Streams 4.3.1 gives (A,null)@100 and later (A,late)@105 (KAFKA-19536).
    arrivals = [("L", "A", 100), ("R", "x", 200), ("R", "late", 105)]
    assert results(outputs(in_order(*arrivals), "left", before=10, after=10, grace=5)) == [("(A,null)", 100)]


def test_the_records_of_one_position_see_each_other_however_far_their_times_lie_apart():
    records = [Record(b"k", b"A", 100, 1, 0), Record(b"k", b"a", 105, 1, 1), Record(b"k", b"z", 900, 1, 1)]
    assert results(outputs(records, "outer", before=10, after=10)) == [("(A,a)", 105), ("(null,z)", 900)]


def test_equal_records_are_separate_records():
    arrivals = [("L", "A", 1), ("L", "A", 1), ("R", "a", 1), ("R", "a", 1), ("L", "B", 99), ("L", "B", 99)]
    assert Counter(results(outputs(in_order(*arrivals), "left", before=5, after=5))) == {("(A,a)", 1): 4, ("(B,null)", 99): 2}


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_records_that_can_no_longer_match_are_forgotten(how):
    core = StreamJoin(pair, how, before=10, after=20, grace=5)
    for time in range(10_000):
        list(core.advance(time, [Record(b"k", b"v", time, time, time % 2)]))
        assert len(core._left._rows) + len(core._right._rows) <= 2 * (10 + 20 + 2 * 5 + 2)


SPANS = st.fixed_dictionaries({"before": st.integers(-4, 4), "after": st.integers(-4, 4), "grace": st.integers(0, 4)}).filter(
    lambda spans: spans["before"] + spans["after"] >= 0
)
HOW = st.sampled_from(["inner", "left", "outer"])


def streams(*, sequenced):
    """Records of one key in any order; positions are the times, or whatever they like."""
    time = st.integers(-3, 12)
    fields = st.tuples(time, st.integers(0, 6) if sequenced else st.none(), st.sampled_from([b"v", b"w"]), st.integers(0, 1))
    return st.lists(fields, max_size=14).map(
        lambda rows: [Record(b"k", value, t, t if position is None else position, side) for t, position, value, side in rows]
    )


def naive(records, how, *, before, after, grace):
    """All pairs of all records that are not late, and the rest alone."""
    late = [r for r in records if any(r.timestamp + grace < other.timestamp for other in records if other.position < r.position)]
    joinable = [(i, r) for i, r in enumerate(records) if r not in late]
    matched, expected = set(), [Late(record) for record in late]
    for i, left in joinable:
        for j, right in joinable:
            if (left.input, right.input) == (0, 1) and left.timestamp - before <= right.timestamp <= left.timestamp + after:
                matched |= {i, j}
                expected.append(Joined(b"k", pair(left.value, right.value), max(left.timestamp, right.timestamp)))
    for i, record in joinable:
        if i not in matched and how in (("left", "outer"), ("outer",))[record.input]:
            sides = (None, record.value) if record.input else (record.value, None)
            expected.append(Joined(b"k", pair(*sides), record.timestamp))
    return expected


@examples(400)
@given(streams(sequenced=False) | streams(sequenced=True), HOW, SPANS)
def test_the_join_is_the_naive_join_of_all_records_with_all(records, how, spans):
    assert Counter(outputs(records, how, **spans)) == Counter(naive(records, how, **spans))


@examples(100)
@given(streams(sequenced=False), HOW, SPANS)
def test_nothing_is_late_in_the_order_of_event_time(records, how, spans):
    assert not any(isinstance(output, Late) for output in outputs(records, how, **spans))


@examples(200)
@given(st.data(), streams(sequenced=True), HOW, SPANS)
def test_the_join_does_not_depend_on_the_order_of_arrival(data, records, how, spans):
    shuffled = data.draw(st.permutations(records))
    assert Counter(outputs(shuffled, how, **spans)) == Counter(outputs(records, how, **spans))
