"""The join of two streams in a partition, and what comes out of it: pairs for pairs, record batches for record batches."""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins.copied import copied
from beam_joins.interval import Matches, Spans, State, StreamHow, step
from beam_joins.joiner import TypedJoin
from beam_joins.keys.columns import Ints, joined_keys
from beam_joins.pairs import Pairs, each_joined
from beam_joins.sorting import combine_chunks
from beam_joins.transforms.engine.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.metrics import UNMATCHED, count
from beam_joins.transforms.engine.operator import Operator, Turn, in_time
from beam_joins.transforms.engine.table_rows import keys_in_python, no_rows, records_of
from beam_joins.transforms.engine.table_type import TableType
from beam_joins.user_functions import Functions

SIDES = ("left", "right")


Results = Callable[[Matches], Iterator[Any]]
"""Gives what the join of two streams makes of the records that match."""


def pairs_joined(joiner: Callable[..., Any], functions: Functions, types: tuple[TableType, TableType]) -> Results:
    """One ``(key, value)`` pair for each match, at its event time."""

    def results(found: Matches) -> Iterator[Any]:
        (lefts, left_index), (rights, right_index) = _used(found.left, found.left_index), _used(found.right, found.right_index)
        left_key, right_key = (
            keys_in_python(combine_chunks(side["key"]), known) for side, known in zip((lefts, rights), types, strict=True)
        )
        left, right = combine_chunks(lefts["value"]), combine_chunks(rights["value"])
        keys = [left_key[i] if i >= 0 else right_key[j] for i, j in zip(left_index.tolist(), right_index.tolist(), strict=True)]
        pairs = Pairs(left, left_index, right, right_index, timestamp=found.timestamp)
        return keyed_results(joiner, functions, pairs, keys)

    return results


def keyed_results(joiner: Callable[..., Any], functions: Functions, pairs: Pairs, keys: list[Any]) -> Iterator[Any]:
    """The ``(key, value)`` pairs that a joiner of records makes, each at its event time; none where the joiner raised."""
    left_out: list[int] = []
    given = each_joined(joiner, functions, pairs._replace(left_out=left_out), keys.__getitem__)
    for n, result in enumerate(given):
        if not left_out or left_out[-1] != n:
            yield timestamped((copied(keys[n]), copied(result)), int(pairs.timestamp[n]))


def _used(rows: pa.Table, index: Ints) -> tuple[pa.Table, Ints]:
    """The rows that have a result, which alone are decoded, and the indices into them."""
    used = np.unique(index[index >= 0])
    return rows.take(pa.array(used)), np.where(index >= 0, np.searchsorted(used, index), -1)


def batches_joined(join: TypedJoin) -> Results:
    """One record batch with the columns ``key``, ``value`` and ``timestamp``."""

    def results(found: Matches) -> Iterator[pa.RecordBatch]:
        if not len(found.timestamp):
            return
        keys = joined_keys(combine_chunks(found.left["key"]), combine_chunks(found.right["key"]))
        key = keys.take(pa.array(np.where(found.left_index >= 0, found.left_index, found.right_index + len(found.left))))
        values, left_out = (combine_chunks(found.left["value"]), combine_chunks(found.right["value"])), list[int]()
        pairs = Pairs(values[0], found.left_index, values[1], found.right_index, key, found.timestamp, left_out)
        joined = pa.record_batch([key, join(pairs), pa.array(found.timestamp)], names=["key", "value", "timestamp"])
        yield joined.take(pa.array(np.delete(np.arange(len(key)), left_out))) if left_out else joined

    return results


def joined_streams(how: StreamHow, spans: Spans, results: Results, types: tuple[TableType, TableType]) -> Operator:
    """The join of the records of a partition; ``types`` is what is known of the two streams."""

    def joined(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[Any, None, State]:
        given = [in_time(inputs.get(side, no_rows(known)), turn.passed) for side, known in zip(SIDES, types, strict=True)]
        found, state = step(turn.state, given[0][0], given[1][0], how, spans, turn.until)
        for side, late, (_, behind), known in zip(SIDES, found.late, given, types, strict=True):
            for rows in (behind, late):
                writer.drop_rows(f"late_{side}", len(rows), partial(records_of, rows, known))
        count(UNMATCHED, int(np.sum(found.left_index < 0)) + int(np.sum(found.right_index < 0)))
        yield from results(found)
        return state

    return joined
