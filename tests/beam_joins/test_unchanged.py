"""Records that leave out what has not changed: each has the value of the row before, however the changelog
comes.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.keys.opaque import opaque_values, python_values
from beam_joins.tables.changelog import ChangelogState, step, upsert
from beam_joins.tables.unchanged import UNCHANGED
from tests.examples import examples

COLUMNS = "abc"
TYPED = pa.struct([(name, pa.int64()) for name in COLUMNS])


class Update(NamedTuple):
    """A record with a value for some columns, none for a delete; the others it leaves out."""

    key: str
    position: int
    within: bytes
    value: tuple[tuple[str, int], ...] | None

    @property
    def left_out(self) -> list[str]:
        return [] if self.value is None else [name for name in COLUMNS if name not in dict(self.value)]

    @property
    def place(self) -> tuple[int, bytes]:
        return self.position, self.within


VALUES = st.one_of(
    st.none(),
    st.tuples(*(st.integers(0, 2) for _ in COLUMNS)).map(lambda numbers: tuple(zip(COLUMNS, numbers, strict=True))),
    st.dictionaries(st.sampled_from(COLUMNS), st.integers(0, 2)).map(lambda value: tuple(sorted(value.items()))),
)
HISTORIES = st.lists(
    st.builds(Update, st.sampled_from("xy"), st.integers(0, 6), st.sampled_from([b"", b"\1", b"\2"]), VALUES),
    max_size=14,
    unique_by=lambda record: (record.key, record.place),
)


def table_of(records: Iterable[Update], typed: bool) -> pa.Table:
    records = list(records)
    values = [None if record.value is None else dict(record.value) for record in records]
    return pa.table(
        {
            "key": pa.array([record.key for record in records], pa.string()),
            "value": pa.array(values, TYPED) if typed else opaque_values(values),
            "timestamp": pa.array([record.position for record in records], pa.int64()),
            "position": pa.array([record.position for record in records], pa.int64()),
            "within": pa.array([record.within for record in records], pa.binary()),
            UNCHANGED: pa.array([record.left_out or None for record in records], pa.list_(pa.string())),
        }
    )


def replayed(records: list[Update], before: dict[str, Any] | None = None) -> tuple[dict[str, list[Any]], list[Update]]:
    """The whole values of each key in their order, with their places, and the records that no earlier row
    completes.
    """
    rows: dict[str, list[Any]] = defaultdict(list)
    lost = []
    for record in sorted(records, key=lambda record: record.place):
        earlier = rows[record.key][-1][1] if rows[record.key] else (before or {}).get(record.key)
        if record.left_out and earlier is None:
            lost.append(record)
        else:
            value = (
                None if record.value is None else {name: dict(record.value).get(name, (earlier or {}).get(name)) for name in COLUMNS}
            )
            rows[record.key].append((record.place, value))
    return rows, lost


def changes_of(batch: Any) -> list[tuple[Any, Any, int]]:
    return sorted(
        zip(python_values(batch.key), map(str, map(in_order, python_values(batch.new))), batch.position.to_pylist(), strict=True)
    )


def in_order(value: Any) -> Any:
    return None if value is None else dict(sorted(value.items()))


def expected_of(records: list[Update]) -> list[tuple[Any, Any, int]]:
    """With emit="records": the last value of each key at each position."""
    rows, _ = replayed(records)
    last = {(key, place[0]): value for key, history in rows.items() for place, value in history}
    return sorted((key, str(in_order(value)), position) for (key, position), value in last.items())


@pytest.mark.parametrize("typed", [True, False])
@given(st.data(), HISTORIES)
@examples(100)
def test_what_is_left_out_is_as_in_the_row_before_in_any_order(typed: bool, data: st.DataObject, records: list[Update]) -> None:
    batch, dropped = upsert(table_of(data.draw(st.permutations(records)), typed), "records")
    assert changes_of(batch) == expected_of(records)
    _, lost = replayed(records)
    unknown = [row for row in dropped.to_pylist() if row["reason"] == "no_earlier_row"]
    assert sorted((row["key"], row["position"], row[UNCHANGED]) for row in unknown) == sorted(
        (record.key, record.position, record.left_out) for record in lost
    )


@pytest.mark.parametrize("typed", [True, False])
@given(HISTORIES, st.sets(st.integers(0, 6)))
@examples(100)
def test_a_changelog_in_several_steps_has_the_same_rows(typed: bool, records: list[Update], cuts: set[int]) -> None:
    state, made = ChangelogState(), []
    for begin, end in pairwise([-1, *sorted(cuts), 7]):
        rows = table_of([record for record in records if begin < record.position <= end], typed)
        batch, _, state = step(state, rows, "records")
        made += changes_of(batch)
    assert sorted(made) == expected_of(records)


@pytest.mark.parametrize("typed", [True, False])
@given(HISTORIES, HISTORIES)
@examples(100)
def test_a_late_record_is_completed_by_the_rows_before_it(typed: bool, first: list[Update], later: list[Update]) -> None:
    later = [record for record in later if (record.key, record.place) not in {(one.key, one.place) for one in first}]
    _, _, state = step(ChangelogState(), table_of(first, typed), "records")
    frontier = max((record.position for record in first), default=None)
    rows, _ = replayed(first)
    reference = {key: history[-1] for key, history in rows.items() if history}
    late = [record for record in later if frontier is not None and record.position <= frontier]
    newer = [record for record in late if record.key not in reference or record.place > reference[record.key][0]]
    applied, lost = replayed(newer, {key: value for key, (_, value) in reference.items()})
    final = {key: value for key, (_, value) in reference.items()} | {
        key: history[-1][1] for key, history in applied.items() if history
    }
    in_time, lost_in_time = replayed([record for record in later if record not in late], final)
    final |= {key: history[-1][1] for key, history in in_time.items() if history}
    _, dropped, after = step(state, table_of(later, typed), "records")
    table = after.rows.table()
    here = (
        {}
        if table is None
        else dict(zip(python_values(table["key"].combine_chunks()), python_values(table["value"].combine_chunks()), strict=True))
    )
    assert here == {key: value for key, value in final.items() if value is not None}
    reasons = [row["reason"] for row in dropped.to_pylist()]
    assert reasons.count("no_earlier_row") == len(lost_in_time) + len(lost)


def test_columns_that_the_value_does_not_have_need_no_earlier_row() -> None:
    rows = table_of([Update("x", 1, b"", (("a", 1), ("b", 2), ("c", 3)))], typed=True)
    rows = rows.set_column(rows.schema.get_field_index(UNCHANGED), UNCHANGED, pa.array([["picture"]], pa.list_(pa.string())))
    batch, dropped = upsert(rows, "updates")
    assert batch.new.to_pylist() == [{"a": 1, "b": 2, "c": 3}]
    assert not len(dropped)
