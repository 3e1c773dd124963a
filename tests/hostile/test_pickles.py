"""What says that a pickle is to be read, or a class to be called, does neither: no file is touched, and
CorruptData is raised.
"""

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.coders import BytesCoder, FastPrimitivesCoder
from apache_beam.internal import cloudpickle_pickler
from msgspec.msgpack import Ext, encode

from beam_joins import Change, CorruptData
from beam_joins.coders import ChangeBatchCoder, ChangeCoder, DroppedCoder, pickles, read_block, write_block
from beam_joins.coders.checked import checked
from beam_joins.coders.snapshot import read_snapshot, write_snapshot
from beam_joins.coders.values import ValueCoder
from beam_joins.keys.opaque import VALUES, python_values
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.batch import ChangeBatch

TOUCHED = Path("touched")


class Touches:
    """Makes a file where it is unpickled."""

    def __reduce__(self) -> Any:
        return TOUCHED.touch, ()


PICKLED = pickle.dumps(Touches())
CODES = range(64)


def of_beam(tag: int) -> bytes:
    """A value of Beam's coder for anything, of a type that it unpickles."""
    written = cloudpickle_pickler.dumps(Touches())
    assert len(written) < 1 << 14
    return bytes([tag, len(written) & 127 | 128, len(written) >> 7]) + written


def named(code: int, *parts: Any) -> bytes:
    return encode(Ext(code, encode(parts)))


HOSTILE: dict[str, bytes] = {
    "a pickle": PICKLED,
    "as Beam writes what it does not know": FastPrimitivesCoder().encode(Touches()),
    **{f"a class of Beam's tag {tag}": of_beam(tag) for tag in range(100, 106)},
    **{f"a pickle of code {code}": encode(Ext(code, PICKLED)) for code in CODES},
    "a pickle in a list in a dict": encode({"a": [Ext(8, PICKLED)]}),
    **{f"a function named in code {code}": named(code, b"os.mkdir", str(TOUCHED)) for code in CODES},
    **{f"a class named in code {code}": named(code, b"io.FileIO", str(TOUCHED), "w") for code in CODES},
    **{f"a class with a state in code {code}": named(code, b"io.FileIO", {"file": str(TOUCHED), "mode": "w"}) for code in CODES},
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pickles, "_accepted", set())


def column(value: bytes) -> pa.Array:
    return pa.ExtensionArray.from_storage(VALUES, pa.array([value], pa.binary()))


def in_a_block(value: bytes) -> Any:
    return python_values(read_block(write_block(pa.table({"value": column(value)}), "left"))[1].column("value"))


def in_a_snapshot(value: bytes) -> Any:
    files: dict[str, pa.Buffer] = {}
    rows = Arrangement().replaced(pa.array([], pa.binary()), pa.table({"order": [b"a"], "value": column(value)}))
    described = write_snapshot(rows, lambda content: files.setdefault("a.arrow", content) and "a.arrow")
    return python_values(read_snapshot(described, lambda names: map(files.__getitem__, names)).state.table()["value"].combine_chunks())


def in_a_batch(value: bytes) -> Any:
    numbers = pa.array([1])
    written = ChangeBatchCoder().encode(
        ChangeBatch(key=numbers, new=column(value), before=pa.array([None], pa.int64()), timestamp=numbers, position=numbers)
    )
    return list(ChangeBatchCoder().decode(written))


def in_a_change(value: bytes, hint: Any = Change) -> Any:
    written = ChangeCoder(value_coder=BytesCoder()).encode(Change("k", None, value, 5, 7))
    return ChangeCoder.from_type_hint(hint, None).decode(written)


def in_a_dropped_record(value: bytes) -> Any:
    written = b"".join((b"\x93", encode("null_key"), value, encode(7)))  # a list of three
    return DroppedCoder().decode(checked(written))


READ: dict[str, Callable[[bytes], Any]] = {
    "a block": in_a_block,
    "a snapshot": in_a_snapshot,
    "a batch": in_a_batch,
    "a change": in_a_change,
    "a dropped record": in_a_dropped_record,
    "a change of dicts": lambda value: in_a_change(value, Change[Any, dict[str, Any]]),
    "a change of pairs": lambda value: in_a_change(value, Change[Any, tuple[int, Any]]),
    "a change of lists": lambda value: in_a_change(value, Change[Any, list[Any]]),
    "a change of what may be missing": lambda value: in_a_change(value, Change[Any, object | None]),
    "a change of a class": lambda value: in_a_change(value, Change[Any, Touches]),
}


@pytest.mark.parametrize("place", READ)
def test_it_is_not_executed(place: str) -> None:
    for what, value in HOSTILE.items():
        with suppress(CorruptData):  # some of it is a tuple or a list of what it holds
            READ[place](value)
        assert not TOUCHED.exists(), what


@pytest.mark.parametrize("place", READ)
def test_a_pickle_is_refused_by_its_name_and_read_where_it_is_accepted(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        CorruptData, match="a value that is pickled, and pickles are not accepted: --beam_joins_pickled_values allows them"
    ):
        READ[place](HOSTILE["a pickle in a list in a dict"])
    assert not TOUCHED.exists()
    monkeypatch.setattr(pickles, "_accepted", {"so"})
    READ[place](HOSTILE["a pickle in a list in a dict"])
    assert TOUCHED.exists(), "else this file proves nothing"


def test_beams_own_coder_would_have_called_them() -> None:
    with pytest.raises(Exception, match=r"."):
        FastPrimitivesCoder().decode(of_beam(101))
    assert TOUCHED.exists()


def test_values_nested_too_deeply_are_corrupt() -> None:
    deep = b"\x01"
    for _ in range(3_000):
        deep = encode(Ext(1, b"\x91" + deep))
    for written in (deep, b"\x91" * 100_000):
        with pytest.raises(CorruptData, match=r"."):
            ValueCoder().decode(written)
