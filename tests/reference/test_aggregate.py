"""The aggregate of one group: retraction before addition, and what a group's row is worth."""

import pytest

from tests.reference.aggregate import ADD, SUBTRACT, GroupAggregate
from tests.reference.record import Record


def text():
    """Writes down what was done to it."""
    return GroupAggregate(str, lambda done, value: f"{done}+{value.decode()}", lambda done, value: f"{done}-{value.decode()}")


def count():
    return GroupAggregate(int, lambda n, value: n + 1, lambda n, value: n - 1)


def enters(key, value, *, timestamp=0):
    return Record(key, value, timestamp, 0, ADD)


def leaves(key, value, *, timestamp=0):
    return Record(key, value, timestamp, 0, SUBTRACT)


def pairs(core, *positions):
    return [(change.old, change.new) for position, events in enumerate(positions) for change in core.advance(position, events)]


def test_a_value_that_changes_within_its_group_is_subtracted_then_added_in_one_change():
    assert pairs(text(), [enters(b"a", b"1")], [enters(b"a", b"3"), leaves(b"a", b"1")]) == [(None, "+1"), ("+1", "+1-1+3")]


def test_an_update_to_the_same_value_is_a_change_too():
    assert pairs(count(), [enters(b"a", b"5")], [leaves(b"a", b"5"), enters(b"a", b"5")]) == [(None, 1), (1, 1)]


def test_several_rows_at_one_position_are_one_change_all_subtractions_first_in_order_of_their_keys():
    before = [enters(b"b", b"1"), enters(b"a", b"2")]
    at_once = [enters(b"d", b"5"), leaves(b"b", b"1"), enters(b"c", b"4"), leaves(b"a", b"2")]
    assert pairs(text(), before, at_once) == [(None, "+2+1"), ("+2+1", "+2+1-2-1+4+5")]
    assert pairs(text(), before[::-1], at_once[::-1]) == pairs(text(), before, at_once)


def test_a_count_goes_to_0_and_stays_as_a_row():
    assert pairs(count(), [enters(b"a", b"1")], [leaves(b"a", b"1")], [enters(b"b", b"1")]) == [(None, 1), (1, 0), (0, 1)]


def test_an_aggregate_of_none_removes_the_row_and_the_next_addition_begins_anew():
    core = GroupAggregate(int, lambda n, value: n + 1, lambda n, value: n - 1 or None)
    assert pairs(core, [enters(b"a", b"1")], [leaves(b"a", b"1")], [enters(b"b", b"1")]) == [(None, 1), (1, None), (None, 1)]


def test_nothing_is_subtracted_from_a_group_without_a_row():
    assert pairs(count(), [leaves(b"a", b"1")], [leaves(b"a", b"1"), enters(b"a", b"2")]) == [(None, 1)]


def test_a_result_has_the_largest_time_of_the_row_and_of_what_changed_it():
    core = count()
    times = [
        [change.timestamp for change in core.advance(position, events)]
        for position, events in enumerate(
            [
                [enters(b"a", b"1", timestamp=-7)],
                [enters(b"b", b"1", timestamp=10), enters(b"c", b"1", timestamp=30)],
                [leaves(b"a", b"1", timestamp=20)],
            ]
        )
    ]
    assert times == [[-7], [30], [30]]


@pytest.mark.parametrize("kind", [list, dict, set, bytearray])
def test_a_container_that_was_changed_in_place_is_refused(kind):
    core = GroupAggregate(kind, lambda container, value: container, lambda container, value: container)
    with pytest.raises(ValueError, match=rf"add\(\) must return a new {kind.__name__}"):
        list(core.advance(0, [enters(b"a", b"1")]))
