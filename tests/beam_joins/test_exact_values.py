"""A value comes back equal from a column of a declared type, or is refused with the path of its column."""

import datetime as dt
import enum
import itertools
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.functions.typed_rows import column_writer
from beam_joins.values.arrow_types import plain_type
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace, exact_column
from tests.beam_joins.types_of_columns import LEAVES, VALUES_ONLY, value_types
from tests.examples import examples

NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 5)
UTC_NOON = NOON.replace(tzinfo=dt.UTC)
WHO = pa.struct([("name", pa.string()), pa.field("age", pa.int64())])


class Word(enum.StrEnum):
    A = "a"


class Who(NamedTuple):
    name: str
    age: int


@dataclass
class Person:
    name: str
    age: int


@pytest.mark.parametrize(
    ("value", "kind", "path"),
    [
        (1.5, pa.int64(), "x"),
        (float("nan"), pa.int64(), "x"),
        (Decimal("7.5"), pa.int64(), "x"),
        (True, pa.int64(), "x"),
        (True, pa.float64(), "x"),
        (1, pa.bool_(), "x"),
        (300, pa.int8(), "x"),
        (-1, pa.uint64(), "x"),
        (2**53 + 1, pa.float64(), "x"),
        (0.1, pa.float32(), "x"),
        (1e300, pa.float32(), "x"),
        (Decimal("0.1"), pa.float64(), "x"),
        (Decimal("1.555"), pa.decimal128(10, 2), "x"),
        (0.5, pa.decimal128(10, 2), "x"),
        ("7", pa.int64(), "x"),
        (b"a", pa.string(), "x"),
        ("\ud800", pa.string(), "x"),
        ("a", pa.binary(), "x"),
        (b"abc", pa.binary(2), "x"),
        (UUID(int=7), pa.binary(16), "x"),
        (b"a" * 16, pa.uuid(), "x"),
        (NOON, pa.date32(), "x"),
        (NOON, pa.timestamp("s"), "x"),
        (NOON, pa.timestamp("us", "UTC"), "x"),
        (UTC_NOON, pa.timestamp("us"), "x"),
        (NOON.date(), pa.timestamp("us"), "x"),
        (5, pa.timestamp("us"), "x"),
        (dt.datetime(2500, 1, 1), pa.timestamp("ns"), "x"),
        (dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=1))), pa.timestamp("us", "UTC"), "x"),
        (np.datetime64("2026-03-01T12:00:00.000000001"), pa.timestamp("us"), "x"),
        (NOON.time(), pa.time32("ms"), "x"),
        (UTC_NOON.timetz(), pa.time64("us"), "x"),
        (dt.timedelta(microseconds=1), pa.duration("ms"), "x"),
        (dt.timedelta.max, pa.duration("us"), "x"),
        ("ab", pa.list_(pa.string()), "x"),
        ({"a"}, pa.list_(pa.string()), "x"),
        ([1, 1.5], pa.list_(pa.int64()), "x[]"),
        ([1], pa.list_(pa.int64(), 2), "x"),
        ([("a", 1)], WHO, "x"),
        ({"age": 1.5}, WHO, "x.age"),
        ([{"age": 1}, {"age": NOON}], pa.list_(WHO), "x[].age"),
        ({"of": [{"age": 1.5}]}, pa.struct([("of", pa.list_(WHO))]), "x.of[].age"),
        ({"a": 1.5}, pa.map_(pa.string(), pa.int64()), "x[].value"),
        ([1, 2], pa.map_(pa.string(), pa.int64()), "x"),
    ],
)
def test_a_value_that_a_type_does_not_hold_is_refused_with_the_path_of_its_column(value, kind, path):
    for values in ([value], [None, value, None]):
        with pytest.raises(ValueError, match=r"^fn gave .* \(\w+\) for the column '.*' of type ") as refused:
            exact_column(values, kind, ValuePlace("fn", "x"))
        assert f" for the column '{path}' of type " in str(refused.value)


@pytest.mark.parametrize(
    ("value", "kind", "comes_back"),
    [
        (7.0, pa.int8(), 7),
        (Decimal("7.00"), pa.int64(), 7),
        (np.int64(7), pa.int8(), 7),
        (2**60, pa.float64(), 2.0**60),
        (np.float32(0.1), pa.float32(), float(np.float32(0.1))),
        (7, pa.decimal128(10, 2), Decimal(7)),
        (Decimal("1.550"), pa.decimal128(10, 2), Decimal("1.55")),
        (Word.A, pa.string(), "a"),
        (np.str_("a"), pa.large_string(), "a"),
        (bytearray(b"ab"), pa.binary(), b"ab"),
        (np.bool_(True), pa.bool_(), True),
        (NOON, pa.timestamp("ns"), NOON),
        (UTC_NOON.astimezone(dt.timezone(dt.timedelta(hours=5))), pa.timestamp("us", "Europe/Berlin"), UTC_NOON),
        (np.datetime64("2026-03-01"), pa.date32(), NOON.date()),
        (np.datetime64("2026-03-01T12:00:00"), pa.timestamp("us"), NOON.replace(microsecond=0)),
        (np.timedelta64(1, "s"), pa.duration("ms"), dt.timedelta(seconds=1)),
        ((1, None), pa.list_(pa.int64()), [1, None]),
        (np.array([1, 2]), pa.list_(pa.int64()), [1, 2]),
        ({"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        ({"age": 7}, WHO, {"name": None, "age": 7}),
        (Who("Ann", 7), WHO, {"name": "Ann", "age": 7}),
        (Person("Ann", 7), WHO, {"name": "Ann", "age": 7}),
    ],
)
def test_a_value_that_loses_nothing_may_be_of_another_type(value, kind, comes_back):
    assert exact_column([None, value], kind, ValuePlace("fn")).to_pylist() == [None, comes_back]


def test_a_field_that_a_struct_does_not_have_and_a_null_where_there_is_none_are_refused_at_any_depth():
    kind = pa.struct([pa.field("who", pa.list_(pa.struct([pa.field("age", pa.int64(), nullable=False)])))])
    for row, complaint in (
        ({"who": [{"age": 7, "Age": 5}]}, r"fn gave the field 'who\[\].Age' = 5, and there are age"),
        ({"who": [{}]}, r"fn gave null for who\[\].age, which schema= declares nullable=False"),
        ({"who": None, "whom": 1}, "fn gave the field 'whom' = 1, and there are who"),
    ):
        with pytest.raises(ValueError, match=complaint):
            exact_column([row], kind, ValuePlace("fn"))
    assert exact_column([{"who": None}, None], kind, ValuePlace("fn")).to_pylist() == [{"who": None}, None]


TYPES = sorted({plain_type(sample.type) for sample in value_types() if "interval" not in str(sample.type)}, key=str)
SAMPLES = [value for values in [*LEAVES.values(), *list(VALUES_ONLY.values())[:1]] for value in values]
scalars = (
    st.sampled_from(SAMPLES)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.datetimes(timezones=st.none() | st.just(dt.UTC))
    | st.timedeltas()
    | st.times()
    | st.dates()
    | st.text(max_size=3)
    | st.binary(max_size=3)
)
objects = st.recursive(
    scalars, lambda parts: st.lists(parts, max_size=2) | st.dictionaries(st.sampled_from("xnlsof"), parts, max_size=2), max_leaves=4
)


def same(value: Any, back: Any) -> bool:
    if isinstance(value, dict) and isinstance(back, dict):
        return value.keys() <= back.keys() and all(same(value.get(name), part) for name, part in back.items())
    if isinstance(value, list | tuple) and isinstance(back, list | tuple):
        return len(value) == len(back) and all(map(same, value, back))
    if isinstance(value, dict) and isinstance(back, list):
        return same([*map(list, value.items())], [*map(list, back)])
    return value == back or (value != value and back != back)


class CastUuid(UUID):
    """A UUID that a cast may make text of."""

    def __eq__(self, other: object) -> bool:
        return str(self) == other if isinstance(other, str) else super().__eq__(other)

    __hash__ = UUID.__hash__


def cast_uuids(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(cast_uuids, value))
    if isinstance(value, dict):
        return {cast_uuids(name): cast_uuids(part) for name, part in value.items()}
    return CastUuid(str(value)) if isinstance(value, UUID) else value


@examples(1000)
@given(objects, st.sampled_from(TYPES))
def test_whatever_the_value_and_the_type_it_comes_back_equal_or_is_refused(value, kind):
    try:
        column = exact_column([value, None], kind, ValuePlace("fn"))
    except ValueError as error:
        assert str(error).startswith("fn gave ")
        return
    column.validate(full=True)
    assert same(value, column[0].as_py()), (value, kind)


@examples(500)
@given(st.data())
def test_columns_become_columns_of_another_type_with_the_same_values_or_are_refused(data):
    sample = data.draw(st.sampled_from(CASTS))
    kind = data.draw(st.sampled_from(TYPES))
    try:
        made = exact_cast(sample.column, kind, ValuePlace("a batch"))
    except ValueError as error:
        assert str(error).startswith("a batch gave ")
        return
    made.validate(full=True)
    assert all(itertools.starmap(same, zip(map(cast_uuids, sample.values), made.to_pylist(), strict=True)))


CASTS = list(value_types())


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (pa.schema([("n", pa.int64())]), {"n": 1}, [{"n": 1.5}, {"m": 1}, 7]),
        (pa.list_(pa.int64()), [1], ["ab", [1.5]]),
    ],
)
def test_results_that_are_not_of_the_type_are_null_where_they_are_handled(schema, good, bad):
    results = [row for each in [*bad, None] for row in (good, each)] * 1000
    refused = []
    column = column_writer("fn", schema)(results, lambda n, error: refused.append(n))
    assert sorted(refused) == [n for n, row in enumerate(results) if row is not good and row is not None]
    assert column.to_pylist() == [good if row is good else None for row in results]


def test_floats_of_16_bits_are_cast_and_compared():
    halves = pa.array(np.array([0.5, 7, np.nan], np.float16))
    assert all(map(same, [0.5, 7.0, float("nan")], exact_cast(halves, pa.float64(), ValuePlace("a batch")).to_pylist()))
    assert exact_cast(pa.array([7, 8]), pa.float16(), ValuePlace("a batch")).to_pylist() == [7, 8]
    with pytest.raises(ValueError, match="a batch gave 0.5"):
        exact_cast(halves, pa.int64(), ValuePlace("a batch"))
