"""Assembles JSON texts of many rows at a time: the rows of a join, and the lines of a changelog."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.positions import times_or_null
from beam_joins.keys.nested import stored_keys
from beam_joins.pipelines.formats.types.json_text import NULL, joined, texts_of
from beam_joins.tables.batch import ChangeBatch

_EMPTY: Final = r"^\{\s*\}$"
_OPERATIONS: Final = ("insert", "update", "delete")


class Piece(NamedTuple):
    """The place of a side's row in a row of the result: an object of the name ``nested``, or column by column, with
    ``blank`` where there is no row.
    """

    nested: str = ""
    blank: bytes = b""


def spliced(pieces: Sequence[Piece], rows: Sequence[pa.Array]) -> pa.Array:
    """Rows of the result, of those of the sides (null where there is none).

    At most one piece is neither nested nor with a ``blank``.
    """
    comma: Any = pa.scalar(b",")
    members: list[Any] = []
    for piece, row in zip(pieces, rows, strict=True):
        if piece.nested:
            members += [comma, pa.scalar(orjson.dumps(piece.nested) + b":"), row]
            continue
        inner = pc.binary_slice(row, 1, -1)
        if piece.blank:
            inner = pc.fill_null(inner, piece.blank)
        elif pc.any(empty := pc.match_substring_regex(row, _EMPTY)).as_py():
            comma = pc.if_else(empty, pa.scalar(b""), comma)
        members += [comma, inner]
    return joined(b"{", *members[1:], b"}", null=NULL)


def blank_of(names: Sequence[str]) -> bytes:
    """The JSON text of columns of these names where there is no row: nulls.

    >>> blank_of(["a", "b"])
    b'"a":null,"b":null'
    """
    return b",".join(orjson.dumps(name) + b":null" for name in names)


def json_changes(batch: ChangeBatch, old: pa.Array, new: pa.Array) -> pa.Array:
    r"""The changes of a batch as lines, given the old and the new rows.

    >>> before, timestamp, position = pa.array([None], pa.int64()), pa.array([5]), pa.array([9])
    >>> batch = ChangeBatch(key=pa.array([7]), new=pa.array([b"{}"]), before=before, timestamp=timestamp, position=position)
    >>> json_changes(batch, batch.old, batch.new)[0].as_py()
    b'{"key":7,"op":"insert","old":null,"new":{},"timestamp":5,"position":9}\n'
    """
    ops = pa.array([f',"op":"{operation}","old":'.encode() for operation in _OPERATIONS])
    head = b'{"key":', texts_of(batch.key), ops.take(_operations(old, new)), old, b',"new":', new
    time, position = (texts_of(times_or_null(column)) for column in (batch.timestamp, batch.position))
    return joined(*head, b',"timestamp":', time, b',"position":', position, b"}\n", null=NULL)


def columns_of_changes(key: pa.DataType, row: pa.DataType, time: pa.DataType) -> list[pa.Field]:
    """The columns of changes: what :func:`change_columns` gives for keys and rows of these types."""
    types = {"key": key, "op": pa.string(), "old": row, "new": row, "timestamp": time, "position": pa.int64()}
    return [pa.field(name, kind) for name, kind in types.items()]


def change_columns(batch: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
    """The columns of the changes of a batch, as the members of their lines are called; null where they have no time, and no
    position.
    """
    operations = pa.array(_OPERATIONS).take(_operations(old, new))
    return [stored_keys(batch.key), operations, old, new, times_or_null(batch.timestamp), times_or_null(batch.position)]


def fitted(columns: Sequence[pa.Array], schema: pa.Schema) -> list[pa.Array]:
    """The columns in the types of a schema; the key of a total is null there."""
    return [_fitted(column, field.type) for column, field in zip(columns, schema, strict=True)]


def _fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(column)) if pa.types.is_null(kind) else column.cast(kind)


def _operations(old: pa.Array, new: pa.Array) -> pa.Array:
    """The number of each change's operation."""
    deletes, updates = new.is_null(), old.is_valid()
    return pa.array(np.where(deletes, 2, updates.to_numpy(zero_copy_only=False).astype(np.int8)))
