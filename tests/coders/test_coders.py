"""Coders give back what they were given, keep their layout byte for byte, and raise one error for garbage."""

import pyarrow as pa
import pytest
from apache_beam.coders import BytesCoder, FastPrimitivesCoder, StrUtf8Coder, VarIntCoder, registry
from hypothesis import example, given
from hypothesis import strategies as st

from beam_joins import Change, CombinedKey, CorruptData, Window, Windowed
from beam_joins.foreign_key import Instruction, Response, Subscription
from beam_joins.record import Record
from coders import ChangeCoder, CombinedKeyCoder, WindowedCoder, read_block, write_block
from coders.combined_key import combine, prefix, split
from coders.messages import read_response, read_subscription, write_response, write_subscription

INT64 = st.integers(-(2**63), 2**63 - 1)
HASH = st.none() | st.binary(min_size=16, max_size=16)
RECORDS = st.builds(Record, st.binary(), st.none() | st.binary(), INT64, INT64, st.integers(0, 127))
VALUES = st.none() | st.dictionaries(st.text(), st.integers() | st.text() | st.none())


def test_a_combined_key_is_laid_out_as_specified():
    coder = CombinedKeyCoder(StrUtf8Coder(), StrUtf8Coder())
    assert coder.encode(CombinedKey("A0", "B1")) == b"\x00\x00\x00\x02A0B1"
    assert coder.prefix("A0") == b"\x00\x00\x00\x02A0"
    assert coder.encode(CombinedKey("", "")) == b"\x00\x00\x00\x00"


@given(st.binary(), st.binary(), st.binary())
@example(b"A0", b"A01", b"1")
def test_a_prefix_selects_exactly_the_rows_of_one_foreign_key(one, other, primary_key):
    assert combine(one, primary_key).startswith(prefix(one))
    assert combine(other, primary_key).startswith(prefix(one)) == (one == other)
    assert split(combine(one, primary_key)) == (one, primary_key)


def test_a_huge_key_is_a_key():
    huge = b"x" * 5_000_000
    assert split(combine(huge, b"k")).foreign_key == huge
    assert read_block(write_block([Record(huge, huge, 0, 0)])).column("key")[0].as_py() == huge


@given(st.text(), st.integers(-(2**62), 2**62))
def test_a_combined_key_comes_back(foreign_key, primary_key):
    coder = CombinedKeyCoder(StrUtf8Coder(), VarIntCoder())
    assert coder.is_deterministic()
    assert coder.decode(coder.encode(CombinedKey(foreign_key, primary_key))) == CombinedKey(foreign_key, primary_key)


@given(st.text(), INT64, INT64)
def test_a_windowed_key_comes_back(key, start, end):
    coder = WindowedCoder(StrUtf8Coder())
    assert coder.decode(coder.encode(Windowed(key, Window(start, end)))) == Windowed(key, Window(start, end))


@given(INT64, INT64)
def test_the_windows_of_a_key_sort_by_time(one, other):
    coder = WindowedCoder(BytesCoder())
    assert (coder.encode(Windowed(b"k", Window(one, 0))) < coder.encode(Windowed(b"k", Window(other, 0)))) == (one < other)


@given(st.text() | st.integers(), VALUES, VALUES, INT64, INT64)
def test_a_change_comes_back(key, old, new, timestamp, position):
    change = Change(key, old, new, timestamp, position)
    assert ChangeCoder().decode(ChangeCoder().encode(change)) == change


def test_beam_writes_changes_with_our_coder():
    assert isinstance(registry.get_coder(Change), ChangeCoder)
    assert isinstance(registry.get_coder(Change[str, int]), ChangeCoder)


@given(st.binary(), st.binary(), st.sampled_from(Instruction), HASH, INT64, INT64)
def test_a_subscription_comes_back(foreign_key, primary_key, instruction, value_hash, timestamp, position):
    message = Subscription(foreign_key, primary_key, instruction, value_hash, timestamp, position)
    assert read_subscription(write_subscription(message, input=0)) == message


@given(st.binary(), HASH, st.none() | st.binary(), INT64, INT64)
def test_a_response_comes_back(primary_key, value_hash, value, timestamp, position):
    message = Response(primary_key, value_hash, value, timestamp, position)
    assert read_response(write_response(message, input=1)) == message


@given(st.lists(RECORDS, max_size=20))
def test_a_block_comes_back(records):
    batch = read_block(write_block(records))
    assert [Record(*row.values()) for row in batch.to_pylist()] == records


@pytest.mark.parametrize("record", [Record(b"k", b"v", 0, 2**63), Record(b"k", b"v", -(2**63) - 1, 0)])
def test_a_position_over_64_bits_is_refused_with_the_number(record):
    with pytest.raises(ValueError, match=r"9223372036854775\d+.* does not fit in 64 bits"):
        write_block([record])


READERS = {
    "combined key": CombinedKeyCoder(StrUtf8Coder(), FastPrimitivesCoder()).decode,
    "windowed key": WindowedCoder().decode,
    "change": ChangeCoder().decode,
    "block": read_block,
    "subscription": lambda garbage: read_subscription(Record(garbage, garbage, 0, 0)),
    "response": lambda garbage: read_response(Record(garbage, garbage, 0, 0)),
}


@pytest.mark.parametrize("name", READERS)
@given(garbage=st.binary(max_size=80))
@example(garbage=b"")
@example(garbage=b"\x13\x03" + b"\x00" * 7)
@example(garbage=b"\xff\xff\xff\xff" + b"\x00" * 4)
def test_garbage_raises_one_error_type_and_never_another(name, garbage):
    try:
        READERS[name](garbage)
    except CorruptData as error:
        assert str(error)


WRITTEN = {
    "change": (ChangeCoder().decode, ChangeCoder().encode(Change("key", {"a": 1}, {"a": 2}, 5, 7))),
    "combined key": (CombinedKeyCoder().decode, combine(b"foreign key", b"")),
    "windowed key": (WindowedCoder().decode, WindowedCoder().encode(Windowed("key", Window(1, 2)))),
    "block": (read_block, write_block([Record(b"key", b"value", 5, 7)] * 3)),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.9])
def test_truncated_bytes_are_corrupt(name, kept):
    read, encoded = WRITTEN[name]
    with pytest.raises(CorruptData):
        read(encoded[: int(len(encoded) * kept)])


def test_a_block_with_other_columns_is_corrupt():
    sink = pa.BufferOutputStream()
    table = pa.table({"key": [b"k"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(CorruptData, match="columns key"):
        read_block(sink.getvalue().to_pybytes())


def test_a_message_of_a_later_version_is_corrupt():
    with pytest.raises(CorruptData):
        read_response(Record(b"k", b"\x22value", 0, 0))
    with pytest.raises(CorruptData):
        read_subscription(Record(combine(b"A", b"k"), bytes((0x10, 9)), 0, 0))
