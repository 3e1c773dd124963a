"""Streams that look rows of a table up, each record as of its position; :func:`beam_joins.versions.as_of`
says which row that is.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.typehints import typehints

from beam_joins.arrangement import Arrangement
from beam_joins.fields import Fields
from beam_joins.how import LookupHow
from beam_joins.joiner import of_records
from beam_joins.keys.columns import kinds
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import VALUES, opaque_values, python_values
from beam_joins.lookup import step
from beam_joins.pairs import Pairs
from beam_joins.sorting import combine_chunks, integers, valid
from beam_joins.transforms.engine.arrow_input import is_arrow
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.input_checks import two_inputs
from beam_joins.transforms.engine.metrics import UNMATCHED, count
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.operator import Operator, Turn, in_time
from beam_joins.transforms.engine.option_checks import choice
from beam_joins.transforms.engine.output_types import HandledStreamOutputs, Stream, StreamOutputs, TableInput
from beam_joins.transforms.engine.prepared import prepared
from beam_joins.transforms.engine.referring import KeyColumn, keys_like
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.routed_records import Option, RecordRoute, RoutedRecords, pairs, present
from beam_joins.transforms.engine.stage_functions import StageFunctions
from beam_joins.transforms.engine.stream_join import keyed_results
from beam_joins.transforms.engine.streams import NO_PAIR, OfRow, require_one_order, sequence_of, stream_type
from beam_joins.transforms.engine.table_rows import batch_rows, no_rows, records_of
from beam_joins.transforms.engine.table_type import TableType, table_type
from beam_joins.transforms.engine.transform_outputs import WithOutputs
from beam_joins.versions import as_of

STREAM, TABLE = "stream", "table"


class StreamLookupJoin(WithOutputs[tuple[Stream, TableInput], Stream, StreamOutputs, HandledStreamOutputs]):
    """A stream with the rows that its records look up; a subclass says by which keys."""

    outputs = (StreamOutputs, HandledStreamOutputs)
    _null_reason: str

    def __init__(self, joiner: Callable[..., Any], how: LookupHow, sequence_by: Fields | OfRow | None) -> None:
        super().__init__()
        self._joiner = of_records(type(self).__name__, joiner)
        self._how: LookupHow = choice("how", how, LookupHow)
        self._sequence = sequence_of(sequence_by)

    def _check(self, stream: TableType, table: TableType) -> None:
        """Raise ``ValueError`` for a stream and a table that this transform does not join."""

    def _row_key(self) -> OfRow:
        """The key of the row that a record looks up, ``None`` for none."""
        raise NotImplementedError

    def build(self, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The joined stream and the dropped records."""
        name, handling, functions = type(self).__name__, self.handling, self.handling.functions
        stream, table = two_inputs(name, pvalue, "a stream and a table: (stream, table)")
        if isinstance(table.element_type, typehints.TupleConstraint):
            raise ValueError(f"{name} looks up a table, but its right side is a stream: make a table of it with TableFromChangelog")
        if is_arrow(stream):
            raise ValueError(
                f"{name} takes a stream of (key, value) pairs, not of Arrow batches: make pairs of their rows, or join "
                "two streams with"
                " WindowedStreamJoin"
            )
        of_stream, of_table = stream_type(name, stream, self._sequence), table_type(table)
        require_one_order(name, of_stream, of_table)
        self._check(of_stream, of_table)
        keeps_all = self._how == "left"
        sequence = None if self._sequence is None else self._sequence.of(functions)
        keys = keys_like(of_table, f"the key that {name} looks up")
        rows = _stream_rows(self._row_key(), sequence, keys, self._null_reason, keeps_all)
        records = stream | "Stream" >> RecordRoute(rows, functions, to=(STREAM, *self.dropping, *handling.tags))
        table = prepared(table, needs="turns")
        changes = table | "Table" >> Route(batch_rows(TABLE), to=(TABLE,))
        joined = (records[STREAM], changes[TABLE]) | "Join" >> Replay(
            functions.replay(_lookup(self._joiner, functions, of_stream, table_type(table), keys.type, keeps_all)),
            to=(MAIN, *self.dropping, *handling.tags),
            main_type=typehints.KV[Any, Any],
            check=keys_may_meet(name, STREAM, TABLE, "keys that the stream looks up", "table's keys"),
            tables=(TABLE,),
        )
        handling.collect(records, joined)
        return joined[MAIN], self.all_dropped(records, joined)


def _stream_rows(
    row_key: OfRow, sequence: Option | None, keys: KeyColumn, null_reason: str, keeps_all: bool
) -> Callable[[RoutedRecords], None]:
    """The rows of records; one that looks nothing up is dropped for the reason, unless all are kept."""

    def rows(records: RoutedRecords) -> None:
        key, value = pairs(records.elements, NO_PAIR)
        records.drop("null_value", value)
        looked_up = records.each(row_key, key, value, stays=keeps_all)
        if not keeps_all:
            records.drop(null_reason, looked_up)
        # what looks nothing up needs no position
        position, _ = records.placed(sequence, lambda: (key, value), where=present(looked_up))
        reference = keys.of(records.kept(looked_up))
        # the stream's own key is carried along and not compared, so it comes back as it was
        arrays = [*(opaque_values(records.kept(column)) for column in (key, value)), reference]
        arrays += [records.kept(column) for column in (pa.array(records.times), position)]
        table = pa.record_batch(arrays, names=["key", "value", "reference", "timestamp", "position"])
        records.writer.noted(STREAM).update(kinds(reference))
        anywhere = np.arange(len(table), dtype=np.uint64)
        records.writer.send(STREAM, np.where(valid(reference), hashes(reference), anywhere), table)

    return rows


def _lookup(
    joiner: Callable[..., Any],
    functions: StageFunctions,
    stream_type: TableType,
    table_type: TableType,
    looked_up_by: pa.DataType,
    keeps_all: bool,
) -> Operator:
    """The records of a partition with the rows that they look up."""
    no_changes = no_rows(table_type)
    types = {"key": VALUES, "value": VALUES, "reference": looked_up_by, "timestamp": pa.int64(), "position": pa.int64()}
    no_records = pa.table({name: pa.nulls(0, kind) for name, kind in types.items()})

    def looked_up(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[Any, None, Arrangement | None]:
        stream, late = in_time(inputs.get(STREAM, no_records), turn.frontier, "reference")
        writer.drop_rows("late", len(late), partial(records_of, late, stream_type))
        table = inputs.get(TABLE, no_changes)
        if turn.is_only:
            index, state = as_of(stream, table), None
        else:
            (index, table), state = step(turn.state or Arrangement(), stream, table)
        count(UNMATCHED, int((index < 0).sum()))
        if not keeps_all:
            stream, index = stream.filter(pa.array(index >= 0)), index[index >= 0]
        keys, values, rows = (combine_chunks(column) for column in (stream["key"], stream["value"], table["value"]))
        pairs = Pairs(values, np.arange(len(stream)), rows, index, timestamp=integers(stream["timestamp"]))
        yield from keyed_results(joiner, functions, pairs, python_values(keys))
        return state

    return looked_up
