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
from beam_joins.pipelines.changelog_files.exact_json import dumps_line
from beam_joins.pipelines.changelog_files.reading import Form

_EMPTY: Final = r"^\{\s*\}$"
_NOT_PLAIN: Final = r'["\\\x00-\x1f]'
_OPERATIONS: Final = ("insert", "update", "delete")
_NULL, _RECORD = b"\x00", b"\x02"
"""How Avro writes which member of a union of null and a record follows."""


def _in_json(order: pa.Array, customer: pa.Array, name: str) -> pa.Array:
    head = pc.binary_slice(order, 0, -1)
    comma: Any = pa.scalar(b",")
    if pc.any(empty := pc.match_substring_regex(order, _EMPTY)).as_py():
        comma = pc.if_else(empty, pa.scalar(b""), comma)
    member = pa.scalar(orjson.dumps(name) + b":")
    return _joined(head, comma, member, customer, b"}", null=b"null")


def _in_avro(order: pa.Array, customer: pa.Array, name: str) -> pa.Array:
    union = pc.if_else(customer.is_valid(), pa.scalar(_RECORD), pa.scalar(_NULL))
    return _joined(order, union, customer)


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
    head = b'{"key":', key_texts(batch.key), ops.take(_operations(old, new)), old, b',"new":', new
    return _joined(*head, b',"timestamp":', _digits(batch.timestamp), b',"position":', _digits(batch.position), b"}\n", null=b"null")


def json_rows_as_lines(rows: pa.Array) -> pa.Array:
    """Rows as lines."""
    return _joined(rows, b"\n")


def avro_changes(batch: ChangeBatch, old: pa.Array, new: pa.Array, key: Any) -> pa.Array:
    """The changes of a batch as Avro records, given the old and the new rows; ``key`` is the Avro type of the keys."""
    operations = pa.array([bytes([2 * n]) for n in range(len(_OPERATIONS))])
    type_of_key = fastavro.parse_schema(key)
    keys = pa.array([_encoded(type_of_key, each) for each in batch.key.to_pylist()], pa.binary())
    whole = (pa.array([_encoded("long", number) for number in column.to_pylist()], pa.binary()) for column in (batch.timestamp, batch.position))
    unions = [part for row in (old, new) for part in (pc.if_else(row.is_valid(), pa.scalar(_RECORD), pa.scalar(_NULL)), row)]
    return _joined(keys, operations.take(_operations(old, new)), *unions, *whole)


def key_texts(keys: pa.Array) -> pa.Array:
    """Keys as JSON has them."""
    if pa.types.is_boolean(keys.type) or pa.types.is_integer(keys.type):
        return keys.cast(pa.string()).cast(pa.binary())
    if pa.types.is_binary(keys.type) or pc.any(pc.match_substring_regex(keys, _NOT_PLAIN)).as_py():
        return pa.array([dumps_line(key)[:-1] for key in keys.to_pylist()], pa.binary())
    return _joined(b'"', keys.cast(pa.binary()), b'"')


def _joined(*parts: Any, null: bytes = b"") -> pa.Array:
    """The parts one after the other, ``null`` where one is null."""
    return pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=null)


def _operations(old: pa.Array, new: pa.Array) -> pa.Array:
    """The number of each change's operation."""
    deletes, updates = new.is_null(), old.is_valid()
    return pa.array(np.where(deletes, 2, updates.to_numpy(zero_copy_only=False).astype(np.int8)))


def _digits(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.string()).cast(pa.binary())


def _encoded(type_: Any, value: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, type_, value)
    return written.getvalue()
