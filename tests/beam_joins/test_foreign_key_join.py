"""The foreign-key join on columns, against KIP-213's protocol record by record."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change, vectorized
from beam_joins.kernels.overlap_events import Shape
from beam_joins.kernels.references import subscriptions
from tests.beam_joins.kernels import changes_in, foreign_key_join, modest, parts, rows_of, table_of, with_core
from tests.properties import strategies
from tests.properties.test_foreign_key_join_law import fk_of, pair, picky_pair
from tests.reference import operators
from tests.reference.record import Record

BYTES = pa.binary(), pa.binary()
JOINERS = st.sampled_from([pair, picky_pair])
FAR = st.sampled_from([-(2**63), -1, 2**62, 2**63 - 2])


def joined(left, right, how, joiner, cut=1):
    table = table_of(rows_of(left, *BYTES), "records")
    rows = rows_of(right, *BYTES)
    return foreign_key_join(parts(table, cut), rows, how=how, foreign_key=fk_of, joiner=joiner, key_type=pa.binary())


def joined_by_core(left, right, how, joiner):
    tables = (with_core(records, "records")[0] for records in (left, right))
    return operators.foreign_key_join(*tables, how=how, foreign_key=fk_of, joiner=joiner).outputs


@given(strategies.left_changelogs(), strategies.right_changelogs(), strategies.HOW, JOINERS, st.integers(1, 3))
@modest
def test_the_join_is_that_of_the_protocol_change_by_change(left, right, how, joiner, cut):
    """Both sides change at equal positions, left rows move between references and refer to nothing, right
    rows go, pairs have no row.
    """
    assert Counter(joined(left, right, how, joiner, cut)) == Counter(joined_by_core(left, right, how, joiner))


@given(st.data(), strategies.left_changelogs(), strategies.right_changelogs(), strategies.HOW)
@modest
def test_the_order_of_the_rows_does_not_matter(data, left, right, how):
    shuffled = data.draw(st.permutations(left)), data.draw(st.permutations(right))
    assert Counter(joined(left, right, how, pair)) == Counter(joined(*shuffled, how, pair))


@given(strategies.left_tables(), strategies.right_changelogs(), strategies.HOW, strategies.EMIT)
@modest
def test_the_flavour_of_the_left_table_does_not_matter_to_what_is_joined(left, right, how, emit):
    records = [Record(c.key, c.new, c.timestamp, c.position) for c in left]
    table = table_of(rows_of(records, *BYTES), emit)
    actual = foreign_key_join(table, rows_of(right, *BYTES), how=how, foreign_key=fk_of, joiner=pair, key_type=pa.binary())
    expected = operators.foreign_key_join(changes_in(table), with_core(right, "records")[0], how=how, foreign_key=fk_of, joiner=pair)
    assert Counter(actual) == Counter(expected.outputs)


@given(st.data(), strategies.left_changelogs(), strategies.right_changelogs(), strategies.HOW)
@modest
def test_positions_and_times_may_be_far_apart(data, left, right, how):
    far = sorted(data.draw(st.lists(st.integers(-3, 3) | FAR, min_size=6, max_size=6, unique=True)))
    left, right = ([r._replace(position=far[r.position], timestamp=far[r.timestamp % 6]) for r in rows] for rows in (left, right))
    assert Counter(joined(left, right, how, pair)) == Counter(joined_by_core(left, right, how, pair))


@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_last_position_that_there_is_counts_too(how):
    last = 2**63 - 1
    left, right = [Record(b"A", b"Y|1", 1, 1)], [Record(b"Y", b"bar", 2, last)]
    assert joined(left, right, how, pair)[-1] == Change(b"A", "(Y|1,null)" if how == "left" else None, "(Y|1,bar)", 2, last)
    both = [Record(b"A", b"Y|1", 1, 1), Record(b"A", b"Z|1", 3, last)]
    assert Counter(joined(both, right, how, pair)) == Counter(joined_by_core(both, right, how, pair))


def test_a_move_a_null_reference_and_a_deleted_right_row_give_these_changes():
    left = [Record(b"A", b"Y|1", 1, 1), Record(b"A", b"Z|2", 3, 3), Record(b"A", b"null|3", 6, 6), Record(b"A", b"Y|4", 7, 7)]
    right = [Record(b"Y", b"bar", 2, 2), Record(b"Z", b"baz", 0, 0), Record(b"Z", None, 4, 4), Record(b"Z", b"bam", 5, 5)]
    assert joined(left, right, "inner", pair) == [
        Change(b"A", None, "(Y|1,bar)", 2, 2),
        Change(b"A", "(Y|1,bar)", "(Z|2,baz)", 3, 3),
        Change(b"A", "(Z|2,baz)", None, 4, 4),
        Change(b"A", None, "(Z|2,bam)", 5, 5),
        Change(b"A", "(Z|2,bam)", None, 6, 6),
        Change(b"A", None, "(Y|4,bar)", 7, 7),
    ]
    assert joined(left, right, "left", pair) == [
        Change(b"A", None, "(Y|1,null)", 1, 1),
        Change(b"A", "(Y|1,null)", "(Y|1,bar)", 2, 2),
        Change(b"A", "(Y|1,bar)", "(Z|2,baz)", 3, 3),
        Change(b"A", "(Z|2,baz)", "(Z|2,null)", 4, 4),
        Change(b"A", "(Z|2,null)", "(Z|2,bam)", 5, 5),
        Change(b"A", "(Z|2,bam)", "(null|3,null)", 6, 6),
        Change(b"A", "(null|3,null)", "(Y|4,bar)", 7, 7),
    ]


def test_a_transaction_is_seen_whole():
    """At one position a left row moves from Y to Z, Y goes and Z comes: one change follows."""
    left = [Record(b"A", b"Y|1", 1, 1), Record(b"A", b"Z|1", 2, 2)]
    right = [Record(b"Y", b"bar", 1, 1), Record(b"Y", None, 2, 2), Record(b"Z", b"baz", 2, 2)]
    for how in ("inner", "left"):
        assert joined(left, right, how, pair)[1:] == [Change(b"A", "(Y|1,bar)", "(Z|1,baz)", 2, 2)]


def test_a_row_subscribes_to_what_it_refers_to_and_leaves_it_when_it_moves():
    rows = [(b"Y|", 1), (b"Y|", 2), (b"Z|", 3), (b"null|", 4), (None, 5), (b"Z|", 6), (None, 7)]
    left = table_of(rows_of([Record(b"A", value, position, position) for value, position in rows]))
    references = pa.array([None if value is None else fk_of(value) for value, _ in rows])

    def asked(how):
        given = subscriptions(left, references, Shape(how, times="foreign_key")).to_pylist()
        return sorted((r["position"], r["reference"] or b"", r["value"], r["moved"], r["until"]) for r in given)

    assert asked("inner") == [
        (1, b"Y", b"Y|", False, None),
        (2, b"Y", b"Y|", False, 3),
        (3, b"Z", b"Z|", True, None),
        (4, b"Z", None, False, None),
        (6, b"Z", b"Z|", False, None),
        (7, b"Z", None, False, None),
    ]
    assert asked("left") == [
        (1, b"Y", b"Y|", False, None),
        (2, b"Y", b"Y|", False, 3),
        (3, b"Z", b"Z|", True, 4),
        (4, b"", b"null|", True, None),
        (5, b"", None, False, None),
        (6, b"Z", b"Z|", False, None),
        (7, b"Z", None, False, None),
    ]


def test_a_row_that_was_there_before_its_batch_leaves_its_reference_by_a_row_of_its_own():
    left = table_of(rows_of([Record(b"A", b"Y|", 1, 1), Record(b"A", b"Z|", 2, 2)])).filter(pa.array([False, True]))
    references = pa.array([fk_of(value) for value in left.values.to_pylist()])
    given = subscriptions(left, references, Shape("inner", times="foreign_key")).to_pylist()
    assert [(r["reference"], r["value"], r["moved"], r["until"]) for r in given] == [
        (b"Z", b"Z|", True, None),
        (b"Y", None, True, None),
    ]


STRUCTS = [
    Change(1, None, {"by": {"shop": "s", "id": 7}, "n": 1}, 1, 1),
    Change(2, None, {"by": {"shop": "t", "id": 7}, "n": 2}, 2, 2),
    Change(3, None, {"by": None, "n": 3}, 3, 3),
]
SHOPS = [Change({"shop": "s", "id": 7}, None, {"name": "Seven"}, 9, 2), Change({"shop": "s", "id": 8}, None, {"name": "Eight"}, 9, 2)]


@pytest.mark.parametrize(
    "joiner",
    [
        pytest.param(lambda left, right: {"n": left["n"], "name": right and right["name"]}, id="by record"),
        pytest.param(vectorized(lambda left, right: {"n": left["n"], "name": right["name"]}), id="by column"),
        pytest.param({"n": "left.n", "name": pc.field("right", "name")}, id="expressions"),
    ],
)
def test_keys_and_values_may_be_structs_and_a_joiner_of_any_kind(joiner):
    left = table_of(rows_of(STRUCTS))
    actual = foreign_key_join(left, rows_of(SHOPS), how="left", foreign_key=lambda row: row["by"], joiner=joiner)
    assert [(c.key, c.old, c.new, c.timestamp, c.position) for c in actual] == [
        (1, None, {"n": 1, "name": None}, 1, 1),
        (1, {"n": 1, "name": None}, {"n": 1, "name": "Seven"}, 9, 2),
        (2, None, {"n": 2, "name": None}, 2, 2),
        (3, None, {"n": 3, "name": None}, 3, 3),
    ]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_either_side_may_be_without_a_row(how):
    left, right = [Record(b"A", b"Y|1", 1, 1)], [Record(b"Y", b"bar", 2, 2)]
    assert joined([], right, how, pair) == joined([], [], how, pair) == []
    alone = [Change(b"A", None, "(Y|1,null)", 1, 1)] if how == "left" else []
    assert joined(left, [], how, pair) == alone


def test_a_right_table_with_two_changes_of_one_row_at_one_position_is_refused():
    left, right = [Record(b"A", b"Y|1", 1, 1)], rows_of([Record(b"Y", b"bar", 2, 2), Record(b"Y", b"baz", 3, 2)])
    with pytest.raises(ValueError, match="the table has two changes of key b'Y' at position 2: make it with TableFromChangelog"):
        foreign_key_join(table_of(rows_of(left)), right, how="inner", foreign_key=fk_of, joiner=pair)


def test_a_reference_of_another_kind_than_the_right_keys_meets_none():
    assert foreign_key_join(
        table_of(rows_of([Change("a", None, "7", 1, 1)])), rows_of([Change(7, None, "x", 1, 1)]),
        how="inner", foreign_key=lambda value: value, joiner=pair,
    ) == []  # fmt: skip
