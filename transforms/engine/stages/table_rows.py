"""The rows of a table on their way to a replay, and its keys and values as Python has them."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from beam_joins.coders.key import KeyCoder
from beam_joins.columns.sorting import combine_chunks, ends, integers, ordered
from beam_joins.elements.change import Change
from beam_joins.elements.windowed import Windowed
from beam_joins.functions.joiner import narrowed
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import factorize, kinds
from beam_joins.keys.opaque import python_keys, python_values
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.stages.replay import RowRouter


def batch_rows(to: str, columns: frozenset[str] | None = None) -> RowRouter:
    """The new values of batches of changes for the replay named ``to``, with the given columns of their
    values (``None``: all).

    Old values are not shuffled: the operator that orders the changes of a row knows them.
    """
    return partial(_batch_rows, to, columns)


def _batch_rows(to: str, columns: frozenset[str] | None, batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
    writer.noted(to).update(kinds(batch.key))
    writer.send(to, hashes(batch.key), newest(batch, columns))


def newest(batch: ChangeBatch, columns: frozenset[str] | None = None) -> pa.RecordBatch:
    """The columns ``key``, ``value``, ``timestamp`` and ``position`` of a batch's new values."""
    arrays = [batch.key, narrowed(batch.new, columns), batch.timestamp, batch.position]
    return pa.record_batch(arrays, names=["key", "value", "timestamp", "position"])


def last_of_each(rows: pa.Table | pa.RecordBatch) -> Any:
    """The last change of each key among rows as :func:`newest` gives them."""
    (code,) = factorize(combine_chunks(rows["key"]))
    by = ordered(code, integers(rows["position"]))
    return rows.take(pa.array(by[ends(code[by])]))


def no_rows(of_table: TableType) -> pa.Table:
    """The result of :func:`newest` for a table without a batch."""
    types = {"key": of_table.key_column, "value": of_table.value_column, "timestamp": pa.int64(), "position": pa.int64()}
    # Arrow makes no empty table with columns of opaque keys in others
    return pa.table({name: pa.nulls(0, kind) for name, kind in types.items()})


def keys_in_python(keys: pa.Array, of_table: TableType) -> list[Any]:
    """The keys of a table as Python has them, in the form that their declared type asks for.

    >>> from beam_joins.keys.opaque import opaque_keys
    >>> keys_in_python(opaque_keys([7.0]), TableType()), keys_in_python(opaque_keys([7.0]), TableType(float))
    ([7], [7.0])
    """
    plain = python_keys(keys)
    coder = KeyCoder(Any if isinstance(of_table.key, pa.DataType) else of_table.key)
    if not coder.presents:
        return plain
    if not of_table.windowed:
        return list(map(coder.presented, plain))
    return [Windowed(coder.presented(key.key), key.window) for key in plain]


def changes_in_python(batch: ChangeBatch, of_table: TableType) -> Iterator[Change[Any, Any]]:
    """The changes of a batch one by one, their keys in the form that their declared type asks for."""
    return batch.changes(keys_in_python(batch.key, of_table))


def records_of(rows: pa.Table, of_table: TableType, key: str = "key") -> Iterator[tuple[Any, int]]:
    """Rows as ``(key, value)`` pairs, each with its timestamp."""
    keys, values = keys_in_python(combine_chunks(rows[key]), of_table), python_values(combine_chunks(rows["value"]))
    return zip(zip(keys, values, strict=True), rows["timestamp"].to_pylist(), strict=True)
