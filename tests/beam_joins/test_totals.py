"""Counts and sums in columns: those of the members that are there, cut anywhere into steps."""

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.elements.change import Change
from beam_joins.functions.user_functions import Functions
from beam_joins.kernels.aggregate import AggregateState
from beam_joins.kernels.aggregate import step as fold_step
from beam_joins.kernels.fold import Fold
from beam_joins.kernels.groups import Groups
from beam_joins.kernels.totals import step, sum_type
from beam_joins.keys.opaque import opaque_keys, opaque_values
from beam_joins.tables.arrangement import Arrangement
from tests.beam_joins.test_aggregate import MEMBERS, Member, rows_of
from tests.properties.strategies import cuts, split

TYPES = {
    "whole": (pa.int16(), lambda value: value * 1000),
    "fraction": (pa.float64(), lambda value: value * 0.1),
    "decimal": (pa.decimal128(9, 2), lambda value: Decimal(value) / 4),
    "object": (None, lambda value: value * 10**30),
}


def typed(given: list[Member], kind: str) -> pa.Table:
    """Members with some numbers and some nulls."""
    arrow, number = TYPES[kind]
    values = [None if member[2] == 3 else number(member[2]) for member in given]
    column = opaque_values(values) if arrow is None else pa.array(values, arrow)
    rows = rows_of(given)
    return rows.set_column(rows.column_names.index("value"), "value", column)


def in_steps(rows, pieces):
    state, changes = Arrangement(), []
    for piece in split(rows, pieces):
        batch, state = step(state, piece)
        changes += list(batch)
    return changes, state


def seen(changes):
    return Counter(map(repr, changes))


def record_by_record(rows, add, subtract):
    functions = Fold(Functions("totals"), int, add, subtract)
    return list(fold_step(AggregateState(), rows, functions)[0])


@given(MEMBERS, cuts())
def test_a_count_is_that_of_the_members_record_by_record_however_the_history_is_cut(given, pieces):
    rows = rows_of(given)
    changes, state = in_steps(rows.drop_columns(["key", "value"]), pieces)
    assert seen(changes) == seen(record_by_record(rows, lambda n, _: n + 1, lambda n, _: n - 1))
    assert state.rows() == in_steps(rows.drop_columns(["key", "value"]), [])[1].rows()


@pytest.mark.parametrize("kind", TYPES)
@given(given=MEMBERS, pieces=cuts())
def test_a_sum_is_that_of_the_members_record_by_record_however_the_history_is_cut(kind, given, pieces):
    rows = typed(given, kind)
    changes, state = in_steps(rows, pieces)
    number = {"decimal": Decimal, "fraction": Fraction}.get(kind, int)
    expected = record_by_record(rows, lambda n, v: n + number(v or 0), lambda n, v: n - number(v or 0))
    if kind == "fraction":  # rounded once
        expected = [
            change._replace(old=None if change.old is None else float(change.old), new=float(change.new)) for change in expected
        ]
    assert Counter(map(tuple, changes)) == Counter(map(tuple, expected))
    assert state.rows() == in_steps(rows, [])[1].rows()


FLOATS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, 0.1, 1.0])


@pytest.mark.parametrize("arrow", [pa.float64(), None], ids=["typed", "opaque"])
@given(st.lists(st.tuples(FLOATS, st.booleans(), st.integers(0, 99)), max_size=12), st.integers(0, 12))
def test_a_sum_of_floats_is_that_of_the_rows_that_are_present_rounded_once_wherever_the_history_is_cut(arrow, events, cut):
    present, members, values, expected = list[tuple[int, float]](), [], [], []
    for position, (entering, leaves, which) in enumerate(events):
        if leaves and present:
            key, number = present.pop(which % len(present))
        else:
            key, number = position, entering
            present.append((key, number))
        members.append(("g", key, 0, position, position, key == position))
        values.append(number)
        expected.append(rounded_sum([each for _, each in present]))
    rows = rows_of(members)
    rows = rows.set_column(5, "value", opaque_values(values) if arrow is None else pa.array(values, arrow))
    changes, state = list[Change](), Arrangement()
    for piece in (rows.slice(0, cut), rows.slice(cut)):
        if len(piece):
            batch, state = step(state, piece)
            changes += batch
    assert list(map(repr, (float(change.new) for change in changes))) == list(map(repr, expected))


def rounded_sum(numbers):
    infinities = {number for number in numbers if math.isinf(number)}
    if len(infinities) == 2 or any(map(math.isnan, numbers)):
        return math.nan
    if infinities:
        return infinities.pop()
    total = sum(map(Fraction, numbers))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def a_sum(values, arrow=None):
    rows = rows_of([("g", i, 0, i, i, True) for i in range(len(values))])
    column = opaque_values(values) if arrow is None else pa.array(values, arrow)
    return [change.new for change in step(Arrangement(), rows.set_column(5, "value", column))[0]]


def test_a_sum_of_whole_numbers_is_exact_up_to_the_ends_of_64_bits():
    largest = 2**63 - 1
    assert a_sum([largest, -largest, -largest - 1], pa.int64()) == [largest, 0, -largest - 1]
    assert a_sum([2**62 - 1, 2**62], pa.int64())[1] == largest
    for values in ([largest, 1], [-largest - 1, -1]):
        with pytest.raises(ValueError, match="a sum of whole numbers does not fit in 64 bits"):
            a_sum(values, pa.int64())
    with pytest.raises(ValueError, match="a value does not fit in 64 bits"):
        a_sum([2**63], pa.uint64())


def test_a_sum_that_overflows_within_a_position_and_comes_back_is_right():
    largest = 2**63 - 1
    rows = rows_of([("g", key, 0, 0, 1, True) for key in (1, 2, 3)]).set_column(5, "value", pa.array([largest, largest, -largest]))
    assert [change.new for change in step(Arrangement(), rows)[0]] == [largest]


def test_one_group_does_not_touch_another():
    rows = rows_of([("g", 1, 0, 0, 1, True), ("h", 1, 0, 0, 1, True), ("h", 2, 0, 0, 2, True)])
    rows = rows.set_column(5, "value", pa.array([float("inf"), 1.0, 2.0]))
    assert [(change.key, change.new) for change in step(Arrangement(), rows)[0]] == [("g", float("inf")), ("h", 1.0), ("h", 3.0)]


def test_decimals_are_exact_and_refused_where_they_do_not_fit():
    assert a_sum([Decimal("0.1"), Decimal("0.2")], pa.decimal128(5, 1)) == [Decimal("0.1"), Decimal("0.3")]
    assert a_sum([Decimal(10) ** 50, Decimal("1e-10")])[1] == Decimal("100000000000000000000000000000000000000000000000000.0000000001")
    with pytest.raises(ValueError, match="a sum does not fit in decimal128"):
        a_sum([Decimal(10**38 - 1), Decimal(1)], pa.decimal128(38, 0))


def test_numbers_of_kinds_that_python_does_not_add_are_refused():
    with pytest.raises(ValueError, match="the values of a group cannot be added: floats and numbers of type Decimal"):
        a_sum([1.5, Decimal(1)])


@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.date32(), pa.list_(pa.int64())])
def test_what_is_no_number_has_no_sum(kind):
    with pytest.raises(ValueError, match="values of type .* cannot be added: give a column of numbers"):
        sum_type(kind)


def test_groups_may_be_of_any_type_of_key():
    rows = rows_of([("g", 1, 0, 0, 1, True), ("h", 1, 0, 0, 1, True)]).drop_columns(["key", "value"])
    for groups in (pa.array([{"a": 1, "b": "x"}, {"a": 0, "b": "x"}]), opaque_keys([(1, "x"), (0, "x")])):
        batch, state = step(Arrangement(), rows.set_column(0, "group", groups))
        assert sorted(change.key for change in batch) == [(0, "x"), (1, "x")]
        assert [row["timestamp"] for row in state.rows()] == [0, 0]


def test_a_step_reads_only_the_aggregates_of_the_groups_that_its_rows_touch():
    def rows(groups, position):
        columns = {"group": groups, "timestamp": [position] * len(groups), "position": [position] * len(groups)}
        return pa.table({**columns, "enters": [True] * len(groups)})

    _, state = step(Arrangement(), rows(range(1000), 1))
    assert len(Groups(state, rows([7, 5000], 2), pa.int64()).aggregates) == 1
    assert [(change.key, change.old, change.new) for change in step(state, rows([7, 5000], 2))[0]] == [(7, 1, 2), (5000, None, 1)]
