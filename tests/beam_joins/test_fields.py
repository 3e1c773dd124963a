"""Fields of many records, and how numbers that order the records of one place are written."""

import datetime as dt
from collections import OrderedDict
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.columns.positions import order_bytes, places_of, times_of
from beam_joins.functions.fields import OfField

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


SECOND = dt.datetime(1970, 1, 2, 0, 0, 1)
UTC_SECOND = SECOND.replace(tzinfo=dt.UTC)
DAY, SECONDS = 86_400_000_000, 86_401_000_000


@pytest.mark.parametrize(
    ("values", "time", "position"),
    [
        *((pa.array([dt.date(1970, 1, 2)], kind), DAY, DAY) for kind in (pa.date32(), pa.date64())),
        *((pa.array([UTC_SECOND], pa.timestamp(unit, "UTC")), SECONDS, SECONDS) for unit in ("s", "ms", "us", "ns")),
        *((pa.array([SECOND], pa.timestamp(unit)), None, SECONDS) for unit in ("s", "ms", "us", "ns")),
        *((pa.array([Decimal("7.00")], kind), None, 7) for kind in (pa.decimal128(38, 2), pa.decimal256(76, 2))),
        ([dt.date(1970, 1, 2)], DAY, DAY),
        ([UTC_SECOND], SECONDS, SECONDS),
        ([SECOND], None, SECONDS),
        ([Decimal("7.00")], None, 7),
    ],
    ids=str,
)
def test_dates_and_times_are_microseconds_and_decimals_whole_numbers(values, time, position):
    assert places_of("sequence_by", values)[0].to_pylist() == [position]
    if time is not None:
        assert times_of("timestamp_by", values).to_pylist() == [time]
    else:
        with pytest.raises(ValueError, match="timestamp_by gave"):
            times_of("timestamp_by", values)


@pytest.mark.parametrize(
    "values",
    [
        *(pa.array([value]) for value in (Decimal("7.5"), Decimal(2**63), dt.time(8), dt.timedelta(1), 7.0)),
        pa.array([1_001], pa.timestamp("ns")),
        *([value] for value in (Decimal("7.5"), Decimal("1e99999999"), Decimal("nan"), Decimal(2**63), dt.time(8), 7.0)),
    ],
    ids=str,
)
def test_what_is_no_whole_number_of_64_bits_is_no_position(values):
    with pytest.raises(ValueError, match="sequence_by gave"):
        places_of("sequence_by", values)
