"""The one join of tables: at every position the content of the result is the join of the contents, and its
times are those of the text.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change, CombinedKey
from beam_joins.kernels.overlap import OverlapState, Rights, overlap, overlap_in_parts, step
from beam_joins.kernels.overlap_events import Shape
from beam_joins.options.join_types import How
from tests.beam_joins.kernels import Table, batch, changes_of, join, join_in_steps, left_rows, of_pairs, rows
from tests.examples import examples
from tests.properties import strategies
from tests.reference import recomputed_times
from tests.reference.recomputed import rows_of_changes

POSITIONS = range(-1, 7)
modest = examples(150)


def fk_of(value: bytes) -> bytes | None:
    reference = value.partition(b"|")[0]
    return None if reference == b"null" else reference


def one_or_two(value: bytes) -> list[bytes | None]:
    return [fk_of(value), *([b"Z"] if value.endswith(b"1") else [])]


def text(left: bytes | None, right: bytes | None) -> str:
    return f"{left!r}{right!r}"


def picky(left: bytes | None, right: bytes | None) -> str | None:
    return None if left and left.endswith(b"1") else text(left, right)


def real(table: Table) -> Table:
    """Without the tombstones of absent rows."""
    return [change for change in table if change.old is not None or change.new is not None]


JOINERS = st.sampled_from([text, picky])
LEFTS, RIGHTS = st.builds(real, strategies.left_tables()), st.builds(real, strategies.right_tables())


def rows_joined(left: dict[Any, Any], right: dict[Any, Any], how: How, joiner: Any, looks_up: Any, key_of: Any) -> dict[Any, Any]:
    """The join of two contents, from scratch; ``looks_up(key, value)`` gives the right keys that a left row
    looks up.
    """
    result = {}
    for key, value in left.items():
        actual = [reference for reference in looks_up(key, value) if reference in right]
        if how in ("semi", "anti"):
            if bool(actual) is (how == "semi"):
                result[key_of(looks_up(key, value)[0], key)] = joiner(value, None)
            continue
        for reference in dict.fromkeys(looks_up(key, value)):
            if reference in right or (how in ("left", "outer") and (reference is not None or len(looks_up(key, value)) == 1)):
                result[key_of(reference, key)] = joiner(value, right.get(reference))
    if how in ("right", "outer"):
        seen = {reference for key, value in left.items() for reference in looks_up(key, value)}
        result |= {key_of(key, None): joiner(None, value) for key, value in right.items() if key not in seen}
    return {key: value for key, value in result.items() if value is not None}


def check(result: Table, left: Table, right: Table, how: How, joiner: Any, looks_up: Any, key_of: Any) -> None:
    for position in POSITIONS:
        contents = rows_of_changes(left, position), rows_of_changes(right, position)
        assert rows_of_changes(result, position) == rows_joined(*contents, how, joiner, looks_up, key_of), position
    assert all(change.old is not None or change.new is not None for change in result)


@given(LEFTS, RIGHTS, st.sampled_from(["inner", "left", "semi", "anti"]), JOINERS)
@modest
def test_a_foreign_key_join_follows_the_law(left: Table, right: Table, how: How, joiner: Any) -> None:
    result = join(left, right, joiner, Shape(how, times="foreign_key"), fk_of)
    check(result, left, right, how, joiner, lambda key, value: [fk_of(value)], lambda reference, key: key)
    like = "left" if how in ("left", "anti") else "inner"
    for change in result:
        assert change.timestamp == recomputed_times.foreign_key(left, right, change, fk_of, like), change


@given(LEFTS, RIGHTS, st.sampled_from(["inner", "left", "semi", "anti"]), JOINERS)
@modest
def test_versions_of_a_row_that_meet_give_the_same_changes_and_move_nowhere(left: Table, right: Table, how: How, joiner: Any) -> None:
    apart, together = Shape(how, "foreign_key"), Shape(how, "foreign_key", together=True)
    joined = Rights(rows(batch(right))).joined(left_rows(left, together, fk_of), of_pairs(joiner), together)
    assert changes_of(joined) == join(left, right, joiner, apart, fk_of)
    assert len(joined.halves) == 0


@pytest.mark.parametrize("lists", [False, True], ids=["one reference", "lists"])
@given(left=LEFTS, right=RIGHTS, how=st.sampled_from(["inner", "left", "right", "outer"]), joiner=JOINERS)
@modest
def test_a_join_by_combined_keys_follows_the_law(lists: bool, left: Table, right: Table, how: How, joiner: Any) -> None:
    def looks_up(key: bytes, value: bytes) -> list[bytes | None]:
        references = [r for r in one_or_two(value) if r is not None] if lists else [fk_of(value)]
        return references or [None]

    result = join(left, right, joiner, Shape(how, result="combined_key"), one_or_two if lists else fk_of, lists=lists)
    check(result, left, right, how, joiner, looks_up, CombinedKey)
    for change in result:
        pair = recomputed_times.Pair(*change.key)
        assert change.timestamp == recomputed_times.by_reference(left, right, pair, change.position, looks_up), change


NO = st.just(False)
SHAPES = st.one_of(
    st.tuples(st.builds(Shape, st.sampled_from(["inner", "left", "semi", "anti"]), st.just("foreign_key"),
        st.just("left_key"), NO), st.just(fk_of)),
    st.tuples(st.builds(Shape, st.sampled_from(["inner", "left", "right", "outer"]), st.just("both"),
        st.just("combined_key"), NO), st.just(fk_of)),
)  # fmt: skip


@given(LEFTS, RIGHTS, SHAPES, JOINERS, strategies.cuts())
@modest
def test_a_history_cut_anywhere_gives_the_same_changes_and_the_same_state(
    left: Table, right: Table, shaped: tuple[Shape, Any], joiner: Any, cuts: list[int]
) -> None:
    shape, references = shaped
    changes, state = join_in_steps(left, right, joiner, shape, references, cuts)
    at_once, expected = join_in_steps(left, right, joiner, shape, references, [])
    assert changes == at_once == join(left, right, joiner, shape, references)
    for side in ("left", "right"):
        assert getattr(state, side).rows() == getattr(expected, side).rows()


@given(LEFTS, RIGHTS, SHAPES, JOINERS, strategies.cuts(), st.integers(1, 3))
@modest
def test_a_join_in_parts_gives_the_same_changes_and_the_same_state(
    left: Table, right: Table, shaped: tuple[Shape, Any], joiner: Any, cuts: list[int], most: int
) -> None:
    shape, references = shaped
    changes, state = join_in_steps(left, right, joiner, shape, references, cuts, most=most)
    at_once, expected = join_in_steps(left, right, joiner, shape, references, cuts)
    assert changes == at_once
    for side in ("left", "right"):
        assert getattr(state, side).rows() == getattr(expected, side).rows()


@pytest.mark.parametrize("shape", [Shape("inner", times="foreign_key"), Shape("outer", result="combined_key")])
def test_of_many_left_rows_about_so_many_are_joined_at_a_time(shape: Shape) -> None:
    left = [Change(b"%d" % n, None, b"f|", 1, 1) for n in range(1_000)]
    right = [Change(b"f", None, b"a", 1, 1), Change(b"f", b"a", b"b", 2, 2), Change(b"g", None, b"a", 1, 1)]
    parts = list(overlap_in_parts(left_rows(left, shape, fk_of), rows(batch(right)), of_pairs(text), shape, most=100))
    sizes = [len(part.changes) for part in parts]
    if shape.keeps_right:
        assert sizes.pop() == 1, "the right row that no left row refers to"
    assert len(sizes) == 10
    assert sum(sizes) == 2_000
    assert max(sizes) < 2 * sum(sizes) / 10


def test_versions_of_a_row_that_meet_are_no_step() -> None:
    left, right = left_rows([], Shape(together=True), fk_of), rows(batch([]))
    with pytest.raises(ValueError, match="together"):
        step(OverlapState(), left, right, of_pairs(text), Shape(together=True))


def test_a_step_joins_only_the_rows_that_new_rows_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(left: Any, right: Any, *rest: Any, **options: Any) -> Any:
        seen.append(len(left) + len(right))
        return overlap(left, right, *rest, **options)

    monkeypatch.setattr("beam_joins.kernels.overlap.overlap", counted)
    left = [Change(b"%d" % n, None, b"f%d|" % (n % 100), 1, 1) for n in range(1_000)]
    right = [Change(b"f%d" % n, None, b"a", 1, 1) for n in range(100)] + [Change(b"f7", b"a", b"b", 2, 2)]
    changes, _ = join_in_steps(left, right, text, Shape("left", times="foreign_key"), fk_of, [1])
    assert seen == [1_100, 12]  # the ten left rows of f7, and its right row before and after
    assert len(changes) == 1_010


def test_two_changes_of_a_row_at_one_position_are_refused() -> None:
    row, again = Change(b"k", None, b"Y|0", 1, 1), Change(b"k", None, b"Y|1", 1, 1)
    for left, right in (([row, again], [row]), ([row], [row, again])):
        with pytest.raises(ValueError, match=r"two changes of key b'k' at position 1"):
            join(left, right, text, Shape(), fk_of)


def test_positions_may_be_so_far_apart_that_a_key_and_a_position_are_no_one_number() -> None:
    far = 3_500_000_000_000_000_000
    left = [Change(key, None, b"%b|0" % key, 1, 1) for key in (b"", b"A", b"B")]
    right = [Change(b"A", None, b"a", 1, 0), Change(b"A", b"a", b"b", 1, far)]
    result = join(left, right, text, Shape("left"), fk_of)
    assert [(c.key, c.position) for c in result] == [(b"", 1), (b"A", 1), (b"A", far), (b"B", 1)]


def test_the_update_of_a_right_row_changes_nothing_in_a_semi_or_anti_join() -> None:
    left, right = [Change(b"k", None, b"Y|0", 1, 1)], [Change(b"Y", None, b"a", 1, 2), Change(b"Y", b"a", b"b", 1, 3)]
    for how, expected in (("semi", [2]), ("anti", [1, 2])):
        assert [c.position for c in join(left, right, text, Shape(how), fk_of)] == expected
