"""The table that rows stand for, against UpsertTable."""

from collections import Counter
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins.columns.sorting import same
from beam_joins.elements.content import Emit
from beam_joins.keys import canonical
from beam_joins.tables.changelog import ABSENT_DELETE, SUPERSEDED, upsert
from tests.beam_joins.kernels import changes_in, modest, rows_of, with_core
from tests.properties import strategies
from tests.reference.record import Record

FORMS = {
    "bytes": (lambda key: key, lambda value: value),
    "text": (bytes.decode, bytes.decode),
    "structs": (
        lambda key: {"a": key.decode(), "b": len(key)},
        lambda value: {"fk": value[:1].decode(), "deep": {"n": value[-1] % 2}, "nothing": None},
    ),
    "lists": (len, lambda value: [*value]),
}
FORM = st.sampled_from(sorted(FORMS))
EVERY_EMIT = st.sampled_from(get_args(Emit))


def in_form(form, records):
    of_key, of_value = FORMS[form]
    return [r._replace(key=of_key(r.key), value=None if r.value is None else of_value(r.value)) for r in records]


def to_core(record):
    """A record as the core sees it: key and value encoded as the kernel's rows are."""
    return record._replace(key=encoded_key(record.key), value=None if record.value is None else canonical.encode(record.value))


def encoded_key(key):
    return canonical.encode(tuple(key.values()) if isinstance(key, dict) else key)


def change_to_core(change):
    key, old, new, timestamp, position = change
    return change._replace(
        key=encoded_key(key), old=None if old is None else canonical.encode(old), new=None if new is None else canonical.encode(new)
    )


@given(strategies.left_changelogs(duplicates=True), EVERY_EMIT, FORM)
@modest
def test_the_table_is_that_of_the_core_and_so_are_those_who_lost(records, emit, form):
    records = in_form(form, records)
    batch, lost = upsert(rows_of(records), emit)
    expected, dropped = with_core(map(to_core, records), emit)
    assert Counter(map(change_to_core, changes_in(batch))) == Counter(expected)
    in_all = Counter(change.new is None and change.old is None for change in with_core(map(to_core, records), "records")[0])
    is_absent = pc.equal(lost["reason"], ABSENT_DELETE)
    assert (pc.sum(is_absent).as_py() or 0) == (in_all[True] if emit in ("updates", "changes") else 0)
    if emit in ("updates", "records"):
        assert len(batch) + len(lost) == len(records), "each record is a change, or it is told why it is none"
    lost = lost.filter(pc.invert(pc.or_(is_absent, pc.equal(lost["reason"], SUPERSEDED))))
    columns = [lost[name].to_pylist() for name in ("key", "value", "timestamp", "position")]
    rows = [to_core(Record(*row)) for row in zip(*columns, strict=True)]
    assert Counter(zip(lost["reason"].to_pylist(), rows, strict=True)) == Counter(
        (why, record._replace(within=b"", tie=b"")) for why, record, _ in dropped
    )


@given(st.data(), strategies.left_changelogs(duplicates=True), EVERY_EMIT, FORM)
@modest
def test_the_order_of_the_rows_does_not_matter(data, records, emit, form):
    records = in_form(form, records)
    shuffled = data.draw(st.permutations(records))
    outcomes = [upsert(rows_of(rows), emit) for rows in (records, shuffled)]
    one, other = ((Counter(map(repr, changes_in(batch))), Counter(map(repr, lost.to_pylist()))) for batch, lost in outcomes)
    assert one == other


@given(strategies.left_changelogs(duplicates=True), EVERY_EMIT)
@modest
def test_changes_of_a_row_lie_together_in_order_each_pointing_back_to_one_of_its_own(records, emit):
    batch, _ = upsert(rows_of(records, pa.binary(), pa.binary()), emit)
    rows = list(zip(batch.key.to_pylist(), batch.position.to_pylist(), strict=True))
    assert len(set(rows)) == len(rows)
    keys = [key for key, _ in rows]
    assert [key for i, key in enumerate(keys) if i == 0 or keys[i - 1] != key] == list(dict.fromkeys(keys))
    for i, before in enumerate(batch.before.to_pylist()):
        if before is not None:
            assert before < i
            assert (keys[before], batch.new[before].is_valid) == (keys[i], True)
        if i and keys[i - 1] == keys[i]:
            assert rows[i - 1][1] < rows[i][1]


@pytest.mark.parametrize("emit", get_args(Emit))
def test_no_rows_are_no_changes(emit):
    for rows in (rows_of([]), rows_of([], pa.string(), pa.struct([("a", pa.int64())]))):
        batch, lost = upsert(rows, emit)
        assert (len(batch), len(lost)) == (0, 0)
        assert batch.key.type == rows["key"].type


@pytest.mark.parametrize("emit", get_args(Emit))
def test_rows_of_deletes_only_may_have_values_of_no_known_type(emit):
    rows = rows_of([Record(7, None, 0, 1), Record(7, None, 0, 2)])
    batch, _ = upsert(rows, emit)
    assert [change.new for change in changes_in(batch)] == ([None, None] if emit == "records" else [])


@pytest.mark.parametrize("emit", get_args(Emit))
def test_a_column_of_nulls_only_is_no_obstacle(emit):
    rows = rows_of([Record("k", {"a": None}, 0, 1), Record("k", {"a": None}, 1, 2)])
    batch, _ = upsert(rows, emit)
    assert len(batch) == {"updates": 2, "records": 2, "changes": 1, "latest": 1}[emit]


def test_positions_and_times_may_lie_anywhere_in_64_bits():
    least, most = -(2**63), 2**63 - 1
    records = [Record("k", "first", most, least), Record("k", "last", least, most), Record("k", "loses", least, least)]
    batch, lost = upsert(rows_of(records), "updates")
    assert [(c.old, c.new, c.timestamp, c.position) for c in changes_in(batch)] == [
        (None, "first", most, least),
        ("first", "last", least, most),
    ]
    assert lost["value"].to_pylist() == ["loses"]


NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param([1, None, 1, None], [1, None, 2, 3], [True, True, False, False], id="numbers"),
        pytest.param(
            [{"a": None}, None, {"a": 1}], [{"a": None}, {"a": None}, {"a": 1}], [True, False, True], id="structs and null ones"
        ),
        pytest.param([{"a": {"b": 1}}, {"a": None}], [{"a": {"b": 2}}, {"a": None}], [False, True], id="structs in structs"),
        pytest.param([[1], [1, 2], None, []], [[1], [2, 1], None, None], [True, False, True, False], id="lists"),
        pytest.param([[NAN], [NAN]], [[NAN], [1.0]], [True, False], id="not a number in lists"),
        pytest.param([{"a": [1]}, {"a": None}], [{"a": [2]}, {"a": None}], [False, True], id="lists in structs"),
        pytest.param([None, None], [None, None], [True, True], id="no known type"),
        pytest.param([{"a": None}], [{"a": None}], [True], id="a column of no known type"),
        pytest.param([NAN, NAN], [NAN, 1.0], [True, False], id="not a number is the same as itself"),
        pytest.param([], [], [], id="nothing"),
    ],
)
def test_two_values_are_the_same_null_among_them(one, other, expected):
    one = pa.array(one)
    assert same(one, pa.array(other, one.type)).tolist() == expected


def test_values_of_a_dictionary_are_the_same_where_their_words_are():
    words = pa.array(["a", "b", None]).dictionary_encode()
    assert same(words, pa.array(["b", "b", None]).dictionary_encode()).tolist() == [False, True, True]


def test_values_of_types_that_arrow_cannot_compare_are_compared_too():
    months = pa.array([(1, 0, 0), (1, 0, 0), None], pa.month_day_nano_interval())
    others = pa.array([(1, 0, 0), (2, 0, 0), None], pa.month_day_nano_interval())
    assert same(months, others).tolist() == [True, False, True]
    rows = pa.table({"key": [7, 7, 7], "value": others.take(pa.array([0, 1, 1])), "timestamp": [1, 1, 1], "position": [1, 1, 1]})
    _, lost = upsert(rows, "updates")
    assert sorted(lost["reason"].to_pylist()) == ["ambiguous_position", "duplicate_position"]
