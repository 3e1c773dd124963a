"""Encoded rows put together in columns: an order with its customer, and the records of a changelog."""

import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.batch import ChangeBatch
from beam_joins.pipelines.changelog_files.json_text import NULL, joined, texts_of
from beam_joins.pipelines.changelog_files.reading import Form

_EMPTY: Final = r"^\{\s*\}$"
_OPERATIONS: Final = ("insert", "update", "delete")
_NULL, _RECORD = b"\x00", b"\x02"
"""How Avro writes which member of a union of null and a record follows."""


def _in_json(order: pa.Array, customer: pa.Array, name: str) -> pa.Array:
    head = pc.binary_slice(order, 0, -1)
    comma: Any = pa.scalar(b",")
    if pc.any(empty := pc.match_substring_regex(order, _EMPTY)).as_py():
        comma = pc.if_else(empty, pa.scalar(b""), comma)
    member = pa.scalar(orjson.dumps(name) + b":")
    return joined(head, comma, member, customer, b"}", null=NULL)


def _in_avro(order: pa.Array, customer: pa.Array, name: str) -> pa.Array:
    union = pc.if_else(customer.is_valid(), pa.scalar(_RECORD), pa.scalar(_NULL))
    return joined(order, union, customer)


SPLICED: Final[Mapping[Form, Callable[[pa.Array, pa.Array, str], pa.Array]]] = {"json lines": _in_json, "avro": _in_avro}
"""The rows of orders with their customers, null for one that has none, under a name; in each form."""


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
    keys = pa.array([_encoded(type_of_key, each) for each in batch.key.to_pylist()], pa.binary())
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
