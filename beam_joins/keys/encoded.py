"""Encodes columns of keys and values as canonical bytes, which sort as the keys of one kind do."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys import canonical
from beam_joins.keys.nested import is_combined, is_windowed, parts_of
from beam_joins.keys.numbers import NotCanonical
from beam_joins.keys.opaque import is_opaque, python_keys, python_values
from beam_joins.keys.plain import encoded_text, encoded_whole


def encoded_keys(keys: pa.Array) -> pa.Array:
    """The canonical encoding of each key, that of a null too.

    >>> encoded_keys(pa.array([7])).equals(encoded_keys(pa.array([7.0])))
    True
    """
    kind = keys.type
    null = pa.scalar(canonical.NULL, pa.binary())
    if is_opaque(kind):
        return keys.storage.fill_null(null)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return encoded_text(keys, canonical.TEXT if pa.types.is_string(kind) else canonical.BYTES).fill_null(null)
    if pa.types.is_int64(kind):
        return encoded_whole(keys).fill_null(null)
    if is_combined(kind) or (pa.types.is_struct(kind) and kind.num_fields > 0):
        return _tuples([encoded_keys(part) for part in (parts_of(keys) if is_combined(kind) else keys.flatten())], keys)
    if is_windowed(kind):
        source, *window = map(encoded_keys, parts_of(keys))
        return _tuples([source, _tuples(window, keys)], keys)
    return pa.array(map(canonical.encode, python_keys(keys)), pa.binary())


def _tuples(parts: Sequence[pa.Array], keys: pa.Array) -> pa.Array:
    """The encodings of tuples of encoded parts; that of a null where there is no key."""
    made = pc.binary_join_element_wise(pa.scalar(canonical.TUPLE), *map(prefixes, parts), pa.scalar(b""))
    return pc.if_else(keys.is_valid(), made, pa.scalar(canonical.NULL, pa.binary())) if keys.null_count else made


def encoded_values(values: pa.Array) -> pa.Array:
    """The canonical encoding of each value, by which the values of one row are compared; empty for a null.

    A value without one is written as it is stored, or else as Python shows it.

    >>> encoded_values(pa.array([7.0, None])).equals(encoded_values(pa.array([7, None])))
    True
    """
    python = python_values(values)
    others = values.storage.to_pylist() if is_opaque(values.type) else [repr(value).encode() for value in python]
    encoded = [b"" if value is None else _encoded(value, other) for value, other in zip(python, others, strict=True)]
    return pa.array(encoded, pa.binary())


def combined_bytes(foreign_keys: pa.Array, primary_keys: pa.Array) -> pa.Array:
    """Combined keys (KIP-213) of encoded keys: ``{4-byte big-endian length of the foreign key}{foreign
    key}{primary key}``.

    >>> combined_bytes(pa.array([b"A0"]), pa.array([b"B1"]))[0].as_py().hex()
    '0000000241304231'
    """
    return pc.binary_join_element_wise(prefixes(foreign_keys), primary_keys, pa.scalar(b""))


def prefixes(foreign_keys: pa.Array) -> pa.Array:
    """The bytes that every combined key of an encoded foreign key begins with, and no other."""
    lengths = pc.binary_length(foreign_keys).to_numpy(zero_copy_only=False).astype(">u4")
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(foreign_keys), [None, pa.py_buffer(lengths.tobytes())])
    return pc.binary_join_element_wise(fixed.cast(pa.binary()), foreign_keys, pa.scalar(b""))


def _encoded(value: Any, other: bytes) -> bytes:
    try:
        return canonical.encode(value)
    except NotCanonical:
        return other
