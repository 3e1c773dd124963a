"""The join by any equality: at every position the content of the result is the join of the contents, and its times are
those of the text.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change, CombinedKey
from beam_joins.functions.pairs import Pairs
from beam_joins.kernels.many_to_many import PART_PAIRS, ManyToManyState, many_to_many, many_to_many_step
from beam_joins.kernels.overlap_events import Shape
from beam_joins.options.join_types import How
from beam_joins.tables.versions import FOREVER
from tests.beam_joins.kernels import Table, between, changes_of, in_order, left_rows, of_pairs
from tests.examples import examples
from tests.properties import strategies
from tests.reference.recomputed import fk_of, rows_of_changes

HOWS: tuple[How, ...] = ("inner", "left", "right", "outer", "semi", "anti")
POSITIONS = range(-1, 7)
modest = examples(200)
Matches = Callable[[bytes, bytes], bool]


def key_of(value: bytes) -> bytes | None:
    key = fk_of(value.decode())
    return None if key is None else key.encode()


def text(left: bytes | None, right: bytes | None) -> str:
    return f"{left!r}{right!r}"


def picky(left: bytes | None, right: bytes | None) -> str | None:
    return None if left and left.endswith(b"1") else text(left, right)


def are_unlike(left: bytes, right: bytes) -> bool:
    return left[-1:] != right[-1:]


def of_values(matches: Matches | None) -> Any:
    if matches is None:
        return None

    def condition(pairs: Pairs) -> Any:
        left, right = pairs.left.to_pylist(), pairs.right.to_pylist()
        indices = zip(pairs.left_index.tolist(), pairs.right_index.tolist(), strict=True)
        return np.array([matches(left[i], right[j]) for i, j in indices], np.bool_)

    return condition


def shape_of(how: How) -> Shape:
    return Shape(how, result="left_key" if how in ("semi", "anti") else "both_keys", many=True)


def sides(left: Table, right: Table, how: How) -> list[pa.RecordBatch]:
    mirrored: dict[How, How] = {"right": "left", "outer": "outer"}
    shapes = shape_of(how), Shape(mirrored.get(how, "inner"), result="both_keys", many=True)
    return [left_rows(table, shape, key_of) for table, shape in zip((left, right), shapes, strict=True)]


def join(left: Table, right: Table, how: How, joiner: Any, matches: Matches | None = None, most: int = PART_PAIRS) -> Table:
    parts = many_to_many(*sides(left, right, how), of_pairs(joiner), shape_of(how), of_values(matches), most=most)
    return together(parts)


def together(parts: Any) -> Table:
    """The changes of parts, whose halves meet wherever they come from."""
    if not (parts := list(parts)):
        return []
    halves = pa.concat_tables([pa.Table.from_batches([part.halves]) for part in parts])
    return changes_of(parts[0]._replace(changes=[change for part in parts for change in part.changes], halves=halves))


def join_in_steps(
    left: Table, right: Table, how: How, joiner: Any, matches: Matches | None, cuts: list[int], most: int = PART_PAIRS
) -> tuple[Table, ManyToManyState]:
    changes, state = [], ManyToManyState()

    def step(low: int, high: int) -> Any:
        nonlocal state
        rows = sides(between(left, low, high), between(right, low, high), how)
        state = yield from many_to_many_step(state, *rows, of_pairs(joiner), shape_of(how), of_values(matches), most=most)

    for low, high in zip([-FOREVER, *cuts], [*cuts, FOREVER], strict=True):
        actual = together(step(low, high))
        assert all(low < change.position <= high for change in actual)
        changes += actual
    return in_order(changes), state


def recomputed(left: dict[Any, Any], right: dict[Any, Any], how: How, joiner: Any, matches: Matches | None) -> dict[Any, Any]:
    pairs = {
        (one, other)
        for one, value in left.items()
        for other, met in right.items()
        if key_of(value) is not None and key_of(value) == key_of(met) and (matches is None or matches(value, met))
    }
    lefts, rights = {one for one, _ in pairs}, {other for _, other in pairs}
    if how in ("semi", "anti"):
        result = {key: joiner(value, None) for key, value in left.items() if (key in lefts) is (how == "semi")}
    else:
        result = {CombinedKey(one, other): joiner(left[one], right[other]) for one, other in pairs}
    if how in ("left", "outer"):
        result |= {CombinedKey(key, None): joiner(value, None) for key, value in left.items() if key not in lefts}
    if how in ("right", "outer"):
        result |= {CombinedKey(None, key): joiner(None, value) for key, value in right.items() if key not in rights}
    return {key: value for key, value in result.items() if value is not None}


def real(table: Table) -> Table:
    """Without the tombstones of absent rows."""
    return [change for change in table if change.old is not None or change.new is not None]


TABLES = st.builds(real, strategies.left_tables())
JOINERS = st.sampled_from([text, picky])
CONDITIONS = st.sampled_from([None, are_unlike])


@given(TABLES, TABLES, st.sampled_from(HOWS), JOINERS, CONDITIONS)
@modest
def test_at_every_position_the_content_is_the_join_of_the_contents(
    left: Table, right: Table, how: How, joiner: Any, matches: Matches | None
) -> None:
    result = join(left, right, how, joiner, matches)
    for position in POSITIONS:
        contents = rows_of_changes(left, position), rows_of_changes(right, position)
        assert rows_of_changes(result, position) == recomputed(*contents, how, joiner, matches), position
    assert all(change.old is not None or change.new is not None for change in result)


@given(TABLES, TABLES, st.sampled_from(HOWS), JOINERS, CONDITIONS, strategies.cuts(), st.sampled_from([1, 3, PART_PAIRS]))
@modest
def test_a_history_cut_anywhere_and_joined_in_parts_gives_the_same_changes_and_the_same_state(
    left: Table, right: Table, how: How, joiner: Any, matches: Matches | None, cuts: list[int], most: int
) -> None:
    changes, state = join_in_steps(left, right, how, joiner, matches, cuts, most)
    at_once, expected = join_in_steps(left, right, how, joiner, matches, [])
    assert changes == at_once == join(left, right, how, joiner, matches, most)
    for side in ("left", "right"):
        assert getattr(state, side).rows() == getattr(expected, side).rows()
