"""What a raw changelog means."""

import pytest

from beam_joins import Dropped
from beam_joins.columns.positions import order_bytes
from tests.reference.record import Record
from tests.reference.upsert_table import UpsertTable


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
    ("one", "other", "winner", "reason"),
    [
        pytest.param(record(b"a", 1, 5), record(b"b", 1, 4), b"a", "ambiguous_position", id="the later timestamp wins"),
        pytest.param(
            record(b"a", 1, 5)._replace(tie=b"2"),
            record(b"b", 1, 5)._replace(tie=b"1"),
            b"a",
            "ambiguous_position",
            id="then the tie break",
        ),
        pytest.param(record(b"a", 1, 5), record(b"b", 1, 5), b"b", "ambiguous_position", id="then the larger value"),
        pytest.param(record(None, 1, 5), record(b"", 1, 5), b"", "ambiguous_position", id="a value is larger than a tombstone"),
        pytest.param(
            record(None, 1, 6), record(b"a", 1, 5), None, "ambiguous_position", id="a lost value is no duplicate of a delete"
        ),
        pytest.param(record(b"a", 1, 5), record(b"a", 1, 5), b"a", "duplicate_position", id="an exact duplicate counts once"),
        pytest.param(record(None, 1, 5), record(None, 1, 5), None, "duplicate_position", id="so does a delete that is there twice"),
    ],
)
def test_of_two_records_at_one_position_one_wins_whatever_their_order(one, other, winner, reason, turn):
    dropped, change = UpsertTable("records").advance(1, [one, other][::turn])
    assert change.new == winner
    assert isinstance(dropped, Dropped)
    assert dropped.reason == reason


@pytest.mark.parametrize("turn", [1, -1])
def test_the_last_change_of_a_row_in_a_transaction_wins_and_the_earlier_ones_are_not_dropped(turn):
    inserted, deleted = record(b"a", 1, 5)._replace(within=order_bytes([7])), record(None, 1, 5)._replace(within=order_bytes([8]))
    assert list(UpsertTable().advance(1, [inserted, deleted][::turn])) == []
    assert pairs(UpsertTable("records").advance(1, [inserted, deleted][::turn])) == [(None, None)]


@pytest.mark.parametrize("turn", [1, -1])
def test_records_that_the_order_within_a_transaction_leaves_in_no_order_are_dropped_but_one(turn):
    events = [record(value, 1, 5)._replace(within=order_bytes([lsn])) for value, lsn in ((b"a", 7), (b"b", 7), (b"c", 8), (b"c", 8))]
    dropped = [output.reason for output in UpsertTable().advance(1, events[::turn]) if isinstance(output, Dropped)]
    assert sorted(dropped) == ["ambiguous_position", "duplicate_position"]


def test_an_unknown_emit_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="'updates', 'changes', 'records'"):
        UpsertTable("some")
