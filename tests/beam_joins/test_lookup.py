"""A stream with a table, in steps."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.kernels.lookup import step
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.versions import FOREVER
from tests.beam_joins.kernels import batch, rows
from tests.examples import examples
from tests.properties import strategies

Stream = list[tuple[bytes | None, int]]
STREAMS = st.lists(st.tuples(st.sampled_from([b"Y", b"Z", b"X", None]), st.integers(-1, 6)), max_size=12)
CUTS = st.lists(st.integers(-1, 6), max_size=4).map(sorted)


def looked_up(stream: Stream, table: list[Any], cuts: list[int]) -> tuple[list[bytes | None], Arrangement]:
    """The value that each record looks up, the stream and the table cut behind each position of ``cuts``."""
    actual: dict[int, bytes | None] = {}
    state = Arrangement()
    for low, high in zip([-FOREVER, *cuts], [*cuts, FOREVER], strict=True):
        now = [n for n, (_, position) in enumerate(stream) if low < position <= high]
        left = pa.table(
            {
                "reference": pa.array([stream[n][0] for n in now], pa.binary()),
                "position": pa.array([stream[n][1] for n in now], pa.int64()),
            }
        )
        result, state = step(state, left, rows(batch([change for change in table if low < change.position <= high])))
        values = [*result.rows["value"].to_pylist(), None]
        actual |= {n: values[index] for n, index in zip(now, result.row.tolist(), strict=True)}
    return [actual[n] for n in range(len(stream))], state


@given(STREAMS, strategies.right_tables(), CUTS)
@examples(150)
def test_a_history_cut_anywhere_looks_the_same_rows_up_which_are_those_of_the_content(
    stream: Stream, table: list[Any], cuts: list[int]
) -> None:
    actual, state = looked_up(stream, table, cuts)
    expected = []
    for reference, position in stream:
        history = sorted((c for c in table if c.key == reference and c.position <= position), key=lambda c: c.position)
        expected.append(history[-1].new if history else None)
    assert actual == expected
    assert state.rows() == looked_up(stream, table, [])[1].rows()
