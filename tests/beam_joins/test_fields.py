"""How numbers that order the records of one place are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.places import order_bytes

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(INT64, INT64), min_size=2, max_size=9))
def test_the_order_bytes_of_numbers_compare_as_the_numbers_do(numbers):
    assert sorted(numbers) == sorted(numbers, key=order_bytes)


def test_a_number_beyond_64_bits_orders_nothing():
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        order_bytes([2**63])
