"""Expressions of rows in YAML: names of columns that Python has as functions."""

import pytest

from beam_joins.pipelines.yaml.expression import Expression


@pytest.mark.parametrize(
    ("text", "row", "result"),
    [
        ("id > 5", {"id": 6}, True),
        ("type == 'a' and not hash", {"type": "a", "hash": 0}, True),
        ("max", {"max": 7}, 7),
        ("len(name) > max(1, id)", {"name": "abc", "id": 2}, True),
        ("type(id) is int", {"id": 1}, True),
        ("sum(map(int, parts))", {"parts": ["1"]}, 1),
        ("[id for id in ids]", {"ids": [1]}, [1]),
        ("isinstance(name, str) and name", {"name": "a"}, "a"),
    ],
)
def test_a_column_may_have_the_name_of_a_function(text, row, result):
    expression = Expression("predicate", text)
    expression.require(row)
    assert expression(1, row) == result


@pytest.mark.parametrize(
    ("text", "name"), [("id > 5", "id"), ("type == 'a'", "type"), ("min + 1", "min"), ("sum", "sum"), ("-max", "max")]
)
def test_a_function_of_python_is_not_taken_for_a_column_that_is_not_there(text, name):
    expression = Expression("predicate", text)
    with pytest.raises(ValueError, match=f"there is no column {name}; there are amount"):
        expression.require(["amount"])
    with pytest.raises(NameError, match=name):
        expression(1, {"amount": 7})
