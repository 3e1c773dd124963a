"""The aggregates of a stream by window: those of the readable core, cut anywhere into steps."""

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_joins.coders.beam_values  # noqa: F401  # how values that are Python objects are written
from beam_joins import Change, Dropped, Window, Windowed
from beam_joins.columns.sorting import combine_chunks
from beam_joins.functions.user_functions import Functions
from beam_joins.kernels.fold import Fold
from beam_joins.kernels.stream_time import ALWAYS
from beam_joins.kernels.windowed_aggregate import WindowedAggregateState, step
from beam_joins.keys.opaque import opaque_keys, opaque_values, python_keys, python_values
from tests.properties.strategies import cuts, split
from tests.reference.record import LeftOut, Record
from tests.reference.windowed_aggregate import WindowedAggregate

ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([None, b"", b"v", b"w", b"!"]), st.integers(-12, 25),
        st.integers(0, 5), st.integers(0, 1)),
    max_size=12,
)  # fmt: skip
IN_TIME = st.lists(st.tuples(st.sampled_from("ab"), st.just(b"v"), st.integers(0, 25)), max_size=12).map(
    lambda rows: [(*row, row[-1], 0) for row in rows]
)
GRACES = st.none() | st.integers(0, 8)


def rows_of(given: list[Any]) -> pa.Table:
    key, value, timestamp, position, within = zip(*given, strict=True) if given else ((),) * 5
    numbers = (pa.array(column, pa.int64()) for column in (timestamp, position))
    columns = [opaque_keys(key), opaque_values(value), *numbers, pa.array([bytes([n]) for n in within], pa.binary())]
    return pa.table(columns, names=["key", "value", "timestamp", "position", "within"])


def windows(times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hopping windows of 10, every 5."""
    start = np.stack([times // 5 * 5 - 5, times // 5 * 5], axis=1).ravel()
    return np.repeat(np.arange(len(times)), 2), start, start + 10


def added(aggregate: list[Any], value: bytes | None) -> list[Any] | None:
    """In place; no row for an empty value, no result for an exclamation."""
    if value == b"!":
        raise ArithmeticError(value)
    aggregate.append(value)
    return None if value == b"" else aggregate


def windows_of(state: WindowedAggregateState) -> list[Windowed[Any]]:
    """The windows that are remembered."""
    rows = state.windows.table()
    return [] if rows is None else python_keys(combine_chunks(rows["group"]))


def in_steps(
    given: list[Any], pieces: list[int], grace: int | None, untils: list[int | None]
) -> tuple[list[Any], list[Any], list[WindowedAggregateState]]:
    """The changes, the late and bad records, and the state after each step."""
    functions = Functions("words", ArithmeticError)
    state, changes, late, states = WindowedAggregateState(), [], [], []
    for rows, until in zip(split(rows_of(given), pieces), untils, strict=True):
        out, state = step(state, rows, windows, Fold(functions, list, added), grace, until)
        changes += list(out.changes)
        groups, values = (read(combine_chunks(out.late[name])) for name, read in (("group", python_keys), ("value", python_values)))
        late += zip(groups, values, out.late["timestamp"].to_pylist(), strict=True)
        states.append(state)
    return changes, late + [record for (record, _), _ in functions.take_bad()], states


def overlapping_windows(time):
    return [Window(time // 5 * 5 - 5, time // 5 * 5 + 5), Window(time // 5 * 5, time // 5 * 5 + 10)]


def with_core(given: list[Any], grace: int | None) -> tuple[list[Any], list[Any]]:
    def add(core: list[WindowedAggregate[Any]], aggregate: Any, value: bytes | None) -> Any:
        if value == b"!":
            record, window = core[0].adding
            bad.append((Windowed(record.key, window), value))
            raise LeftOut
        return added(list(aggregate), value)

    bad: list[Any] = []
    changes, late, together = [], [], defaultdict(list)
    for key, value, timestamp, position, within in given:
        together[key, position].append(Record(key, value, timestamp, position, within=bytes([within])))
    cores: dict[str, WindowedAggregate[Any]] = {}
    for (key, position), records in sorted(together.items(), key=lambda item: item[0][1]):
        if key not in cores:
            of: list[Any] = []
            cores[key] = WindowedAggregate(overlapping_windows, list, lambda total, value, of=of: add(of, total, value), grace)
            of.append(cores[key])
        for out in cores[key].advance(position, records):
            if isinstance(out, Dropped):
                window, record = out.record
                late.append((Windowed(record.key, window), record.value, out.timestamp))
            else:
                changes.append(out)
    return changes, late + bad


def seen(outputs: list[Any]) -> Counter[str]:
    return Counter(map(repr, outputs))


@given(ROWS, GRACES)
def test_a_step_gives_the_changes_late_and_bad_records_of_the_readable_core(given: list[Any], grace: int | None) -> None:
    changes, late, _ = in_steps(given, [], grace, [None])
    expected, expected_late = with_core(given, grace)
    assert seen(changes) == seen(expected)
    assert seen(late) == seen(expected_late)


@pytest.mark.slow
@given(ROWS, GRACES, cuts())
def test_a_history_cut_anywhere_gives_the_same_changes_late_records_and_state(
    given: list[Any], grace: int | None, pieces: list[int]
) -> None:
    changes, late, states = in_steps(given, pieces, grace, [None] * (len(pieces) + 1))
    whole, whole_late, (state,) = in_steps(given, [], grace, [None])
    assert seen(changes) == seen(whole)
    assert seen(late) == seen(whole_late)
    assert states[-1].windows.rows() == state.windows.rows()
    assert seen(states[-1].times.to_pylist()) == seen(state.times.to_pylist())


@pytest.mark.slow
@given(IN_TIME, GRACES, cuts(range(26)))
def test_by_event_time_windows_behind_the_frontier_are_forgotten(given: list[Any], grace: int | None, pieces: list[int]) -> None:
    changes, late, states = in_steps(given, pieces, grace, [*pieces, 25])
    whole, _, _ = in_steps(given, [], grace, [None])
    assert seen(changes) == seen(whole)
    assert late == []
    for until, state in zip([*pieces, 25], states, strict=True):
        assert all(key.window.end > until for key in windows_of(state))
        assert state.times.num_rows == 0


@given(ROWS, GRACES)
def test_after_a_step_behind_which_nothing_comes_nothing_is_remembered(given: list[Any], grace: int | None) -> None:
    _, _, (state,) = in_steps(given, [], grace, [ALWAYS])
    assert not windows_of(state)
    assert state.times.num_rows == 0


def test_with_a_grace_a_window_is_forgotten_when_its_key_has_moved_on() -> None:
    rows = [("a", b"v", 7, 1, 0), ("a", b"v", 40, 2, 0), ("b", b"v", 7, 3, 0)]
    _, _, (state,) = in_steps(rows, [], 3, [None])
    left = [(key.key, key.window.start) for key in windows_of(state)]
    assert left == [("a", 35), ("a", 40), ("b", 0), ("b", 5)]


def test_values_without_a_canonical_encoding_are_added_in_an_order_too() -> None:
    rows = rows_of([("a", range(1), 1, 1, 0), ("a", range(2), 1, 1, 0)])
    for turn in (rows, rows.take(pa.array([1, 0]))):
        out, _ = step(
            WindowedAggregateState(), turn, windows, Fold(Functions("names"), str, lambda names, value: names + str(len(value)))
        )
        assert {change.new for change in out.changes} == {"12"}


def test_changes_are_those_of_windowed_keys() -> None:
    out, _ = step(
        WindowedAggregateState(),
        rows_of([("a", b"v", 7, 1, 0)]),
        windows,
        Fold(Functions("count"), int, lambda count, value: count + 1),
    )
    assert list(out.changes) == [Change(Windowed("a", Window(start, start + 10)), None, 1, 7, 1) for start in (0, 5)]
