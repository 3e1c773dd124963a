"""The join of tables by their common key: at every position the content of the result is the join of all contents."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from beam_joins.functions.joiner import Join
from beam_joins.functions.pairs import Pairs
from beam_joins.kernels.key_join import KeyState, key_join, key_step
from beam_joins.options.join_types import How
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.versions import FOREVER
from tests.beam_joins.kernels import HOWS, Table, batch, in_order, rows
from tests.beam_joins.test_overlap import LEFTS, POSITIONS, modest
from tests.properties import strategies
from tests.reference.recomputed import rows_of_changes
from tests.reference.recomputed_times import Rows


def text(*values: bytes | None) -> str:
    return "".join(map(repr, values))


def picky(*values: bytes | None) -> str | None:
    return None if any(value and value.endswith(b"1") for value in values) else text(*values)


JOINERS = st.sampled_from([text, picky])


@st.composite
def several(draw: Any) -> tuple[list[Table], list[How]]:
    """Two to four tables, and how each but the first is joined."""
    hows = draw(st.lists(st.sampled_from(HOWS), min_size=1, max_size=3))
    return [draw(LEFTS) for _ in range(len(hows) + 1)], hows


def of_rows(joiner: Any, hows: list[How]) -> Join:
    sides = 1 + sum(how not in ("semi", "anti") for how in hows)

    def join(pairs: Pairs) -> pa.Array:
        columns = [values.take(pa.array(index, mask=index < 0)).to_pylist() for values, index in pairs.columns(sides)]
        joined = [None if all(value is None for value in row) else joiner(*row) for row in zip(*columns, strict=True)]
        return pa.array(joined, pa.string())

    return join


def chained(contents: list[dict[Any, Any]], hows: list[How], joiner: Any) -> dict[Any, Any]:
    """The joins of contents one after the other, from scratch."""
    result: dict[Any, list[Any]] = {key: [value] for key, value in contents[0].items()}
    width = 1
    for content, how in zip(contents[1:], hows, strict=True):
        both = {"inner", "left", "right", "outer", "semi"}
        kept = {True: both, False: {"left", "outer", "anti"}}  # by whether there is a row in the new table
        lefts = {key: [*values, content.get(key)] for key, values in result.items() if how in kept[key in content]}
        if how in ("semi", "anti"):
            result = {key: values[:-1] for key, values in lefts.items()}
            continue
        alone = {key: [*[None] * width, value] for key, value in content.items() if key not in result and how in ("right", "outer")}
        result, width = lefts | alone, width + 1
    joined = {key: joiner(*values) for key, values in result.items()}
    return {key: value for key, value in joined.items() if value is not None}


def join(tables: list[Table], hows: list[How], joiner: Any) -> Table:
    return in_order(key_join([rows(batch(table)) for table in tables], of_rows(joiner, hows), hows).changes)


def join_in_steps(tables: list[Table], hows: list[How], joiner: Any, cuts: list[int]) -> tuple[Table, KeyState]:
    """The changes of a join whose history is cut behind each position of ``cuts``, and what is remembered then."""
    changes, state = [], KeyState(None)
    for low, high in zip([-FOREVER, *cuts], [*cuts, FOREVER], strict=True):
        between = [[change for change in table if low < change.position <= high] for table in tables]
        joined, state = key_step(state, [rows(batch(table)) for table in between], of_rows(joiner, hows), hows)
        assert all(low < change.position <= high for change in joined.changes)
        changes += joined.changes
    return in_order(changes), state


@given(several(), JOINERS)
@modest
def test_tables_joined_by_their_key_follow_the_law(drawn: tuple[list[Table], list[How]], joiner: Any) -> None:
    tables, hows = drawn
    result = join(tables, hows, joiner)
    for position in POSITIONS:
        contents = [rows_of_changes(table, position) for table in tables]
        assert rows_of_changes(result, position) == chained(contents, hows, joiner), position
    assert all(change.old is not None or change.new is not None for change in result)
    for change in result:
        times = [time for table in tables for time in Rows(table).time(change.key, change.position)]
        assert change.timestamp == max(times), change


@given(several())
@modest
def test_tables_joined_at_once_have_the_changes_of_a_chain_of_joins(drawn: tuple[list[Table], list[How]]) -> None:
    tables, hows = drawn
    result, width = rows(batch(tables[0])), 1
    for table, how in zip(tables[1:], hows, strict=True):
        without = ",".join("-" * width)

        def beside(left: bytes | str | None, right: bytes | None = None, *, without: str = without, how: How = how) -> str:
            values = shown(left) if left is not None else without
            return values if how in ("semi", "anti") else f"{values},{shown(right)}"

        changes = key_join([result, rows(batch(table))], of_rows(beside, [how]), [how]).changes
        result, width = rows(changes), width + (how not in ("semi", "anti"))
    at_once = key_join([rows(batch(table)) for table in tables], of_rows(lambda *values: ",".join(map(shown, values)), hows), hows)
    assert [change[:3] + change[4:] for change in in_order(at_once.changes)] == [
        change[:3] + change[4:] for change in in_order(changes)
    ]


def shown(value: bytes | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else value.decode()


@given(several(), JOINERS, strategies.cuts())
@modest
def test_a_history_cut_anywhere_gives_the_same_changes_and_the_same_state(
    drawn: tuple[list[Table], list[How]], joiner: Any, cuts: list[int]
) -> None:
    tables, hows = drawn
    changes, state = join_in_steps(tables, hows, joiner, cuts)
    at_once, expected = join_in_steps(tables, hows, joiner, [])
    assert changes == at_once == join(tables, hows, joiner)
    assert [table.rows() for table in state.tables] == [table.rows() for table in expected.tables]
    assert state.frontier == expected.frontier


def test_a_step_joins_only_the_rows_of_keys_that_new_rows_have(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(tables: Any, *rest: Any, **options: Any) -> Any:
        seen.append(sum(map(len, tables)))
        return key_join(tables, *rest, **options)

    monkeypatch.setattr("beam_joins.kernels.key_join.key_join", counted)
    tables = [[Change(b"%d" % n, None, b"v", 1, 1) for n in range(1_000)] for _ in range(3)]
    tables[1].append(Change(b"7", b"v", b"w", 2, 2))
    changes, state = join_in_steps(tables, ["left", "inner"], text, [1])
    assert seen == [3_000, 4]  # of the key 7 three rows that there are, and the new one
    assert len(changes) == 1_001
    assert all(isinstance(each, Arrangement) for each in state.tables)


def test_two_changes_of_a_row_at_one_position_are_refused() -> None:
    row, again = Change(b"k", None, b"Y|0", 1, 1), Change(b"k", None, b"Y|1", 1, 1)
    for number in range(3):
        tables = [[row, again] if n == number else [row] for n in range(3)]
        with pytest.raises(ValueError, match=r"two changes of key b'k' at position 1"):
            join(tables, ["inner", "inner"], text)


def test_the_update_of_a_row_changes_nothing_in_a_semi_or_anti_join() -> None:
    left, right = [Change(b"k", None, b"Y|0", 1, 1)], [Change(b"k", None, b"a", 1, 2), Change(b"k", b"a", b"b", 1, 3)]
    for how, expected in (("semi", [2]), ("anti", [1, 2])):
        assert [change.position for change in join([left, right], [how], text)] == expected


def test_rows_of_the_first_table_without_another_are_counted_when_they_arrive() -> None:
    left = [Change(b"k", None, b"v", 1, 1), Change(b"k", b"v", b"w", 1, 4), Change(b"l", None, b"v", 1, 1)]
    right = [Change(b"k", None, b"a", 1, 3)]
    for how in ("inner", "left", "anti"):
        joined = key_join([rows(batch(table)) for table in (left, right)], of_rows(text, [how]), [how])
        assert joined.unmatched == 2
