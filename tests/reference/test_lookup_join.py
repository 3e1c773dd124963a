"""The lookup join: KIP-77 row by row, Jan Filipiak's one-to-many table row by row, and the law against a join
computed from scratch.
"""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import Change, content
from tests.reference.lookup_join import LookupJoin, ResultKey
from tests.reference.record import Record

LEFT, RIGHT = 0, 1


def joined(left, right):
    return f"{left.decode() if left else '-'}+{right.decode() if right else '-'}"


def table_table(how):
    return LookupJoin(joined, how, lambda record: record.key, shared_keys=True)


def steps(join, inputs):
    """What comes out of each (input, key, value, timestamp), each at a position of its own."""
    return [
        [(out.key.key, out.old, out.new, out.timestamp) for out in join.advance(p, [Record(key, value, timestamp, p, side)])]
        for p, (side, key, value, timestamp) in enumerate(inputs)
    ]


KIP_77 = [(LEFT, None), (RIGHT, None), (LEFT, b"A"), (RIGHT, b"a"), (LEFT, b"B"), (RIGHT, b"b"), (LEFT, None), (RIGHT,
    None), (RIGHT, b"c"),
          (LEFT, b"C"), (RIGHT, None), (LEFT, None), (RIGHT, None), (RIGHT, b"d"), (LEFT, b"D")]  # fmt: skip


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [[], [], [], ["A+a"], ["B+a"], ["B+b"], [None], [], [], ["C+c"], [None], [], [], [], ["D+d"]]),
        ("left", [[], [], ["A+-"], ["A+a"], ["B+a"], ["B+b"], [None], [], [], ["C+c"], ["C+-"], [None], [], [], ["D+d"]]),
        ("outer", [[], [], ["A+-"], ["A+a"], ["B+a"], ["B+b"], ["-+b"], [None], ["-+c"], ["C+c"], ["C+-"], [None], [],
                   ["-+d"], ["D+d"]]),
    ],
)  # fmt: skip
def test_the_example_of_kip_77(how, expected):
    seen = steps(table_table(how), [(side, b"k", value, p) for p, (side, value) in enumerate(KIP_77)])
    assert [[new for _, _, new, _ in step] for step in seen] == expected


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_a_result_has_the_larger_time_of_both_sides_and_a_deleted_row_has_none(how):
    join = table_table(how)
    inputs = [(LEFT, b"A", 100), (RIGHT, b"a", 50), (LEFT, b"B", 120), (RIGHT, None, 130), (RIGHT, b"c", 90)]
    seen = steps(join, [(side, b"k", value, timestamp) for side, value, timestamp in inputs])
    times = [[timestamp for _, _, _, timestamp in step] for step in seen]
    assert times[1:] == [[100], [120], [130], [120]]
    assert times[0] == ([] if how == "inner" else [100])


def test_both_sides_changed_at_one_position_are_one_change():
    join = table_table("outer")
    events = [Record(b"k", b"l", 1, 5, LEFT), Record(b"k", b"r", 2, 5, RIGHT)]
    assert list(join.advance(5, events)) == [Change(ResultKey(b"k", False), None, "l+r", 2, 5)]


def test_two_changes_of_a_row_at_one_position_are_refused():
    with pytest.raises(ValueError, match="the table has two changes of key b'k' at position 5: make it with TableFromChangelog"):
        list(table_table("inner").advance(5, [Record(b"k", b"l", 1, 5, LEFT), Record(b"k", b"m", 1, 5, LEFT)]))


def test_the_step_by_step_table_of_jan_filipiaks_one_to_many_join():
    """KIP-213, older part: inputs A0, A1, B0, B1, A2, B1 deleted, B3, A2 deleted; B's rows travel under the
    combined key.
    """
    join = LookupJoin(joined, "inner", lambda record: record.key[:2], shared_keys=False)
    inputs = [
        (RIGHT, b"A0", b"[A0]"),
        (RIGHT, b"A1", b"[A1]"),
        (LEFT, b"A2B0", b"[A2,B0]"),
        (LEFT, b"A2B1", b"[A2,B1]"),
        (RIGHT, b"A2", b"[A2]"),
        (LEFT, b"A2B1", None),
        (LEFT, b"A0B3", b"[A0,B3]"),
        (RIGHT, b"A2", None),
    ]
    seen = steps(join, [(*row, 0) for row in inputs])
    assert [[(key, old, new) for key, old, new, _ in step] for step in seen] == [
        [],
        [],
        [],
        [],
        [(b"A2B0", None, "[A2,B0]+[A2]"), (b"A2B1", None, "[A2,B1]+[A2]")],
        [(b"A2B1", "[A2,B1]+[A2]", None)],
        [(b"A0B3", None, "[A0,B3]+[A0]")],
        [(b"A2B0", "[A2,B0]+[A2]", None)],
    ]


def test_a_right_row_that_nothing_looks_up_has_a_row_of_its_own_in_a_right_join():
    join = LookupJoin(joined, "right", lambda record: record.value[:1], shared_keys=False)
    inputs = [
        (RIGHT, b"a", b"r"),
        (LEFT, b"1", b"a1"),
        (LEFT, b"2", b"a2"),
        (LEFT, b"1", b"b1"),
        (LEFT, b"2", None),
        (RIGHT, b"a", None),
    ]
    alone = [
        [(out.key.right_alone, out.key.key, out.new) for out in join.advance(p, [Record(key, value, 0, p, side)])]
        for p, (side, key, value) in enumerate(inputs)
    ]
    assert alone == [
        [(True, b"a", "-+r")],
        [(True, b"a", None), (False, b"1", "a1+r")],
        [(False, b"2", "a2+r")],
        [(False, b"1", None)],
        [(True, b"a", "-+r"), (False, b"2", None)],
        [(True, b"a", None)],
    ]


def naive(how, left, right, lookup, shared_keys):
    """The join of two contents, computed from scratch."""
    rows = {}
    for key, value in left.items():
        other = right.get(lookup(Record(key, value, 0, 0)))
        if other is not None or how in ("left", "outer"):
            rows[ResultKey(key, False)] = joined(value, other)
    if how in ("right", "outer"):
        for key in right.keys() - {lookup(Record(*row, 0, 0)) for row in left.items()}:
            rows[ResultKey(key, not shared_keys)] = joined(None, right[key])
    return rows


CHANGES = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([LEFT, RIGHT]), st.sampled_from([b"a", b"b"]), st.sampled_from([None, b"a1", b"b2"])),
    max_size=14,
    unique_by=lambda change: change[:3],
)
LOOKUPS = {
    "its own key": (lambda record: record.key, True),
    "a row that its value names": (lambda record: record.value[:1], False),
    "nothing or a row": (lambda record: b"a" if record.value == b"a1" else None, False),
}


@pytest.mark.parametrize("lookup_name", LOOKUPS)
@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@given(changes=CHANGES)
@pytest.mark.each_value
def test_the_content_of_the_join_is_the_join_of_the_contents_at_every_position(how, lookup_name, changes):
    lookup, shared_keys = LOOKUPS[lookup_name]
    join = LookupJoin(joined, how, lookup, shared_keys=shared_keys)
    records = sorted(
        (Record(key, value, p, p, side) for p, side, key, value in changes), key=lambda record: (record.position, record.input)
    )
    outputs, left, right = [], {}, {}
    for position, at_once in groupby(records, key=lambda record: record.position):
        events = list(at_once)
        outputs += join.advance(position, events)
        for event in events:
            side = right if event.input else left
            side[event.key] = event.value
            if event.value is None:
                del side[event.key]
        assert content(outputs) == naive(how, left, right, lookup, shared_keys)
    assert all(change.old is not None or change.new is not None for change in outputs)
