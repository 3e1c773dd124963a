"""The join of two streams in a partition, and its results: pairs for pairs, record batches for record
batches.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks
from beam_joins.functions.joiner import Joiner, TypedJoin, joiner_in_columns, of_records
from beam_joins.functions.marked_functions import vectorized
from beam_joins.functions.pairs import Pairs, each_joined
from beam_joins.functions.typed_rows import Schema
from beam_joins.functions.user_functions import Functions
from beam_joins.kernels.interval import IntervalState, Matches, Spans, step
from beam_joins.keys.key_columns import Ints, joined_keys
from beam_joins.options.join_types import WindowedHow
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.blocks.metrics import UNMATCHED, count
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.stages.table_rows import keys_in_python, no_rows, records_of
from beam_joins.transforms.engine.turns.operator import Operator, Turn, in_time
from beam_joins.values.copying import copied

SIDES = ("left", "right")


Results = Callable[[Matches], Iterator[Any]]
"""Gives the results of the join of two streams for the records that match."""


def pairs_joined(joiner: Callable[..., Any], functions: Functions, types: tuple[TableType, TableType]) -> Results:
    """One ``(key, value)`` pair for each match, at its event time."""

    def results(matches: Matches) -> Iterator[Any]:
        (lefts, left_index), (rights, right_index) = _used(matches.left, matches.left_index), _used(matches.right, matches.right_index)
        left_key, right_key = (
            keys_in_python(combine_chunks(side["key"]), of_stream) for side, of_stream in zip((lefts, rights), types, strict=True)
        )
        left, right = combine_chunks(lefts["value"]), combine_chunks(rights["value"])
        keys = [left_key[i] if i >= 0 else right_key[j] for i, j in zip(left_index.tolist(), right_index.tolist(), strict=True)]
        pairs = Pairs(left, left_index, right, right_index, timestamp=matches.timestamp)
        return keyed_results(joiner, functions, pairs, keys)

    return results


def keyed_results(joiner: Callable[..., Any], functions: Functions, pairs: Pairs, keys: list[Any]) -> Iterator[Any]:
    """The ``(key, value)`` pairs that a joiner of records makes, each at its event time; none where the
    joiner raised.
    """
    left_out: list[int] = []
    results = each_joined(joiner, functions, pairs._replace(left_out=left_out), keys.__getitem__)
    for n, result in enumerate(results):
        if not left_out or left_out[-1] != n:
            yield timestamped((copied(keys[n]), copied(result)), int(pairs.timestamp[n]))


def _used(rows: pa.Table, index: Ints) -> tuple[pa.Table, Ints]:
    """The rows that have a result, which alone are decoded, and the indices into them."""
    used = np.unique(index[index >= 0])
    return rows.take(pa.array(used)), np.where(index >= 0, np.searchsorted(used, index), -1)


def batches_joined(join: TypedJoin) -> Results:
    """One record batch with the columns ``key``, ``value`` and ``timestamp``."""

    def results(matches: Matches) -> Iterator[pa.RecordBatch]:
        if not len(matches.timestamp):
            return
        keys = joined_keys(combine_chunks(matches.left["key"]), combine_chunks(matches.right["key"]))
        key = keys.take(pa.array(np.where(matches.left_index >= 0, matches.left_index, matches.right_index + len(matches.left))))
        left, right = combine_chunks(matches.left["value"]), combine_chunks(matches.right["value"])
        yield keyed_batch(join, Pairs(left, matches.left_index, right, matches.right_index, key, matches.timestamp))

    return results


def keyed_batch(join: TypedJoin, pairs: Pairs) -> pa.RecordBatch:
    """A record batch with the columns ``key``, ``value`` and ``timestamp`` of pairs; without those for which the joiner
    raised.
    """
    left_out: list[int] = []
    values = join(pairs._replace(left_out=left_out))
    joined = pa.record_batch([pairs.key, values, pa.array(pairs.timestamp)], names=["key", "value", "timestamp"])
    return joined.take(pa.array(np.delete(np.arange(len(joined)), left_out))) if left_out else joined


def join_in_columns(
    transform: str, joiner: Joiner, functions: Functions, schema: Schema | None, types: Sequence[pa.DataType], names: Sequence[str]
) -> TypedJoin:
    """The join of streams in columns; raises ``ValueError`` for a joiner that does not say which columns it gives."""
    if schema is None and not isinstance(joiner, Mapping | vectorized):
        raise ValueError(
            f"{transform} of streams in columns gives record batches, and a joiner of one record does not say what columns they"
            " have: give schema=, a pyarrow.Schema, or a joiner of columns"
        )
    return joiner_in_columns(joiner, functions, schema, types=types, names=names)


def result_schema(key: pa.DataType, join: TypedJoin) -> pa.Schema | None:
    """The columns of the results of streams in columns; ``None`` where they are known in the run alone."""
    return None if join.type is None else pa.schema({"key": key, "value": join.type, "timestamp": pa.int64()})


def joiner_of_pairs(transform: str, joiner: Joiner, schema: Schema | None) -> Callable[..., Any]:
    """The joiner of streams of pairs; raises ``ValueError`` for one of columns."""
    if schema is not None:
        raise ValueError(f"{transform} joins records here, and schema= is for streams in columns: leave it out")
    return of_records(transform, joiner)


def joined_streams(how: WindowedHow, spans: Spans, results: Results, types: tuple[TableType, TableType]) -> Operator:
    """The join of the records of a partition; ``types`` are the types of the two streams."""

    def joined(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[Any, None, IntervalState]:
        arrived = [in_time(inputs.get(side, no_rows(of_stream)), turn.passed) for side, of_stream in zip(SIDES, types, strict=True)]
        matches, state = step(turn.state, arrived[0][0], arrived[1][0], how, spans, turn.until)
        for side, late, (_, behind), of_stream in zip(SIDES, matches.late, arrived, types, strict=True):
            for rows in (behind, late):
                writer.drop_rows(f"late_{side}", len(rows), partial(records_of, rows, of_stream))
        count(UNMATCHED, int(np.sum(matches.left_index < 0)) + int(np.sum(matches.right_index < 0)))
        yield from results(matches)
        return state

    return joined
