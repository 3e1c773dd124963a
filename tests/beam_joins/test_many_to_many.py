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
from beam_joins.kernels.overlap import overlap
from beam_joins.kernels.overlap_events import Shape
from beam_joins.kernels.row_spans import Meeting, RowSpans
from beam_joins.options.join_types import How
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.versions import FOREVER
from tests.beam_joins.kernels import Table, batch, between, changes_of, in_order, left_rows, of_pairs, rows
from tests.examples import examples
from tests.properties import strategies
from tests.reference import recomputed_times
from tests.reference.recomputed import fk_of, rows_of_changes

HOWS: tuple[How, ...] = ("inner", "left", "right", "outer", "semi", "anti")
POSITIONS = range(-1, 7)
modest = examples(100)
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


def sides(left: Table, right: Table, how: How) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    kept: How = "left" if how in ("right", "outer") else "inner"
    return left_rows(left, shape_of(how), key_of), left_rows(right, Shape(kept, result="both_keys", many=True), key_of)


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


@given(TABLES, TABLES, st.sampled_from(("left", "outer", "anti")), CONDITIONS)
@examples(240)
def test_matches_are_counted_over_steps_of_one_position(left: Table, right: Table, how: How, matches: Matches | None) -> None:
    changes, state = join_in_steps(left, right, how, text, matches, [*POSITIONS])
    at_once, expected = join_in_steps(left, right, how, text, matches, [])
    assert changes == at_once
    assert (state.left.rows(), state.right.rows()) == (expected.left.rows(), expected.right.rows())


@given(TABLES, TABLES, st.sampled_from(HOWS), CONDITIONS)
@modest
def test_a_pair_has_the_larger_time_of_its_rows_and_a_row_alone_that_of_what_happened_to_it(
    left: Table, right: Table, how: How, matches: Matches | None
) -> None:
    for change in join(left, right, how, text, matches):
        one, other = (change.key, None) if how in ("semi", "anti") else change.key
        expected = recomputed_times.by_equality(left, right, recomputed_times.Pair(other, one), change, key_of)
        assert change.timestamp == expected, change


@given(TABLES, TABLES, st.sampled_from(HOWS), CONDITIONS, st.data())
@examples(50)
def test_rows_may_come_in_any_order(left: Table, right: Table, how: How, matches: Matches | None, data: st.DataObject) -> None:
    rows = sides(left, right, how)
    one, other = (side.take(pa.array(data.draw(st.permutations(range(len(side)))), pa.int64())) for side in rows)
    shape, condition = shape_of(how), of_values(matches)
    shuffled = together(many_to_many(one, other, of_pairs(text), shape, condition))
    assert shuffled == together(many_to_many(*rows, of_pairs(text), shape, condition))


def inserts(count: int, value: bytes, position: int = 1) -> Table:
    return [Change(b"%d" % n, None, value, 1, position) for n in range(count)]


def test_about_so_many_pairs_are_joined_at_a_time_also_those_of_one_value() -> None:
    left, right = inserts(100, b"Y|0"), inserts(50, b"Y|1")
    parts = list(many_to_many(*sides(left, right, "inner"), of_pairs(text), shape_of("inner"), most=500))
    sizes = [len(part.changes) for part in parts]
    assert sum(sizes) == 5_000
    assert len(sizes) >= 10
    assert max(sizes) <= 600


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("matches", [None, are_unlike])
def test_a_step_looks_at_the_pairs_of_its_rows_and_at_no_others(monkeypatch: pytest.MonkeyPatch, how: How, matches: Any) -> None:
    seen: list[int] = []

    class Counted(Meeting):
        def meet(self, others: RowSpans) -> Any:
            met = super().meet(others)
            seen.append(len(met[0]))
            return met

    monkeypatch.setattr("beam_joins.kernels.many_to_many.Meeting", Counted)
    # a row more of a value that many rows of its own side have, and two of the other
    left = [*inserts(1_000, b"Y|0"), Change(b"new", None, b"Y|0", 1, 2)]
    right = inserts(2, b"Y|1")
    _, state = join_in_steps(left, right, how, text, matches, [1])
    assert sum(seen) in ((0,) if how in ("semi", "anti") and matches is None else (2_002,)), seen
    assert len(state.left.rows()) == 1_001


def test_a_step_of_rows_without_a_join_key_looks_at_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    of_state = Arrangement.starting_with

    def counted(self: Arrangement, prefixes: pa.Array) -> Any:
        rows = of_state(self, prefixes)
        read.append(0 if rows is None else len(rows))
        return rows

    monkeypatch.setattr(Arrangement, "starting_with", counted)
    news = [Change(b"new", None, b"null|0", 1, 2)]
    changes, _ = join_in_steps([*inserts(1_000, b"null|0"), *news], [*inserts(1_000, b"null|1"), *news], "outer", text, None, [1])
    assert len(changes) == 2_002
    assert sum(read) == 0


def test_two_changes_of_a_row_at_one_position_are_refused() -> None:
    row, again = Change(b"k", None, b"Y|0", 1, 1), Change(b"k", None, b"Y|1", 1, 1)
    for left, right in (([row, again], [row]), ([row], [row, again])):
        with pytest.raises(ValueError, match=r"two changes of key b'k' at position 1"):
            join(left, right, "inner", text)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("matches", [None, are_unlike])
def test_positions_at_the_ends_of_64_bits_are_positions_like_others(how: How, matches: Any) -> None:
    ends = [-(2**63), -(2**63) + 1, -1, 0, 2**63 - 2, 2**63 - 1]
    values = [b"Y|0", b"Z|1", b"Y|1", None, b"Y|0", b"Z|0"]

    def history(shift: int) -> Table:
        news = [values[(n + shift) % len(values)] for n in range(len(ends))]
        return real([Change(b"k", old, new, 1, at) for old, new, at in zip([None, *news], news, ends, strict=False)])

    for shift in range(len(values)):
        left, right = history(0), history(shift)
        result = join(left, right, how, text, matches)
        for position in ends:
            contents = rows_of_changes(left, position), rows_of_changes(right, position)
            assert rows_of_changes(result, position) == recomputed(*contents, how, text, matches), (shift, position)


def test_a_pair_that_both_rows_take_to_another_join_key_has_one_change_there() -> None:
    table = [Change(b"k", None, b"Y|0", 1, 1), Change(b"k", b"Y|0", b"Z|0", 2, 2)]
    key, old, new = CombinedKey(b"k", b"k"), text(b"Y|0", b"Y|0"), text(b"Z|0", b"Z|0")
    assert join(table, table, "outer", text) == [Change(key, None, old, 1, 1), Change(key, old, new, 2, 2)]


def test_rows_that_meet_as_a_foreign_key_meets_its_key_have_the_same_pairs() -> None:
    """Where the join key of the right rows is their key, the join is that of the rows that refer to them."""
    left = [Change(b"%d" % n, None, b"%c|%d" % (89 + n % 3, n), n, n) for n in range(9)]
    right = [Change(b"Y", None, b"Y|", 3, 4), Change(b"Z", None, b"Z|", 9, 2), Change(b"Z", b"Z|", None, 1, 7)]
    shape = Shape("inner", result="combined_key")
    referring = changes_of(overlap(left_rows(left, shape, key_of), rows(batch(right)), of_pairs(text), shape))
    pairs = [change._replace(key=CombinedKey(*change.key[::-1])) for change in join(left, right, "inner", text)]
    assert in_order(pairs) == referring
    assert len(pairs) == 7
