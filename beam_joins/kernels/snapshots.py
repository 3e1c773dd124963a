"""The changes between two snapshots of a table, by their keys and the digests of their rows.

Law: the content of a table after the changes of all snapshots up to one of them is that snapshot.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import combine_chunks, valid
from beam_joins.keys.key_columns import Bools, factorize

DIGEST_TYPE = pa.binary(16)


class SnapshotChanges(NamedTuple):
    """The changes that make a snapshot of the one before: which of its rows are inserted or updated, which of those before are
    deleted, and the rows of the first key that stands in it twice with unlike rows.
    """

    upserted: Bools
    deleted: Bools
    twice: tuple[int, int] | None


def changes_between(before: pa.Table, now: pa.Table) -> SnapshotChanges:
    """The changes between two snapshots with the columns ``key`` and ``digest``. A row without a key is never equal to another.

    >>> before = pa.table({"key": [1, 2, 3], "digest": pa.array([b"a" * 16, b"b" * 16, b"c" * 16], DIGEST_TYPE)})
    >>> now = pa.table({"key": [4, 3, 2], "digest": pa.array([b"d" * 16, b"c" * 16, b"x" * 16], DIGEST_TYPE)})
    >>> changes_between(before, now)
    SnapshotChanges(upserted=array([ True, False,  True]), deleted=array([ True, False, False]), twice=None)
    """
    keys = [combine_chunks(each["key"]) for each in (before, now)]
    of_before, of_now = factorize(*keys)
    digests = [_numbers(combine_chunks(each["digest"])) for each in (before, now)]
    at = np.full(int(max(of_before.max(initial=-1), of_now.max(initial=-1))) + 1, -1)
    at[of_before] = np.arange(len(of_before))
    earlier, has_key = at[of_now], valid(keys[1])
    same = (earlier >= 0) & has_key
    same[same] = (digests[0][earlier[same]] == digests[1][same]).all(axis=1)
    return SnapshotChanges(~same, ~np.isin(of_before, of_now), _twice(of_now, digests[1], has_key))


def of_snapshot(rows: pa.Table) -> pa.Table:
    """The rows of a snapshot to compare the next one with: those with a key, each once."""
    (codes,) = factorize(combine_chunks(rows["key"]))
    first = np.zeros(len(rows), np.bool_)
    first[np.unique(codes, return_index=True)[1]] = True
    return rows.select(["key", "digest"]).filter(pc.and_(pa.array(first), pc.is_valid(combine_chunks(rows["key"]))))


def _numbers(digests: pa.Array) -> np.ndarray:
    """Digests as pairs of numbers."""
    width = digests.type.byte_width
    data = np.frombuffer(digests.buffers()[1] or b"", np.uint64)
    numbers: np.ndarray = data.reshape(-1, width // 8)[digests.offset : digests.offset + len(digests)]
    return numbers


def _twice(codes: np.ndarray, digests: np.ndarray, has_key: Bools) -> tuple[int, int] | None:
    """The first two rows of a key that are not equal; those without a key are of none."""
    rows = np.flatnonzero(has_key)
    by = rows[np.argsort(codes[rows], kind="stable")]
    unlike = (codes[by[1:]] == codes[by[:-1]]) & (digests[by[1:]] != digests[by[:-1]]).any(axis=1)
    if not unlike.any():
        return None
    at = np.flatnonzero(unlike)
    first = at[np.argmin(by[at + 1])]
    return int(by[first]), int(by[first + 1])
