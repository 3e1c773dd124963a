"""The values of a column in Python, a part at a time: each use has an object of its own, however many there
are and however large they are.
"""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.functions.typed_rows import column_writer
from beam_joins.keys.opaque import each_in_python, opaque_keys, opaque_values, python_values

ROWS = [{"n": n, "tags": [str(n)]} for n in range(5)]
COLUMNS = {
    "struct": pa.array([*ROWS, None]),
    "opaque": opaque_values([*ROWS, None]),
    "keys": opaque_keys([(1, "a"), 2.5, "b", 3, b"c", None]),
    "number": pa.array([1, 2, 3, 4, 5, None]),
    "slice of text": pa.array(["x", "a", "b", "c", "d", "e", None]).slice(1),
    "fixed list": pa.array([[n, n] for n in range(5)] + [None], pa.list_(pa.int8(), 2)),
    "null": pa.nulls(6),
    "map": pa.array([[("a", n)] * n for n in range(5)] + [None], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["a", "b", "a", "b", "c", None]).dictionary_encode(),
    "decimal": pa.array([1, 2, 3, 4, 5, None], pa.decimal128(10, 2)),
    "truth": pa.array([True, False, True, False, True, None]),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@given(index=st.lists(st.integers(-1, 5)))
def test_each_use_of_an_index_gives_its_value(column, index):
    values = [*python_values(column), None]
    assert list(each_in_python(column, np.array(index, np.int64))) == [values[i] for i in index]
    assert list(each_in_python(column)) == values[:-1]


@pytest.mark.parametrize("column", ["struct", "opaque"])
def test_what_is_written_into_one_use_is_in_no_other(column):
    uses = each_in_python(COLUMNS[column], np.zeros(10_000, np.int64))
    for value in uses:
        assert value == ROWS[0]
        value["tags"].append("seen")
        value["seen"] = True


LARGE = {
    "struct": pa.array,
    "opaque": opaque_values,
    "text": lambda rows: pa.array([row["text"] for row in rows]),
    "list": lambda rows: pa.array([[row["text"][:1000]] * (len(row["text"]) // 1000) for row in rows]),
    "map": lambda rows: pa.array([[("text", row["text"])] for row in rows], pa.map_(pa.string(), pa.string())),
}


@pytest.mark.parametrize("as_column", LARGE.values(), ids=LARGE)
def test_memory_does_not_grow_with_the_uses_of_a_large_value(as_column):
    column = as_column([{"text": "small" * 200}, {"text": "x" * 2_000_000}])
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        for _ in each_in_python(column, np.ones(400, np.int64)):
            assert pa.total_allocated_bytes() - before < 50_000_000
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=30), st.integers(0, 1))
def test_rows_are_written_in_parts_as_they_are_written_at_once(numbers, repeated):
    kind = pa.schema([("n", pa.int64()), ("text", pa.string())])
    same = {}

    def rows():
        for number in numbers * (1 + 200 * repeated):
            same.clear()
            same.update(n=number, text=str(number))
            yield None if number is None else same

    expected = [None if number is None else {"n": number, "text": str(number)} for number in numbers * (1 + 200 * repeated)]
    assert column_writer("joiner", kind)(rows()).to_pylist() == expected
