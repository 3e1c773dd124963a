"""Keys in columns: which are compared, and that what is equal has one number and one hash."""

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.columns.sorting import combine_chunks
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import comparable, factorize, joined_keys, kinds
from beam_joins.keys.opaque import opaque_keys, python_keys
from tests.beam_joins.kernels import modest

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
    (number,) = factorize(keys)
    hashed = hashes(keys)
    assert number[0] == number[3]
    assert hashed[0] == hashed[3]
    assert len({number[0], number[1], number[2]}) == 3
    assert hashed[0] != hashed[1]
    assert keys.is_null().to_pylist() == [False, False, True, False]
    in_two = factorize(keys.slice(0, 2), keys.slice(1))
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
    assert len({tuple(number.tolist()) for number in factorize(*columns)}) == 1
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
    """Blocks of both units are put together by Arrow in the wider one: then rows of one key must not lie in
    two partitions.
    """
    narrow, wide = comparable(narrow, "the key"), comparable(wide, "the key")
    pa.concat_tables([pa.table({"key": narrow}), pa.table({"key": wide})], promote_options="permissive")
    assert hashes(narrow).tolist() == hashes(wide).tolist()


@given(st.lists(st.none() | st.integers(-3, 3)), st.lists(st.none() | st.integers(-3, 3)))
@modest
def test_numbers_are_small_and_equal_where_the_keys_are(left, right):
    for make in (pa.array, lambda keys, kind: pa.array([None if k is None else {"a": k % 2, "b": str(k)} for k in keys], kind)):
        kind = pa.int64() if make is pa.array else pa.struct([("a", pa.int64()), ("b", pa.string())])
        one, other = factorize(make(left, kind), make(right, kind))
        number_of = {}
        for key, number in zip([*left, *right], [*one.tolist(), *other.tolist()], strict=True):
            assert number_of.setdefault(key, number) == number
        assert sorted(number_of.values()) == list(range(len(number_of)))


def test_a_column_without_a_known_type_compares_with_any():
    one, other = factorize(pa.array(["a", "a"]), pa.nulls(0))
    assert (one.tolist(), other.tolist()) == ([0, 0], [])
    one, other = factorize(pa.nulls(2), pa.array([7]))
    assert one[0] == one[1] != other[0]
    assert [len(column) for column in factorize(pa.nulls(0), pa.nulls(3))] == [0, 3]
    assert len(hashes(pa.nulls(2))) == 2
    assert [hashes(pa.array([], kind)).tolist() for kind in (pa.int64(), pa.string(), pa.struct([("a", pa.int64())]))] == [[], [], []]


UTC_NOON = NOON.replace(tzinfo=dt.UTC)
SEVENS = {
    "whole numbers": pa.array([7, 8, None]),
    "unsigned": pa.array([7, 2**64 - 1, None], pa.uint64()),
    "fractions": pa.array([7.0, 0.5, None]),
    "halves": pa.array([7.0, 0.5, None], pa.float32()),
    "decimals": pa.array([Decimal("7.00"), Decimal("0.50"), None]),
    "finer decimals": pa.array([Decimal("7.0000"), Decimal("0.1000"), None]),
    "a dictionary": pa.array([7.0, 9.0, None]).dictionary_encode(),
    "Python objects": opaque_keys([7, 2**64 - 1, None]),
    "other Python objects": opaque_keys([Decimal(7), Decimal("0.1"), None]),
}


@pytest.mark.parametrize("right", SEVENS)
@pytest.mark.parametrize("left", SEVENS)
def test_numbers_are_equal_whatever_the_type_of_their_column(left, right):
    left, right = comparable(SEVENS[left], "the key"), comparable(SEVENS[right], "the key")
    one, other = factorize(left, right)
    python = [python_keys(column) for column in (left, right)]
    for i in range(3):
        for j in range(3):
            assert (one[i] == other[j]) == (python[0][i] == python[1][j])
            if i < 2 and python[0][i] == python[1][j]:
                assert hashes(left)[i] == hashes(right)[j]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(pa.array(["a", "é"]), opaque_keys(["a", "é"]), id="text"),
        pytest.param(pa.array([b"a", b""]), opaque_keys([b"a", bytearray()]), id="bytes"),
        pytest.param(pa.array([True, False]), pa.array([1, 0]), id="truth values and numbers"),
        pytest.param(
            pa.array([dt.date(1960, 1, 1), dt.date(2020, 1, 2)]), opaque_keys([dt.date(1960, 1, 1), dt.date(2020, 1, 2)]), id="dates"
        ),
        pytest.param(pa.array([dt.time(1, 2, 3, 4)]), opaque_keys([dt.time(1, 2, 3, 4)]), id="times of day"),
        pytest.param(pa.array([NOON]), opaque_keys([NOON]), id="times"),
        pytest.param(pa.array([NOON], pa.timestamp("ms", "Europe/Berlin")), opaque_keys([UTC_NOON]), id="instants"),
        pytest.param(pa.array([NOON], pa.timestamp("ms", "Europe/Berlin")), pa.array([NOON], pa.timestamp("us", "UTC")), id="zones"),
        pytest.param(pa.array([dt.timedelta(-1)]), opaque_keys([dt.timedelta(-1)]), id="durations"),
        pytest.param(pa.array([{"a": 1, "b": "x"}]), opaque_keys([(1, "x")]), id="several columns and a tuple"),
        pytest.param(pa.array([{"a": 1, "b": "x"}]), pa.array([{"c": 1.0, "d": "x"}]), id="several columns of other names"),
        pytest.param(pa.array([{"a": {"b": 1}}]), opaque_keys([((1,),)]), id="columns in columns"),
        pytest.param(pa.array([[1, 2]]), opaque_keys([(1, 2)]), id="lists"),
        pytest.param(pa.array([uuid.UUID(int=5).bytes], pa.uuid()), opaque_keys([uuid.UUID(int=5)]), id="UUIDs"),
    ],
)
def test_a_column_meets_the_python_objects_that_its_keys_are(left, right):
    left, right = comparable(left, "the key"), comparable(right, "the key")
    one, other = factorize(left, right)
    assert one.tolist() == other.tolist()
    assert hashes(left).tolist() == hashes(right).tolist()
    if not pa.types.is_boolean(left.type):
        assert kinds(left) == kinds(right)
    both = joined_keys(left, right)
    assert python_keys(both)[: len(left)] == python_keys(left)


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.string(), pa.float64(), pa.null(), pa.decimal128(5, 2), pa.struct([("x", pa.int8())])], ids=str
)
def test_several_columns_of_which_one_is_null_meet_the_tuple(kind):
    columns = pa.array([{"a": None, "b": 1}], pa.struct([("a", kind), ("b", pa.int64())]))
    given, of_python = comparable(columns, "the key"), opaque_keys([(None, 1)])
    assert [number.tolist() for number in factorize(given, of_python)] == [[0], [0]]
    assert hashes(given).tolist() == hashes(of_python).tolist()


@given(
    st.lists(
        st.integers() | st.floats() | st.decimals(allow_nan=False) | st.booleans() | st.text() | st.tuples(st.integers(), st.text())
    )
)
@modest
def test_opaque_keys_are_equal_exactly_where_python_says_so(keys):
    column = opaque_keys(keys)
    (numbers,), hashed = factorize(column), hashes(column)
    for i, one in enumerate(keys):
        for j, other in enumerate(keys):
            equal = one == other or (one != one and other != other)
            assert (numbers[i] == numbers[j]) == equal
            assert not equal or hashed[i] == hashed[j]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([7]), pa.array(["7"])),
        (pa.array(["a"]), pa.array([b"a"])),
        (pa.array([{"a": 1}]), pa.array([{"a": "1"}])),
        (pa.array([{"a": 1}]), pa.array([1])),
        (pa.array([NOON]), pa.array([NOON], pa.timestamp("us", "UTC"))),
        (pa.array([dt.date(2020, 1, 1)]), pa.array([dt.datetime(2020, 1, 1)])),
    ],
)
def test_keys_of_two_kinds_are_never_equal_and_say_their_kinds(left, right):
    one, other = factorize(left, right)
    assert one[0] != other[0]
    assert not kinds(left) & kinds(right)


def test_a_type_that_no_key_can_be_of_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="the key is of type month_day_nano_interval, which has no equality: use numbers"):
        comparable(pa.array([pa.MonthDayNano([1, 2, 3])]), "the key")


def test_a_column_of_many_chunks_is_one_chunk():
    assert combine_chunks(pa.chunked_array([["a"], [], ["b"]])).to_pylist() == ["a", "b"]
    assert combine_chunks(pa.chunked_array([], pa.struct([("a", pa.int64())]))).to_pylist() == []
    assert combine_chunks(pa.array([1])).to_pylist() == [1]


@pytest.mark.parametrize("column", [pa.array([None, "a"]), pa.array([None, 0]), pa.nulls(2), pa.array([None, {"a": None}])])
def test_a_null_part_of_a_key_has_the_hash_of_the_null_in_the_tuple(column):
    struct = pa.StructArray.from_arrays([pa.array([1, 1]), column], names=["one", "other"])
    assert hashes(struct)[0] == hashes(opaque_keys([(1, None)]))[0]


@pytest.mark.parametrize("wide", [float("nan"), -float("nan"), np.float64(np.uint64(0x7FF8000000000001).view(np.float64))])
def test_all_nans_are_one_key_in_a_column_too(wide):
    one, other = factorize(pa.array([wide, 1.0]), opaque_keys([float("nan")]))
    assert one[0] == other[0]
    assert len(set(factorize(pa.array(np.array([wide, np.nan])))[0].tolist())) == 1
    assert hashes(pa.array(np.array([wide])))[0] == hashes(opaque_keys([float("nan")]))[0]
