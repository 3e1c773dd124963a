"""The table of a raw changelog, in steps."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from beam_joins import Change
from beam_joins.columns.sorting import record_order
from beam_joins.elements.content import Emit
from beam_joins.tables.changelog import ChangelogState, step, upsert
from tests.examples import examples
from tests.properties import strategies
from tests.properties.strategies import rows_of, split
from tests.reference.record import Record


def in_steps(records: list[Record], emit: Emit, cuts: list[int]) -> tuple[list[Change[Any, Any]], list[Any], ChangelogState]:
    changes, dropped, state = [], [], ChangelogState()
    for rows in split(rows_of(records), cuts):
        batch, lost, state = step(state, rows, emit)
        changes += list(batch)
        dropped += lost.to_pylist()
    return sorted(changes, key=lambda change: (change.key, change.position)), dropped, state


@given(strategies.left_changelogs(duplicates=True), strategies.EMIT, strategies.cuts())
@examples(150)
def test_a_changelog_cut_anywhere_gives_the_same_changes_and_the_same_state(
    records: list[Record], emit: Emit, cuts: list[int]
) -> None:
    changes, dropped, state = in_steps(records, emit, cuts)
    at_once, lost = upsert(rows_of(records), emit)
    assert changes == sorted(at_once, key=lambda change: (change.key, change.position))
    assert Counter(map(repr, dropped)) == Counter(map(repr, lost.to_pylist()))
    assert state.rows.rows() == in_steps(records, emit, [])[2].rows.rows()


def test_a_step_takes_only_the_rows_that_it_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(rows: pa.Table, *rest: Any) -> Any:
        seen.append(len(rows))
        return record_order(rows, *rest)

    monkeypatch.setattr("beam_joins.tables.changelog.record_order", counted)
    many = [Record(b"%d" % n, b"a", 1, 1) for n in range(1_000)]
    changes, _, state = in_steps([*many, Record(b"7", b"b", 2, 2), Record(b"8", None, 2, 2)], "updates", [1])
    assert seen == [1_000, 4]
    assert len(changes) == 1_002
    assert len(state.rows.rows()) == 999


def test_the_last_changes_alone_have_no_steps() -> None:
    with pytest.raises(ValueError, match="emit='latest' gives the last change of a whole changelog"):
        step(ChangelogState(), rows_of([]), "latest")
