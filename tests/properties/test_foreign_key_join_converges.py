"""The foreign-key join between partitions: whatever the order in which messages are delivered, it ends with
the join of the final contents.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties import strategies
from tests.properties.test_foreign_key_join_law import Table, fk_of, pair
from tests.reference import recomputed
from tests.reference.foreign_key import How
from tests.reference.interleaving import Interleaving
from tests.reference.operators import changes_of, upsert_table
from tests.reference.recomputed import rows_of_changes
from tests.reference.record import Record

FAR = 1_000


def final_join(left: Table, right: Table, how: How) -> dict[bytes, str]:
    contents = rows_of_changes(left, FAR), rows_of_changes(right, FAR)
    return recomputed.foreign_key_join(*contents, how=how, foreign_key=fk_of, joiner=pair)


def table(*records: tuple[bytes, bytes | None, int]) -> Table:
    return changes_of(upsert_table([Record(key, value, position, position) for key, value, position in records]))


@examples(600)
@given(strategies.left_tables(), strategies.right_tables(), strategies.HOW, st.randoms(use_true_random=False))
def test_the_join_converges_under_any_interleaving_of_its_messages(left: Table, right: Table, how: How, chance: random.Random) -> None:
    join = Interleaving(left, right, how=how, foreign_key=fk_of, joiner=pair)
    join.run(chance.choice)
    assert join.rows() == final_join(left, right, how)


@examples(600)
@given(strategies.left_tables(), strategies.right_tables(), strategies.HOW, st.randoms(use_true_random=False))
def test_the_join_converges_when_the_left_side_runs_ahead_of_all_answers(
    left: Table, right: Table, how: How, chance: random.Random
) -> None:
    join = Interleaving(left, right, how=how, foreign_key=fk_of, joiner=pair)
    while join.waiting():
        join.run(chance.choice, "left")
        join.run(chance.choice, chance.choice([channel[0] for channel in join.waiting()] or ["left"]))
    assert join.rows() == final_join(left, right, how)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize(
    ("deleted", "rewritten"),
    [(None, b"Z|2"), (b"null|2", b"Z|3"), (None, b"null|2"), (b"null|2", None), (b"null|2", b"null|3"), (None, None), (None, b"Y|2")],
)
def test_a_row_deleted_and_rewritten_before_the_answer_is_back_does_not_stay(
    how: How, deleted: bytes | None, rewritten: bytes | None
) -> None:
    """Kafka's inner join keeps the row for good when what is written asks for no answer."""
    left, right = table((b"A", b"Y|1", 2), (b"A", deleted, 3), (b"A", rewritten, 4)), table((b"Y", b"bar", 1))
    join = Interleaving(left[:1], right, how=how, foreign_key=fk_of, joiner=pair)
    join.run(min)
    assert join.rows() == {b"A": "(Y|1,bar)"}
    join.add_left(left[1:])
    join.run(min, "left")
    join.run(min)
    assert join.rows() == final_join(left, right, how)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_an_answer_to_an_earlier_row_with_the_same_value_does_not_stay(how: How) -> None:
    """A was Y|1, is deleted and is Y|1 again before any answer is back; Y goes in between.

    The first answer fits the value, not the row.
    """
    left, right = table((b"A", b"Y|1", 2), (b"A", None, 3), (b"A", b"Y|1", 5)), table((b"Y", b"bar", 1), (b"Y", None, 4))
    join = Interleaving(left, right, how=how, foreign_key=fk_of, joiner=pair)
    join.run(min, "left")
    for channel in ("right", "subscription", "subscription", "right", "subscription"):
        join.deliver(next(waiting for waiting in join.waiting() if waiting[0] == channel))
    join.run(min)
    assert join.rows() == final_join(left, right, how)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_two_updates_in_flight_end_with_the_later_one(how: How) -> None:
    left, right = table((b"A", b"Y|1", 2), (b"A", b"Y|2", 3)), table((b"Y", b"bar", 1))
    join = Interleaving(left, right, how=how, foreign_key=fk_of, joiner=pair)
    join.run(min, "right")
    join.run(min, "left")
    join.run(min)
    assert [change.new for change in join.changes] == ["(Y|2,bar)"]
