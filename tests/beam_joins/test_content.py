"""What the content of a table is."""

import pytest

from beam_joins import Change, content


def test_content_is_what_is_left_at_a_position():
    changes = [Change("a", None, 1, 0, 1), Change("b", None, 2, 0, 2), Change("a", 1, None, 0, 3)]
    assert [content(changes, position) for position in (0, 1, 2, 3)] == [{}, {"a": 1}, {"a": 1, "b": 2}, {"b": 2}]
    assert content(reversed(changes)) == {"b": 2}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ([Change("a", None, 1, 0, 1), Change("a", 1, 2, 0, 1)], "two changes of key 'a' at position 1"),
        ([Change("a", 7, 1, 0, 1)], "it was None"),
    ],
)
def test_content_refuses_what_is_not_a_table(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        content(changes)
