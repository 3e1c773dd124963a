"""The two forms in which a table's rows reach an operator on columns: as Arrow columns, or encoded, one record at a time at both ends."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa
from apache_beam.coders import Coder

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.joiner import Join
from beam_joins.keys.canonical import canonical_value
from beam_joins.keys.opaque import python_keys, python_values
from beam_joins.pairs import Pairs, each_joined
from beam_joins.sorting import combine_chunks
from beam_joins.transforms.engine.block_writer import timestamped
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.two_changes import TwoChanges


class TableForm(Protocol):
    """How keys and values are read, and what a table is a collection of."""

    element_type: Any

    def keys(self, keys: pa.Array) -> list[Any]:
        """The keys of a column, as Python has them."""

    def values(self, values: pa.Array) -> list[Any]:
        """The values of a column, as Python has them."""

    def encode(self, values: pa.Array) -> list[bytes]:
        """Bytes by which values of one row are compared, and those that nothing else orders are ordered; the same in every form."""

    def elements(self, batch: ChangeBatch) -> Iterator[Any]:
        """The elements that a batch is in this form."""


class InColumns:
    """Keys and values are Arrow columns, and a table is a collection of batches."""

    element_type = ChangeBatch

    def keys(self, keys: pa.Array) -> list[Any]:
        """Keys of several columns are tuples."""
        return python_keys(keys)

    def values(self, values: pa.Array) -> list[Any]:
        """Values with fields are dicts, opaque ones what they were."""
        return python_values(values)

    def encode(self, values: pa.Array) -> list[bytes]:
        """Canonical."""
        return [canonical_value(value, repr(value).encode()) for value in python_values(values)]

    def elements(self, batch: ChangeBatch) -> Iterator[ChangeBatch]:
        """The batch itself; an empty one too if it says what columns there are."""
        if len(batch) or not pa.types.is_null(batch.new.type):
            yield batch


class InRecords:
    """Keys and values are bytes of their coders, and a table is a collection of :class:`Change`."""

    element_type = Change

    def __init__(self, keys: Coder, values: Coder) -> None:
        self._keys = keys
        self._values = values

    def keys(self, keys: pa.Array) -> list[Any]:
        """Decoded."""
        return _decoded(self._keys, keys)

    def values(self, values: pa.Array) -> list[Any]:
        """Decoded."""
        return _decoded(self._values, values)

    def encode(self, values: pa.Array) -> list[bytes]:
        """Canonical, so that the same values in columns have the same order."""
        return [canonical_value(value, encoded or b"") for value, encoded in zip(self.values(values), values.to_pylist(), strict=True)]

    def elements(self, batch: ChangeBatch) -> Iterator[Any]:
        """One change each, at its event time."""
        return (timestamped(change, change.timestamp) for change in changes(self, batch))


def changes(form: TableForm, batch: ChangeBatch) -> Iterable[Change[Any, Any]]:
    """The changes of a batch, one by one; no value is part of two of them, so that whoever takes one may write into it."""
    # each read by itself: to read a value again takes less time than to copy it
    new, old = form.values(batch.new), form.values(batch.old)
    # as tuples: a call of Change's own constructor for each costs as much as the rest
    return map(
        Change._make, zip(form.keys(batch.key), old, new, batch.timestamp.to_pylist(), batch.position.to_pylist(), strict=False)
    )


def encoded_joiner(
    joiner: Callable[[Any, Any], Any], functions: StageFunctions, keys: Coder, left: Coder, right: Coder, result: Coder
) -> Join:
    """How a joiner of records joins encoded values, of encoded keys."""

    def join(pairs: Pairs) -> pa.Array:
        lefts, rights = _decoded(left, pairs.left), _decoded(right, pairs.right)
        given = each_joined(joiner, functions, pairs, lefts, rights, lambda n: _decoded(keys, pairs.key.slice(n, 1))[0])
        return pa.array([None if value is None else result.encode(value) for value in given], pa.binary())

    return join


def require_one_change(form: TableForm, lost: pa.Table) -> None:
    """Raise ``ValueError`` if rows of a table lost against others of the same key and position: a table has one change there."""
    if len(lost):
        key = form.keys(combine_chunks(lost["key"]))[0]
        raise TwoChanges(key, lost["position"][0].as_py()).of_key(key)


def no_rows() -> pa.Table:
    """The rows of an input that has none, of no known type."""
    times = pa.array([], pa.int64())
    return pa.Table.from_arrays([pa.nulls(0), pa.nulls(0), times, times], names=["key", "value", "timestamp", "position"])


def _decoded(coder: Coder, encoded: pa.Array) -> list[Any]:
    decode: Callable[[bytes], Any] = coder.decode
    return [None if value is None else decode(value) for value in encoded.to_pylist()]
