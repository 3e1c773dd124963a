"""Rows under other keys: at every position the content is that of the table under the new keys, cut anywhere into steps."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from beam_joins.errors import InputError
from beam_joins.kernels.aggregate import members
from beam_joins.kernels.rekeyed import step
from beam_joins.tables.arrangement import Arrangement
from tests.beam_joins.kernels import Table, batch
from tests.examples import examples
from tests.properties import strategies
from tests.properties.strategies import cuts, split
from tests.reference.recomputed import fk_of, rows_of_changes


def rows_of(table: Table) -> pa.Table:
    changes = batch(table)
    keys = pa.array([None if value is None else fk_of(value.decode()) for value in changes.values.to_pylist()], pa.string())
    return pa.Table.from_batches([members(changes, keys, {"value": changes.values})])


def rekeyed(rows: pa.Table, pieces: list[int]) -> tuple[Table, Arrangement]:
    state, changes = Arrangement(), list[Change[Any, Any]]()
    for piece in split(rows, pieces):
        got, state = step(state, piece)
        changes += list(got)
    return changes, state


def real(table: Table) -> Table:
    return [change for change in table if change.old is not None or change.new is not None]


@given(st.builds(real, strategies.left_tables()), cuts())
@examples(200)
def test_the_content_is_that_of_the_table_under_the_new_keys_or_two_rows_have_one(table: Table, pieces: list[int]) -> None:
    expected = []
    for position in range(-1, 7):
        keyed = [(fk_of(value.decode()), value) for value in rows_of_changes(table, position).values()]
        rows = [(key, value) for key, value in keyed if key is not None]
        expected.append(dict(rows) if len(dict(rows)) == len(rows) else None)
    if None in expected:
        with pytest.raises(InputError, match=r"the rows with the keys b'.*' and b'.*' both have the key '[YZ]' at position \d"):
            rekeyed(rows_of(table), pieces)
        return
    changes, state = rekeyed(rows_of(table), pieces)
    for position, content in zip(range(-1, 7), expected, strict=True):
        assert rows_of_changes(changes, position) == content
    at_once, at_end = rekeyed(rows_of(table), [])
    assert sorted(changes, key=repr) == sorted(at_once, key=repr)
    assert state.rows() == at_end.rows()


def test_rows_that_trade_their_keys_at_one_position_change_once_each() -> None:
    table = [
        Change(b"a", None, b"Y|1", 1, 1),
        Change(b"b", None, b"Z|1", 1, 1),
        Change(b"a", b"Y|1", b"Z|1", 2, 2),
        Change(b"b", b"Z|1", b"Y|2", 3, 2),
    ]
    changes, _ = rekeyed(rows_of(table), [])
    assert sorted(changes, key=repr) == [
        Change("Y", None, b"Y|1", 1, 1),
        Change("Y", b"Y|1", b"Y|2", 3, 2),
        Change("Z", None, b"Z|1", 1, 1),
        Change("Z", b"Z|1", b"Z|1", 2, 2),
    ]
