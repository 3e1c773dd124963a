"""Two tables on the same key, against LookupJoin."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change, vectorized
from tests.beam_joins.kernels import modest, rows_of, table_join, table_join_with_core, with_core
from tests.properties import strategies
from tests.reference.record import Record

BYTES = pa.binary(), pa.binary()
HOWS = ["inner", "left", "right", "outer"]
ANY_HOW = st.sampled_from(HOWS)
FAR = st.sampled_from([-(2**63), -1, 2**62, 2**63 - 1])


def text(left, right):
    assert (left, right) != (None, None)
    return f"{left}{right}"


def picky(left, right):
    return None if left and left.endswith(b"1") and right else text(left, right)


def tables(*changelogs):
    return [with_core(records, "records")[0] for records in changelogs]


def check(left, right, how, joiner=text):
    actual = table_join(rows_of(left, *BYTES), rows_of(right, *BYTES), how=how, joiner=joiner)
    assert Counter(actual) == Counter(table_join_with_core(*tables(left, right), how=how, joiner=joiner))


@given(strategies.left_changelogs(), strategies.left_changelogs(), ANY_HOW, st.sampled_from([text, picky]))
@modest
def test_the_join_is_that_of_the_core_change_by_change(left, right, how, joiner):
    check(left, right, how, joiner)


@given(st.data(), strategies.left_changelogs(), strategies.left_changelogs(), ANY_HOW)
@modest
def test_positions_and_times_may_be_far_apart(data, left, right, how):
    far = sorted(data.draw(st.lists(st.integers(-3, 3) | FAR, min_size=6, max_size=6, unique=True)))
    left, right = ([r._replace(position=far[r.position], timestamp=far[r.timestamp % 6]) for r in rows] for rows in (left, right))
    check(left, right, how)


@given(st.data(), strategies.left_changelogs(), strategies.left_changelogs(), ANY_HOW)
@modest
def test_the_order_of_the_rows_does_not_matter(data, left, right, how):
    shuffled = data.draw(st.permutations(left)), data.draw(st.permutations(right))
    one, other = (table_join(rows_of(a, *BYTES), rows_of(b, *BYTES), how=how, joiner=text) for a, b in ((left, right), shuffled))
    assert Counter(one) == Counter(other)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [("k", None, (1, 10), 5, 2), ("k", (1, 10), None, 9, 3)]),
        (
            "left",
            [("k", None, (1, None), 1, 1), ("k", (1, None), (1, 10), 5, 2), ("k", (1, 10), None, 9, 3), ("l", None, (2, None), 2, 2)],
        ),
        ("right", [("k", None, (1, 10), 5, 2), ("k", (1, 10), (None, 10), 9, 3), ("m", None, (None, 20), 4, 4)]),
        (
            "outer",
            [
                ("k", None, (1, None), 1, 1),
                ("k", (1, None), (1, 10), 5, 2),
                ("k", (1, 10), (None, 10), 9, 3),
                ("l", None, (2, None), 2, 2),
                ("m", None, (None, 20), 4, 4),
            ],
        ),
    ],
)
@pytest.mark.parametrize(
    "joiner",
    [
        pytest.param(lambda left, right: {"l": left and left["n"], "r": right and right["n"]}, id="by record"),
        pytest.param(vectorized(lambda left, right: {"l": left["n"], "r": right["n"]}), id="by column"),
        pytest.param({"l": "left.n", "r": pc.field("right", "n")}, id="expressions"),
    ],
)
def test_every_kind_of_join_with_every_kind_of_joiner_gives_these_changes(how, expected, joiner):
    left = [Record("k", {"n": 1}, 1, 1), Record("k", None, 9, 3), Record("l", {"n": 2}, 2, 2)]
    right = [Record("k", {"n": 10}, 5, 2), Record("m", {"n": 20}, 4, 4)]
    actual = table_join(rows_of(left), rows_of(right), how=how, joiner=joiner)
    assert Counter((c.key, c.old and tuple(c.old.values()), c.new and tuple(c.new.values()), *c[3:]) for c in actual) == Counter(
        expected
    )


@pytest.mark.parametrize("how", HOWS)
def test_either_side_may_be_without_a_row(how):
    rows = rows_of([Record({"a": 1, "b": "x"}, b"v", 1, 1)])
    none = rows.slice(0, 0)
    alone = [Change((1, "x"), None, "b'v'None", 1, 1)]
    assert table_join(rows, none, how=how, joiner=text) == (alone if how in ("left", "outer") else [])
    mirrored = [Change((1, "x"), None, "Noneb'v'", 1, 1)]
    assert table_join(none, rows, how=how, joiner=text) == (mirrored if how in ("right", "outer") else [])
    assert table_join(none, none, how=how, joiner=text) == []


def test_two_changes_of_one_row_at_one_position_are_refused_on_either_side():
    once = rows_of([Record("k", b"v", 1, 1)])
    twice = rows_of([Record("k", b"v", 1, 1), Record("k", b"w", 2, 1)])
    for sides in ((once, twice), (twice, once)):
        with pytest.raises(ValueError, match="the table has two changes of key .k. at position 1: make it with TableFromChangelog"):
            table_join(*sides, how="outer", joiner=text)


def test_the_keys_of_both_tables_may_be_of_types_that_are_equal_in_python():
    joined = table_join(
        rows_of([Record(7, b"v", 1, 1)]), rows_of([Record(7.0, b"w", 2, 2), Record(7.5, b"x", 3, 3)]), how="outer", joiner=text
    )
    assert [(change.key, change.new) for change in joined] == [(7, "b'v'None"), (7, "b'v'b'w'"), (7.5, "Noneb'x'")]


def test_keys_of_two_kinds_never_meet():
    assert table_join(rows_of([Record("7", b"v", 1, 1)]), rows_of([Record(7, b"v", 1, 1)]), how="inner", joiner=text) == []


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("times", [(5, 9), (9, 5)])
def test_a_row_that_goes_on_both_sides_at_one_position_has_the_larger_time_of_both(how, times):
    left, right = ([Record(b"k", b"v", 1, 1), Record(b"k", None, time, 2)] for time in times)
    last = Change(b"k", "b'v'b'v'", None, 9, 2)
    assert table_join(rows_of(left), rows_of(right), how=how, joiner=text)[-1] == last
    assert table_join_with_core(*tables(left, right), how=how, joiner=text)[-1] == last
