"""Encoded rows put together in columns: the rows of a join, and the records of a changelog."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.batch import ChangeBatch
from beam_joins.pipelines.changelog_files.avro_records import Schema
from beam_joins.pipelines.changelog_files.json_text import NULL, joined, stored_key, texts_of
from beam_joins.pipelines.changelog_files.reading import Form

_EMPTY: Final = r"^\{\s*\}$"
_OPERATIONS: Final = ("insert", "update", "delete")
_NULL, _RECORD = b"\x00", b"\x02"
"""How Avro writes which member of a union of null and a record follows."""


class Piece(NamedTuple):
    """How a side's encoded rows go into those of the result: as an object of the name ``nested``, or column by column, with ``blank`` for none."""

    nested: str = ""
    blank: bytes = b""


def _in_json(pieces: Sequence[Piece], rows: Sequence[pa.Array]) -> pa.Array:
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


def _in_avro(pieces: Sequence[Piece], rows: Sequence[pa.Array]) -> pa.Array:
    parts: list[pa.Array] = []
    for piece, row in zip(pieces, rows, strict=True):
        if piece.nested:
            parts += [pc.if_else(row.is_valid(), pa.scalar(_RECORD), pa.scalar(_NULL)), row]
        else:
            parts.append(pc.fill_null(row, piece.blank))
    return joined(*parts)


SPLICED: Final[Mapping[Form, Callable[[Sequence[Piece], Sequence[pa.Array]], pa.Array]]] = {"json lines": _in_json, "avro": _in_avro}
"""Rows of the result, of those of the sides (null where there is none); in each form. At most one piece is neither nested nor with a ``blank``."""


def blank_of(form: Form, names: Sequence[str], schema: Schema | None) -> bytes:
    """What columns of these names are where there is no row: nulls.

    >>> blank_of("json lines", ["a", "b"], None)
    b'"a":null,"b":null'
    """
    if form == "avro":
        return _encoded(fastavro.parse_schema(schema or {}), dict.fromkeys(names))
    return b",".join(orjson.dumps(name) + b":null" for name in names)


def json_changes(batch: ChangeBatch, old: pa.Array, new: pa.Array) -> pa.Array:
    r"""The changes of a batch as lines, given the old and the new rows.

    >>> batch = ChangeBatch(
    ...     key=pa.array([7]), new=pa.array([b"{}"]), before=pa.array([None], pa.int64()), timestamp=pa.array([5]), position=pa.array([9])
    ... )
    >>> json_changes(batch, batch.old, batch.new)[0].as_py()
    b'{"key":7,"op":"insert","old":null,"new":{},"timestamp":5,"position":9}\n'
    """
    ops = pa.array([f',"op":"{operation}","old":'.encode() for operation in _OPERATIONS])
    head = b'{"key":', texts_of(batch.key), ops.take(_operations(old, new)), old, b',"new":', new
    return joined(*head, b',"timestamp":', texts_of(batch.timestamp), b',"position":', texts_of(batch.position), b"}\n", null=NULL)


def json_rows_as_lines(rows: pa.Array) -> pa.Array:
    """Rows as lines."""
    return joined(rows, b"\n")


def avro_changes(batch: ChangeBatch, old: pa.Array, new: pa.Array, key: Any) -> pa.Array:
    """The changes of a batch as Avro records, given the old and the new rows; ``key`` is the Avro type of the keys."""
    operations = pa.array([bytes([2 * n]) for n in range(len(_OPERATIONS))])
    type_of_key = fastavro.parse_schema(key)
    keys = pa.array([_encoded(type_of_key, each) for each in stored_key(batch.key).to_pylist()], pa.binary())
    whole = (
        pa.array([_encoded("long", number) for number in column.to_pylist()], pa.binary())
        for column in (batch.timestamp, batch.position)
    )
    unions = [part for row in (old, new) for part in (pc.if_else(row.is_valid(), pa.scalar(_RECORD), pa.scalar(_NULL)), row)]
    return joined(keys, operations.take(_operations(old, new)), *unions, *whole)


def _operations(old: pa.Array, new: pa.Array) -> pa.Array:
    """The number of each change's operation."""
    deletes, updates = new.is_null(), old.is_valid()
    return pa.array(np.where(deletes, 2, updates.to_numpy(zero_copy_only=False).astype(np.int8)))


def _encoded(type_: Any, value: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, type_, value)
    return written.getvalue()
