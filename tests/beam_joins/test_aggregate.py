"""The aggregates of groups, record by record: those of GroupAggregate, cut anywhere into steps."""

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change, FunctionFailed, Window, Windowed
from beam_joins.functions.user_functions import Functions
from beam_joins.kernels.aggregate import AggregateState, members, step
from beam_joins.kernels.fold import Fold
from beam_joins.keys.opaque import opaque_keys, opaque_values, python_keys, python_values
from beam_joins.transforms.engine.stages.incoming_tables import batch_of
from tests.properties.strategies import cuts, split
from tests.reference.aggregate import ADD, SUBTRACT, GroupAggregate
from tests.reference.record import LeftOut, Record

Member = tuple[str, int, int, int, int, bool]
"""Group, key, value, timestamp, position, whether it enters."""

MEMBERS = st.lists(
    st.tuples(
        st.sampled_from("gh"), st.integers(0, 3), st.integers(-1, 3), st.integers(0, 9), st.integers(0, 5), st.booleans()
    ),
    unique_by=lambda member: (member[0], member[1], member[4], member[5]),
    max_size=14,
)  # fmt: skip


def rows_of(given: list[Member]) -> pa.Table:
    group, key, value, timestamp, position, enters = zip(*given, strict=True) if given else ((),) * 6
    numbers = {"timestamp": timestamp, "position": position}
    columns = {name: pa.array(column, pa.int64()) for name, column in numbers.items()}
    columns["enters"] = pa.array(enters, pa.bool_())
    return pa.table({"group": opaque_keys(group), **columns, "key": opaque_keys(key), "value": opaque_values(value)})


def added(aggregate: list[int], value: int) -> list[int] | None:
    """In place; no row for a sum of 3; no result for a negative value."""
    if value < 0:
        raise ArithmeticError(value)
    aggregate.append(value)
    return None if sum(aggregate) == 3 else aggregate


def subtracted(aggregate: list[int], value: int) -> list[int] | None:
    aggregate.append(-value)
    return None if sum(aggregate) == 2 else aggregate


def fold(functions: Functions | None = None) -> Fold:
    return Fold(functions or Functions("sum", ArithmeticError), list, added, subtracted)


def with_core(given: list[Member]) -> list[Change[str, list[int]]]:
    """By one readable core a group, which is told what is in no aggregate."""
    changes, groups = [], defaultdict(list)
    for member in given:
        groups[member[0]].append(member)
    for group, rows in groups.items():
        out: set[int] = set()

        def add(aggregate: Any, value: bytes, out: set[int] = out) -> Any:
            key, number = value[0], value[1] - 9
            if number < 0:
                out.add(key)
                raise LeftOut
            out.discard(key)
            return added(list(aggregate), number)

        core: GroupAggregate[list[int]] = GroupAggregate(list, add, lambda total, value: subtracted(list(total), value[1] - 9))
        together = defaultdict(list)
        for _, key, value, timestamp, position, enters in rows:
            encoded = bytes([key, value + 9])
            together[position].append(Record(bytes([key]), encoded, timestamp, position, ADD if enters else SUBTRACT))
        for position, records in sorted(together.items()):
            # what is in no aggregate has no part in it when it leaves
            part = [record for record in records if record.input == ADD or record.key[0] not in out]
            out -= {record.key[0] for record in records if record.input == SUBTRACT}
            changes += [change._replace(key=group) for change in core.advance(position, part)] if part else []
    return changes


def in_steps(given: list[Member], pieces: list[int]) -> tuple[list[Change[Any, Any]], list[AggregateState], Functions]:
    functions = Functions("sum", ArithmeticError)
    state, changes, states = AggregateState(), [], []
    for rows in split(rows_of(given), pieces):
        batch, state = step(state, rows, fold(functions))
        changes += list(batch)
        states.append(state)
    return changes, states, functions


def seen(changes: list[Change[Any, Any]]) -> Counter[str]:
    return Counter(map(repr, changes))


def proper(given: list[Member]) -> list[Member]:
    """Without members that leave a group in which they are not."""
    inside: set[tuple[str, int]] = set()
    kept = []
    for member in sorted(given, key=lambda member: (member[4], member[5])):
        place = member[:2]
        if member[5] != (place in inside):
            kept.append(member)
            inside ^= {place}
    return kept


@given(MEMBERS.map(proper))
def test_a_step_gives_the_changes_of_the_readable_core(given: list[Member]) -> None:
    changes, _, _ = in_steps(given, [])
    assert seen(changes) == seen(with_core(given))


@given(MEMBERS, cuts())
def test_a_history_cut_anywhere_gives_the_same_changes_state_and_bad_records(given: list[Member], pieces: list[int]) -> None:
    changes, states, functions = in_steps(given, pieces)
    whole, (state,), once = in_steps(given, [])
    assert seen(changes) == seen(whole)
    assert states[-1].groups.rows() == state.groups.rows()
    assert sorted(states[-1].not_added.to_pylist(), key=repr) == sorted(state.not_added.to_pylist(), key=repr)
    assert Counter(repr(element[0][0]) for element in functions.take_bad()) == Counter(
        repr(element[0][0]) for element in once.take_bad()
    )


def test_what_leaves_and_what_enters_has_the_values_before_and_after_a_change() -> None:
    batch = batch_of([Change("a", None, 1, 10, 1), Change("a", 1, 2, 20, 2), Change("b", 5, None, 30, 2), Change("c", None, 7, 40, 3)])
    groups = opaque_keys(None if value in (None, 7) else value % 2 for value in python_values(batch.values))
    rows = members(batch, groups, {"value": batch.values})
    columns = [python_keys(rows[name]) for name in ("group", "key", "timestamp", "position", "enters")]
    assert sorted(zip(*columns, python_values(rows["value"]), strict=True)) == [
        (0, "a", 20, 2, True, 2),
        (1, "a", 10, 1, True, 1),
        (1, "a", 20, 2, False, 1),
        (1, "b", 30, 2, False, 5),
    ]
    assert members(batch, groups, {}, keyed=False).column_names == ["group", "timestamp", "position", "enters"]


def test_at_one_position_all_leave_before_any_enters_in_the_order_of_their_keys() -> None:
    both = [("g", 1, 1, 0, 1, True), ("g", 9, 2, 0, 1, True), ("g", 1, 1, 0, 2, False), ("g", 9, 2, 0, 2, False)]
    rows = rows_of([*both, ("g", 8, 8, 0, 2, True), ("g", 7, 7, 0, 2, True)])
    steps = Fold(Functions("steps"), str, lambda text, value: f"{text}+{value}", lambda text, value: f"{text}-{value}")
    assert [change.new for change in step(AggregateState(), rows, steps)[0]] == ["+1+2", "+1+2-1-2+7+8"]


def test_the_keys_of_a_windowed_table_order_its_members_too() -> None:
    changes = [Change(Windowed("page", Window(start, 10)), None, start, 0, 1) for start in (7, 3, 5)]
    batch = batch_of(changes, windowed=True)
    rows = members(batch, opaque_keys("all" for _ in changes), {"value": batch.values})
    assert [
        change.new for change in step(AggregateState(), rows, Fold(Functions("all"), tuple, lambda before, n: (*before, n)))[0]
    ] == [(3, 5, 7)]


def test_what_was_added_and_cannot_be_subtracted_fails_even_where_exceptions_are_handled() -> None:
    rows = rows_of([("g", 1, 1, 0, 1, True), ("g", 1, 1, 0, 2, False)])

    def failing(aggregate: Any, value: Any) -> Any:
        raise ArithmeticError("gone")

    with pytest.raises(FunctionFailed, match="sum: subtract raised ArithmeticError: gone for the key 'g', given 1, 1"):
        step(AggregateState(), rows, Fold(Functions("sum", Exception), int, lambda total, value: total + value, failing))


def test_a_bad_record_is_shown_as_it_was() -> None:
    functions = Functions("sum", ArithmeticError)

    def failing(aggregate: Any, value: Any) -> Any:
        value.append("seen")
        raise ArithmeticError("no")

    rows = rows_of([("g", 1, 1, 30, 1, True)])
    rows = rows.set_column(5, "value", opaque_values([["a"]]))
    batch, state = step(AggregateState(), rows, Fold(functions, int, failing))
    assert len(batch) == 0
    (((record, (name, message, _)), time),) = functions.take_bad()
    assert (record, name, message, time) == (("g", 1, ["a"]), "ArithmeticError", "no", 30)
    assert state.not_added.num_rows == 1
