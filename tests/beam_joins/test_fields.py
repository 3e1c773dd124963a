"""Fields of many records, and how numbers that order the records of one place are written."""

from collections import OrderedDict
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.fields import OfField
from beam_joins.positions import order_bytes

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(INT64, INT64), min_size=2, max_size=9))
def test_the_order_bytes_of_numbers_compare_as_the_numbers_do(numbers):
    assert sorted(numbers) == sorted(numbers, key=order_bytes)


def test_a_number_beyond_64_bits_orders_nothing():
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        order_bytes([2**63])


@pytest.mark.parametrize("records", [[{"a": 1}, {"a": None}], [{"a": 1}, OrderedDict(a=2)], [SimpleNamespace(a=1)], []])
def test_a_field_of_many_records_is_that_of_each(records):
    for get in (OfField("a"), OfField("a", repr)):
        assert get.of_all(records) == [get(record) for record in records]


def test_a_field_that_one_of_many_records_lacks_is_named():
    with pytest.raises(ValueError, match="a record has no column 'a'; it has b"):
        OfField("a").of_all([{"a": 1}, {"b": 2}])
