"""The one rule for batches whose columns differ."""

from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.values.schema_union import common_schema, conformed

NARROW, WIDE = pa.struct([("n", pa.int8())]), pa.struct([("n", pa.int64()), ("s", pa.string())])
COMMON = {
    "whole numbers": (pa.int8(), pa.int64(), pa.int64()),
    "whole numbers and fractions": (pa.int64(), pa.float32(), pa.float64()),
    "units of times": (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ns")),
    "scales": (pa.decimal128(4, 2), pa.decimal128(9, 4), pa.decimal128(9, 4)),
    "text": (pa.string(), pa.large_string(), pa.large_string()),
    "structs": (NARROW, WIDE, WIDE),
    "lists of structs": (pa.list_(NARROW), pa.list_(WIDE), pa.list_(WIDE)),
    "forms of lists": (pa.list_(pa.int8(), 2), pa.large_list(pa.int64()), pa.large_list(pa.int64())),
    "maps": (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize(("one", "other", "both"), COMMON.values(), ids=COMMON)
def test_two_types_become_one_that_holds_both_in_either_order(one: Any, other: Any, both: Any) -> None:
    for kinds in ((one, other), (other, one)):
        schema = common_schema([pa.schema({"x": kind}) for kind in kinds])
        assert schema == pa.schema({"x": both})
    with pytest.raises(ValueError, match=r"the column 'x.*' is of type .* in some batches and .* in others: say which"):
        common_schema([pa.schema({"x": kind}) for kind in (one, other, pa.int16())], widen=False, remedy="say which")


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        (pa.string(), pa.binary(), "left.x"),
        (pa.string(), pa.int64(), "left.x"),
        (pa.decimal128(4, 2), pa.float64(), "left.x"),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "left.x"),
        (pa.struct({"y": pa.string()}), pa.struct({"y": pa.binary(), "z": pa.int8()}), "left.x.y"),
        (pa.list_(pa.string()), pa.large_list(pa.binary()), r"left.x\[\]"),
        (pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.binary()), r"left.x\[\].item"),
    ],
)
def test_two_types_whose_values_are_never_equal_are_refused_with_their_path(one: Any, other: Any, path: str) -> None:
    for kinds in ((one, other), (other, one)):
        with pytest.raises(ValueError, match=f"the column '{path}' is of type .* in some batches and .* in others: cast it to one"):
            common_schema([pa.schema({"x": kind}) for kind in kinds], of="left")


@pytest.mark.parametrize("widen", [True, False])
def test_columns_are_matched_by_name_and_those_that_are_absent_may_be_null(widen: bool) -> None:
    schemas = [
        pa.schema([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.null())]),
        pa.schema([pa.field("c", pa.int8(), nullable=False), pa.field("a", pa.int8(), nullable=False)]),
        pa.schema([pa.field("b", pa.string()), pa.field("a", pa.int8(), nullable=False)]),
    ]
    for order in permutations(schemas):
        schema = common_schema(order, widen=widen)
        assert schema.names == list(dict.fromkeys(name for each in order for name in each.names))
        assert {field.name: (field.type, field.nullable) for field in schema} == {
            "a": (pa.int8(), False),
            "b": (pa.string(), True),
            "c": (pa.int8(), True),
        }


def test_a_name_that_is_there_twice_is_refused() -> None:
    twice = pa.schema([("a", pa.int8()), ("a", pa.int8())])
    with pytest.raises(ValueError, match="there are two columns 'left.a' in some batches"):
        common_schema([twice, pa.schema({"a": pa.int8()})], of="left")


def test_rows_get_the_columns_of_a_schema_with_every_value_as_it_was() -> None:
    rows = pa.table({"a": pa.chunked_array([pa.array([1, None], pa.int8()), pa.array([3], pa.int8())])})
    made = conformed(rows, pa.schema({"b": pa.string(), "a": pa.float64()}), "a batch")
    assert made.to_pylist() == [{"b": None, "a": 1.0}, {"b": None, "a": None}, {"b": None, "a": 3.0}]
    with pytest.raises(
        ValueError, match=r"a batch gave 9007199254740993 .int. for the column 'a' of type double, which does not hold it"
    ):
        conformed(pa.table({"a": [2**53 + 1]}), pa.schema({"a": pa.float64()}), "a batch")
    with pytest.raises(ValueError, match="a batch gave null for a, which schema= declares nullable=False"):
        conformed(rows, pa.schema([pa.field("a", pa.int8(), nullable=False)]), "a batch")
