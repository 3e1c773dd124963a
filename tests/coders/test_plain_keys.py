"""Keys written and read a column at a time have the bytes that they have one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.coders.key import encode_key, key_coder
from beam_joins.keys import canonical
from beam_joins.keys.opaque import opaque_encoded, opaque_keys, python_values
from beam_joins.keys.plain import decoded_plain, encoded_plain

NUMBERS = st.integers(-(2**64), 2**64)
TEXT = st.text(st.characters(), max_size=5) | st.just("\ud800")
KEYS = st.lists(NUMBERS | st.none()) | st.lists(TEXT | st.none()) | st.lists(NUMBERS | TEXT | st.booleans() | st.just(7.0) | st.none())


@given(KEYS)
def test_a_column_of_keys_has_the_bytes_of_each_key(keys):
    one_by_one = [None if key is None else canonical.encode(key) for key in keys]
    assert opaque_keys(keys).storage.to_pylist() == one_by_one


@given(KEYS)
def test_a_column_of_keys_is_read_as_each_key_is(keys):
    column = opaque_keys([None, *keys]).slice(1)
    assert python_values(column) == [None if key is None else canonical.decode(canonical.encode(key)) for key in keys]


@given(KEYS)
def test_a_coder_writes_a_column_as_it_writes_each_key(keys):
    coder = key_coder(Any, "the key")
    assert coder.column(keys, "the key").storage.to_pylist() == [encode_key(coder, key, "the key") for key in keys]
    nulls = coder.column(keys, "the key", nulls=True)
    assert nulls.is_null().to_pylist() == [key is None for key in keys]


@pytest.mark.parametrize(("key_type", "keys"), [(str, [7, 8]), (int, ["7", "8"])])
def test_a_column_of_keys_of_another_kind_is_refused(key_type, keys):
    with pytest.raises(ValueError, match=r"the key .* of type .* cannot be written"):
        key_coder(key_type, "the key").column(keys, "the key")


def test_bytes_that_only_begin_as_text_does_are_read_one_by_one():
    keys = opaque_encoded(pa.array([canonical.encode("a"), canonical.encode("\ud800")]))
    assert python_values(keys) == ["a", "\ud800"]


def test_keys_of_several_kinds_are_not_written_at_once():
    assert encoded_plain([7, True]) is None


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1))
def test_text_is_read_a_column_at_a_time(keys):
    assert decoded_plain(encoded_plain(keys)) == keys
