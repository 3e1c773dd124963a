"""Truncates: they delete what is there, in one step and in any number of them."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from beam_joins.elements.content import Emit
from beam_joins.tables.batch import ChangeBatch
from beam_joins.tables.changelog import ChangelogState, step, upsert
from tests.beam_joins.kernels import in_order, with_core
from tests.examples import examples
from tests.properties import strategies
from tests.properties.strategies import POSITIONS, rows_of
from tests.reference.record import Record

BETWEEN = [2 * position + 1 for position in (min(POSITIONS) - 1, *POSITIONS)]
TRUNCATES = st.lists(st.sampled_from([*BETWEEN, *(2 * position for position in POSITIONS)]), max_size=3, unique=True)


def spread(records: Sequence[Record]) -> list[Record]:
    """The records with room for truncates between them."""
    return [record._replace(position=2 * record.position) for record in records]


def truncates_at(positions: Sequence[int]) -> pa.Table:
    return pa.table({"timestamp": pa.array(positions, pa.int64()), "position": pa.array(positions, pa.int64())})


def naive(records: list[Record], truncates: Sequence[int], emit: Emit) -> list[Change[Any, Any]]:
    """The changes of the records, and of a delete for each row that is there at a truncate."""
    all_records = list(records)
    for position in sorted(truncates):
        last = {
            change.key: change.new for change in in_order(with_core([r for r in all_records if r.position < position], "updates")[0])
        }
        stay = {record.key for record in records if record.position == position and not record.within}
        all_records += [Record(key, None, position, position) for key, value in last.items() if value is not None and key not in stay]
    return in_order(with_core(all_records, emit)[0])


@given(strategies.left_changelogs(duplicates=True), TRUNCATES, strategies.EMIT)
@examples(150)
def test_a_truncate_deletes_the_rows_that_are_there(records: list[Record], truncates: list[int], emit: Emit) -> None:
    records = spread(records)
    assert in_order(upsert(rows_of(records), emit, truncates=truncates_at(truncates))[0]) == naive(records, truncates, emit)


@given(
    strategies.left_changelogs(duplicates=True),
    TRUNCATES,
    strategies.cuts([2 * position + 1 for position in POSITIONS]),
    st.sampled_from(["updates", "changes", "records"]),
)
@examples(150)
def test_a_history_with_truncates_gives_the_same_wherever_it_is_cut(
    records: list[Record], truncates: list[int], cuts: list[int], emit: Emit
) -> None:
    records, state = spread(records), ChangelogState()
    changes: list[Change[Any, Any]] = []
    bounds = [-(1 << 60), *cuts, 1 << 60]
    for low, high in pairwise(bounds):
        rows = rows_of([record for record in records if low < record.position <= high])
        some = truncates_at([position for position in truncates if low < position <= high])
        batch, state = stepped(state, rows, some, emit)
        changes += list(batch)
    assert in_order(changes) == naive(records, truncates, emit)


def stepped(state: ChangelogState, rows: pa.Table, truncates: pa.Table, emit: Emit = "updates") -> tuple[ChangeBatch, ChangelogState]:
    batch, _, after = step(state, rows, emit, truncates=truncates)
    return batch, after


@pytest.mark.slow
@given(strategies.left_changelogs(), TRUNCATES, st.randoms(use_true_random=False))
@examples(300)
def test_the_rows_at_the_end_do_not_depend_on_when_records_and_truncates_come(
    records: list[Record], truncates: list[int], random: Random
) -> None:
    records, state = spread(records), ChangelogState()
    when = {given: random.randrange(4) for given in [*records, *truncates]}
    table: dict[bytes, Any] = {}
    for now in range(4):
        rows = rows_of([record for record in records if when[record] == now])
        batch, state = stepped(state, rows, truncates_at([position for position in truncates if when[position] == now]))
        for change in in_order(batch):
            assert table.get(change.key) == change.old
            table[change.key] = change.new
    expected = {change.key: change.new for change in naive(records, truncates, "updates")}
    assert {key: new for key, new in table.items() if new is not None} == {
        key: new for key, new in expected.items() if new is not None
    }


def test_within_a_transaction_the_order_decides_what_a_truncate_finds() -> None:
    records = [Record(b"a", b"1", 5, 5, within=b"\x01"), Record(b"b", b"2", 5, 5, within=b"\x03"), Record(b"c", b"3", 1, 1)]
    truncate = pa.table({"timestamp": [5], "position": [5], "within": pa.array([b"\x02"])})
    changes = in_order(upsert(rows_of(records), "updates", truncates=truncate)[0])
    assert changes == [Change(b"b", None, b"2", 5, 5), Change(b"c", None, b"3", 1, 1), Change(b"c", b"3", None, 5, 5)]


def test_a_row_at_the_place_of_a_truncate_stays_also_one_that_comes_late() -> None:
    old, new = Record(b"a", b"1", 1, 1), Record(b"a", b"2", 5, 5)
    assert in_order(upsert(rows_of([old, new]), "updates", truncates=truncates_at([5]))[0])[-1].new == b"2"
    _, state = stepped(ChangelogState(), rows_of([old]), truncates_at([]))
    _, state = stepped(state, rows_of([]), truncates_at([5]))
    changes, dropped, _ = step(state, rows_of([new]), "updates")
    assert [(change.key, change.old, change.new, change.position) for change in changes] == [(b"a", None, b"2", 6)]
    assert dropped["reason"].to_pylist() == ["late_applied"]


def test_a_truncate_that_comes_late_deletes_what_is_older() -> None:
    _, _, state = step(ChangelogState(), rows_of([Record(b"a", b"1", 1, 1), Record(b"b", b"2", 9, 9)]), "updates")
    changes, dropped, _ = step(state, rows_of([]), "updates", truncates=truncates_at([5]))
    assert [(change.key, change.new, change.position) for change in changes] == [(b"a", None, 10)]
    assert dropped["reason"].to_pylist() == ["late_applied"]


def test_a_truncate_that_comes_late_deletes_what_is_older_whatever_deletes_are_forgotten() -> None:
    _, _, first = step(ChangelogState(), rows_of([Record(b"a", b"1", 1, 1), Record(b"b", b"2", 9, 9)]), "updates")
    changes, dropped, state = step(first, rows_of([]), "updates", horizon=7, truncates=truncates_at([5]))
    assert [(change.key, change.new, change.position) for change in changes] == [(b"a", None, 10)]
    assert (dropped["reason"].to_pylist(), dropped["key"].to_pylist()) == (["late_applied"], [b"a"])
    changes, _, _ = step(state, rows_of([]), "updates", horizon=7, truncates=truncates_at([11]))
    assert [(change.key, change.new, change.position) for change in changes] == [(b"b", None, 11)]
