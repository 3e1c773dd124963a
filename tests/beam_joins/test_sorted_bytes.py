"""Columns of bytes, sorted and searched, against what Python does with a list of them."""

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.columns.sorted_bytes import byte_numbers, bytes_order, search_bytes, sorted_by
from tests.beam_joins.kernels import modest

ANY = st.binary(max_size=12)
OF_ONE_LENGTH = st.integers(1, 20).flatmap(lambda length: st.lists(st.binary(min_size=length, max_size=length), min_size=1))
COLUMNS = st.one_of(OF_ONE_LENGTH, st.lists(ANY))


def column(values):
    """A column that does not begin where its buffers do."""
    return pa.array([b"before", *values], pa.binary()).slice(1)


@given(COLUMNS)
@modest
def test_bytes_are_ordered_as_python_orders_them(values):
    assert bytes_order(column(values)).tolist() == sorted(range(len(values)), key=values.__getitem__)


@given(st.lists(st.one_of(st.none(), ANY)))
@modest
def test_nulls_come_last(values):
    present = [n for n, value in enumerate(values) if value is not None]
    nulls = [n for n, value in enumerate(values) if value is None]
    assert bytes_order(column(values)).tolist() == [*sorted(present, key=values.__getitem__), *nulls]


@given(COLUMNS, st.lists(ANY))
@modest
def test_a_search_finds_the_first_that_is_not_smaller(values, others):
    ordered, wanted = (
        sorted(values),
        sorted([*others, *values, *(value + b"\xff" for value in values), *(value[:-1] for value in values)]),
    )
    assert search_bytes(column(ordered), column(wanted)).tolist() == [bisect_left(ordered, value) for value in wanted]


@given(OF_ONE_LENGTH)
@modest
def test_numbers_are_equal_and_ordered_as_the_bytes_are(values):
    numbers = byte_numbers(column(values))
    differing = sum(len({value[place] for value in values}) > 1 for place in range(len(values[0])))
    if differing > 8:
        assert numbers is None
    else:
        assert np.unique(numbers, return_inverse=True)[1].tolist() == [sorted(set(values)).index(value) for value in values]


@pytest.mark.parametrize("values", [[], [b"", b""], [b"a", None], [b"a", b"ab"], [b"123456789", b"abcdefghi"]])
def test_what_has_no_numbers(values):
    assert byte_numbers(column(values)) is None


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), min_size=1), st.integers(1, 40))
@modest
def test_numbers_are_sorted_and_equal_ones_stay_in_their_order(numbers, times):
    column = np.tile(np.array(numbers, np.int64), times)
    assert sorted_by(column).tolist() == np.argsort(column, kind="stable").tolist()
