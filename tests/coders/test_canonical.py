"""The one encoding of keys: equal in Python is equal in bytes, what was written is read, and garbage raises
one error.
"""

import dataclasses
import datetime as dt
import tracemalloc
import uuid
from decimal import Decimal

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import example, given
from hypothesis import strategies as st

from beam_joins import CorruptData
from beam_joins.coders import read_block, write_block
from beam_joins.coders.key import KeyCoder
from beam_joins.keys.canonical import decode, encode, number, parts
from beam_joins.keys.classes import class_of
from beam_joins.keys.encoded import encoded_values
from beam_joins.keys.kinds import kind
from beam_joins.keys.numbers import NotCanonical
from beam_joins.keys.opaque import KEYS, VALUES, opaque_keys, opaque_values, python_values
from tests.coders import keys_of_all_kinds as all_kinds
from tests.coders.keys_of_all_kinds import (
    NOON,
    TWICE,
    UTC,
    Access,
    Colour,
    Computed,
    Frozen,
    Level,
    Pair,
    Plain,
    Slotted,
    Word,
    one_key,
)
from tests.examples import examples


@dataclasses.dataclass(eq=False)
class Unequal:
    """Of no type that has a canonical encoding."""


thorough = examples(300)
SAMPLES = [*all_kinds.WHOLE, *all_kinds.FRACTIONS, *all_kinds.DECIMALS, *all_kinds.NUMPY, *all_kinds.ENUMS, *all_kinds.TIMES]
SAMPLES += [*all_kinds.TEXTS, *all_kinds.OTHERS, True, False, (), [1], (1,), (1.0,), ((1,),), {1}, frozenset([1]), {}, {"a": 1}]
SAMPLES += [Pair(1, "a"), (1, "a"), Plain(1, "a"), Plain(1, "b"), Frozen(1), Frozen(1.0), Slotted(one=1), Slotted(one=1, size=5)]
SAMPLES += [beam.Row(a=1, b=2), beam.Row(b=2, a=1), {"b": 2, "a": 1}, {"a": 1, "b": 2}, {1: "a"}, {True: "a"}, (None, 1), (1, None)]


def test_of_all_kinds_two_values_have_the_same_bytes_exactly_if_they_are_equal():
    encoded = [encode(value) for value in SAMPLES]
    for i, one in enumerate(SAMPLES):
        for j, other in enumerate(SAMPLES):
            assert (encoded[i] == encoded[j]) is one_key(one, other), (one, other)
            assert encoded[i] != encoded[j] or kind(encoded[i]) == kind(encoded[j])


@given(all_kinds.VALUES, all_kinds.VALUES)
@thorough
def test_any_two_values_have_the_same_bytes_exactly_if_they_are_equal(one, other):
    assert (encode(one) == encode(other)) is one_key(one, other)


@given(all_kinds.VALUES)
@thorough
@example(Computed([1], 3))
@example(dt.timedelta.max)
@example(beam.Row(b=1, a=2))
def test_what_is_read_is_equal_and_is_written_as_it_was(value):
    encoded = encode(value)
    read = decode(encoded)
    assert one_key(read, value)
    assert encode(read) == encoded
    repr(read)


def test_what_equality_leaves_out_comes_back_as_its_default():
    assert decode(encode(Slotted(one=1, size=5))).size == 0
    read = decode(encode(Computed(1, 3)))
    assert (read.doubled, read.seen, read.cached) == ((1, 3), [], None)
    read.seen.append(1)
    assert decode(encode(Computed(1, 3))).seen == []


def test_the_plain_form_is_what_is_read():
    given = [7.0, Decimal("7.00"), np.int8(7), [1], Pair(1, 2), bytearray(b"x"), Word.A, Level.LOW, np.str_("x"), {1}]
    plain = [7, 7, 7, (1,), (1, 2), b"x", "a", 1, "x", frozenset([1])]
    read = [decode(encode(value)) for value in given]
    assert [(type(value), value) for value in read] == [(type(value), value) for value in plain]


SORTED = {
    "whole numbers": st.integers() | st.integers(-(2**80), 2**80) | st.sampled_from(all_kinds.WHOLE),
    "fractions": st.floats(allow_nan=False).filter(lambda f: not f.is_integer()),
    "text": st.text(),
    "bytes": st.binary(),
    "dates": st.dates(),
    "times of day": st.times(),
    "datetimes": st.datetimes(),
    "instants": st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1), timezones=st.timezones()).map(lambda d: d.astimezone(UTC)),
    "timedeltas": st.timedeltas(),
    "Beam Timestamps": st.integers(-(2**62), 2**62).map(lambda n: Timestamp(micros=n)),
}


@pytest.mark.parametrize("values", SORTED.values(), ids=SORTED)
@given(data=st.data())
@thorough
def test_values_of_one_kind_sort_by_their_bytes(values, data):
    one, other = data.draw(values), data.draw(values)
    assert (encode(one) < encode(other)) is (one < other)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (np.datetime64("NaT"), "no time in microseconds"),
        (np.datetime64(1, "ns"), "no time in microseconds"),
        (np.datetime64(2**62, "s"), "no time in microseconds"),
        (np.datetime64(10**18, "us"), "no time in microseconds"),
        (np.timedelta64(1, "Y"), "no length of time"),
        (np.timedelta64(1, "ns"), "no time in microseconds"),
        (np.longdouble(1) / 3, "no float of 64 bits"),
        (1j, "of type builtins.complex, which has no canonical encoding"),
        (object(), "of type builtins.object, which has no canonical encoding"),
        (Decimal("1E+999999999"), "between 1E-10000 and"),
        (Decimal("1E-999999999"), "between 1E-10000 and"),
        (dt.time(1, tzinfo=UTC), "a time of day with a time zone"),
        (dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=1))), "before the year 1 or after 9999 in UTC"),
        (Timestamp(micros=2**70), "does not fit in 64 bits"),
    ],
)
def test_what_has_no_encoding_is_refused_at_once_and_with_a_sentence(value, complaint):
    with pytest.raises(NotCanonical, match=complaint):
        encode((value,))


def test_a_dataclass_without_equality_is_no_key():
    lonely = dataclasses.make_dataclass("Lonely", ["one"], eq=False)
    with pytest.raises(NotCanonical, match="equal to nothing but itself: let its dataclass have eq=True"):
        encode(lonely(1))


def test_what_contains_itself_is_no_key():
    circle = []
    circle.append(circle)
    with pytest.raises(NotCanonical, match="nested too deeply, or in itself"):
        encode(circle)


def test_a_value_without_a_canonical_encoding_is_compared_by_its_own_bytes():
    values = opaque_values([{"of": Unequal()}, None])
    assert encoded_values(values).to_pylist() == [values.storage[0].as_py(), b""]


def nested(levels):
    encoded = encode(1)
    for _ in range(levels):
        encoded = b"(" + len(encoded).to_bytes(4, "big") + encoded
    return encoded


GARBAGE = {
    "nothing": b"",
    "an unknown kind": b"\x00",
    "a text that is none": b"s\xff",
    "a number that is too short": b"i\x80",
    "a number that is too long": b"i" + b"\x80" * 9,
    "a big number of another length": b"j\x00\x00\x00\x09\x01",
    "a Decimal of a thousand million digits": b"g1E999999999",
    "a Decimal that is a nan": b"gNaN",
    "a datetime beyond the last year": b"t" + b"\xff" * 8,
    "a datetime before the first year": b"l" + b"\x00" * 8,
    "a date without such a month": b"d2020-13-01",
    "a time with a zone": b"c01:00:00+01:00",
    "a timedelta beyond the longest": b"x" + b"\xff" * 10,
    "a UUID of four bytes": b"uabcd",
    "a part of 4 GB": b"(\xff\xff\xff\xff" + encode(1),
    "a part in a part of 4 GB": b"(\x00\x00\x00\x05(\xff\xff\xff\xff",
    "half a length": b"(\x00\x00",
    "a dict with a name only": b"=" + (1).to_bytes(4, "big") + b"0",
    "a dict named by a dict": b"=" + b"\x00\x00\x00\x01=" * 2,
    "an enum of no name": b"e",
    "an enum that is a date": b"e\x00\x00\x00\x0ddatetime.date\x00\x00\x00\x02sX",
    "an enum without such a member": encode(Colour.BLUE).replace(b"BLUE", b"PINK"),
    "a dataclass that is not there": encode(Frozen(1)).replace(b"Frozen", b"Melted"),
    "a dataclass with another field": encode(Frozen(1)).replace(b"sone", b"stwo"),
    "a class that is no dataclass": b"a\x00\x00\x00\x0ddatetime.date",
    "a class with a long name": b"a" + (200_000).to_bytes(4, "big") + b"a." * 100_000,
    "parts in parts without end": nested(100_000),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_corrupt_and_costs_little(garbage):
    tracemalloc.start()
    with pytest.raises(CorruptData, match=r"."):
        decode(garbage)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000_000


ENCODED = [encode(value) for value in (*SAMPLES, *[(value, [value]) for value in SAMPLES])]


@given(st.sampled_from(ENCODED), st.sampled_from(ENCODED), st.binary(max_size=8), st.integers(0, 400), st.integers(0, 400))
@thorough
@pytest.mark.parametrize("way", ["cut", "flipped", "spliced", "random"])
def test_damaged_bytes_raise_corrupt_data_and_nothing_else(way, one, other, noise, here, present):
    here, present = here % len(one), present % len(other)
    damaged = {
        "cut": one[:here],
        "flipped": one[:here] + noise + one[here + len(noise) :],
        "spliced": one[:here] + other[present:],
        "random": one[:1] + noise,
    }[way]
    for read in (decode, number, kind, lambda encoded: list(parts(encoded)), KeyCoder(int).decode, KeyCoder(Pair).decode):
        try:
            read(damaged)
        except CorruptData as error:
            assert str(error)


@pytest.mark.parametrize(
    ("key_type", "key", "plain"),
    [
        (float, 7.0, 7.0),
        (float, 2**70 + 1, 2**70 + 1),
        (float, Decimal("0.1"), Decimal("0.1")),
        (bool, True, True),
        (bool, 5, 5),
        (Decimal, Decimal("7.00"), Decimal(7)),
        (Decimal, 0.5, Decimal("0.5")),
        (Pair, Pair(1, "a"), Pair(1, "a")),
        (Pair, (1, 2, 3), (1, 2, 3)),
        (int, 7.5, 7.5),
        (np.int64, 7, 7),
        (np.timedelta64, np.timedelta64(1, "s"), dt.timedelta(seconds=1)),
        (np.timedelta64, dt.timedelta(seconds=1), dt.timedelta(seconds=1)),
        (np.datetime64, np.datetime64("2020-10-25T12"), NOON),
        (dt.datetime, NOON, NOON),
        (uuid.UUID, uuid.UUID(int=1), uuid.UUID(int=1)),
        (Colour, Colour.CRIMSON, Colour.RED),
        (Access, Access.READ | Access.WRITE, Access(3)),
        (Frozen, Frozen(1), Frozen(1)),
        (tuple[int, str], (1, "a"), (1, "a")),
    ],
)
def test_a_coder_of_a_type_reads_keys_of_that_type_and_others_as_they_are(key_type, key, plain):
    coder = KeyCoder(key_type)
    read = coder.decode(coder.encode(key))
    assert (type(read), read) == (type(plain), plain)
    assert coder.encode(read) == KeyCoder().encode(key)


def test_instants_are_equal_whatever_the_clock_shows():
    assert encode(TWICE) != encode(TWICE.replace(fold=1))
    assert decode(encode(TWICE.replace(fold=1))) == dt.datetime(2020, 10, 25, 1, 30, tzinfo=UTC)


def test_a_class_that_this_process_does_not_have_is_named():
    with pytest.raises(CorruptData, match="the class nowhere.at.all.Thing is not there in this process: define it in a module"):
        class_of(b"nowhere.at.all.Thing")


@given(st.integers(0, 5000), st.binary(min_size=1, max_size=4) | st.just(b"\xff" * 4))
@thorough
def test_a_damaged_block_of_python_objects_is_corrupt_or_read(at, noise):
    rows = pa.record_batch([opaque_keys([1, (2, "b"), None] * 3), pa.array(["text"] * 9)], names=["key", "text"])
    block = write_block(rows, "left")
    at %= len(block)
    try:
        _, read = read_block(block[:at] + noise + block[at + len(noise) :])
        for column in read.columns:
            python_values(column)
    except CorruptData as error:
        assert str(error)


@pytest.mark.parametrize(
    ("of", "cell"), [(KEYS, b"i\x80"), (KEYS, b""), (VALUES, b"\xc1"), (VALUES, opaque_values([[1, 2, 3]]).storage[0].as_py()[:3])]
)
def test_garbage_in_a_cell_of_python_objects_is_corrupt(of, cell):
    column = pa.ExtensionArray.from_storage(of, pa.array([cell, None], pa.binary()))
    (_, read) = read_block(write_block(pa.record_batch([column], names=["key"]), "left"))
    with pytest.raises(CorruptData, match=r"."):
        python_values(read["key"])
