"""Keys in columns: which are compared, and that what is equal has one number and one hash."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.coders.block import one_chunk
from beam_joins.transforms.columns.keys import codes, comparable, hashes
from tests.transforms.columns.kernels import modest

NOON = dt.datetime(2020, 1, 1, 12)

BY_TYPE = {
    "int64": pa.array([1, 2, None, 1]),
    "text": pa.array(["a", "", None, "a"]),
    "bytes": pa.array([b"a", b"", None, b"a"]),
    "booleans": pa.array([True, False, None, True]),
    "dates": pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 2), None, dt.date(2020, 1, 1)]),
    "dates in milliseconds": pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 2), None, dt.date(2020, 1, 1)], pa.date64()),
    "times of day": pa.array([dt.time(1), dt.time(2), None, dt.time(1)]),
    "times": pa.array([NOON, NOON + dt.timedelta(microseconds=1), None, NOON]),
    "times with a zone": pa.array([NOON, NOON + dt.timedelta(seconds=1), None, NOON], pa.timestamp("us", "Europe/Berlin")),
    "durations": pa.array([dt.timedelta(1), dt.timedelta(2), None, dt.timedelta(1)]),
    "a dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "a struct": pa.array([{"a": "x", "b": 1}, {"a": "x", "b": 2}, None, {"a": "x", "b": 1}]),
    "a struct of parts swapped": pa.array([{"a": 1, "b": 2}, {"a": 2, "b": 1}, None, {"a": 1, "b": 2}]),
    "a struct in a struct": pa.array([{"a": {"b": "x"}}, {"a": {"b": "y"}}, None, {"a": {"b": "x"}}]),
}


@pytest.mark.parametrize("keys", BY_TYPE.values(), ids=BY_TYPE)
def test_equal_keys_of_every_type_have_one_number_and_one_hash_and_others_have_not(keys):
    keys = comparable(keys, "the key")
    (number,) = codes(keys)
    hashed = hashes(keys)
    assert number[0] == number[3]
    assert hashed[0] == hashed[3]
    assert len({number[0], number[1], number[2]}) == 3
    assert hashed[0] != hashed[1]
    assert keys.is_null().to_pylist() == [False, False, True, False]
    in_two = codes(keys.slice(0, 2), keys.slice(1))
    assert in_two[0][0] == in_two[1][2]
    assert in_two[0][1] == in_two[1][0]
    assert in_two[0][0] != in_two[0][1]
    assert hashes(keys.slice(1)).tolist() == hashed[1:].tolist(), "a slice hashes as its own rows"


@pytest.mark.parametrize(
    "widths",
    [
        [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
        [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
        [pa.binary(), pa.large_binary(), pa.binary(1)],
    ],
    ids=["whole numbers", "text", "bytes"],
)
def test_keys_are_equal_whatever_the_width_of_their_type(widths):
    plain = {pa.int8(): 7, pa.string(): "é", pa.binary(): b"\xff"}[widths[0]]
    columns = [comparable(pa.array([plain, None], kind), "the key") for kind in widths]
    assert len({tuple(number.tolist()) for number in codes(*columns)}) == 1
    assert len({hashes(column)[0] for column in columns}) == 1
    nested = [comparable(pa.array([{"k": plain}], pa.struct([("k", kind)])), "the key") for kind in widths]
    assert len({hashes(column)[0] for column in nested}) == 1


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        pytest.param(pa.array([NOON], pa.timestamp("ms")), pa.array([NOON], pa.timestamp("us")), id="times"),
        pytest.param(pa.array([dt.time(1)], pa.time32("s")), pa.array([dt.time(1)], pa.time64("us")), id="times of day"),
    ],
)
def test_batches_of_one_table_that_differ_in_the_unit_of_their_keys_meet_in_one_partition(narrow, wide):
    """Blocks of both units are put together by Arrow in the wider one: then rows of one key must not lie in two partitions."""
    narrow, wide = comparable(narrow, "the key"), comparable(wide, "the key")
    pa.concat_tables([pa.table({"key": narrow}), pa.table({"key": wide})], promote_options="permissive")
    assert hashes(narrow).tolist() == hashes(wide).tolist()


@given(st.lists(st.none() | st.integers(-3, 3)), st.lists(st.none() | st.integers(-3, 3)))
@modest
def test_numbers_are_small_and_equal_where_the_keys_are(left, right):
    for make in (pa.array, lambda keys, kind: pa.array([None if k is None else {"a": k % 2, "b": str(k)} for k in keys], kind)):
        kind = pa.int64() if make is pa.array else pa.struct([("a", pa.int64()), ("b", pa.string())])
        one, other = codes(make(left, kind), make(right, kind))
        number_of = {}
        for key, number in zip([*left, *right], [*one.tolist(), *other.tolist()], strict=True):
            assert number_of.setdefault(key, number) == number
        assert sorted(number_of.values()) == list(range(len(number_of)))


def test_a_column_without_a_known_type_compares_with_any():
    one, other = codes(pa.array(["a", "a"]), pa.nulls(0))
    assert (one.tolist(), other.tolist()) == ([0, 0], [])
    one, other = codes(pa.nulls(2), pa.array([7]))
    assert one[0] == one[1] != other[0]
    assert [len(column) for column in codes(pa.nulls(0), pa.nulls(3))] == [0, 3]
    assert len(hashes(pa.nulls(2))) == 2
    assert [hashes(pa.array([], kind)).tolist() for kind in (pa.int64(), pa.string(), pa.struct([("a", pa.int64())]))] == [[], [], []]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([7]), pa.array(["7"])),
        (pa.array(["a"]), pa.array([b"a"])),
        (pa.array([{"a": 1}]), pa.array([{"a": "1"}])),
        (pa.array([NOON]), pa.array([NOON], pa.timestamp("us", "UTC"))),
    ],
)
def test_keys_of_two_types_are_refused(left, right):
    with pytest.raises(ValueError, match=r"keys of the types .* and .* are compared: they are never equal"):
        codes(left, right)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (pa.array([1.5]), "the key is of type double, which has no exact equality: use whole numbers, text"),
        (pa.array([1.5], pa.float32()), "the key is of type float, which has no exact equality"),
        (pa.array([1.5]).dictionary_encode(), "the key is of type double"),
        (pa.array([Decimal("1.5")]), "the key is of type decimal128.*, which has no exact equality"),
        (pa.array([[1]]), "the key is of type list<.*>, which has no exact equality"),
        (pa.array([{"a": 1, "b": 1.5}]), r"the key\.b is of type double"),
        (pa.array([pa.MonthDayNano([1, 2, 3])]), "the key is of type month_day_nano_interval, which has no exact equality"),
        (pa.array([2**63], pa.uint64()), "the key cannot be compared as int64"),
    ],
)
def test_keys_without_exact_equality_are_refused_with_a_sentence(keys, complaint):
    with pytest.raises(ValueError, match=complaint):
        comparable(keys, "the key")


def test_a_column_of_many_chunks_is_one_chunk():
    assert one_chunk(pa.chunked_array([["a"], [], ["b"]])).to_pylist() == ["a", "b"]
    assert one_chunk(pa.chunked_array([], pa.struct([("a", pa.int64())]))).to_pylist() == []
    assert one_chunk(pa.array([1])).to_pylist() == [1]
