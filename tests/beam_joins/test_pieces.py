"""Pieces of a batch of changes: the same changes, each with its old value, and no row in two of them."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.tables.changelog import upsert

ROWS = st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 3)), max_size=40)


def batch_of(rows):
    key, value = zip(*rows, strict=True) if rows else ((), ())
    places = pa.array(range(len(rows)), pa.int64())
    columns = {"key": pa.array(key, pa.int64()), "value": pa.array(value, pa.int64()), "timestamp": places, "position": places}
    return upsert(pa.table(columns), "updates")[0]


@given(ROWS, st.integers(1, 50))
def test_pieces_have_the_changes_of_the_batch(rows, size):
    batch = batch_of(rows)
    pieces = list(batch.pieces(size))
    assert [change for piece in pieces for change in piece] == list(batch)
    keys = [set(piece.key.to_pylist()) for piece in pieces]
    assert sum(map(len, keys)) == len(set().union(*keys))


@given(ROWS)
def test_a_piece_is_no_larger_than_the_changes_of_its_last_row_make_it(rows):
    pieces = list(batch_of(rows).pieces(3))
    assert all(len(set(piece.key.to_pylist()[2:])) <= 1 or len(piece) <= 3 for piece in pieces)


def test_a_batch_with_values_from_before_stays_whole():
    batch = batch_of([(1, 1), (1, 2), (2, 1), (2, 2)])
    without_first = batch.filter(pa.array([False, True, True, True]))
    assert [len(piece) for piece in without_first.pieces(1)] == [3]
