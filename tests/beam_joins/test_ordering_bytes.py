"""Bytes by which values are ordered: as Python orders them, in every Arrow type that holds them."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.keys.opaque import opaque_values
from beam_joins.keys.ordering_bytes import ordering_bytes

WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.integers(2**53 - 2, 2**53 + 2)
FLOATS = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 2.0**53, 2.0**63, -(2.0**63), 2.0**63 - 1024])


def encoded(values: list[Any], kind: pa.DataType | None = None) -> list[bytes]:
    column = opaque_values(values) if kind is None else pa.array(values, kind)
    result: list[bytes] = ordering_bytes(column).to_pylist()
    return result


def check(one: Any, other: Any, of_one: bytes, of_other: bytes) -> None:
    assert ((one > other) - (one < other)) == ((of_one > of_other) - (of_one < of_other)), (one, other)


@given(st.one_of(WHOLE, FLOATS), st.one_of(WHOLE, FLOATS))
def test_whole_numbers_and_floats_are_ordered_together(one: Any, other: Any) -> None:
    bytes_of = [encoded([each], pa.float64() if isinstance(each, float) else pa.int64())[0] for each in (one, other)]
    check(one, other, *bytes_of)
    assert [encoded([one]), encoded([other])] == [[each] for each in bytes_of]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_whole_numbers_without_a_sign_are_ordered_and_equal_to_those_with_one(one: int, other: int) -> None:
    check(one, other, *encoded([one, other], pa.uint64()))
    if one < 2**63:
        assert encoded([one], pa.uint64()) == encoded([one], pa.int64())


def test_nan_is_the_greatest_number_and_one() -> None:
    nans = encoded([float("nan"), -float("nan"), math.inf], pa.float64())
    assert nans[0] == nans[1] > nans[2]


SORTED: dict[str, tuple[list[Any], list[pa.DataType]]] = {
    "decimals": ([Decimal("-1.50"), Decimal(0), Decimal("0.01"), Decimal("2.00")], [pa.decimal128(9, 2), pa.decimal256(60, 40)]),
    "texts": (["", "a", "ab", "b", "ä", "\U0001f600"], [pa.string(), pa.large_string()]),
    "bytes": ([b"", b"\0", b"a", b"\xff"], [pa.binary(), pa.large_binary()]),
    "truth": ([False, True], [pa.bool_()]),
    "dates": ([dt.date.min, dt.date(1969, 12, 31), dt.date(2026, 1, 1)], [pa.date32(), pa.date64()]),
    "times": ([dt.time(0), dt.time(12), dt.time(23, 59)], [pa.time32("s"), pa.time64("us")]),
    "instants": ([dt.datetime(1969, 1, 1), dt.datetime(2026, 1, 1)], [pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns")]),
    "spans": ([dt.timedelta(-1), dt.timedelta(0), dt.timedelta(7)], [pa.duration("ms"), pa.duration("us"), pa.duration("ns")]),
}


@pytest.mark.parametrize("name", SORTED)
def test_values_of_a_kind_are_ordered_and_have_the_same_bytes_in_types_that_hold_them(name: str) -> None:
    values, kinds = SORTED[name]
    every = [encoded(values, kind) for kind in kinds]
    assert sorted(every[0]) == every[0]
    assert len({*every[0]}) == len(values)
    assert all(each == every[0] for each in (*every, encoded(values)))


def test_nanoseconds_between_two_microseconds_are_ordered_behind_the_first() -> None:
    bytes_of = ordering_bytes(pa.array([-1, 0, 1, 999, 1000, -1000, -1001], pa.timestamp("ns"))).to_pylist()
    assert [bytes_of.index(each) for each in sorted(bytes_of)] == [6, 5, 0, 1, 2, 3, 4]


def test_values_without_a_common_order_are_refused() -> None:
    for values in ([1, "a"], [[1]], [Decimal(1), 1.5]):
        with pytest.raises(ValueError, match="have no common order: give numbers, texts, bytes, dates or times, of one kind"):
            ordering_bytes(opaque_values(values))
    with pytest.raises(ValueError, match=r"values of type list<.*> have no order"):
        ordering_bytes(pa.array([[1]]))
