"""The join of two streams in a partition, and what comes out of it: pairs for pairs, record batches for record batches."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from apache_beam.typehints import typehints

from beam_joins.copied import copied
from beam_joins.interval import Matches, Spans, StreamHow, finish, step
from beam_joins.joiner import TypedJoin
from beam_joins.keys.columns import Ints, joined_keys
from beam_joins.keys.opaque import python_values
from beam_joins.pairs import Pairs, each_joined
from beam_joins.sorting import combine_chunks
from beam_joins.stream_time import ALWAYS
from beam_joins.transforms.engine.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.replay import Operator
from beam_joins.transforms.engine.table_rows import keys_in_python, no_rows, records_of
from beam_joins.transforms.engine.table_type import TableType
from beam_joins.user_functions import Functions

SIDES = ("left", "right")


class StreamResults(Protocol):
    """What the join of two streams gives."""

    element_type: Any
    schema: pa.Schema | None
    types: tuple[TableType, TableType]
    """What is known of the streams."""

    def elements(self, found: Matches) -> Iterator[Any]:
        """The results of the pairs that match."""


class JoinOfPairs:
    """One ``(key, value)`` pair for each match, at its event time."""

    element_type = typehints.KV[Any, Any]
    schema = None

    def __init__(self, joiner: Callable[..., Any], functions: Functions, types: tuple[TableType, TableType]) -> None:
        self._joiner = joiner
        self._functions = functions
        self.types = types

    def elements(self, found: Matches) -> Iterator[Any]:
        """The pairs."""
        (lefts, left_index), (rights, right_index) = _used(found.left, found.left_index), _used(found.right, found.right_index)
        left_key, right_key = (
            keys_in_python(combine_chunks(side["key"]), known) for side, known in zip((lefts, rights), self.types, strict=True)
        )
        left, right = combine_chunks(lefts["value"]), combine_chunks(rights["value"])
        key = [left_key[i] if i >= 0 else right_key[j] for i, j in zip(left_index.tolist(), right_index.tolist(), strict=True)]
        left_out: list[int] = []
        pairs = Pairs(left, left_index, right, right_index, timestamp=found.timestamp, left_out=left_out)
        values = python_values(left), python_values(right)
        given = each_joined(self._joiner, self._functions, pairs, values[0], values[1], key.__getitem__)
        for n, result in enumerate(given):
            if not left_out or left_out[-1] != n:
                yield timestamped((copied(key[n]), copied(result)), int(found.timestamp[n]))


def _used(rows: pa.Table, index: Ints) -> tuple[pa.Table, Ints]:
    """The rows that have a result, which alone are decoded, and the indices into them."""
    used = np.unique(index[index >= 0])
    return rows.take(pa.array(used)), np.where(index >= 0, np.searchsorted(used, index), -1)


class JoinOfBatches:
    """One record batch with the columns ``key``, ``value`` and ``timestamp``."""

    element_type = pa.RecordBatch

    def __init__(self, join: TypedJoin, types: tuple[TableType, TableType]) -> None:
        self._join = join
        self.types = types
        key = joined_keys(*(pa.nulls(0, known.key_column) for known in types)).type
        self.schema = None if join.type is None else pa.schema({"key": key, "value": join.type, "timestamp": pa.int64()})

    def elements(self, found: Matches) -> Iterator[pa.RecordBatch]:
        """The batch."""
        if not len(found.timestamp):
            return
        keys = joined_keys(combine_chunks(found.left["key"]), combine_chunks(found.right["key"]))
        key = keys.take(pa.array(np.where(found.left_index >= 0, found.left_index, found.right_index + len(found.left))))
        values, left_out = (combine_chunks(found.left["value"]), combine_chunks(found.right["value"])), list[int]()
        pairs = Pairs(values[0], found.left_index, values[1], found.right_index, key, found.timestamp, left_out)
        joined = pa.record_batch([key, self._join(pairs), pa.array(found.timestamp)], names=["key", "value", "timestamp"])
        yield joined.take(pa.array(np.delete(np.arange(len(key)), left_out))) if left_out else joined


def joined_streams(how: StreamHow, spans: Spans, results: StreamResults) -> Operator:
    """What matches of the records of a partition, then what has found no match."""

    def joined(inputs: dict[str, pa.Table], writer: BlockWriter) -> Iterator[Any]:
        left, right = (inputs.get(side, no_rows(known)) for side, known in zip(SIDES, results.types, strict=True))
        found, state = step(None, left, right, how, spans, ALWAYS)
        for side, rows, known in zip(SIDES, found.late, results.types, strict=True):
            writer.drop_rows(f"late_{side}", len(rows), partial(records_of, rows, known))
        for matches in (found, finish(state, how)):
            yield from results.elements(matches)

    return joined
