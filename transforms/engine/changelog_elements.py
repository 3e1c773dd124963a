"""A raw changelog of single elements: dicts, objects or pairs on their way to become rows in columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from apache_beam.typehints.row_type import RowTypeConstraint

from beam_joins.coders.key import KeyCoder, encode_key
from beam_joins.fields import field, micros, names_of, place, tie_order
from beam_joins.keys.columns import comparable
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import opaque_encoded
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.changelog_columns import ChangelogColumns
from beam_joins.transforms.engine.elements import ElementColumns, columns_of_rows
from beam_joins.transforms.engine.notes import note_columns
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.typed_rows import column_writer

_LIMIT = 1 << 63


class ElementFunctions(NamedTuple):
    """The options of a changelog as functions of an element; ``None`` for one that is not given."""

    key: Callable[[Any], Any] | None
    timestamp: Callable[[Any], Any] | None
    sequence: Callable[[Any], Any] | None
    deletes: Callable[[Any], Any] | None
    tie: Callable[[Any], Any] | None


class ElementWriter:
    """Makes columns of keys and values: opaque ones, or of the types that a schema declares."""

    def __init__(self, columns: ChangelogColumns, schema: pa.Schema | None, keys: KeyCoder) -> None:
        names = None if columns.key is None else names_of("key", columns.key)
        by_name = [columns.key] if isinstance(columns.key, str) else list(names or ())
        self._keys = keys
        self._key: pa.DataType | None = None
        self.value: list[str] | None = None
        if schema is not None:
            if by_name:
                types = [schema.field(name).type for name in by_name]
                struct = pa.struct(zip(by_name, types, strict=True))
                self._key = types[0] if isinstance(columns.key, str) else struct
            self.value = [name for name in schema.names if name not in columns.left_out]
            schema = pa.schema([schema.field(name) for name in self.value])
        self._write = column_writer("a record", schema)

    @property
    def types(self) -> tuple[pa.DataType | None, pa.DataType | None]:
        """The types of the columns, ``None`` for opaque ones."""
        return None if self._key is None else self.keys([]).type, None if self.value is None else self._write([]).type

    def keys(self, keys: Sequence[Any]) -> pa.Array:
        """The column of keys."""
        if self._key is None:
            return opaque_encoded([encode_key(self._keys, key, "the key") for key in keys])
        if pa.types.is_struct(self._key):
            keys = [dict(zip((part.name for part in self._key), key, strict=True)) for key in keys]
        try:
            return comparable(pa.array(keys, self._key), "the key")
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise ValueError(f"a key is not of the type in schema=: {error}") from None

    def values(self, values: Sequence[Any]) -> pa.Array:
        """The column of values, which are mappings or objects with the columns of the schema if there is one."""
        if self.value is None:
            return self._write(values)
        return self._write(value if value is None else {name: field(value, name) for name in self.value or ()} for value in values)


def element_columns(
    to: str, functions: ElementFunctions, left_out: frozenset[str], write: ElementWriter, stage: StageFunctions
) -> ElementColumns:
    """The rows of elements for the replay named ``to``."""
    key_of, timestamp_of, sequence_of, deletes, tie_of = functions

    def row(element: Any, timestamp: int, writer: BlockWriter) -> tuple[Any, ...] | None:
        key, value = (key_of(element), element) if key_of else _pair(element)
        if timestamp_of:
            time = timestamp_of(element)
            if time is None:
                writer.drop("null_timestamp", element, timestamp)
                return None
            timestamp = micros(time)
        if key is None:
            writer.drop("null_key", element, timestamp)
            return None
        at, within = timestamp, b""
        if sequence_of:
            placed = place("sequence_by", sequence_of(element))
            if placed is None:
                writer.drop("null_sequence", element, timestamp)
                return None
            at, within = placed
        if left_out:
            note_columns(writer.noted(to), value, left_out)
        if deletes and deletes(element):
            value = None
        elif left_out and value is not None and write.value is None:
            value = _without(value, left_out)
        return key, value, timestamp, at, within, tie_order(tie_of(element)) if tie_of else b""

    def columns(rows: list[tuple[Any, ...]], writer: BlockWriter) -> None:
        key, value, timestamp, position, within, tie = map(list, zip(*rows, strict=True))
        _require_64_bits(timestamp, position)
        given = {
            "key": write.keys(key),
            "value": write.values(value),
            "timestamp": pa.array(timestamp),
            "position": pa.array(position),
        }
        given |= {name: pa.array(order, pa.binary()) for name, order in (("within", within), ("tie", tie)) if any(order)}
        writer.send(to, hashes(given["key"]), pa.record_batch(list(given.values()), names=list(given)))

    return columns_of_rows(row, columns, stage)


def columns_of_type(element_type: Any) -> list[str] | None:
    """The names of the fields that elements of a type have; ``None`` where the type does not say."""
    if isinstance(element_type, RowTypeConstraint):
        return [name for name, _ in element_type._fields]
    if is_dataclass(element_type):
        return [each.name for each in fields(element_type)]
    names = getattr(element_type, "_fields", None)
    return list(names) if isinstance(names, tuple) else None


def _pair(element: Any) -> tuple[Any, Any]:
    if not isinstance(element, tuple) or len(element) != 2:
        raise ValueError(f"TableFromChangelog takes (key, value) pairs, or any elements with key=: it got {element!r} without key=")
    return element


def _without(value: Any, left_out: frozenset[str]) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"except_columns needs mappings, not {type(value).__name__}: leave columns out with MapTable")
    return {name: column for name, column in value.items() if name not in left_out}


def _require_64_bits(timestamps: list[int], positions: list[int]) -> None:
    for timestamp, position in zip(timestamps, positions, strict=True):
        if not (-_LIMIT <= position < _LIMIT and -_LIMIT <= timestamp < _LIMIT):
            raise ValueError(f"timestamp {timestamp} or position {position} does not fit in 64 bits: scale the sequence down")
