"""The core of the joins of a stream with a table: examples by name, and the naive look-up as a property."""

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.reference.record import Record
from tests.reference.stream_join import Joined
from tests.reference.stream_lookup import StreamLookup


def pair(value, row):
    return f"({value.decode()},{'null' if row is None else row.decode()})"


def run(records, how, lookup=lambda record: record.key):
    core = StreamLookup(pair, how, lookup)
    by_position = defaultdict(list)
    for record in sorted(records, key=lambda record: (record.position, record.input)):
        by_position[record.position].append(record)
    return [list(core.advance(position, events)) for position, events in by_position.items()]


def row(value, position, key=b"k"):
    return Record(key, value, position, position, 0)


def record(value, position, key=b"k", time=None):
    return Record(key, value, position if time is None else time, position, 1)


def test_only_the_stream_gives_results_as_published_in_kip_77():
    records = [record(b"A", 3), row(b"a", 4), record(b"B", 5), row(b"b", 6), record(b"C", 9), row(None, 11), record(b"D", 15)]
    inner = [[], [], ["(B,a)"], [], ["(C,b)"], [], []]
    assert [[output.value for output in step] for step in run(records, "inner")] == inner
    left = [["(A,null)"], [], ["(B,a)"], [], ["(C,b)"], [], ["(D,null)"]]
    assert [[output.value for output in step] for step in run(records, "left")] == left


def test_a_change_at_the_position_of_the_record_is_seen():
    assert run([record(b"A", 5), row(b"a", 5)], "inner") == [[Joined(b"k", "(A,a)", 5)]]
    assert run([row(b"a", 4), record(b"A", 5), row(None, 5)], "inner") == [[], []]


def test_the_result_has_the_time_of_the_record_whatever_that_of_the_row():
    assert run([row(b"a", 100), record(b"A", 101, time=5)], "inner")[-1] == [Joined(b"k", "(A,a)", 5)]


def test_a_record_may_look_up_another_key_or_none():
    def lookup(event):
        return event.value.partition(b"|")[0] or None

    records = [row(b"v", 1, key=b"f"), record(b"f|1", 2), record(b"g|2", 3), record(b"|3", 4)]
    assert run(records, "inner", lookup) == [[], [Joined(b"k", "(f|1,v)", 2)], [], []]
    assert [output.value for step in run(records, "left", lookup) for output in step] == ["(f|1,v)", "(g|2,null)", "(|3,null)"]


KEYS = st.sampled_from([b"k", b"l"])
TABLE = st.dictionaries(st.tuples(KEYS, st.integers(0, 8)), st.none() | st.sampled_from([b"a", b"b"])).map(
    lambda rows: [Record(key, value, 0, position, 0) for (key, position), value in rows.items()]
)
STREAM = st.lists(st.tuples(KEYS, st.integers(0, 8), st.sampled_from([b"A", b"B"]), st.integers(0, 9))).map(
    lambda rows: [Record(key, value, time, position, 1) for key, position, value, time in rows]
)


@examples(300)
@given(st.data(), STREAM, TABLE, st.sampled_from(["inner", "left"]))
def test_every_record_sees_the_newest_row_up_to_its_position_in_any_order_of_arrival(data, stream, table, how):
    expected = []
    for event in stream:
        changes = [change for change in table if change.key == event.key and change.position <= event.position]
        newest = max(changes, key=lambda change: change.position).value if changes else None
        if newest is not None or how == "left":
            expected.append(Joined(event.key, pair(event.value, newest), event.timestamp))
    arrived = data.draw(st.permutations(stream + table))
    assert Counter(output for step in run(arrived, how) for output in step) == Counter(expected)
