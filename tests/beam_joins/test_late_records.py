"""Late records of a table: the step of a changelog against one that takes record by record."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from beam_joins.columns.positions import order_bytes
from beam_joins.elements.content import Emit
from beam_joins.tables.changelog import ChangelogState, step
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
        self._forgotten = -1
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
        if horizon is not None:
            self._forget(horizon)

    @property
    def _after(self) -> int:
        assert self.frontier is not None
        return self.frontier + 1

    def _applied(self, key: bytes, late: list[Record], in_time: list[int], horizon: int | None) -> Record | None:
        if self.frontier is None or self._after in in_time:
            return None
        last = self._last.get(key)
        is_present, forgotten = last is not None and last.value is not None, self._forgotten
        if last is not None and last.value is None and horizon is not None and last.timestamp < horizon:
            forgotten, last = max(forgotten, last.position), None
        able = [each for each in late if horizon is None or is_present or each.timestamp >= horizon or each.position > forgotten]
        newest = max(able, key=_place, default=None)
        if newest is None or (last is not None and (newest.position, newest.within) <= (last.position, last.within)):
            return None
        return newest

    def _forget(self, horizon: int) -> None:
        for key, last in list(self._last.items()):
            if last.value is None and last.timestamp < horizon:
                self._forgotten = max(self._forgotten, last.position)
                del self._last[key]

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


FAR, NOW = 1 << 55, 1_772_352_000_000_000


def test_a_record_far_ahead_in_time_keeps_no_later_record_from_the_table() -> None:
    _, _, state = step(ChangelogState(), rows_of([Record(b"a", b"1", NOW, NOW), Record(b"b", b"2", FAR, FAR)]), "updates")
    late = [Record(b"a", b"3", NOW + 5, NOW + 5), Record(b"c", b"4", NOW + 6, NOW + 6)]
    batch, dropped, _ = step(state, rows_of(late), "updates", horizon=FAR - 1)
    assert sorted((change.key, change.new) for change in batch) == [(b"a", b"3"), (b"c", b"4")]
    assert dropped["reason"].to_pylist() == ["late_applied", "late_applied"]


def test_a_late_record_is_stale_behind_a_forgotten_delete_and_not_before_it() -> None:
    records = [Record(b"a", b"1", NOW, NOW), Record(b"a", None, NOW + 4, NOW + 4), Record(b"b", b"2", FAR, FAR)]
    _, _, state = step(ChangelogState(), rows_of(records), "updates")
    for number in range(2):  # the delete is forgotten in the first step, and then is of all keys
        late = [Record(key, b"9", NOW + at, NOW + at) for key, at in ((b"a", 4), (b"c", 3), (b"d", 5)) if number or key != b"c"]
        batch, dropped, after = step(state, rows_of(late), "updates", horizon=FAR - 1)
        assert [change.key for change in batch] == [b"d"]
        assert dropped["key"].to_pylist() == ([b"a", b"c", b"d"] if number else [b"a", b"d"])
        _, _, state = step(state, rows_of([]), "updates", horizon=FAR - 1)
        assert state.forgotten == after.forgotten == NOW + 4


def test_cuts_of_a_history_behind_a_record_far_ahead_give_the_rows_of_one_step() -> None:
    records = [Record(b"f", b"0", FAR, FAR)]
    for n in range(40):
        key = b"abcde"[n * n % 5 : n * n % 5 + 1]
        records.append(Record(key, None if n % 4 == 3 else b"%d" % n, NOW + n, NOW + n))
    whole = {record.key: record.value for record in sorted(records, key=lambda record: record.position)}
    for size in (1, 2, 3, 7, 41):
        state, rows = ChangelogState(), dict[bytes, bytes | None]()
        for first in range(0, len(records), size):
            horizon = FAR - 1 if first else None
            batch, _, state = step(state, rows_of(records[first : first + size]), "updates", horizon=horizon)
            rows |= {change.key: change.new for change in sorted(batch, key=lambda change: change.position)}
        assert {key: row for key, row in rows.items() if row} == {key: row for key, row in whole.items() if row}
