"""Arrow types for keys made of other keys: those of windowed tables, and pairs of foreign key and primary
key.
"""

from typing import Any, Self

import pyarrow as pa

from beam_joins.elements.combined_key import CombinedKey
from beam_joins.elements.windowed import Window, Windowed


class _Nested(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A struct; a subclass is made of the types of some of its fields, ``_keys``."""

    _keys: tuple[str, ...]

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Self:
        return cls(*(storage_type.field(name).type for name in cls._keys))

    def __reduce__(self) -> Any:
        return type(self), tuple(self.storage_type.field(name).type for name in self._keys)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.storage_type == self.storage_type

    def __hash__(self) -> int:
        return hash((type(self), str(self.storage_type)))


class WindowedType(_Nested):
    """The Arrow type of :class:`~beam_joins.Windowed` keys: a struct of the source key and the window's
    bounds in microseconds.
    """

    _keys = ("key",)

    def __init__(self, source: pa.DataType) -> None:
        super().__init__(pa.struct([("key", source), ("start", pa.int64()), ("end", pa.int64())]), "beam_joins.windowed")


class CombinedKeyType(_Nested):
    """The Arrow type of :class:`~beam_joins.CombinedKey`: a struct of both keys, of which either may be null."""

    _keys = ("foreign_key", "primary_key")

    def __init__(self, foreign_key: pa.DataType, primary_key: pa.DataType) -> None:
        super().__init__(pa.struct([("foreign_key", foreign_key), ("primary_key", primary_key)]), "beam_joins.combined_key")


pa.register_extension_type(WindowedType(pa.null()))
pa.register_extension_type(CombinedKeyType(pa.null(), pa.null()))


def is_windowed(kind: pa.DataType) -> bool:
    """Whether a column of this type holds the keys of a windowed table."""
    return isinstance(kind, WindowedType)


def is_combined(kind: pa.DataType) -> bool:
    """Whether a column of this type holds combined keys."""
    return isinstance(kind, CombinedKeyType)


def windowed_keys(source: pa.Array, start: pa.Array, end: pa.Array, *, mask: pa.Array | None = None) -> pa.Array:
    """Source keys and windows as one column, null where ``mask`` is true; the bounds are int64 in
    microseconds.
    """
    storage = pa.StructArray.from_arrays([source, start, end], names=["key", "start", "end"], mask=mask)
    return pa.ExtensionArray.from_storage(WindowedType(source.type), storage)


def combined_keys(foreign_key: pa.Array, primary_key: pa.Array) -> pa.Array:
    """Foreign keys and primary keys as one column."""
    storage = pa.StructArray.from_arrays([foreign_key, primary_key], names=["foreign_key", "primary_key"])
    return pa.ExtensionArray.from_storage(CombinedKeyType(foreign_key.type, primary_key.type), storage)


def parts_of(keys: pa.Array) -> list[pa.Array]:
    """The columns that windowed or combined keys consist of."""
    parts: list[pa.Array] = keys.storage.flatten()
    return parts


def stored_keys(keys: pa.Array) -> pa.Array:
    """Windowed or combined keys as structs of their parts; other keys as they are."""
    return keys.storage if isinstance(keys, pa.ExtensionArray) else keys


def stored_key_type(kind: pa.DataType) -> pa.DataType:
    """The type of :func:`stored_keys`."""
    return kind.storage_type if isinstance(kind, pa.ExtensionType) else kind


def made_of(kind: pa.DataType, *parts: Any) -> Any:
    """The Python key of its parts."""
    if is_windowed(kind):
        key, start, end = parts
        return Windowed(key, Window(start, end))
    return CombinedKey(*parts)
