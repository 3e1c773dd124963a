"""Streams that look rows of a table up, each record as of its position; :func:`beam_joins.tables.versions.as_of`
says which row that is.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.typehints import typehints

from beam_joins.columns.sorting import combine_chunks, integers, valid
from beam_joins.function_failed import called_with_no_rows
from beam_joins.functions.fields import Fields
from beam_joins.functions.joiner import Joiner, TypedJoin, joiner_in_columns
from beam_joins.functions.marked_functions import keys_of, vectorized
from beam_joins.functions.pairs import Pairs
from beam_joins.functions.typed_rows import Schema
from beam_joins.kernels.lookup import step
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import kinds
from beam_joins.keys.opaque import VALUES, opaque_values, python_values
from beam_joins.options.join_types import LookupHow
from beam_joins.tables.arrangement import Arrangement
from beam_joins.tables.versions import as_of
from beam_joins.transforms.engine.blocks.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.blocks.metrics import UNMATCHED, count
from beam_joins.transforms.engine.blocks.observed_kinds import keys_may_meet
from beam_joins.transforms.engine.construction.arrow_input import as_arrow
from beam_joins.transforms.engine.construction.input_checks import common_key_type, require_tables, two_inputs
from beam_joins.transforms.engine.construction.option_checks import choice
from beam_joins.transforms.engine.construction.output_types import HandledStreamOutputs, StreamInput, StreamOutputs, TableInput
from beam_joins.transforms.engine.construction.pipeline_changes import Rules
from beam_joins.transforms.engine.construction.table_type import TableType, table_type
from beam_joins.transforms.engine.stages.foreign_keys import KeyColumn, keys_like
from beam_joins.transforms.engine.stages.replay import Replay, Route
from beam_joins.transforms.engine.stages.routed_records import RoutedRecords, present
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.stages.stream_join import join_in_columns, joiner_of_pairs, keyed_batch, keyed_results, result_schema
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.stages.table_rows import batch_rows, no_rows, records_of
from beam_joins.transforms.engine.streams import OfRow, Stream, StreamOptions, require_one_order
from beam_joins.transforms.engine.transform_outputs import WithOutputs
from beam_joins.transforms.engine.turns.operator import Operator, Turn, in_time

STREAM, TABLE = "stream", "table"
_OF_RECORDS: Final = ("joiner", "how", "foreign_key", "window_of", "stream_schema", "schema")


class StreamLookupJoin(WithOutputs[tuple[StreamInput, TableInput], PCollection[Any], StreamOutputs, HandledStreamOutputs]):
    """A stream with the rows that its records look up; a subclass says by which keys."""

    outputs = (StreamOutputs, HandledStreamOutputs)
    # the table alone is stored: the functions are called for the records of a run
    rules = Rules("needs history", options=dict.fromkeys(_OF_RECORDS, "kept"))
    streams = 1
    _null_reason: str

    def __init__(
        self,
        joiner: Joiner,
        how: LookupHow,
        key: str | Sequence[str] | None,
        timestamp_by: str | None,
        sequence_by: Fields | OfRow | None,
        stream_schema: pa.Schema | None,
        schema: Schema | None,
    ) -> None:
        super().__init__()
        joiner_in_columns(joiner, schema=schema, names=(STREAM, TABLE))
        self._joiner, self._schema = joiner, schema
        self._how: LookupHow = choice("how", how, LookupHow)
        self._streams = StreamOptions.of(type(self).__name__, key, timestamp_by, sequence_by, [stream_schema])
        self._stream_schema = stream_schema

    def _check(self, stream: TableType, table: TableType) -> None:
        """Raise ``ValueError`` for a stream and a table that this transform does not join."""

    def _row_key(self) -> OfRow:
        """The key of the row that a record looks up, ``None`` for none."""
        raise NotImplementedError

    def _row_key_columns(self) -> tuple[str, Any]:
        """The option with the columns of the key that the rows of batches look up, and these; or a function of one record."""
        raise NotImplementedError

    def build(self, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The joined stream and the dropped records."""
        name, handling, functions = type(self).__name__, self.handling, self.handling.functions
        stream, table = two_inputs(name, pvalue, "a stream and a table: (stream, table)")
        require_tables(name, table)
        incoming = Stream(self._streams, stream, self._stream_schema)
        of_stream, of_table = incoming.type, table_type(table)
        require_one_order(name, of_stream, of_table)
        self._check(of_stream, of_table)
        keeps_all = self._how == "left"
        keys, columns = keys_like(of_table, f"the key that {name} looks up"), None
        option, spec = self._row_key_columns()
        if incoming.in_columns and not (callable(spec) and not isinstance(spec, vectorized)):
            columns = partial(keys_of, option, functions.function(option, spec) if callable(spec) else spec)
            with called_with_no_rows():
                keys = keys._replace(type=columns(pa.nulls(0, of_stream.value_column)).type)
            common_key_type(name, TableType(keys.type), of_table, "keys that the stream looks up")
        schema = None
        if incoming.in_columns:
            types = of_stream.value_column, of_table.value_column
            join = join_in_columns(name, self._joiner, functions, self._schema, types, (STREAM, TABLE))
            results, schema = partial(_batch, join), result_schema(of_stream.key, join)
        else:
            results = partial(_pairs, joiner_of_pairs(name, self._joiner, self._schema), functions)
        rows = _stream_rows(incoming, columns, self._row_key(), functions, keys, self._null_reason, keeps_all)
        records = incoming.read("Stream", rows, functions, (STREAM, *self.dropping, *handling.tags))
        table = prepared(table, needs="turns")
        changes = table | "Table" >> Route(batch_rows(TABLE), to=(TABLE,))
        joined = (records[STREAM], changes[TABLE]) | "Join" >> Replay(
            functions.replay(_lookup(results, of_stream, table_type(table), keys.type, keeps_all)),
            to=(MAIN, *self.dropping, *handling.tags),
            main_type=typehints.KV[Any, Any] if schema is None else pa.RecordBatch,
            check=keys_may_meet(name, STREAM, TABLE, "keys that the stream looks up", "table's keys"),
            tables=(TABLE,),
            stored={TABLE: of_table.columns},
            from_records=True,
        )
        handling.collect(records, joined)
        main = joined[MAIN] if schema is None else as_arrow(joined[MAIN], schema)
        return main, self.all_dropped(records, joined)


def _stream_rows(
    incoming: Stream,
    columns: Callable[[pa.Array], pa.Array] | None,
    row_key: OfRow,
    functions: StageFunctions,
    keys: KeyColumn,
    null_reason: str,
    keeps_all: bool,
) -> Callable[[RoutedRecords], None]:
    """The rows of records; a record that looks nothing up is dropped for the reason, unless all are kept."""
    sequence = incoming.sequence(functions)

    def rows(records: RoutedRecords) -> None:
        key, value, arguments = incoming.keyed(records)
        looked_up = records.each(row_key, *arguments(), stays=keeps_all) if columns is None else columns(value)
        if not keeps_all:
            records.drop(null_reason, looked_up)
        # records that look nothing up need no position
        position, _ = records.placed(sequence, arguments, where=present(looked_up))
        reference = keys.of(records.kept(looked_up)) if columns is None else records.kept(looked_up)
        # the stream's own key is carried along and not compared, so it comes back as it was
        own = [records.kept(column) for column in (key, value)]
        arrays = [*(own if incoming.in_columns else map(opaque_values, own)), reference]
        arrays += [records.kept(column) for column in (pa.array(records.times), position)]
        table = pa.record_batch(arrays, names=["key", "value", "reference", "timestamp", "position"])
        records.writer.noted(STREAM).update(kinds(reference))
        anywhere = np.arange(len(table), dtype=np.uint64)
        records.writer.send(STREAM, np.where(valid(reference), hashes(reference), anywhere), table)

    return rows


def _pairs(joiner: Callable[..., Any], functions: StageFunctions, pairs: Pairs) -> Iterator[Any]:
    yield from keyed_results(joiner, functions, pairs._replace(key=None), python_values(pairs.key))


def _batch(join: TypedJoin, pairs: Pairs) -> Iterator[pa.RecordBatch]:
    if len(pairs.left_index):
        yield keyed_batch(join, pairs)


def _lookup(
    results: Callable[[Pairs], Iterator[Any]],
    stream_type: TableType,
    table_type: TableType,
    looked_up_by: pa.DataType,
    keeps_all: bool,
) -> Operator:
    """The records of a partition with the rows that they look up."""
    no_changes = no_rows(table_type)
    key, value = (kind if isinstance(kind, pa.DataType) else VALUES for kind in stream_type[:2])
    types = {"key": key, "value": value, "reference": looked_up_by, "timestamp": pa.int64(), "position": pa.int64()}
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
        yield from results(Pairs(values, np.arange(len(stream)), rows, index, keys, integers(stream["timestamp"])))
        return state

    return looked_up
