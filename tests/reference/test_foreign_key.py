"""The foreign-key join's three steps, and the worked examples of KIP-213."""

import pytest

from beam_joins import Change, Dropped
from tests.reference.foreign_key import (
    Instruction,
    Reference,
    Response,
    ResponseJoiner,
    Subscription,
    SubscriptionStore,
    send,
    value_hash,
)
from tests.reference.record import Record

A, B, NULL = Reference(b"A"), Reference(b"B"), Reference(None)
SILENT, DELETE, ALWAYS, IF_ANY = Instruction


@pytest.mark.parametrize(
    ("old", "new", "inner", "left"),
    [
        pytest.param(None, A, [(b"A", IF_ANY)], [(b"A", ALWAYS)], id="none to fk"),
        pytest.param(None, NULL, [], ["answer"], id="none to null"),
        pytest.param(A, A, [(b"A", IF_ANY)], [(b"A", ALWAYS)], id="fk to the same fk"),
        pytest.param(A, B, [(b"A", SILENT), (b"B", ALWAYS)], [(b"A", SILENT), (b"B", ALWAYS)], id="fk to another fk"),
        pytest.param(A, NULL, [(b"A", DELETE)], [(b"A", SILENT), "answer"], id="fk to null"),
        pytest.param(NULL, A, [(b"A", IF_ANY)], [(b"A", ALWAYS)], id="null to fk"),
        pytest.param(A, None, [(b"A", DELETE)], [(b"A", SILENT), "answer"], id="fk to delete"),
        pytest.param(NULL, None, [], ["answer"], id="null to delete"),
        pytest.param(NULL, NULL, [], ["answer"], id="null to null"),
        pytest.param(None, None, [], [], id="delete to delete"),
    ],
)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_left_change_sends_what_the_table_says(how, old, new, inner, left):
    new_hash = b"#" * 16 if new else None
    sent = list(send(how, b"k", old, new, new_hash=new_hash, timestamp=5, position=7))
    shape = [(m.foreign_key, m.instruction) if isinstance(m, Subscription) else "answer" for m in sent]
    assert shape == (inner if how == "inner" else left)
    assert all((m.primary_key, m.hash, m.timestamp, m.position) == (b"k", new_hash, 5, 7) for m in sent)
    assert all(m.value is None for m in sent if isinstance(m, Response))


class Tables:
    """A foreign-key join of two tables with no runner: each change is drained before the next, at a position
    of its own.
    """

    def __init__(self, how):
        self.how, self.position = how, 0
        self.rows, self.stores, self.joiners = {}, {}, {}

    def left(self, key, value, timestamp=0):
        self.position += 1
        old, self.rows[key] = self.rows.get(key), value
        record = Record(key, value, timestamp, self.position)
        messages = send(self.how, key, reference(old), reference(value),
                        new_hash=value_hash(value, self.position), timestamp=timestamp, position=self.position)  # fmt: skip
        answers = []
        for message in messages:
            answers += self.store(message.foreign_key, message) if isinstance(message, Subscription) else [message]
        return self.join(key, [record, *answers])

    def right(self, key, value, timestamp=0):
        self.position += 1
        answers = self.store(key, Record(key, value, timestamp, self.position))
        return [out for answer in answers for out in self.join(answer.primary_key, [answer])]

    def store(self, key, event):
        return list(self.stores.setdefault(key, SubscriptionStore()).advance(self.position, [event]))

    def join(self, key, events):
        joiner = self.joiners.setdefault(key, ResponseJoiner(lambda left, right: (left, right), self.how))
        return [(out.key, out.new, out.timestamp) for out in joiner.advance(self.position, events)]


def reference(value):
    if value is None:
        return None
    foreign_key = value.split(b"|")[0]
    return Reference(foreign_key or None)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", {2: [(b"k", (b"1|k", b"foo"), 2)], 3: [(b"k", None, 3)], 4: [], 5: [(b"k", (b"3|k", b"bar"), 5)],
            6: [(b"k", None, 6)],
                   7: [(b"k", (b"1|k", b"foo"), 7)], 8: [], 9: [],
                   10: [(b"q", (b"10|q", b"baz"), 10), (b"r", (b"10|r", b"baz"), 10)]}),
        ("left", {2: [(b"k", (b"1|k", b"foo"), 2)], 3: [(b"k", (b"2|k", None), 3)], 4: [(b"k", (b"3|k", None), 4)],
                  5: [(b"k", (b"3|k", b"bar"), 5)], 6: [(b"k", None, 6)], 7: [(b"k", (b"1|k", b"foo"), 7)],
                  8: [(b"q", (b"10|q", None), 8)], 9: [(b"r", (b"10|r", None), 9)],
                  10: [(b"q", (b"10|q", b"baz"), 10), (b"r", (b"10|r", b"baz"), 10)]}),
    ],
)  # fmt: skip
def test_the_worked_example_of_kip_213(how, expected):
    tables = Tables(how)
    assert tables.right(b"1", b"foo", 1) == []
    steps = [(b"k", b"1|k"), (b"k", b"2|k"), (b"k", b"3|k"), None, (b"k", None), (b"k", b"1|k"), (b"q", b"10|q"), (b"r", b"10|r")]
    seen = {time: tables.left(*step, time) if step else tables.right(b"3", b"bar", time) for time, step in enumerate(steps, start=2)}
    seen[10] = tables.right(b"10", b"baz", 10)
    assert seen == expected


def test_the_hash_example_of_kip_213_gives_one_result_not_two():
    store, joiner = SubscriptionStore(), ResponseJoiner(lambda left, right: (left, right), "inner")
    assert list(store.advance(1, [Record(b"Y", b"bar", 0, 1)])) == []
    first = send("inner", b"A", None, Reference(b"Y"), new_hash=value_hash(b"Y,1", 2), timestamp=0, position=2)
    second = send("inner", b"A", Reference(b"Y"), Reference(b"Y"), new_hash=value_hash(b"Y,2", 3), timestamp=0, position=3)
    assert list(joiner.advance(2, [Record(b"A", b"Y,1", 0, 2)])) == []
    assert list(joiner.advance(3, [Record(b"A", b"Y,2", 0, 3)])) == []
    (stale,) = (answer for message in first for answer in store.advance(2, [message]))
    (fresh,) = (answer for message in second for answer in store.advance(3, [message]))
    assert list(joiner.advance(2, [stale])) == [Dropped("stale_response", stale, 0)]
    assert list(joiner.advance(3, [fresh])) == [Change(b"A", None, (b"Y,2", b"bar"), 0, 3)]


def test_a_left_update_takes_the_larger_time_and_a_right_update_its_own():
    tables = Tables("inner")
    tables.left(b"k", b"f|1", 100)
    assert tables.right(b"f", b"v", 50) == [(b"k", (b"f|1", b"v"), 50)]
    assert tables.left(b"k", b"f|2", 20) == [(b"k", (b"f|2", b"v"), 50)]


def test_a_deletion_takes_the_larger_time_in_an_inner_join_and_its_own_in_a_left_join():
    for how, expected in (("inner", 150), ("left", 10)):
        tables = Tables(how)
        tables.right(b"f", b"v", 150)
        tables.left(b"k", b"f|1", 100)
        assert tables.left(b"k", None, 10) == [(b"k", None, expected)]


def test_a_right_change_answers_its_subscribers_in_byte_order_and_no_others():
    tables = Tables("inner")
    for key in (b"B1", b"B0", b"B10"):
        tables.left(key, b"A0|" + key)
    tables.left(b"C", b"A01|C")
    assert [key for key, _, _ in tables.right(b"A0", b"x")] == [b"B0", b"B1", b"B10"]


def test_a_subscription_and_a_right_change_at_one_position_are_one_event():
    store = SubscriptionStore()
    (subscription,) = send("inner", b"k", None, A, new_hash=b"#", timestamp=3, position=1)
    assert list(store.advance(1, [subscription, Record(b"A", b"v", 9, 1)])) == [Response(b"k", b"#", b"v", 9, 1)]


def test_a_row_that_moves_away_while_its_old_reference_changes_hears_nothing_of_that():
    store = SubscriptionStore()
    (subscription,) = send("inner", b"k", None, A, new_hash=b"#", timestamp=3, position=1)
    list(store.advance(1, [subscription]))
    leave, _ = send("inner", b"k", A, B, new_hash=b"##", timestamp=3, position=2)
    assert list(store.advance(2, [leave, Record(b"A", b"v", 9, 2)])) == []


def test_a_right_row_that_goes_while_its_left_row_changes_takes_the_result_along():
    store = SubscriptionStore()
    (first,) = send("inner", b"k", None, A, new_hash=b"#", timestamp=3, position=1)
    list(store.advance(1, [first, Record(b"A", b"v", 9, 1)]))
    (again,) = send("inner", b"k", A, A, new_hash=b"##", timestamp=3, position=2)
    assert list(store.advance(2, [again, Record(b"A", None, 9, 2)])) == [Response(b"k", b"##", None, 9, 2)]


def test_the_joiner_of_an_inner_join_never_sees_an_absent_side():
    seen = []
    joiner = ResponseJoiner(lambda left, right: seen.append((left, right)) or "joined", "inner")
    list(joiner.advance(1, [Record(b"k", b"v", 0, 1), Response(b"k", value_hash(b"v", 1), None, 0, 1)]))
    list(joiner.advance(2, [Record(b"k", None, 0, 2), Response(b"k", None, b"right", 0, 2)]))
    assert seen == []


def test_a_joiner_that_gives_none_makes_no_row():
    joiner = ResponseJoiner(lambda left, right: None, "left")
    assert list(joiner.advance(1, [Record(b"k", b"v", 0, 1), Response(b"k", value_hash(b"v", 1), None, 0, 1)])) == []


def test_two_left_changes_of_one_key_at_one_position_are_refused():
    joiner = ResponseJoiner(lambda left, right: left, "left")
    with pytest.raises(ValueError, match="the table has two changes of key b'k' at position 1: make it with TableFromChangelog"):
        list(joiner.advance(1, [Record(b"k", b"v", 0, 1), Record(b"k", b"w", 0, 1)]))


def test_two_right_changes_of_one_key_at_one_position_are_refused():
    with pytest.raises(ValueError, match="the table has two changes of key b'A' at position 1: make it with"):
        list(SubscriptionStore().advance(1, [Record(b"A", b"v", 0, 1, 1), Record(b"A", b"w", 0, 1, 1)]))


def test_a_row_deleted_and_written_again_before_the_answer_is_back_does_not_stay_stale():
    """Kafka Streams 4.3.1 keeps the stale row for good; see docs of ResponseJoiner."""
    right = Record(b"Y", b"bar", 0, 0)
    here, elsewhere = SubscriptionStore(), SubscriptionStore()
    joiner = ResponseJoiner(lambda left, right: (left, right), "inner")
    list(here.advance(0, [right]))
    (joined,) = send("inner", b"A", None, Reference(b"Y"), new_hash=value_hash(b"Y|1", 1), timestamp=0, position=1)
    joiner_outputs = list(joiner.advance(1, [Record(b"A", b"Y|1", 0, 1), *here.advance(1, [joined])]))
    assert [out.new for out in joiner_outputs] == [(b"Y|1", b"bar")]
    (deleted,) = send("inner", b"A", Reference(b"Y"), None, new_hash=None, timestamp=0, position=2)
    (unmatched,) = send("inner", b"A", None, Reference(b"Z"), new_hash=value_hash(b"Z|2", 3), timestamp=0, position=3)
    list(joiner.advance(2, [Record(b"A", None, 0, 2)]))
    list(joiner.advance(3, [Record(b"A", b"Z|2", 0, 3)]))
    assert list(elsewhere.advance(3, [unmatched])) == []
    (answer,) = here.advance(2, [deleted])
    dropped, retraction = joiner.advance(2, [answer])
    assert dropped.reason == "stale_response"
    assert (retraction.old, retraction.new) == ((b"Y|1", b"bar"), None)
