"""Damaged bytes raise CorruptData, or are read as what they are; nothing else is raised, and nothing is read
that was not written.
"""

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
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
from beam_joins.coders.checked import checked
from beam_joins.coders.key import KeyCoder
from beam_joins.coders.snapshot import read_snapshot, write_snapshot
from beam_joins.errors import StateRefused
from beam_joins.keys import canonical
from beam_joins.keys.opaque import opaque_keys, opaque_values
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.resumed.manifest import (
    Manifest,
    Remembered,
    read_journal,
    read_manifest,
    write_journal,
    write_manifest,
)
from tests.examples import examples
from tests.hostile.damage import TIMES, damaged

many = examples(400 * TIMES)

KEYS: list[Any] = [
    *(7, True, 1.5, -(2**70), 2**70, Decimal("0.1"), "a", b"b", uuid.UUID(int=5), None),
    *(dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1), dt.time(1, 2), dt.timedelta(1)),
    *((1, ("x", None)), frozenset({1, 2}), {"a": 1}),
]
TABLE = pa.table(
    {
        "key": pa.array(["k" * 20, None, "z"] * 9),
        "number": [1, 2, 300] * 9,
        "key of Python": opaque_keys(list(range(27))),
        "value of Python": opaque_values([{"a": n} for n in range(27)]),
        "struct": [{"x": 1, "y": "q"}] * 27,
        "list": [[1, 2]] * 27,
        "words": pa.array(["a", "b", "a"] * 9).dictionary_encode(),
    }
)
BATCH = ChangeBatch(
    key=pa.array([1, 1, 2]),
    new=pa.array([{"a": 1}, None, {"a": 3}]),
    before=pa.array([None, 0, 3]),
    timestamp=pa.array([5, 6, 7]),
    position=pa.array([1, 2, 3]),
    earlier=pa.array([{"a": 9}]),
)
CHANGES = [ChangeCoder().encode(Change(key, {"a": [1, 2.5]}, (1, "x", None), 5, 7)) for key in KEYS]
CHECKED: dict[str, tuple[Callable[[bytes], Any], list[bytes]]] = {
    "block": (read_block, [write_block(TABLE, "left"), write_block(TABLE.select(["number"]), "right")]),
    "batch of changes": (ChangeBatchCoder().decode, [ChangeBatchCoder().encode(BATCH)]),
    "change": (ChangeCoder().decode, CHANGES),
    "dropped record": (DroppedCoder().decode, [DroppedCoder().encode(Dropped("null_key", key, 7)) for key in KEYS]),
    "Arrow table": (ArrowTableCoder().decode, [ArrowTableCoder().encode(TABLE)]),
    "record batch": (RecordBatchCoder().decode, [RecordBatchCoder().encode(TABLE.to_batches()[0])]),
}


@pytest.mark.parametrize("name", CHECKED)
@many
@given(st.data())
def test_what_carries_a_checksum_is_read_only_as_it_was_written(name: str, data: st.DataObject) -> None:
    read, written = CHECKED[name]
    damage = data.draw(damaged(written))
    if damage not in written:
        with pytest.raises(CorruptData, match=r"."):
            read(damage)


@pytest.mark.parametrize("name", ["block", "Arrow table", "record batch"])
@many
@given(st.data())
def test_a_forged_checksum_leads_to_no_other_error(name: str, data: st.DataObject) -> None:
    read, written = CHECKED[name]
    try:
        read(checked(data.draw(damaged([each[:-8] for each in written]))))
    except CorruptData as error:
        assert str(error)


READ: dict[str, tuple[Any, list[bytes]]] = {
    "key": (KeyCoder(), [canonical.encode(key) for key in [*KEYS, KEYS]]),
    "combined key": (CombinedKeyCoder(), [CombinedKeyCoder().encode(CombinedKey(key, KEYS)) for key in KEYS]),
    "windowed key": (WindowedCoder(), [WindowedCoder().encode(Windowed(key, Window(1, 2))) for key in KEYS]),
}


@pytest.mark.parametrize("name", READ)
@many
@given(st.data())
def test_a_damaged_key_is_corrupt_or_a_key_that_can_be_written(name: str, data: st.DataObject) -> None:
    coder, written = READ[name]
    try:
        read = coder.decode(data.draw(damaged(written)))
    except CorruptData as error:
        assert str(error)
    else:
        assert coder.encode(coder.decode(coder.encode(read))) == coder.encode(read)


@many
@given(damaged([canonical.encode(key) for key in KEYS]))
def test_a_damaged_key_is_corrupt_as_a_number_too(damage: bytes) -> None:
    try:
        assert isinstance(canonical.number(damage), int | float | None)
    except CorruptData as error:
        assert str(error)


@many
@given(st.data())
def test_a_damaged_file_of_a_snapshot_is_corrupt(data: st.DataObject) -> None:
    files: list[bytes] = []
    rows = Arrangement().replaced(pa.array([], pa.binary()), pa.table({"order": [b"a", b"b"], "value": [1, 2]}))

    def kept(content: pa.Buffer) -> str:
        files.append(content.to_pybytes())
        return "a.arrow"

    described = write_snapshot(rows, kept)
    damage = data.draw(damaged(files))
    if damage not in files:
        with pytest.raises(CorruptData, match=r"a\.arrow"):
            read_snapshot(described, lambda names: [pa.py_buffer(damage) for _ in names])


MANIFEST = Manifest(
    7,
    16,
    {"files": {"b": 1}},
    {"Join/Join": Remembered(5, 6, {}, {}, {})},
    {"Join": {"transform": "t", "options": {}, "inputs": []}},
    [],
)
WRITTEN = write_manifest(MANIFEST)
JOURNAL = write_journal(WRITTEN, [("/a/part", "/a/whole")])
WORDS = [b"null", b"{}", b"[" * 5_000, b'"', b"NaN", b"9" * 5_000, b'"format": 2,']


@many
@given(damaged([WRITTEN.encode()], WORDS))
def test_a_damaged_manifest_is_refused_or_says_the_same(damage: bytes) -> None:
    try:
        assert read_manifest(damage.decode(errors="replace"), "manifest.json") == MANIFEST
    except (CorruptData, StateRefused) as error:
        assert str(error).startswith("manifest.json ")


@many
@given(damaged([JOURNAL.encode()], WORDS))
def test_a_damaged_journal_is_refused_or_says_the_same(damage: bytes) -> None:
    try:
        assert read_journal(damage.decode(errors="replace"), "commit.json") == (WRITTEN, [("/a/part", "/a/whole")])
    except CorruptData as error:
        assert str(error).startswith("commit.json ")
