"""Streams that look rows of a table up, each record as of its position; :func:`beam_joins.versions.as_of` says which row that is."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.typehints import typehints

from beam_joins.coders.block import read_blocks
from beam_joins.copied import copied
from beam_joins.fields import Fields, place, place_of_row
from beam_joins.function_failed import FunctionFailed
from beam_joins.joiner import of_records
from beam_joins.keys.columns import kinds
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import opaque_values, python_values
from beam_joins.pairs import Pairs, each_joined
from beam_joins.sorting import combine_chunks, integers, valid
from beam_joins.transforms.engine.arrow_input import is_arrow
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter, timestamped
from beam_joins.transforms.engine.door import in_batches
from beam_joins.transforms.engine.elements import ElementRoute, ElementRow, columns_of_rows
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.outputs import WithOutputs
from beam_joins.transforms.engine.referring import KeyColumn, keys_like
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.stream_rows import OfRow, pair, require_one_order, stream_type, two_inputs
from beam_joins.transforms.engine.table_rows import batch_rows, no_rows
from beam_joins.transforms.engine.table_type import TableType, table_type
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.two_changes import TwoChanges
from beam_joins.versions import as_of

STREAM, TABLE = "stream", "table"
LookupHow = Literal["inner", "left"]


class StreamOutputs(NamedTuple):
    """The joined stream, and the records that could not be used, of ``Dropped``."""

    stream: PCollection[Any]
    dropped: PCollection[Any] | None


class StreamLookupJoin(WithOutputs):
    """A stream with the rows that its records look up; a subclass says by which keys."""

    _null_reason: str

    def __init__(self, joiner: Callable[..., Any], how: LookupHow, sequence_by: Fields | OfRow | None) -> None:
        super().__init__()
        self._joiner = of_records(type(self).__name__, joiner)
        self._how: LookupHow = choice("how", how, LookupHow)
        self._sequence = None if sequence_by is None else place_of_row("sequence_by", sequence_by)
        self._sequence_by = sequence_by

    def _check(self, stream: TableType, table: TableType) -> None:
        """Raise ``ValueError`` for a stream and a table that this transform does not join."""

    def _row_key(self) -> OfRow:
        """The key of the row that a record looks up, ``None`` for none."""
        raise NotImplementedError

    def build(self, pvalue: Any) -> StreamOutputs:
        """The joined stream and the dropped records."""
        name, handling, functions = type(self).__name__, self.handling, self.handling.functions
        stream, table = two_inputs(name, pvalue, "a stream and a table: (stream, table)")
        if isinstance(table.element_type, typehints.TupleConstraint):
            raise ValueError(f"{name} looks up a table, but its right side is a stream: make a table of it with TableFromChangelog")
        if is_arrow(stream):
            raise ValueError(
                f"{name} takes a stream of (key, value) pairs, not of Arrow batches: make pairs of their rows, or join two streams with"
                " WindowedStreamJoin"
            )
        known, of_table = stream_type(name, stream, self._sequence), table_type(table)
        require_one_order(name, known, of_table)
        self._check(known, of_table)
        keeps_all = self._how == "left"
        sequence = functions.function("sequence_by", self._sequence_by, self._sequence)
        row = _stream_row(self._row_key(), sequence, functions, self._null_reason, keeps_all)
        columns = _stream_columns(keys_like(of_table, f"the key that {name} looks up"))
        records = stream | "Stream" >> ElementRoute(
            columns_of_rows(row, columns, functions), to=(STREAM, *self.dropping, *handling.tags)
        )
        table = in_batches(table, "Table in batches")
        changes = table | "Table" >> Route(batch_rows(TABLE), to=(TABLE,))
        joined = (records[STREAM], changes[TABLE]) | "Join" >> Replay(
            functions.replay(_Lookup(self._joiner, functions, table_type(table), keeps_all)),
            to=(MAIN, *handling.tags),
            main_type=typehints.KV[Any, Any],
            check=keys_may_meet(name, STREAM, TABLE, "keys that the stream looks up", "table's keys"),
        )
        handling.collect(records, joined)
        return StreamOutputs(joined[MAIN], self.all_dropped(records))


def _stream_row(row_key: OfRow, sequence: OfRow | None, functions: StageFunctions, null_reason: str, keeps_all: bool) -> ElementRow:
    """The cells of a record; one that looks nothing up is dropped for the reason, unless all are kept."""

    def row(element: Any, time: int, writer: BlockWriter) -> tuple[Any, ...] | None:
        key, value = pair(element)
        if value is None:
            writer.drop("null_value", element, time)
            return None
        reason: str | None = null_reason
        try:
            looked_up = row_key(key, value)
        except FunctionFailed as error:
            functions.caught(element, error, time)
            looked_up, reason = None, None
        position: tuple[int, bytes] | None = (time, b"")
        if looked_up is None:
            if keeps_all:
                return key, value, None, time, 0  # what looks nothing up needs no position
            position = None
        elif sequence is not None:
            position, reason = place("sequence_by", sequence(key, value)), "null_sequence"
        if position is None:
            if reason is not None:
                writer.drop(reason, element, time)
            return None
        return key, value, looked_up, time, position[0]

    return row


def _stream_columns(keys: KeyColumn) -> Callable[[list[tuple[Any, ...]], BlockWriter], None]:
    def columns(rows: list[tuple[Any, ...]], writer: BlockWriter) -> None:
        key, value, looked_up, timestamp, position = zip(*rows, strict=True)
        reference = keys.of(looked_up)
        try:
            positions = pa.array(position, pa.int64())
        except OverflowError:
            raise ValueError("sequence_by gave a position that does not fit in 64 bits: scale the sequence down") from None
        # the stream's own key is carried along and not compared, so it comes back as it was
        arrays = [opaque_values(key), opaque_values(value), reference, pa.array(timestamp, pa.int64()), positions]
        table = pa.record_batch(arrays, names=["key", "value", "reference", "timestamp", "position"])
        writer.noted(STREAM).update(kinds(reference))
        anywhere = np.arange(len(table), dtype=np.uint64)
        writer.send(STREAM, np.where(valid(reference), hashes(reference), anywhere), table)

    return columns


class _Lookup:
    """The records of a partition with the rows that they look up."""

    def __init__(self, joiner: Callable[..., Any], functions: StageFunctions, table: TableType, keeps_all: bool) -> None:
        self._joiner = joiner
        self._none = no_rows(table)
        self._functions = functions
        self._keeps_all = keeps_all

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        inputs = read_blocks(blocks)
        if STREAM not in inputs:
            return
        stream = inputs[STREAM]
        table = inputs.get(TABLE, self._none)
        try:
            found = as_of(stream, table)
        except TwoChanges as error:
            raise error.of_key(error.key) from None
        if not self._keeps_all:
            stream, found = stream.filter(pa.array(found >= 0)), found[found >= 0]
        used, index = np.unique(found, return_inverse=True)
        index = np.where(found >= 0, index - int((used < 0).any()), -1)
        keys, values, rows = (
            python_values(combine_chunks(column))
            for column in (stream["key"], stream["value"], table["value"].take(pa.array(used[used >= 0])))
        )
        times = integers(stream["timestamp"])
        left_out: list[int] = []
        pairs = Pairs(stream["value"], np.arange(len(stream)), table["value"], index, timestamp=times, left_out=left_out)
        for n, result in enumerate(each_joined(self._joiner, self._functions, pairs, values, rows, keys.__getitem__)):
            if not left_out or left_out[-1] != n:
                yield timestamped((copied(keys[n]), copied(result)), int(times[n]))
