"""Filtered and mapped tables in columns, and filtered raw changelogs."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.columns.sorting import valid
from beam_joins.kernels.filter import filter_upsert, with_values
from tests.beam_joins.kernels import batch
from tests.properties import strategies
from tests.reference.filter import filter_change, map_change


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (2, None), (None, None), (0, 0)])
def test_case_2_without_old_values_a_failing_record_is_always_a_tombstone(value, expected):
    assert filter_upsert(lambda key, value: value < 2, "k", value) == ("k", expected)


def test_the_predicate_is_not_called_for_a_tombstone():
    seen = []
    filter_upsert(lambda key, value: seen.append(value) or True, "k", None)
    assert seen == []


@given(strategies.left_tables(), st.sets(st.sampled_from([b"Y|0", b"Z|1", b"null|0"])))
def test_a_batch_is_filtered_as_its_changes_are(table, kept):
    changes = batch(table)
    present = np.array([value in kept for value in changes.values.to_pylist()], np.bool_)
    filtered = (filter_change(lambda key, value: value in kept, change) for change in changes)
    assert list(with_values(changes, changes.values, present, keeps_nothing=False)) == [change for change in filtered if change]


@given(strategies.left_tables())
def test_a_batch_is_mapped_as_its_changes_are(table):
    def fn(key, value):
        return None if value.endswith(b"1") else value[:1].decode()

    changes = batch(table)
    values = pa.array([None if value is None else fn(None, value) for value in changes.values.to_pylist()], pa.string())
    mapped = (map_change(fn, change) for change in changes)
    assert list(with_values(changes, values, valid(values), keeps_nothing=True)) == [change for change in mapped if change]
