"""The event times of every join's changes, at every position, against the times recomputed from the text."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change
from tests.beam_joins import kernels
from tests.beam_joins.kernels import rows_of, table_of
from tests.examples import examples
from tests.properties import strategies
from tests.properties.test_foreign_key_join_law import fk_of, pair, picky_pair
from tests.reference import operators, recomputed_times
from tests.reference.foreign_key import How
from tests.reference.lookup_join import LookupHow, LookupJoin
from tests.reference.recomputed_times import Pair
from tests.reference.record import Record

Table = list[Change[Any, Any]]
BYTES = pa.binary(), pa.binary()
HOWS: st.SearchStrategy[LookupHow] = st.sampled_from(["inner", "left", "right", "outer"])
modest = examples(100)


def real(table: Table) -> Table:
    """Without the tombstones of absent rows, which change nothing."""
    return [change for change in table if change.old is not None or change.new is not None]


LEFTS = st.builds(real, strategies.left_tables())
RIGHTS = st.builds(real, strategies.right_tables())


def text(left: bytes | None, right: bytes | None) -> str:
    return f"{left!r}{right!r}"


def in_columns(table: Table) -> pa.Table:
    return rows_of([Record(c.key, c.new, c.timestamp, c.position) for c in table], *BYTES)


def check_foreign_key_times(joined: Table, left: Table, right: Table, how: How) -> None:
    for change in joined:
        assert change.timestamp == recomputed_times.foreign_key(left, right, change, fk_of, how), change


@given(LEFTS, RIGHTS, strategies.HOW, st.sampled_from([pair, picky_pair]))
def test_a_foreign_key_joins_changes_have_the_times_of_the_text_by_the_protocol(
    left: Table, right: Table, how: How, joiner: Any
) -> None:
    joined = operators.foreign_key_join(left, right, how=how, foreign_key=fk_of, joiner=joiner).outputs
    check_foreign_key_times(joined, left, right, how)


@given(LEFTS, RIGHTS, strategies.HOW, st.sampled_from([pair, picky_pair]))
@modest
def test_a_foreign_key_joins_changes_have_the_times_of_the_text_in_columns(left: Table, right: Table, how: How, joiner: Any) -> None:
    table = table_of(in_columns(left))
    joined = kernels.foreign_key_join(table, in_columns(right), how=how, foreign_key=fk_of, joiner=joiner, key_type=pa.binary())
    check_foreign_key_times(joined, left, right, how)


def test_a_left_row_that_is_deleted_as_its_right_row_changes_leaves_a_tombstone_with_the_larger_time() -> None:
    for right_change in (Change(b"Y", b"bar", b"baz", 9, 2), Change(b"Y", b"bar", None, 9, 2)):
        left = [Change(b"A", None, b"Y|1", 1, 1), Change(b"A", b"Y|1", None, 2, 2)]
        right = [Change(b"Y", None, b"bar", 1, 1), right_change]
        for how in ("inner", "left"):
            last = Change(b"A", "(Y|1,bar)", None, 9, 2)
            assert operators.foreign_key_join(left, right, how=how, foreign_key=fk_of, joiner=pair).outputs[-1] == last
            table = table_of(in_columns(left))
            actual = kernels.foreign_key_join(table, in_columns(right), how=how, foreign_key=fk_of, joiner=pair, key_type=pa.binary())
            assert actual[-1] == last


@given(LEFTS, LEFTS, HOWS)
@modest
def test_the_changes_of_a_join_on_the_same_key_have_the_larger_time(left: Table, right: Table, how: LookupHow) -> None:
    in_kernel = kernels.table_join(in_columns(left), in_columns(right), how=how, joiner=text)
    by_core = kernels.table_join_with_core(left, right, how=how, joiner=text)
    for change in [*in_kernel, *by_core]:
        assert change.timestamp == recomputed_times.same_key(left, right, change), change


def one_or_two(key: bytes, value: bytes) -> list[bytes]:
    """A row's references: that of its value, and for some values another one."""
    reference = fk_of(value)
    return [*([reference] if reference else []), *([b"Z"] if value.endswith(b"1") and reference != b"Z" else [])]


def lookup_join(left: Table, right: Table, how: LookupHow, references: Callable[[bytes, bytes], list[bytes]] | None) -> Table:
    """Left rows with the right rows that they look up; with ``references`` one row for each, as the join by
    combined keys has it.
    """
    events: dict[int, list[Record]] = defaultdict(list)
    for change in left:
        if references is None:
            events[change.position].append(Record(change.key, change.new, *change[3:]))
            continue
        before, after = (
            [] if value is None else references(change.key, value) or ([b""] if how in ("left", "outer") else [])
            for value in (change.old, change.new)
        )
        for reference in dict.fromkeys(before + after):
            value = change.new if reference in after else None
            events[change.position].append(Record(reference + b"/" + change.key, value, *change[3:]))
    for change in right:
        events[change.position].append(Record(change.key, change.new, *change[3:], 1))

    def lookup(record: Record) -> bytes | None:
        return fk_of(record.value or b"") if references is None else record.key.partition(b"/")[0] or None

    join: LookupJoin[str] = LookupJoin(text, how, lookup, shared_keys=False)
    return [
        change for position in sorted(events) for change in join.advance(position, sorted(events[position], key=lambda e: e.input))
    ]


@given(LEFTS, RIGHTS, HOWS)
def test_the_changes_of_a_join_by_combined_keys_have_the_larger_time(left: Table, right: Table, how: LookupHow) -> None:
    for change in lookup_join(left, right, how, one_or_two):
        name, alone = change.key
        reference, _, key = name.partition(b"/")
        pair_of = Pair(name, None) if alone else Pair(reference or None, key)
        assert change.timestamp == recomputed_times.by_reference(left, right, pair_of, change.position, one_or_two), change


@given(LEFTS, RIGHTS, st.sampled_from(["inner", "left"]))
def test_the_changes_of_a_join_that_looks_up_one_row_have_the_larger_time(left: Table, right: Table, how: LookupHow) -> None:
    lefts = recomputed_times.Rows(left)
    for change in lookup_join(left, right, how, None):
        key, position = change.key.key, change.position
        cause = lefts.changed(key, position)
        value = cause.old if cause is not None and cause.new is None else lefts.value(key, position)
        pair_of = Pair(fk_of(value), key)
        assert change.timestamp == recomputed_times.by_reference(left, right, pair_of, position, one_or_two), change
