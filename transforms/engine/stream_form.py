"""The two forms in which a stream's rows reach the windowed join: as Arrow columns, or encoded, one record at a time at both ends."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import Coder
from apache_beam.typehints import typehints

from beam_joins.copied import copied
from beam_joins.functions import keys_of, vectorized
from beam_joins.interval import Matches
from beam_joins.joiner import Joiner, joiner_in_columns
from beam_joins.keys.columns import joined_keys, kinds
from beam_joins.keys.hashes import hashes
from beam_joins.pairs import Pairs, each_joined
from beam_joins.sorting import combine_chunks
from beam_joins.transforms.engine.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.changelog_columns import given_rows, places, struct_of, times_of
from beam_joins.transforms.engine.replay import RowRouter
from beam_joins.transforms.engine.table_form import InColumns, InRecords
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.typed_rows import Schema

SIDES = ("left", "right")


class StreamColumns(NamedTuple):
    """Which columns of a stream's batches mean what."""

    key: str | Sequence[str] | None
    timestamp: str | None
    sequence: Any


class StreamForm(Protocol):
    """How the rows of both streams are read, and what their join is a collection of."""

    element_type: Any

    def elements(self, left: pa.Table, right: pa.Table, found: Matches) -> Iterator[Any]:
        """The results of the pairs that match."""

    def records(self, rows: pa.Table, side: int) -> Iterable[tuple[Any, int]]:
        """RowRouter of one side as ``(key, value)`` pairs, each with its timestamp."""


class StreamInColumns:
    """RowRouter are Arrow columns, and so is the result."""

    element_type = pa.RecordBatch

    def __init__(self, joiner: Joiner, functions: StageFunctions, schema: Schema | None) -> None:
        if schema is None and not isinstance(joiner, Mapping | vectorized):
            raise ValueError(
                "WindowedStreamJoin of streams in columns gives record batches, and a joiner of one record does not say what columns they"
                " have: give schema=, a pyarrow.Schema, or a joiner of columns"
            )
        self._join = joiner_in_columns(joiner, functions, schema)

    def elements(self, left: pa.Table, right: pa.Table, found: Matches) -> Iterator[pa.RecordBatch]:
        """One batch, with the columns key, value and timestamp."""
        if not len(found.timestamp):
            return
        keys = combine_chunks(left["key"]), combine_chunks(right["key"])
        together = joined_keys(*keys)
        key = together.take(pa.array(np.where(found.left_index >= 0, found.left_index, found.right_index + len(left))))
        values, left_out = (combine_chunks(left["value"]), combine_chunks(right["value"])), list[int]()
        pairs = Pairs(values[0], found.left_index, values[1], found.right_index, key, found.timestamp, left_out)
        joined = pa.record_batch([key, self._join(pairs), pa.array(found.timestamp)], names=["key", "value", "timestamp"])
        yield joined.take(pa.array(np.delete(np.arange(len(key)), left_out))) if left_out else joined

    def records(self, rows: pa.Table, side: int) -> Iterable[tuple[Any, int]]:
        """With values as dicts."""
        pairs = zip(InColumns().keys(combine_chunks(rows["key"])), rows["value"].to_pylist(), strict=True)
        return zip(pairs, rows["timestamp"].to_pylist(), strict=True)


class StreamInRecords:
    """RowRouter are bytes of their coders, and the result is of ``(key, value)`` pairs."""

    element_type = typehints.KV[Any, Any]

    def __init__(self, joiner: Any, functions: StageFunctions, keys: Coder, values: tuple[Coder, Coder]) -> None:
        self._joiner = joiner
        self._functions = functions
        self._forms = InRecords(keys, values[0]), InRecords(keys, values[1])

    def elements(self, left: pa.Table, right: pa.Table, found: Matches) -> Iterator[Any]:
        """One pair for each match, at its event time."""
        keys, values = (
            [read(form, combine_chunks(rows[name])) for form, rows in zip(self._forms, (left, right), strict=True)]
            for name, read in (("key", InRecords.keys), ("value", InRecords.values))
        )
        left_out: list[int] = []
        sides = found.left_index, found.right_index
        key = [keys[0][i] if i >= 0 else keys[1][j] for i, j in zip(*(side.tolist() for side in sides), strict=True)]
        pairs = Pairs(left["value"], sides[0], right["value"], sides[1], timestamp=found.timestamp, left_out=left_out)
        for n, result in enumerate(each_joined(self._joiner, self._functions, pairs, values[0], values[1], key.__getitem__)):
            if not left_out or left_out[-1] != n:
                yield timestamped((copied(key[n]), copied(result)), int(found.timestamp[n]))

    def records(self, rows: pa.Table, side: int) -> Iterable[tuple[Any, int]]:
        """Decoded."""
        form = self._forms[side]
        pairs = zip(form.keys(combine_chunks(rows["key"])), form.values(combine_chunks(rows["value"])), strict=True)
        return zip(pairs, rows["timestamp"].to_pylist(), strict=True)


def column_stream_rows(to: str, columns: StreamColumns, *, keeps_null: bool) -> RowRouter:
    """The rows of a stream's batches for the replay input ``to``; raises ``ValueError`` if their key or time is not said."""
    if columns.key is None or columns.timestamp is None:
        raise ValueError("WindowedStreamJoin of streams in columns needs key= and timestamp_by=: the names of their columns")

    def rows(batch: Any, arrival: int, writer: BlockWriter) -> None:
        records = struct_of(batch)
        key, timestamp = keys_of("key", columns.key, records), times_of("timestamp_by", columns.timestamp, records, arrival)
        position = timestamp
        if columns.sequence is not None:
            position, _ = places("sequence_by", columns.sequence, records, lambda: InColumns().keys(key))
        required = {"null_timestamp": timestamp, "null_key": key, "null_sequence": position}
        if keeps_null:
            del required["null_key"]
            position = pc.if_else(key.is_null(), 0, position)  # what meets nothing needs no order
            required["null_sequence"] = position
        given = given_rows(records, required, timestamp.fill_null(arrival), writer)
        table = pa.record_batch([key, records, timestamp, position], names=["key", "value", "timestamp", "position"])
        writer.noted(to).update(kinds(key))
        writer.send_columns(to, hashes(key)[given], table.filter(pa.array(given)) if not given.all() else table)

    return rows


def keyed_records(columns: StreamColumns, batch: Any) -> Iterator[tuple[Any, Any]]:
    """Key and value of every record of a batch."""
    records = struct_of(batch)
    return zip(InColumns().keys(keys_of("key", columns.key, records)), records.to_pylist(), strict=True)
