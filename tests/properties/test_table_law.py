"""The law of tables from changelogs, filtered and mapped tables: contents at every position, recomputed from
scratch.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change, Dropped
from beam_joins.elements.content import Emit
from beam_joins.kernels.filter import filter_upsert
from tests.properties import strategies
from tests.reference.filter import filter_change, map_change
from tests.reference.operators import changes_of, upsert_table
from tests.reference.recomputed import rows_of_changes, rows_of_records
from tests.reference.record import Record

POSITIONS = range(-1, 7)
predicates: st.SearchStrategy[Callable[[bytes, bytes], bool]] = st.builds(
    lambda kept: lambda key, value: (key, value[-1:]) in kept,
    st.sets(st.tuples(st.sampled_from(strategies.PRIMARY_KEYS), st.sampled_from([b"0", b"1"]))),
)


@given(strategies.left_changelogs(duplicates=True), strategies.EMIT)
def test_the_content_of_a_table_is_that_of_its_changelog_at_every_position(records: list[Record], emit: Emit) -> None:
    changes = changes_of(upsert_table(records, emit))
    for position in POSITIONS:
        assert rows_of_changes(changes, position) == rows_of_records(records, position)


@given(st.data(), strategies.left_changelogs(duplicates=True), strategies.EMIT)
def test_a_table_does_not_depend_on_the_order_of_its_changelog(data: st.DataObject, records: list[Record], emit: Emit) -> None:
    shuffled = data.draw(st.permutations(records))
    assert Counter(upsert_table(records, emit)) == Counter(upsert_table(shuffled, emit))


@given(strategies.left_changelogs(duplicates=True), strategies.EMIT)
def test_every_record_of_a_changelog_is_a_change_or_dropped_or_says_nothing_new(records: list[Record], emit: Emit) -> None:
    outputs = upsert_table(records, emit)
    places = {(record.key, record.position) for record in records}
    dropped = [output for output in outputs if isinstance(output, Dropped)]
    assert len(dropped) == len(records) - len({(record.key, record.position, record.within) for record in records})
    repeated = [output.record for output in dropped if output.reason == "duplicate_position"]
    assert all(records.count(record) > 1 or _same_but_for_tie(record, records) for record in repeated)
    if emit == "records":
        assert {(change.key, change.position) for change in changes_of(outputs)} == places
    elif emit == "updates":
        assert all(change.old is not None or change.new is not None for change in changes_of(outputs))
    else:
        assert all(change.old != change.new for change in changes_of(outputs))


def _same_but_for_tie(record: Record, records: list[Record]) -> bool:
    return sum(other._replace(tie=record.tie) == record for other in records) > 1


@given(strategies.left_tables(), predicates)
def test_the_content_of_a_filtered_table_is_the_filtered_content_at_every_position(
    table: list[Change[bytes, bytes]], predicate: Callable[[bytes, bytes], bool]
) -> None:
    filtered = [change for change in (filter_change(predicate, change) for change in table) if change is not None]
    assert all(change.old is not None or change.new is not None for change in filtered)
    for position in POSITIONS:
        rows = rows_of_changes(table, position)
        assert rows_of_changes(filtered, position) == {key: value for key, value in rows.items() if predicate(key, value)}


@given(strategies.left_changelogs(), predicates)
def test_a_filtered_raw_changelog_stands_for_the_filtered_table(
    records: list[Record], predicate: Callable[[bytes, bytes], bool]
) -> None:
    filtered = [record._replace(value=filter_upsert(predicate, record.key, record.value)[1]) for record in records]
    for position in POSITIONS:
        rows = rows_of_records(records, position)
        assert rows_of_records(filtered, position) == {key: value for key, value in rows.items() if predicate(key, value)}


@given(strategies.left_tables())
def test_the_content_of_a_mapped_table_is_the_mapped_content_at_every_position(table: list[Change[bytes, bytes]]) -> None:
    def fn(key: bytes, value: bytes) -> int:
        return len(key) + value[-1]

    mapped = [map_change(fn, change) for change in table]
    for position in POSITIONS:
        rows = rows_of_changes(table, position)
        assert rows_of_changes(mapped, position) == {key: fn(key, value) for key, value in rows.items()}


def test_the_reference_refuses_changes_that_are_no_table() -> None:
    twice = [Change("k", None, 1, 0, 5), Change("k", 1, 2, 0, 5)]
    wrong_old = [Change("k", None, 1, 0, 5), Change("k", 3, 2, 0, 6)]
    for changes in (twice, wrong_old):
        with pytest.raises(AssertionError):
            rows_of_changes(changes, 9)
