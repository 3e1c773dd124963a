"""The law of the joins on columns: at every position the content of the join is the join of the contents."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from tests.beam_joins.kernels import changes_in, foreign_key_join, parts, rows_of, table_join, table_of
from tests.examples import examples
from tests.properties import strategies
from tests.properties.test_foreign_key_join_law import at, fk_of, pair, picky_pair
from tests.reference import recomputed
from tests.reference.foreign_key import How
from tests.reference.lookup_join import LookupHow
from tests.reference.recomputed import rows_of_changes, rows_of_records
from tests.reference.record import Record

Records = list[Record]
POSITIONS = range(-1, 7)
BYTES = pa.binary(), pa.binary()
HOWS: st.SearchStrategy[LookupHow] = st.sampled_from(["inner", "left", "right", "outer"])
JOINERS = st.sampled_from([pair, picky_pair])
modest = examples(60)


def joined(left: Records, right: Records, how: How, joiner: Any = pair, cut: int = 1) -> list[Change[Any, Any]]:
    lefts = parts(table_of(rows_of(left, *BYTES)), cut)
    rights = table_of(rows_of(right, *BYTES), "records")
    rows = rows_of(changes_in(rights), *BYTES)
    return foreign_key_join(lefts, rows, how=how, foreign_key=fk_of, joiner=joiner, key_type=pa.binary())


def text(left: bytes | None, right: bytes | None) -> str:
    return f"{left!r}{right!r}"


def picky_text(left: bytes | None, right: bytes | None) -> str | None:
    return None if left and left.endswith(b"1") else text(left, right)


def naive_table_join(left: dict[bytes, bytes], right: dict[bytes, bytes], how: LookupHow, joiner: Any) -> dict[bytes, str]:
    keys = {"inner": left.keys() & right.keys(), "left": left.keys(), "right": right.keys(), "outer": left.keys() | right.keys()}[how]
    rows = {key: joiner(left.get(key), right.get(key)) for key in keys}
    return {key: value for key, value in rows.items() if value is not None}


def same_key_joined(left: Records, right: Records, how: LookupHow, joiner: Any) -> list[Change[Any, Any]]:
    return table_join(*(rows_of(changes_in(table_of(rows_of(r, *BYTES))), *BYTES) for r in (left, right)), how=how, joiner=joiner)


@given(strategies.left_changelogs(duplicates=True), strategies.EMIT)
@modest
def test_a_table_has_the_content_of_its_changelog_at_every_position(records: Records, emit: Any) -> None:
    changes = changes_in(table_of(rows_of(records, *BYTES), emit))
    for position in POSITIONS:
        assert rows_of_changes(changes, position) == rows_of_records(records, position)


@given(
    strategies.left_changelogs(duplicates=True),
    strategies.right_changelogs(duplicates=True),
    strategies.HOW,
    JOINERS,
    st.integers(1, 3),
)
@modest
def test_the_content_of_a_foreign_key_join_is_the_join_of_the_contents_at_every_position(
    left: Records, right: Records, how: How, joiner: Any, cut: int
) -> None:
    changes = joined(left, right, how, joiner, cut)
    for position in POSITIONS:
        contents = rows_of_records(left, position), rows_of_records(right, position)
        expected = recomputed.foreign_key_join(*contents, how=how, foreign_key=fk_of, joiner=joiner)
        assert rows_of_changes(changes, position) == {key: value for key, value in expected.items() if value is not None}


@given(
    strategies.left_changelogs(duplicates=True), strategies.left_changelogs(duplicates=True), HOWS, st.sampled_from([text, picky_text])
)
@modest
def test_the_content_of_a_table_join_is_the_join_of_the_contents_at_every_position(
    left: Records, right: Records, how: LookupHow, joiner: Any
) -> None:
    changes = same_key_joined(left, right, how, joiner)
    for position in POSITIONS:
        contents = rows_of_records(left, position), rows_of_records(right, position)
        assert rows_of_changes(changes, position) == naive_table_join(*contents, how, joiner)


@given(strategies.left_changelogs(), strategies.right_changelogs(), strategies.left_changelogs(), strategies.HOW, HOWS)
@modest
def test_the_law_holds_for_a_join_of_a_join(left: Records, right: Records, other: Records, how: How, second: LookupHow) -> None:
    first = [change._replace(new=change.new and change.new.encode()) for change in joined(left, right, how)]
    changes = table_join(rows_of(first, *BYTES), rows_of(other, *BYTES), how=second, joiner=text)
    for position in POSITIONS:
        contents = (rows_of_records(records, position) for records in (left, right))
        enriched = recomputed.foreign_key_join(*contents, how=how, foreign_key=fk_of, joiner=pair)
        rows = {key: value.encode() for key, value in enriched.items()}
        assert rows_of_changes(changes, position) == naive_table_join(rows, rows_of_records(other, position), second, text)


@given(strategies.left_changelogs(), strategies.right_changelogs(), strategies.HOW)
@modest
def test_no_change_goes_from_nothing_to_nothing_and_each_has_a_cause(left: Records, right: Records, how: How) -> None:
    causes = {record.position for record in (*left, *right)}
    times = {record.timestamp for record in (*left, *right)}
    changes = [*joined(left, right, how), *same_key_joined(left, right, how, text)]
    assert all(change.old is not None or change.new is not None for change in changes)
    assert all(change.position in causes and change.timestamp in times for change in changes)


@given(strategies.left_changelogs(), strategies.right_changelogs(), strategies.HOW)
@modest
def test_a_pair_has_the_larger_time_if_its_left_row_changed_and_else_the_right_rows(left: Records, right: Records, how: How) -> None:
    lefts, rights = (changes_in(table_of(rows_of(records, *BYTES))) for records in (left, right))
    for change in joined(left, right, how):
        row = at(change.position, lefts)[change.key]
        match = at(change.position, rights).get(fk_of(row.new)) if row.new is not None else None
        if change.new is None or match is None or match.new is None:
            continue
        expected = max(row.timestamp, match.timestamp) if row.position == change.position else match.timestamp
        assert change.timestamp == expected


@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_order_and_the_cut_of_the_inputs_do_not_matter(how: How) -> None:
    left = [Record(b"%d" % (i % 7), b"%s|%d" % (b"XYZ"[i % 3 : i % 3 + 1], i), i * 7 % 50, i) for i in range(100)]
    right = [Record(b"XYZ"[i % 3 : i % 3 + 1], None if i % 5 == 0 else b"%d" % i, i * 11 % 50, i) for i in range(100)]
    once = Counter(joined(left, right, how))
    assert len(once) > 50
    assert once == Counter(joined(left[::-1], right[::-1], how, cut=5))
