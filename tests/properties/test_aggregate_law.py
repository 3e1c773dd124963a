"""The law of aggregates: at every position that of the content, computed anew; and the same changes for any
order of arrival.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change, Dropped
from beam_joins.elements.windowed import Window
from beam_joins.functions.user_functions import Functions
from beam_joins.kernels.aggregate import AggregateState, members, step
from beam_joins.kernels.fold import Fold
from beam_joins.keys.opaque import opaque_keys, python_values
from beam_joins.transforms.engine.stages.incoming_tables import batch_of
from tests.properties import strategies
from tests.reference.aggregate import ADD, SUBTRACT, GroupAggregate
from tests.reference.recomputed import fk_of, rows_of_changes
from tests.reference.record import Record
from tests.reference.windowed_aggregate import WindowedAggregate

POSITIONS = range(-1, 7)


def group_of(value: bytes) -> str | None:
    return fk_of(value.decode())


def with_core(table: Iterable[Change[bytes, bytes]]) -> list[Change[str, tuple[int, int]]]:
    """Count and sum of each group through the readable cores, one a group."""
    members: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for key, old, new, timestamp, position in table:
        for value, kind in ((old, SUBTRACT), (new, ADD)):
            group = None if value is None else group_of(value)
            if group is not None:
                members[group, position].append(Record(key, value, timestamp, position, kind))
    groups: dict[str, GroupAggregate[tuple[int, int]]] = defaultdict(
        lambda: GroupAggregate(
            lambda: (0, 0),
            lambda aggregate, value: (aggregate[0] + 1, aggregate[1] + value[-1]),
            lambda aggregate, value: (aggregate[0] - 1, aggregate[1] - value[-1]),
        )
    )
    return [
        Change(group, *change[1:])
        for (group, position), records in sorted(members.items(), key=lambda item: item[0][::-1])
        for change in groups[group].advance(position, records)
    ]


SUMS = Fold(
    Functions("sums"),
    lambda: (0, 0),
    lambda aggregate, value: (aggregate[0] + 1, aggregate[1] + value[-1]),
    lambda aggregate, value: (aggregate[0] - 1, aggregate[1] - value[-1]),
)


def members_of(table: Sequence[Change[bytes, bytes]]) -> pa.Table:
    """What enters and leaves the groups."""
    batch = batch_of(table)
    groups = opaque_keys(None if value is None else group_of(value) for value in python_values(batch.values))
    return members(batch, groups, {"value": batch.values})


def with_kernel(table: Sequence[Change[bytes, bytes]]) -> list[Change[str, tuple[int, int]]]:
    """The same in columns."""
    return list(step(AggregateState(), members_of(table), SUMS)[0])


def naive(rows: dict[bytes, bytes]) -> dict[str, tuple[int, int]]:
    """Count and sum of each group that has a row."""
    sums: dict[str, tuple[int, int]] = {}
    for value in rows.values():
        group = group_of(value)
        if group is not None:
            count, total = sums.get(group, (0, 0))
            sums[group] = count + 1, total + value[-1]
    return sums


Aggregated = Callable[[Sequence[Change[bytes, bytes]]], list[Change[str, tuple[int, int]]]]
both = pytest.mark.parametrize("aggregated", [with_core, with_kernel])


@both
@given(strategies.left_tables())
def test_the_aggregate_is_that_of_the_content_at_every_position(aggregated: Aggregated, table: list[Change[bytes, bytes]]) -> None:
    changes = aggregated(table)
    for position in POSITIONS:
        left = {group: row for group, row in rows_of_changes(changes, position).items() if row[0]}
        assert left == naive(rows_of_changes(table, position))


@both
@given(strategies.left_tables())
def test_a_group_keeps_its_row_from_its_first_member_on(aggregated: Aggregated, table: list[Change[bytes, bytes]]) -> None:
    changes = aggregated(table)
    ever: set[str] = set()
    for position in POSITIONS:
        ever |= naive(rows_of_changes(table, position)).keys()
        assert rows_of_changes(changes, position).keys() == ever


@both
@given(st.data(), strategies.left_tables())
def test_an_aggregate_does_not_depend_on_the_order_of_arrival(
    aggregated: Aggregated, data: st.DataObject, table: list[Change[bytes, bytes]]
) -> None:
    assert Counter(aggregated(data.draw(st.permutations(table)))) == Counter(aggregated(table))


@given(strategies.left_tables())
def test_the_kernel_gives_the_changes_of_the_readable_core(table: list[Change[bytes, bytes]]) -> None:
    assert Counter(with_kernel(table)) == Counter(with_core(table))


views = st.lists(st.builds(Record, st.sampled_from([b"a", b"b"]), st.none() | st.just(b"v"), st.integers(-12, 25), st.integers(0, 5)))
graces = st.none() | st.integers(0, 8)


def windows(time: int) -> list[Window]:
    """Hopping windows of 10, every 5."""
    return [Window(start, start + 10) for start in (time // 5 * 5 - 5, time // 5 * 5)]


def counted(records: Iterable[Record], grace: int | None) -> list[Any]:
    """A windowed count through the core, one core a source key."""
    together: dict[tuple[int, bytes], list[Record]] = defaultdict(list)
    for record in records:
        together[record.position, record.key].append(record)
    cores: dict[bytes, WindowedAggregate[int]] = defaultdict(
        lambda: WindowedAggregate(windows, int, lambda count, value: count + 1, grace)
    )
    return [out for (position, key), events in sorted(together.items()) for out in cores[key].advance(position, events)]


def naive_counts(records: Iterable[Record], position: int, grace: int | None) -> dict[Any, int]:
    """How many records up to a position fall into each window, without those that came after its end and
    grace.
    """
    kept: Counter[Any] = Counter()
    for record in records:
        if record.position <= position:
            before = [r.timestamp for r in records if r.key == record.key and r.position < record.position]
            clock = max([*before, record.timestamp])
            kept.update((record.key, w) for w in windows(record.timestamp) if grace is None or w.end > clock - grace)
    return dict(kept)


@given(views, graces)
def test_a_windowed_count_is_that_of_the_records_at_every_position(records: list[Record], grace: int | None) -> None:
    changes = [output for output in counted(records, grace) if isinstance(output, Change)]
    for position in POSITIONS:
        assert rows_of_changes(changes, position) == naive_counts(records, position, grace)


@given(views, graces)
def test_every_record_is_counted_or_late_in_every_window_that_it_falls_into(records: list[Record], grace: int | None) -> None:
    outputs = counted(records, grace)
    late = sum(isinstance(output, Dropped) for output in outputs)
    assert sum(naive_counts(records, 9, grace).values()) + late == 2 * len(records)
    assert late == 0 or grace is not None


@given(st.data(), views, graces)
def test_a_windowed_count_does_not_depend_on_the_order_of_arrival(
    data: st.DataObject, records: list[Record], grace: int | None
) -> None:
    assert Counter(counted(data.draw(st.permutations(records)), grace)) == Counter(counted(records, grace))


@given(st.lists(st.builds(Record, st.just(b"a"), st.just(b"v"), st.integers(0, 25), st.integers(0, 5))))
def test_a_result_has_the_largest_time_of_the_records_that_it_counts(records: list[Record]) -> None:
    for change in counted(records, None):
        window = change.key.window
        assert change.timestamp == max(
            r.timestamp for r in records if r.position <= change.position and window.start <= r.timestamp < window.end
        )
