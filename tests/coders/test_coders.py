"""Coders give back what they were given, keep their layout byte for byte, and raise one error for garbage."""

from decimal import Decimal
from typing import get_args

import pyarrow as pa
import pytest
from apache_beam.coders import BytesCoder, FastPrimitivesCoder, StrUtf8Coder, VarIntCoder, registry
from hypothesis import example, given
from hypothesis import strategies as st

from beam_joins import Change, CombinedKey, CorruptData, Dropped, Window, Windowed
from beam_joins.coders import (
    ArrowTableCoder,
    ChangeBatchCoder,
    ChangeCoder,
    CombinedKeyCoder,
    DroppedCoder,
    RecordBatchCoder,
    WindowedCoder,
    read_block,
    write_block,
)
from beam_joins.coders.block import Compression, read_blocks
from beam_joins.coders.checked import checked
from beam_joins.coders.combined_key import combine, prefix, split
from beam_joins.tables.batch import ChangeBatch

INT64 = st.integers(-(2**63), 2**63 - 1)
ROWS = st.fixed_dictionaries({"key": st.binary(), "value": st.none() | st.binary(), "timestamp": INT64, "position": INT64})
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
    assert read_block(write_block(pa.table({"key": [huge]}), "rows"))[1]["key"][0].as_py() == huge


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


@given(st.text(), VALUES, INT64)
def test_a_dropped_record_comes_back(reason, record, timestamp):
    coder = registry.get_coder(Dropped)
    assert coder.decode(coder.encode(Dropped(reason, record, timestamp))) == Dropped(reason, record, timestamp)


@given(st.lists(ROWS, max_size=20))
def test_a_block_comes_back(given_rows):
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()), ("position", pa.int64())])
    name, rows = read_block(write_block(pa.Table.from_pylist(given_rows, schema=schema), "left"))
    assert name == "left"
    assert rows.to_pylist() == given_rows


@pytest.mark.parametrize("compression", get_args(Compression))
def test_a_large_block_is_compressed_and_comes_back(compression):
    rows = pa.table({"key": ["text", None] * 10_000})
    block = write_block(rows, "left", compression=compression)
    assert len(block) < len(write_block(rows, "left", compression=None)) * 2 / 3
    name, read = read_block(block)
    assert (name, pa.Table.from_batches([read])) == ("left", rows)


def test_blocks_are_put_together_by_input():
    blocks = [write_block(pa.table({"key": [i]}), name) for i, name in enumerate(["left", "right", "left"])]
    assert {name: rows["key"].to_pylist() for name, rows in read_blocks(blocks).items()} == {"left": [0, 2], "right": [1]}


def test_blocks_whose_columns_do_not_fit_are_refused_by_name():
    blocks = [write_block(pa.table({"key": [1]}), "left"), write_block(pa.table({"key": ["a"]}), "left")]
    with pytest.raises(
        ValueError, match="the column 'left.key' is of type int64 in some batches and string in others: cast it to one"
    ):
        read_blocks(blocks)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["a"]), pa.array([b"a"])),
        (pa.array([Decimal("0.10")]), pa.array([0.1])),
        (pa.array([{"x": "a"}]), pa.array([{"x": b"a", "y": 1}])),
        (pa.array([["a"]]), pa.array([[b"a"]])),
    ],
    ids=["text and bytes", "decimals and fractions", "in a struct", "in a list"],
)
def test_values_that_differ_do_not_become_one_because_their_batches_are_of_two_types(one, other):
    for columns in ((one, other), (other, one)):
        with pytest.raises(
            ValueError, match=r"the column 'left\.key.*' is of type .* in some batches and .* in others: cast it to one"
        ):
            read_blocks([write_block(pa.table({"key": column}), "left") for column in columns])


def test_a_batch_of_changes_comes_back():
    batch = ChangeBatch(
        key=pa.array([1, 1, 2]),
        new=pa.array([{"a": 1}, None, {"a": 3}]),
        before=pa.array([None, 0, None]),
        timestamp=pa.array([5, 6, 7]),
        position=pa.array([1, 2, 3]),
    )
    assert ChangeBatchCoder().decode(ChangeBatchCoder().encode(batch)).to_arrow() == batch.to_arrow()
    assert batch.old.to_pylist() == [None, {"a": 1}, None]
    assert isinstance(registry.get_coder(ChangeBatch), ChangeBatchCoder)


def test_arrow_tables_and_record_batches_have_coders_that_do_not_pickle_them():
    table = pa.concat_tables([pa.table({"a": [1, 2]}), pa.table({"a": [3, None]})])
    (batch,) = table.slice(0, 2).to_batches()
    for value in (table, batch):
        coder = registry.get_coder(type(value))
        assert coder.decode(coder.encode(value)).equals(value)
        assert coder.estimate_size(value) == value.nbytes
        assert b"pyarrow" not in coder.encode(value)


READERS = {
    "combined key": CombinedKeyCoder(StrUtf8Coder(), FastPrimitivesCoder()).decode,
    "windowed key": WindowedCoder().decode,
    "change": ChangeCoder().decode,
    "dropped record": DroppedCoder().decode,
    "block": read_block,
    "batch of changes": ChangeBatchCoder().decode,
    "Arrow table": ArrowTableCoder().decode,
    "record batch": RecordBatchCoder().decode,
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
    "dropped record": (DroppedCoder().decode, DroppedCoder().encode(Dropped("null_key", {"a": 1}, 5))),
    "combined key": (CombinedKeyCoder().decode, combine(b"foreign key", b"")),
    "windowed key": (WindowedCoder().decode, WindowedCoder().encode(Windowed("key", Window(1, 2)))),
    "block": (read_block, write_block(pa.table({"key": [b"key"] * 3, "timestamp": [5] * 3}), "rows")),
    "Arrow table": (ArrowTableCoder().decode, ArrowTableCoder().encode(pa.concat_tables([pa.table({"key": ["key"] * 3})] * 9))),
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
        read_block(checked(sink.getvalue()))
