"""The functions that a user gives, on columns."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from beam_joins import vectorized
from beam_joins.functions.marked_functions import batch_of, by_row, field_of, keys_of, values_of
from beam_joins.keys.key_columns import factorize
from beam_joins.keys.opaque import KEYS, opaque_values, python_keys

ROWS = pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "z"}])


@pytest.mark.parametrize(
    "inputs",
    [
        pa.array([1, 2, 3]),
        pa.chunked_array([[1], [2, 3]]),
        np.array([1, 2, 3]),
    ],
)
def test_a_vectorized_function_gives_an_array(inputs):
    assert values_of(inputs, 3).to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    "inputs",
    [
        {"a": [1, 2], "b": np.array([3, 4])},
        {"a": pa.array([1, 2]), "b": pa.chunked_array([[3], [4]])},
        pa.table({"a": pa.chunked_array([[1], [2]]), "b": [3, 4]}),
        pa.record_batch({"a": [1, 2], "b": [3, 4]}),
    ],
)
def test_a_vectorized_function_gives_columns(inputs):
    assert values_of(inputs, 2).to_pylist() == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        (pa.array([1]), "called with 3 rows and gave 1 rows: give a record batch, a dict of arrays or an array with one row for each"),
        (pa.table({"a": [1, 2]}), "gave 2 rows"),
        ({"a": [1, 2, 3, 4]}, "gave 4 rows"),
        ({}, "gave 0 rows"),
        ({"a": [1, 2, 3], "b": [1]}, "expected length 3 but got length 1"),
        (None, "gave a NoneType"),
        ([1, 2, 3], "gave a list"),
        (7, "gave a int"),
        (pa.scalar(7), "gave a Int64Scalar"),
        ({"a": pa.array([1, 2, 3]), "b": 7}, "called with 3 rows and gave .*: give a record batch, a dict of arrays or an array"),
        ({"a": pa.array([1, 2, 3]), "b": pa.scalar(7)}, "called with 3 rows and gave .*: give a record batch"),
    ],
)
def test_what_a_vectorized_function_must_not_give_is_refused_with_a_sentence(inputs, complaint):
    with pytest.raises(ValueError, match=complaint):
        values_of(inputs, 3)


def test_what_is_vectorized_is_a_function_and_can_be_called_as_before():
    @vectorized
    def double(batch):
        return pc.multiply(batch["a"], 2)

    assert double(batch_of(ROWS)).to_pylist() == [2, None, None]
    with pytest.raises(ValueError, match=r"vectorized\(7\): give a function of Arrow record batches"):
        vectorized(7)


def test_values_are_the_columns_of_a_batch_and_null_rows_are_null_in_all():
    assert batch_of(ROWS).to_pydict() == {"a": [1, None, None], "b": ["x", None, "z"]}
    assert batch_of(pa.array([7])).to_pydict() == {"value": [7]}
    assert batch_of(ROWS.slice(2)).to_pydict() == {"a": [None], "b": ["z"]}


def test_a_column_that_is_not_there_is_refused_naming_those_that_are():
    assert field_of(ROWS, "b", "key").to_pylist() == ["x", None, "z"]
    with pytest.raises(ValueError, match="key='c': there is no such column; there are a, b"):
        field_of(ROWS, "c", "key")
    with pytest.raises(ValueError, match="key='c': there is no such column; there are none"):
        field_of(pa.array([7]), "c", "key")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("b", id="a column"),
        pytest.param(vectorized(lambda batch: batch["b"]), id="a function of columns"),
    ],
)
def test_keys_may_be_given_in_two_ways_and_are_equal(spec):
    inputs = keys_of("key", spec, ROWS)
    assert python_keys(inputs) == ["x", None, "z"]
    assert inputs.type == pa.string()
    assert factorize(inputs)[0].tolist() == factorize(pa.array(["x", None, "z"]))[0].tolist()


def test_the_keys_of_several_columns_are_null_where_a_part_is():
    assert python_keys(keys_of("foreign_key", ["a", "b"], ROWS)) == [(1, "x"), None, None]
    with pytest.raises(ValueError, match="foreign_key='c': there is no such column; there are a, b"):
        keys_of("foreign_key", ["a", "c"], ROWS)


def test_null_values_give_null_whatever_a_vectorized_function_makes_of_them():
    """A deleted row refers to nothing, even for a function that has a word for what is missing."""
    inputs = by_row("foreign_key", vectorized(lambda batch: batch["b"].fill_null("nobody")), ROWS)
    assert inputs.to_pylist() == ["x", None, "z"]


def test_functions_of_columns_do_not_take_values_that_are_python_objects():
    for use in (batch_of, lambda values: field_of(values, "b", "key")):
        with pytest.raises(
            ValueError,
            match="are Python objects .opaque., made of single elements or by a function of one record: give the "
            "transform that made them schema=",
        ):
            use(opaque_values([{"b": 1}]))


@pytest.mark.parametrize("spec", ["b", lambda row: row["b"]])
def test_the_keys_of_python_objects_are_python_objects_too(spec):
    for rows in (opaque_values(ROWS.to_pylist()), ROWS):
        inputs = keys_of("key", spec, rows)
        assert python_keys(inputs) == ["x", None, "z"]
        assert inputs.type == (pa.string() if spec == "b" and rows is ROWS else KEYS)
