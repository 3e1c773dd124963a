"""Late records of a table: the step of a changelog against one that takes record by record."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from beam_joins.changelog import ChangelogState, step
from beam_joins.content import Emit
from beam_joins.positions import order_bytes
from tests.examples import examples
from tests.properties import strategies
from tests.properties.strategies import rows_of
from tests.reference.record import Record
from tests.reference.upsert_table import UpsertTable

Out = Change[bytes, bytes] | tuple[str, Record]


class LateTable:
    """A table of a raw changelog in steps, one key and one record after the other."""

    def __init__(self, emit: Emit) -> None:
        self._emit: Emit = emit
        self._rows: dict[bytes, UpsertTable] = {}
        self._last: dict[bytes, Record] = {}
        self.frontier: int | None = None

    def step(self, records: list[Record], horizon: int | None) -> Iterator[Out]:
        """The changes that records make, and the late ones with their reasons."""
        behind = [record for record in records if self.frontier is not None and record.position <= self.frontier]
        reached = [record.position for record in records]
        for key in sorted({record.key for record in records}):
            in_time = sorted({record.position for record in records if record.key == key and record not in behind})
            row = self._rows.setdefault(key, UpsertTable(self._emit))
            late = [record for record in behind if record.key == key]
            applied = self._applied(key, late, in_time, horizon)
            for record in late:
                yield ("late_applied" if record is applied else "late_stale"), record
            if applied is not None:
                reached.append(self._after)
                yield from self._changed(row, self._after, [applied])
            for position in in_time:
                yield from self._changed(row, position, [r for r in records if r.key == key and r.position == position])
        self.frontier = max([*reached, *([] if self.frontier is None else [self.frontier])], default=None)

    @property
    def _after(self) -> int:
        assert self.frontier is not None
        return self.frontier + 1

    def _applied(self, key: bytes, late: list[Record], in_time: list[int], horizon: int | None) -> Record | None:
        if self.frontier is None or self._after in in_time:
            return None
        last = self._last.get(key)
        is_present = last is not None and last.value is not None
        able = [record for record in late if horizon is None or is_present or record.timestamp >= horizon]
        if last is not None and last.value is None and horizon is not None and last.timestamp < horizon:
            last = None
        newest = max(able, key=_place, default=None)
        if newest is None or (last is not None and (newest.position, newest.within) <= (last.position, last.within)):
            return None
        return newest

    def _changed(self, row: UpsertTable, position: int, records: list[Record]) -> Iterator[Out]:
        self._last[records[0].key] = max(records, key=_place)
        for out in row.advance(position, records):
            if isinstance(out, Change):
                yield out


def _place(record: Record) -> tuple[Any, ...]:
    return record.position, record.within, record.timestamp, record.tie, record.value is not None, record.value or b""


def records(positions: st.SearchStrategy[int]) -> st.SearchStrategy[list[Record]]:
    within = st.sampled_from([b"", order_bytes([1]), order_bytes([2])])
    record = st.builds(
        lambda key, value, timestamp, position, within: Record(key, value, timestamp, position, within=within),
        st.sampled_from([b"A", b"B"]),
        st.sampled_from([None, b"x", b"y"]),
        st.integers(0, 9),
        positions,
        within,
    )
    return st.lists(record, max_size=6, unique_by=_place)


def _late(dropped: Iterable[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    names = ("reason", "key", "value", "timestamp", "position")
    return Counter(tuple(row[name] for name in names) for row in dropped if row["reason"].startswith("late"))


@pytest.mark.slow
@given(st.lists(st.tuples(records(st.integers(0, 12)), st.none() | st.integers(0, 9)), max_size=4), strategies.EMIT)
@examples(400)
def test_late_records_are_applied_or_reported_as_one_by_one(steps: list[tuple[list[Record], int | None]], emit: Emit) -> None:
    table, state, reached = LateTable(emit), ChangelogState(), 0
    for given_records, horizon in steps:
        until = reached if horizon is None else (reached := max(reached, horizon))
        out = list(table.step(given_records, until))
        batch, dropped, state = step(state, rows_of(given_records), emit, horizon=until)
        changes = [each for each in out if isinstance(each, Change)]
        assert sorted(batch, key=_by) == sorted(changes, key=_by)
        reported = [
            (reason, record.key, record.value, record.timestamp, record.position)
            for reason, record in (each for each in out if not isinstance(each, Change))
        ]
        assert _late(dropped.to_pylist()) == Counter(reported)
        assert state.frontier == table.frontier


def _by(change: Change[bytes, bytes]) -> tuple[bytes, int]:
    return change.key, change.position


def test_a_row_that_is_present_takes_a_newer_record_from_before_the_remembered_deletes() -> None:
    far, now = 1 << 55, 1_772_352_000_000_000
    records = [Record(b"a", b"1", now, now), Record(b"b", b"2", far, far)]
    _, _, state = step(ChangelogState(), rows_of(records), "updates", horizon=None)
    late = [Record(b"a", b"3", now + 5, now + 5), Record(b"c", b"4", now + 6, now + 6)]
    batch, dropped, _ = step(state, rows_of(late), "updates", horizon=far - 1)
    assert [(change.key, change.new) for change in batch] == [(b"a", b"3")]
    assert sorted(dropped["reason"].to_pylist()) == ["late_applied", "late_stale"]
