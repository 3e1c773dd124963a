"""Several aggregates in one row: at every position they are those of the rows that are there, cut anywhere into steps."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from beam_joins.kernels.measures import Measure, MeasuresState, step
from beam_joins.keys.opaque import opaque_values
from tests.examples import examples
from tests.properties.strategies import cuts, split
from tests.reference.recomputed import rows_of_changes

POSITIONS = range(6)
MEASURES = {
    "rows": Measure("count"),
    "n": Measure("count", 0),
    "total": Measure("sum", 0),
    "least": Measure("min", 0),
    "most": Measure("max", 0),
    "mean": Measure("mean", 0),
    "kinds": Measure("count_distinct", 0),
}
modest = examples(60)


class Row(NamedTuple):
    """A version of a row: its group, its value, and the positions from which and up to which, without it, it is there."""

    group: str
    value: int | None
    begin: int
    end: int | None
    timestamp: int


def histories() -> st.SearchStrategy[list[Row]]:
    """Versions of rows, several of which may follow on each other in one group."""
    lives = st.tuples(
        st.sampled_from("ab"), st.none() | st.integers(-2, 3), st.integers(0, 5), st.none() | st.integers(1, 4), st.integers(0, 9)
    )
    return st.lists(lives, max_size=8).map(
        lambda drawn: [Row(g, v, begin, None if length is None else begin + length, at) for g, v, begin, length, at in drawn]
    )


TYPES: dict[str, tuple[pa.DataType | None, Callable[[int], Any]]] = {
    "whole numbers": (pa.int16(), lambda n: n),
    "fractions": (pa.float64(), lambda n: n * 0.1),
    "decimals": (pa.decimal128(9, 2), lambda n: Decimal(n) / 4),
    "objects": (None, lambda n: n * 10),
}


def members(rows: Sequence[Row], kind: str) -> pa.Table:
    arrow, number = TYPES[kind]
    told = [(row, row.begin, True, row.timestamp) for row in rows]
    told += [(row, row.end, False, row.timestamp + 1) for row in rows if row.end is not None]
    values = [None if row.value is None else number(row.value) for row, *_ in told]
    return pa.table(
        {
            "group": pa.array([row.group for row, *_ in told], pa.string()),
            "timestamp": pa.array([at for *_, at in told], pa.int64()),
            "position": pa.array([position for _, position, *_ in told], pa.int64()),
            "enters": pa.array([enters for _, _, enters, _ in told], pa.bool_()),
            "value 0": opaque_values(values) if arrow is None else pa.array(values, arrow),
        }
    )


def in_steps(rows: pa.Table, pieces: list[int], *, keeps_empty: bool) -> tuple[list[Change[Any, Any]], MeasuresState]:
    state, changes = MeasuresState(), list[Change[Any, Any]]()
    for piece in split(rows, pieces):
        batch, state = step(state, piece, MEASURES, keeps_empty=keeps_empty)
        changes += list(batch)
    return changes, state


def of_rows(rows: Sequence[Row], kind: str) -> dict[str, Any]:
    number = TYPES[kind][1]
    values = [number(row.value) for row in rows if row.value is not None]
    result: dict[str, Any] = {"rows": len(rows), "n": len(values), "total": None, "least": None, "most": None, "mean": None}
    if values:
        result |= {"least": min(values), "most": max(values), "total": sum(values), "mean": sum(values) / len(values)}
    if values and kind == "fractions":
        result["total"] = math.fsum(values)
        result["mean"] = result["total"] / len(values)
    if values and kind == "decimals":
        result["mean"] = (sum(values) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    if values and kind == "whole numbers":
        result["mean"] = float(Fraction(sum(values), len(values)))
    return {**result, "kinds": len(set(values))}


def contents(rows: Sequence[Row], kind: str, *, keeps_empty: bool) -> list[dict[str, Any]]:
    seen, expected = set[str](), []
    for position in range(-1, 11):
        groups: dict[str, list[Row]] = defaultdict(list, {group: [] for group in seen} if keeps_empty else {})
        for row in rows:
            if row.begin <= position and (row.end is None or position < row.end):
                groups[row.group].append(row)
        seen |= {*groups} | {row.group for row in rows if row.begin <= position}
        if keeps_empty:
            groups |= {group: groups[group] for group in seen}
        expected.append({group: of_rows(members, kind) for group, members in groups.items()})
    return expected


@pytest.mark.parametrize("keeps_empty", [True, False])
@pytest.mark.parametrize("kind", TYPES)
@given(rows=histories(), pieces=cuts(range(10)))
@modest
def test_the_row_of_a_group_has_the_aggregates_of_the_rows_there_however_the_history_is_cut(
    kind: str, keeps_empty: bool, rows: list[Row], pieces: list[int]
) -> None:
    table = members(rows, kind)
    changes, state = in_steps(table, pieces, keeps_empty=keeps_empty)
    for position, expected in zip(range(-1, 11), contents(rows, kind, keeps_empty=keeps_empty), strict=True):
        assert rows_of_changes(changes, position) == expected, position
    at_once, at_end = in_steps(table, [], keeps_empty=keeps_empty)
    assert sorted(map(repr, changes)) == sorted(map(repr, at_once))
    for one, other in zip(state, at_end, strict=True):
        assert one.rows() == other.rows()
