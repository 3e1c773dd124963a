"""The changes between snapshots make each snapshot of the one before, whatever the order of their rows."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from beam_joins.kernels.snapshots import DIGEST_TYPE, changes_between, of_snapshot

KEYS = {
    "whole numbers": (st.integers(-3, 3), pa.int64()),
    "text": (st.sampled_from(["", "a", "b", "\u00e4"]), pa.string()),
    "pairs": (
        st.builds(lambda one, other: {"a": one, "b": other}, st.integers(0, 2), st.sampled_from("xy")),
        pa.struct({"a": pa.int64(), "b": pa.string()}),
    ),
}


def table(rows: list[tuple[Any, Any]], kind: pa.DataType) -> pa.Table:
    digests = pa.array([xxh3_128_digest(repr(value).encode()) for _, value in rows], DIGEST_TYPE)
    return pa.table({"key": pa.array([key for key, _ in rows], kind), "digest": digests})


@pytest.mark.parametrize("kind", KEYS)
@given(data=st.data())
def test_the_changes_of_a_snapshot_make_it_of_the_one_before(kind: str, data: st.DataObject) -> None:
    keys, type_ = KEYS[kind]
    snapshots = st.lists(st.tuples(keys, st.integers(0, 2)), unique_by=lambda row: repr(row[0]), max_size=6)
    before, now = data.draw(snapshots), data.draw(snapshots)
    changes = changes_between(table(before, type_), table(now, type_))
    content = {repr(key): value for key, value in before}
    deleted = [repr(key) for (key, _), is_deleted in zip(before, changes.deleted.tolist(), strict=True) if is_deleted]
    upserted = [row for row, is_upserted in zip(now, changes.upserted.tolist(), strict=True) if is_upserted]
    assert all(content.get(repr(key)) != value for key, value in upserted)
    for key in deleted:
        del content[key]
    content |= {repr(key): value for key, value in upserted}
    assert content == {repr(key): value for key, value in now}
    assert changes.twice is None


def test_two_unlike_rows_of_a_key_are_told_and_two_equal_ones_count_once() -> None:
    rows = table([(1, "a"), (2, "b"), (1, "a"), (3, "x"), (2, "c"), (3, "y")], pa.int64())
    assert changes_between(rows.slice(0, 0), rows).twice == (1, 4)
    equal = rows.slice(0, 3)
    assert changes_between(rows.slice(0, 0), equal).twice is None
    assert of_snapshot(equal)["key"].to_pylist() == [1, 2]


def test_a_row_without_a_key_is_equal_to_none() -> None:
    rows = table([(None, "a"), (None, "a"), (1, "a")], pa.int64())
    changes = changes_between(of_snapshot(rows), rows)
    assert of_snapshot(rows)["key"].to_pylist() == [1]
    assert changes.upserted.tolist() == [True, True, False]
    assert changes.deleted.tolist() == [False]
    assert changes.twice is None


def test_slices_of_snapshots_are_compared_as_they_are() -> None:
    rows = table([(n, n) for n in range(6)], pa.int64())
    changes = changes_between(rows.slice(1, 3), rows.slice(2, 4))
    assert changes.upserted.tolist() == [False, False, True, True]
    assert changes.deleted.tolist() == [True, False, False]
