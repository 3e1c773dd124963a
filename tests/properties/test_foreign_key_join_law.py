"""The law of the foreign-key join: at every position the content of the join is the join of the contents."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from tests.properties import strategies
from tests.reference import operators, recomputed
from tests.reference.foreign_key import How
from tests.reference.operators import changes_of
from tests.reference.recomputed import rows_of_changes

Table = list[Change[bytes, bytes]]


def fk_of(value: bytes) -> bytes | None:
    foreign_key = recomputed.fk_of(value.decode())
    return None if foreign_key is None else foreign_key.encode()


def pair(left: bytes, right: bytes | None) -> str:
    return recomputed.pair(left.decode(), None if right is None else right.decode())


def picky_pair(left: bytes, right: bytes | None) -> str | None:
    """A joiner that has no row for some pairs."""
    return None if left.endswith(b"1") and right != b"bar" else pair(left, right)


def join(left: Table, right: Table, how: How, joiner: Any = pair) -> list[Any]:
    return operators.foreign_key_join(left, right, how=how, foreign_key=fk_of, joiner=joiner).outputs


def check_law(left: Table, right: Table, how: How, joined: list[Any], joiner: Any = pair) -> None:
    for position in range(-1, 7):
        contents = rows_of_changes(left, position), rows_of_changes(right, position)
        expected = recomputed.foreign_key_join(*contents, how=how, foreign_key=fk_of, joiner=joiner)
        assert rows_of_changes(joined, position) == {key: value for key, value in expected.items() if value is not None}


@given(strategies.left_tables(), strategies.right_tables(), strategies.HOW)
def test_the_content_of_the_join_is_the_join_of_the_contents_at_every_position(left: Table, right: Table, how: How) -> None:
    joined = join(left, right, how)
    assert joined == changes_of(joined), "ordered replay drops nothing"
    check_law(left, right, how, joined)


@given(strategies.left_tables(), strategies.right_tables(), strategies.HOW)
def test_the_law_holds_for_a_joiner_that_gives_no_row_for_some_pairs(left: Table, right: Table, how: How) -> None:
    check_law(left, right, how, join(left, right, how, picky_pair), picky_pair)


@given(strategies.left_tables(), strategies.right_tables(), strategies.HOW)
def test_no_change_of_the_join_goes_from_nothing_to_nothing(left: Table, right: Table, how: How) -> None:
    assert all(change.old is not None or change.new is not None for change in join(left, right, how))


@given(strategies.left_tables(), strategies.right_tables(), strategies.HOW)
def test_a_change_of_the_join_has_the_position_of_a_change_that_caused_it_and_a_time_that_was_there(
    left: Table, right: Table, how: How
) -> None:
    causes = {change.position for change in (*left, *right)}
    times = {change.timestamp for change in (*left, *right)}
    for change in join(left, right, how):
        assert change.position in causes
        assert change.timestamp in times


@given(st.data(), strategies.left_tables(), strategies.right_tables(), strategies.HOW)
def test_the_join_does_not_depend_on_the_order_of_its_inputs(data: st.DataObject, left: Table, right: Table, how: How) -> None:
    shuffled = data.draw(st.permutations(left)), data.draw(st.permutations(right))
    assert Counter(join(left, right, how)) == Counter(join(*shuffled, how))


@given(strategies.left_tables(), strategies.right_tables(), strategies.HOW)
def test_a_pair_has_the_larger_time_if_its_left_row_changed_and_else_the_right_rows(left: Table, right: Table, how: How) -> None:
    for change in join(left, right, how):
        row = at(change.position, left)[change.key]
        match = at(change.position, right).get(fk_of(row.new)) if row.new is not None else None
        if change.new is None or match is None or match.new is None:
            continue
        expected = max(row.timestamp, match.timestamp) if row.position == change.position else match.timestamp
        assert change.timestamp == expected


def at(position: int, table: Table) -> dict[bytes | None, Change[bytes, bytes]]:
    """The last change of every row up to a position."""
    return {change.key: change for change in sorted(table, key=lambda change: change.position) if change.position <= position}


def test_a_transaction_is_seen_whole() -> None:
    """At one position a left row moves from Y to Z, Y goes and Z comes: one change follows, from the old pair
    to the new one.
    """
    left = [Change(b"A", None, b"Y|1", 1, 1), Change(b"A", b"Y|1", b"Z|1", 2, 2)]
    right = [Change(b"Y", None, b"bar", 1, 1), Change(b"Y", b"bar", None, 2, 2), Change(b"Z", None, b"baz", 2, 2)]
    for how in ("inner", "left"):
        assert join(left, right, how)[1:] == [Change(b"A", "(Y|1,bar)", "(Z|1,baz)", 2, 2)]
