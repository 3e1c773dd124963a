"""What a raw changelog means, and what the content of a table is."""

import pytest

from beam_joins import Change, Dropped, content
from beam_joins.record import Record
from beam_joins.table import UpsertTable


def row(*records, emit="updates"):
    table = UpsertTable(emit)
    return [out for record in records for out in table.advance(record.position, [record])]


def record(value, position, timestamp=None):
    return Record(b"k", value, position if timestamp is None else timestamp, position)


def pairs(outputs):
    return [(change.old, change.new) for change in outputs]


def test_the_old_value_is_the_value_before():
    assert pairs(row(record(b"1", 1), record(b"2", 2), record(None, 3), record(b"4", 4))) == [
        (None, b"1"), (b"1", b"2"), (b"2", None), (None, b"4")
    ]  # fmt: skip


def test_a_tombstone_for_an_absent_row_changes_nothing():
    assert row(record(None, 1)) == []


def test_a_delete_followed_by_its_tombstone_is_one_delete():
    assert pairs(row(record(b"1", 1), record(None, 2), record(None, 3))) == [(None, b"1"), (b"1", None)]


def test_an_update_to_the_same_value_is_a_change_by_default():
    assert pairs(row(record(b"1", 1), record(b"1", 2))) == [(None, b"1"), (b"1", b"1")]


def test_emit_changes_leaves_out_an_update_to_the_same_value():
    assert pairs(row(record(b"1", 1), record(b"1", 2), record(None, 3), emit="changes")) == [(None, b"1"), (b"1", None)]


def test_emit_records_passes_tombstones_of_absent_rows_as_kafka_streams_does():
    assert pairs(row(record(None, 1), record(b"1", 2), emit="records")) == [(None, None), (None, b"1")]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        pytest.param(record(b"a", 1, 5), record(b"b", 1, 4), b"a", id="the later timestamp wins"),
        pytest.param(record(b"a", 1, 5), record(b"b", 1, 5), b"b", id="then the larger value"),
        pytest.param(record(None, 1, 5), record(b"", 1, 5), b"", id="a value is larger than a tombstone"),
        pytest.param(record(b"a", 1, 5), record(b"a", 1, 5), b"a", id="an exact duplicate counts once"),
    ],
)
def test_of_two_records_at_one_position_one_wins_whatever_their_order(one, other, winner, turn):
    dropped, change = UpsertTable().advance(1, [one, other][::turn])
    assert change.new == winner
    assert isinstance(dropped, Dropped)
    assert dropped.reason == "duplicate_position"


def test_an_unknown_emit_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="'updates', 'changes', 'records'"):
        UpsertTable("some")


def test_content_is_what_is_left_at_a_position():
    changes = [Change("a", None, 1, 0, 1), Change("b", None, 2, 0, 2), Change("a", 1, None, 0, 3)]
    assert [content(changes, position) for position in (0, 1, 2, 3)] == [{}, {"a": 1}, {"a": 1, "b": 2}, {"b": 2}]
    assert content(reversed(changes)) == {"b": 2}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ([Change("a", None, 1, 0, 1), Change("a", 1, 2, 0, 1)], "two changes of key 'a' at position 1"),
        ([Change("a", 7, 1, 0, 1)], "it was None"),
    ],
)
def test_content_refuses_what_is_not_a_table(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        content(changes)
