"""Values that are Python objects: what is written comes back as it was, type and all, and what has no
encoding is refused.
"""

import datetime as dt
import enum
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders.coder_impl import _AbstractIterable
from apache_beam.utils.timestamp import Duration, Timestamp
from google.protobuf.timestamp_pb2 import Timestamp as Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.msgpack import Ext
from msgspec.msgpack import encode as written

from beam_joins import Change, CorruptData, Window, Windowed
from beam_joins.coders import pickles
from beam_joins.coders.values import ValueCoder, decode, encode
from tests.transforms.own_types import Note, register


@pytest.fixture(autouse=True)
def no_pickles(monkeypatch):
    monkeypatch.setattr(pickles, "_accepted", set())


class Colour(enum.Enum):
    RED = "r"


class Size(enum.IntEnum):
    SMALL = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    one: Any
    other: Any = None


@dataclass
class Order:
    id: int
    lines: list[Any] = field(default_factory=list)
    total: float = field(init=False, compare=False, default=0.0)

    def __post_init__(self):
        self.checked = (self.id, "yes")


@dataclass(frozen=True, slots=True)
class Slotted:
    one: Any
    other: Any = None


class Text(str):
    pass


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
VALUES = [
    *(None, True, 0, -1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**40, 0.5, -0.0, float("inf"), float("nan")),
    *(
        "",
        "ä",
        b"",
        b"\xff",
        (),
        (1, ("a", [2])),
        [],
        [(1,)],
        {},
        {"a": {"b": 2**70}},
        {1: 2, None: 3},
        {(1, 2): {3.5}, True: 1},
        {2**70: 1},
    ),
    *(set(), {1, (2, 3)}, frozenset({(1, 2)}), bytearray(b"x"), 1 - 2j, range(9, 1, -2), Fraction(1, 3), uuid.UUID(int=5)),
    *(Decimal("1.10"), Decimal("-0"), Decimal("sNaN12"), Decimal("1e999999"), Decimal("Infinity")),
    *(dt.date(1, 1, 1), dt.time(23, 59, 59, 999_999), dt.time(1, tzinfo=dt.UTC), dt.timedelta(-1, 2, 3), dt.datetime.max),
    *(
        dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-3), "x")),
    ),
    *(dt.UTC, dt.timezone(dt.timedelta(0), "GMT"), BERLIN, Timestamp(1.5), Timestamp(-5, 7, 9), Duration(3), beam.Row(b=1, a=(2,))),
    *(Counter("aab"), OrderedDict(b=1, a=2), deque([1, 2], 2), deque(), np.arange(6).reshape(2, 3), np.array(["a", "bc"])),
    *(
        np.bool_(True),
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.float32(0.1),
        np.float64(0.1),
        np.complex128(1j),
        np.str_("ä"),
        np.bytes_(b""),
    ),
    *(
        pa.schema([pa.field("a", pa.int64(), metadata={"b": "c"})]),
        np.datetime64("2024-01-01T01", "h"),
        np.timedelta64(3, "ns"),
        np.datetime64("NaT"),
    ),
    *(Colour.RED, Size.SMALL, Access.READ | Access.WRITE, Access(0), Pair(1, Pair({2})), Slotted(1), Slotted({"a": Slotted(None, 2)})),
    *(
        Order(1),
        Order(2, [Order(3)]),
        Message(seconds=5),
        Window(1, 2),
        Windowed("k", Window(1, 2)),
        Change("k", None, {"a": 1}, 5, 7),
    ),
]


@pytest.mark.parametrize("value", [*VALUES, VALUES], ids=lambda value: f"{type(value).__name__} {value!r:.40}")
def test_a_value_comes_back_as_it_was(value):
    read = decode(encode(value))
    assert type(read) is type(value)
    assert repr(read) == repr(value)
    assert repr(decode(encode({"a": [value, 1]}))) == repr({"a": [value, 1]})


def test_attributes_that_are_no_fields_come_back():
    order = Order(7)
    order.total = 9.5
    read = decode(encode(order))
    assert (read, read.total, read.checked) == (order, 9.5, (7, "yes"))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary()
        | st.decimals(allow_nan=False),
        lambda part: (
            st.lists(part)
            | st.tuples(part, part)
            | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers(), st.text()), part)
            | st.builds(Pair, part, part)
            | st.builds(Slotted, part, part)
        ),
    )
)
def test_whatever_is_nested_comes_back(value):
    assert repr(decode(encode(value))) == repr(value)


def test_a_type_with_a_coder_is_written_by_it_wherever_it_stands():
    register()
    for value in (Note("x"), [Note("x")], {"a": (Note("x"),)}, Pair(Note("x"))):
        read = ValueCoder().decode(ValueCoder().encode(value))
        while not isinstance(read, Note):
            (read, *_) = read.values() if isinstance(read, dict) else read
        assert read.text == "x"


def test_the_values_of_a_group_that_lie_elsewhere_become_a_list():
    assert decode(encode({"a": _AbstractIterable([1, (2,)])})) == {"a": [1, (2,)]}


REFUSED = {
    "object": object(),
    "function": len,
    "type": int,
    "test_values.Text": Text("a"),
    "defaultdict": defaultdict(list),
    "module": dt,
    "numpy.void": np.zeros(1, "i4,i4")[0],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_of_another_type_is_refused_with_what_to_do(name):
    for value in (REFUSED[name], {"a": [REFUSED[name]]}):
        with pytest.raises(
            ValueError,
            match=rf"a value of type \S*{name}\S* is written by pickle only, which is not accepted: use a dataclass, a "
            r"NamedTuple or typed columns,"
            r" register a coder for the type, or allow pickles with --beam_joins_pickled_values",
        ):
            encode(value)


def test_pickles_are_written_and_read_where_they_are_accepted(monkeypatch):
    text = Text("a")
    monkeypatch.setattr(pickles, "_accepted", {"so"})
    pickled = encode({"a": text, "b": 1})
    assert type(decode(pickled)["a"]) is Text
    monkeypatch.setattr(pickles, "_accepted", set())
    with pytest.raises(CorruptData, match="pickles are not accepted"):
        decode(pickled)


def test_what_cannot_be_read_again_is_refused_when_it_is_written():
    local = make_dataclass("Local", ["one"])
    local.__qualname__ = "f.<locals>.Local"
    endless: list[Any] = []
    endless.append(endless)
    with open(zoneinfo.TZPATH[0] + "/UTC" if zoneinfo.TZPATH else "", "rb") as file:
        nameless = zoneinfo.ZoneInfo.from_file(file)
    for value, message in (
        (local(1), "local to a function, and workers cannot import it"),
        (endless, "nested too deeply, or in itself"),
        (nameless, "has no name by which it can be written"),
        (np.array([object()]), "a NumPy array of Python objects"),
    ):
        with pytest.raises(ValueError, match=message):
            encode(value)


@pytest.mark.parametrize(
    ("code", "parts", "message"),
    [
        (3, [b"datetime.date", "x"], "is no enum"),
        (3, [b"tests.coders.test_values.Colour", "BLUE"], "BLUE"),
        (4, [b"tests.coders.test_values.Pair", 1], "is no named tuple of 1 fields"),
        (4, [b"builtins.tuple"], "is no named tuple"),
        (5, [b"tests.coders.test_values.Text", {}], "is no dataclass"),
        (6, [b"tests.coders.test_values.Text", b""], "is no protobuf message"),
        (5, [b"tests.coders.test_values.Gone", {}], "is not there in this process"),
        (7, [1, 2, 3], "zip"),
        (31, [], "not known: 31"),
    ],
)
def test_what_is_of_no_value_is_corrupt(code, parts, message):
    with pytest.raises(CorruptData, match=message):
        ValueCoder().decode(written(Ext(code, written(parts))))
