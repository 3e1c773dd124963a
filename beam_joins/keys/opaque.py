"""Opaque columns: Python objects encoded as bytes, for values without an Arrow type.

Keys that a function of one record gives are opaque, in their canonical encoding, and so are values, in one
that gives them back as they were: no type is inferred from the rows that happen to be in one partition.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.errors import CorruptData
from beam_joins.keys import canonical
from beam_joins.keys.nested import is_combined, is_windowed, made_of, parts_of
from beam_joins.keys.plain import decoded_plain, encoded_plain
from beam_joins.values.arrow_types import python_list

Content = Literal["key", "value"]
_PART_ROWS, _PART_BYTES = 1 << 12, 1 << 24
_CODECS: dict[Content, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {}


def register(content: Content, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
    """Say how keys or values are written."""
    _CODECS[content] = encode, decode


register("key", canonical.encode, canonical.decode)


class OpaqueType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """The Arrow type of encoded Python objects; keys are equal exactly if their bytes are."""

    def __init__(self, content: Content) -> None:
        self.content = content
        super().__init__(pa.binary(), "beam_joins.opaque")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.content.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> "OpaqueType":
        return KEYS if serialized == b"key" else VALUES

    def __reduce__(self) -> Any:
        return OpaqueType, (self.content,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueType) and other.content == self.content

    def __hash__(self) -> int:
        return hash(self.content)

    def __str__(self) -> str:
        return "opaque"


KEYS, VALUES = OpaqueType("key"), OpaqueType("value")
pa.register_extension_type(VALUES)


def is_opaque(kind: pa.DataType) -> bool:
    """Whether a column of this type holds Python objects."""
    return isinstance(kind, OpaqueType)


def opaque_keys(keys: Iterable[Any]) -> pa.Array:
    """Keys as an opaque column; raises ``ValueError`` for a key without a canonical encoding.

    >>> keys = opaque_keys([7.0, (1, "a"), None])
    >>> python_values(keys)
    [7, (1, 'a'), None]
    """
    keys = list(keys)
    plain = encoded_plain(keys)
    return opaque_encoded([None if key is None else canonical.encode(key) for key in keys] if plain is None else plain)


def opaque_encoded(keys: Sequence[bytes | None] | pa.Array) -> pa.Array:
    """Keys in their canonical encoding as an opaque column."""
    return pa.ExtensionArray.from_storage(KEYS, keys if isinstance(keys, pa.Array) else pa.array(keys, pa.binary()))


def opaque_values(values: Iterable[Any]) -> pa.Array:
    """Values as an opaque column."""
    encode, _ = _CODECS["value"]
    encoded = pa.array([None if value is None else encode(value) for value in values], pa.binary())
    return pa.ExtensionArray.from_storage(VALUES, encoded)


def python_values(column: pa.Array) -> list[Any]:
    """The values of any column as Python has them, each a new object; raises :class:`CorruptData` for bytes
    that are none.
    """
    kind = column.type
    if pa.types.is_struct(kind) and any(is_opaque(field.type) for field in kind):
        names, parts = [field.name for field in kind], map(python_values, column.flatten())
        return [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
    if not isinstance(kind, OpaqueType):
        return python_list(column)
    if kind.content == "key" and (plain := decoded_plain(column.storage)) is not None:
        return plain
    _, decode = _CODECS[kind.content]
    try:
        return [None if encoded is None else decode(encoded) for encoded in column.storage.to_pylist()]
    except CorruptData:
        raise
    except Exception as error:
        raise CorruptData(f"a Python object that cannot be read: {error}") from error


def each_in_python(column: pa.Array, index: npt.NDArray[np.int64] | None = None) -> Iterator[Any]:
    """The values at the indices, by default all in their order: each a new object at each use, ``None`` where
    an index is negative.

    Few of them are in memory at a time.

    >>> list(each_in_python(pa.array([{"n": 1}, {"n": 2}]), np.array([1, -1, 0])))
    [{'n': 2}, None, {'n': 1}]
    """
    size = max(1, min(_PART_ROWS, _PART_BYTES // max(1, _largest(column))))
    starts = range(0, len(column) if index is None else len(index), size)

    def part(start: int) -> list[Any]:
        if index is None:
            return python_values(column.slice(start, size))
        taken = index[start : start + size]
        return python_values(column.take(pa.array(taken, mask=taken < 0)))

    return chain.from_iterable(map(part, starts))


def _largest(column: pa.Array) -> int:
    """No value of the column takes more bytes; at least those of a pointer."""
    kind, parts, times = column.type, [], 1
    if isinstance(kind, pa.BaseExtensionType):
        parts = [column.storage]
    elif pa.types.is_struct(kind):
        parts = column.flatten()
    elif pa.types.is_dictionary(kind):
        parts = [column.dictionary]
    elif pa.types.is_map(kind):
        parts, times = [column.keys, column.items], int(np.diff(column.offsets.to_numpy()).max(initial=0))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        parts, times = [column.flatten()], pc.max(pc.list_value_length(column)).as_py() or 0
    if parts:
        return 8 + times * sum(map(_largest, parts))
    if any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)):
        return 8 + (pc.max(pc.binary_length(column)).as_py() or 0)
    try:
        return 8 + int(kind.bit_width) // 8
    except ValueError:
        return 8 + int(column.nbytes)


def python_keys(keys: pa.Array) -> list[Any]:
    """The keys of any column as Python has them: those of several columns are tuples.

    >>> python_keys(pa.array([("a", 1), None], pa.struct({"shop": pa.string(), "id": pa.int64()})))
    [('a', 1), None]
    """
    kind = keys.type
    is_struct = pa.types.is_struct(kind) and kind.num_fields > 0
    if not (is_struct or is_windowed(kind) or is_combined(kind)):
        return python_values(keys)
    parts = zip(*map(python_keys, keys.flatten() if is_struct else parts_of(keys)), strict=True)
    made = parts if is_struct else (made_of(kind, *of_key) for of_key in parts)
    return [key if is_there else None for key, is_there in zip(made, keys.is_valid().to_pylist(), strict=True)]
