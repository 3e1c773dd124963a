"""KAFKA-3902, case by case: the predicate is value < 2."""

import pytest

from beam_joins import Change
from tests.reference.filter import filter_change, map_change


def small(key, value):
    return value < 2


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, 5, None, id="3a: an insert that fails says nothing"),
        pytest.param(None, 1, (None, 1), id="3a: an insert that passes is an insert"),
        pytest.param(5, None, None, id="3b: a delete of what failed says nothing"),
        pytest.param(1, None, (1, None), id="3b: a delete of what passed is a delete"),
        pytest.param(1, 0, (1, 0), id="3c1: true on both is the pair"),
        pytest.param(1, 1, (1, 1), id="3c1: an update to the same value is passed on"),
        pytest.param(5, 6, None, id="3c2: false on both says nothing"),
        pytest.param(1, 5, (1, None), id="3c3: true then false is a delete"),
        pytest.param(5, 1, (None, 1), id="3c4: false then true is an insert"),
        pytest.param(None, None, None, id="nothing to nothing says nothing"),
    ],
)
def test_a_filtered_change_shows_only_the_sides_that_pass(old, new, expected):
    change = filter_change(small, Change("k", old, new, timestamp=3, position=4))
    assert change == (expected and Change("k", *expected, timestamp=3, position=4))


def test_the_predicate_sees_the_key():
    assert filter_change(lambda key, value: key == "a", Change("b", None, 1, 0, 0)) is None


def test_the_predicate_is_never_called_with_an_absent_value():
    seen = []
    filter_change(lambda key, value: seen.append(value) or True, Change("k", None, 7, 0, 0))
    assert seen == [7]


@pytest.mark.parametrize(("old", "new", "expected"), [(7, 8, None), (None, 7, None), (7, 1, (None, 10)), (1, 7, (10, None))])
def test_a_map_that_gives_none_makes_no_row(old, new, expected):
    mapped = map_change(lambda key, value: value * 10 if value < 5 else None, Change("k", old, new, 3, 4))
    assert mapped == (expected and Change("k", *expected, 3, 4))


@pytest.mark.parametrize(("old", "new", "expected"), [(None, 1, (None, 10)), (1, None, (10, None)), (1, 2, (10, 20))])
def test_map_maps_both_sides_and_leaves_absence_alone(old, new, expected):
    assert map_change(lambda key, value: value * 10, Change("k", old, new, 3, 4)) == Change("k", *expected, 3, 4)
