"""Rows by routing key and position."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.columns.sorting import ffill_index, gather, integers, ordered, same, search, starts, valid
from beam_joins.keys.nested import combined_keys, windowed_keys
from beam_joins.keys.opaque import opaque_keys, python_keys
from tests.beam_joins.kernels import modest

FAR = st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])


@given(st.lists(st.tuples(st.integers(0, 3) | st.sampled_from([65_535, 65_536, 70_000]), FAR, FAR)))
@modest
def test_rows_are_ordered_by_number_then_position_then_the_rest(rows):
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    for count in (1, 2, 3):
        # rows that are equal in all columns stay in their order
        by = sorted(range(len(rows)), key=lambda i: rows[i][:count])
        assert ordered(*columns[:count], *([columns[0]] * (count == 1))).tolist() == by


def test_columns_of_many_rows_that_have_no_room_in_64_bits_are_ordered_too():
    chance = np.random.default_rng(7)
    columns = [chance.integers(-(2**63), 2**63 - 1, 5000) for _ in range(6)]
    columns[0][::2] = columns[0][0]
    assert ordered(*columns).tolist() == np.lexsort(columns[::-1]).tolist()
    assert ordered(*columns[:3]).tolist() == np.lexsort(columns[2::-1]).tolist()


@pytest.mark.parametrize("shuffled", [0, 20, 1000], ids=["in order", "about in order", "in no order"])
def test_a_search_finds_what_numpy_finds_in_whatever_order_it_looks(shuffled):
    chance = np.random.default_rng(7)
    wanted = np.sort(chance.integers(-50, 1050, 1000))
    for begin in range(0, 1000, shuffled or 1000):
        chance.shuffle(wanted[begin : begin + shuffled])
    numbers = np.sort(chance.integers(0, 1000, 500))
    for side in ("left", "right"):
        assert search(numbers, wanted, side=side).tolist() == np.searchsorted(numbers, wanted, side=side).tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans())))
@modest
def test_what_a_key_has_seen_last_is_its_own(rows):
    rows.sort(key=lambda row: row[0])
    code, seen = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.bool_)
    first = starts(code)
    assert first.tolist() == [i == 0 or rows[i - 1][0] != rows[i][0] for i in range(len(rows))]
    expected = [max((j for j in range(i + 1) if rows[j] == (rows[i][0], True)), default=-1) for i in range(len(rows))]
    assert ffill_index(seen, first).tolist() == expected


def test_values_at_negative_indices_are_null():
    assert gather(pa.array(["a", "b"]), np.array([1, -1, 0])).to_pylist() == ["b", None, "a"]
    assert gather(pa.nulls(0), np.array([-1, -1])).to_pylist() == [None, None]
    assert gather(pa.array([{"a": 1}, None]), np.array([0, 1, -1])).to_pylist() == [{"a": 1}, None, None]
    assert valid(pa.array([{"a": None}, None])).tolist() == [True, False]
    assert integers(pa.chunked_array([[1], [2]])).tolist() == [1, 2]


@pytest.mark.parametrize(
    "keys",
    [
        opaque_keys([7, "a", None, 7.5]),
        pa.array([{"a": "x", "b": 1}, None, {"a": "x", "b": None}, {"a": None, "b": None}]),
        pa.array([0.0, -0.0, None, 1.0]),
        combined_keys(pa.array(["a", "a", None]), pa.array([1, None, 1])),
        windowed_keys(pa.array(["a", "a", "b"]), pa.array([0, 5, 0]), pa.array([5, 10, 5]), mask=pa.array([False, False, True])),
    ],
    ids=["opaque", "structs", "floats", "combined", "windowed"],
)
def test_keys_are_the_same_where_they_are_equal_in_python(keys):
    one, other = np.array([*product(range(len(keys)), repeat=2)]).T
    in_python = python_keys(keys)
    expected = [in_python[i] == in_python[j] for i, j in zip(one, other, strict=True)]
    assert same(keys.take(pa.array(one)), keys.take(pa.array(other))).tolist() == expected
