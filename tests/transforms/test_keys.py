"""Keys that are equal in Python meet in every join and in both forms; keys that can never be equal are named."""

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp

from tests.coders.keys_of_all_kinds import Access, Colour, Level, Word
from tests.transforms.joins_by_key import JOINS, Side, groups

FORMS = ["records", "columns"]
IN_COLUMNS = ["inner foreign key", "table table", "windowed stream"]
JOINS_IN_FORMS = [(join, "records") for join in JOINS] + [(join, "columns") for join in IN_COLUMNS]
NOON = dt.datetime(2020, 1, 1, 12)
INSTANT = NOON.replace(tzinfo=dt.UTC)


class Pair(NamedTuple):
    one: Any
    other: Any


@dataclasses.dataclass
class Place:
    shop: Any
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    shop: Any


EQUAL = [
    (101, 101.0),
    (102, np.int64(102)),
    (103, Decimal("103.00")),
    (True, 1),
    (0.0, -0.0),
    (0.5, Decimal("0.50")),
    (np.float32(0.25), 0.25),
    (Decimal("0.10"), Decimal("0.1")),
    (2**70, float(2**70)),
    (float("nan"), Decimal("nan")),
    (Level.HIGH, 255),
    (Word.A, "a"),
    (np.str_("text"), "text"),
    (b"x", bytearray(b"x")),
    (uuid.UUID(int=5), uuid.UUID(int=5)),
    (INSTANT, INSTANT.astimezone(ZoneInfo("Europe/Berlin"))),
    (NOON, np.datetime64("2020-01-01T12")),
    (dt.date(2020, 1, 1), dt.date(2020, 1, 1)),
    (dt.time(1, 2, 3), dt.time(1, 2, 3)),
    (dt.timedelta(hours=1), np.timedelta64(60, "m")),
    (Timestamp(7), Timestamp(7)),
    ((1, "a"), [1.0, "a"]),
    ((2, "a"), Pair(2, "a")),
    ((3, (4, NOON)), Pair(3, [4, NOON])),
    ((None, 5), [None, 5]),
    (Colour.RED, Colour.CRIMSON),
    (Access.READ | Access.WRITE, Access(3)),
    (Place((1, 2), "here"), Place([1, 2], "there")),
    (Frozen(1), Frozen(1.0)),
    (frozenset([1, 2]), {2.0, 1.0}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (beam.Row(a=1, b="x"), beam.Row(a=1.0, b="x")),
]
LEFT, RIGHT = Side("left", [one for one, _ in EQUAL]), Side("right", [other for _, other in EQUAL])
MEETING = [(n, n) for n in range(len(EQUAL))]
NEVER = [
    (7, "7", "number", "text"),
    ("a", b"a", "text", "bytes"),
    (uuid.UUID(int=5), str(uuid.UUID(int=5)), "UUID", "text"),
    (1, (1,), "number", r"\(number\)"),
    ((1, "a"), (1, 2), r"\(number, text\)", r"\(number, number\)"),
    (NOON, INSTANT, "datetime without a time zone", "datetime with a time zone"),
    (NOON.date(), NOON, "date", "datetime without a time zone"),
    (Colour.RED, 1, r"tests\.coders\.keys_of_all_kinds\.Colour", "number"),
    (Frozen(1), Place(1), r"tests\.transforms\.test_keys\.Frozen", r"tests\.transforms\.test_keys\.Place"),
    (dt.timedelta(0), 0, "timedelta", "number"),
    ({"a": 1}, beam.Row(a=1), "dict", "Row"),
]


def in_the_end(pairs: Any) -> Any:
    """The pairs of an outer or left join without the rows that waited for their other side."""
    return pairs | "in the end" >> beam.Filter(lambda pair: pair is not None and None not in pair)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.each_value
def test_keys_that_are_equal_in_python_meet(direct, join, form):
    with direct() as p:
        assert_that(in_the_end(JOINS[join](p, form, LEFT, RIGHT)), equal_to(MEETING))


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_equal_groups_are_members_of_one(direct, form):
    with direct() as p:
        assert_that(groups(p, form, LEFT, RIGHT), equal_to([1, 2] * len(EQUAL)))


@pytest.mark.parametrize("join", ["inner foreign key", "table table", "stream table"])
@pytest.mark.each_value
def test_keys_meet_wherever_partitions_wait_and_on_every_runner(pipeline, join):
    with pipeline() as p:
        assert_that(JOINS[join](p, "records", LEFT, RIGHT), equal_to(MEETING))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.each_value
def test_keys_of_kinds_that_never_meet_stop_every_join_with_a_sentence(direct, join, form):
    sentence = "keys.* are of kind number, the .*keys.* of kind text: they are never equal; convert one of them"
    with pytest.raises(Exception, match=sentence), direct() as p:
        JOINS[join](p, form, Side("left", [1, 2, 3]), Side("right", ["1", "2", "3", "4"]))


@pytest.mark.parametrize(("one", "other", "of_one", "of_other"), NEVER)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.each_value
def test_both_kinds_are_named(direct, form, one, other, of_one, of_other):
    sentence = f"the foreign keys are of kind {of_one}, the right table's keys of kind {of_other}: they are never equal"
    with pytest.raises(Exception, match=sentence), direct() as p:
        JOINS["inner foreign key"](p, form, Side("left", [one, None]), Side("right", [other]))


@pytest.mark.parametrize("join", [join for join in JOINS if join != "windowed stream"])
def test_a_key_that_no_key_of_the_other_sides_type_equals_stops_the_join(direct, join):
    with pytest.raises(Exception, match="never equal"), direct() as p:
        JOINS[join](p, "records", Side("left", ["1", "2"]), Side("right", [1, 2], typed=int))


@pytest.mark.parametrize("join", ["table table", "stream table", "windowed stream", "windowed table"])
def test_types_that_are_never_equal_are_refused_when_the_pipeline_is_built(direct, join):
    with pytest.raises(ValueError, match="joins keys of type str with keys of type int: they are never equal"):
        JOINS[join](direct(), "records", Side("left", ["1"], typed=str), Side("right", [1], typed=int))


TYPED = [(int, [7, 8], float, [7.0, 8.5]), (bool, [True], int, [1, 5]), (tuple[int, str], [(7, "a")], Pair, [Pair(7.0, "a")])]
TYPED += [
    (Pair, [Pair(7, "a")], tuple[int, str], [(7, "a"), (8, "b")]),
    (str, ["a"], Word, [Word.A]),
    (Decimal, [Decimal("0.5")], float, [0.5]),
]


@pytest.mark.parametrize(("left_type", "left", "right_type", "right"), TYPED)
@pytest.mark.parametrize("join", ["inner foreign key", "table table", "stream table", "windowed stream", "windowed table"])
@pytest.mark.each_value
def test_types_whose_values_can_be_equal_are_joined(direct, join, left_type, left, right_type, right):
    with direct() as p:
        joined = JOINS[join](p, "records", Side("left", left, typed=left_type), Side("right", right, typed=right_type))
        assert_that(in_the_end(joined), equal_to([(0, 0)]))


@pytest.mark.parametrize(("join", "form"), JOINS_IN_FORMS)
def test_kinds_that_stand_side_by_side_in_a_table_stop_nothing(direct, join, form):
    with direct() as p:
        joined = JOINS[join](p, form, Side("left", [1, "a", b"x"]), Side("right", ["b", "a", None, (1,)]))
        assert_that(in_the_end(joined), equal_to([(1, 1)]))


@pytest.mark.parametrize("keys", [([], [1, 2]), ([1, 2], []), ([None, None], [1])])
@pytest.mark.parametrize(("join", "form"), JOINS_IN_FORMS)
@pytest.mark.each_value
def test_a_side_without_keys_stops_nothing(direct, join, form, keys):
    with direct() as p:
        joined = JOINS[join](p, form, *map(Side, ("left", "right"), keys))
        assert_that(in_the_end(joined), equal_to([]))
