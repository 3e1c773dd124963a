"""The windows of one source key: what falls into them, at what time, and what comes too late."""

import itertools

from beam_joins import Change, Dropped
from beam_joins.elements.windowed import Window, Windowed
from tests.reference.record import Record
from tests.reference.windowed_aggregate import WindowedAggregate


def tumbling(time):
    return [Window(time // 10 * 10, time // 10 * 10 + 10)]


def hopping(time):
    return [Window(start, start + 10) for start in range(time // 5 * 5 - 5, time + 1, 5)]


def counting(windows=tumbling, grace=None):
    return WindowedAggregate(windows, int, lambda count, value: count + 1, grace)


def outputs(core, *times):
    return [output for position, time in enumerate(times) for output in core.advance(position, [Record(b"k", b"v", time, position)])]


def counts(core, *times):
    return [(output.key.window.start, output.new, output.timestamp) for output in outputs(core, *times) if isinstance(output, Change)]


def test_a_window_holds_its_start_and_not_its_end():
    assert counts(counting(), 0, 9, 10) == [(0, 1, 0), (0, 2, 9), (10, 1, 10)]


def test_hopping_windows_overlap_and_come_out_in_order_of_time():
    assert counts(counting(hopping), 7, 12) == [(0, 1, 7), (5, 1, 7), (5, 2, 12), (10, 1, 12)]


def test_a_result_has_the_largest_time_of_the_records_that_its_window_has_counted():
    assert counts(counting(), 9, 3, 15) == [(0, 1, 9), (0, 2, 9), (10, 1, 15)]


def test_a_record_is_late_where_its_window_ended_before_the_time_of_its_key_by_the_grace_or_more():
    assert counts(counting(grace=5), 1, 14, 3) == [(0, 1, 1), (10, 1, 14), (0, 2, 3)]
    late = outputs(counting(grace=5), 1, 15, 3)[2:]
    assert late == [Dropped("late", (Window(0, 10), Record(b"k", b"v", 3, 2)), 3)]


def test_a_record_may_be_late_for_one_window_and_in_time_for_another():
    last = outputs(counting(hopping, grace=0), 12, 7)[2:]
    assert [output.reason if isinstance(output, Dropped) else output.key.window for output in last] == ["late", Window(5, 15)]


def test_without_a_grace_nothing_is_late():
    assert counts(counting(), 1_000, 1) == [(1_000, 1, 1_000), (0, 1, 1)]


def test_the_records_of_one_position_are_one_change_a_window_whatever_their_order():
    records = [
        Record(b"k", b"b", 3, 1),
        Record(b"k", None, 3, 1),
        Record(b"k", b"a", 12, 1),
        Record(b"k", b"a", 3, 1),
        Record(b"k", b"", 1, 1),
    ]
    for shuffled in itertools.permutations(records):
        core = WindowedAggregate(tumbling, tuple, lambda values, value: (*values, value), grace=0)
        assert list(core.advance(1, shuffled)) == [
            Change(Windowed(b"k", Window(0, 10)), None, (b"", None, b"a", b"b"), 3, 1),
            Change(Windowed(b"k", Window(10, 20)), None, (b"a",), 12, 1),
        ]


def test_an_aggregate_of_none_is_no_row():
    core = WindowedAggregate(tumbling, int, lambda count, value: None if value == b"reset" else count + 1)
    values = [b"v", b"reset", b"reset", b"v"]
    changes = [change for i, value in enumerate(values) for change in core.advance(i, [Record(b"k", value, i, i)])]
    assert [(change.old, change.new) for change in changes] == [(None, 1), (1, None), (None, 1)]
