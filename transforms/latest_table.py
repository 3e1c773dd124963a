"""LatestTable: emits the rows of a table at the end of bounded input."""

from collections.abc import Generator, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.columns.positions import times_or_null
from beam_joins.columns.sorting import combine_chunks, valid
from beam_joins.keys.encoded import encoded_keys, prefixes
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import kinds
from beam_joins.keys.opaque import python_values
from beam_joins.tables.arrangement import ORDER, Arrangement
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import MAIN, BlockWriter, timestamped
from beam_joins.transforms.engine.construction.input_checks import require_bounded, require_global, require_tables
from beam_joins.transforms.engine.construction.kept_signatures import ForEach
from beam_joins.transforms.engine.construction.output_types import TableInput
from beam_joins.transforms.engine.construction.table_type import TableType, physical_of, table_type
from beam_joins.transforms.engine.stages.replay import Replay, Route
from beam_joins.transforms.engine.stages.replay_options import has_one_turn
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.stages.table_rows import keys_in_python, last_of_each, newest, no_rows
from beam_joins.transforms.engine.transform import Transform
from beam_joins.transforms.engine.turns.operator import Turn

_ROWS = "rows"


class LatestTable(Transform[TableInput, PCollection[Any]]):
    """Emits the rows of a table at the end of bounded input, each with the timestamp of its last change.

    Opaque keys or values give pairs, ``PCollection[tuple[K, V]]``, one for each row. If both are typed
    columns, the result is a ``PCollection[pyarrow.RecordBatch]`` with the columns ``key``, ``value`` and
    ``timestamp``, which is null for a row without an event time. The choice is made when the pipeline is
    built. Keys are columns if ``key=`` of :class:`~beam_joins.TableFromChangelog` names columns of Arrow
    tables or of its ``schema``; values are columns if they come from Arrow tables, from ``schema`` or from a
    function of columns.

    Raises ``ValueError`` when applied to windowed or unbounded input, and in the run for two changes of one
    row at one position.

    >>> from beam_joins import Change
    >>> changes = [Change("k", None, 1, 0, 1), Change("k", 1, 2, 0, 2), Change("l", None, 3, 0, 1), Change("l", 3, None, 0, 2)]
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create(changes)
    ...         | LatestTable()
    ...         | beam.Map(print)
    ...     )
    ('k', 2)
    """

    def outputs_of(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """The outputs for the table."""
        require_global("LatestTable", pcoll)
        require_tables("LatestTable", pcoll)
        require_bounded("LatestTable", "apply TableToStream, whose elements are the rows as they change", pcoll)
        table = prepared(pcoll, needs="checked")
        of_table = table_type(table)
        none = no_rows(of_table)

        def of_batch(batch: ChangeBatch) -> Iterator[Any]:
            return _elements(last_of_each(newest(batch)), of_table)

        def latest(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[Any, None, Arrangement | None]:
            rows = inputs.get(_ROWS, none)
            if turn.is_only:
                yield from _elements(last_of_each(rows), of_table)
                return None
            order = prefixes(encoded_keys(combine_chunks(rows["key"])))
            state: Arrangement = (turn.state or Arrangement()).updated(rows.append_column(ORDER, order))
            if (content := state.table()) is not None:
                yield from _elements(content, of_table)
            return state

        element_type = pa.RecordBatch if of_table.is_typed else beam.typehints.KV[Any, Any]
        if physical_of(table).is_in("whole") and has_one_turn(pcoll):
            rows: PCollection[Any] = table | "Latest" >> beam.ParDo(ForEach(of_batch)).with_output_types(element_type)
            return rows
        routed = table | "Last of batch" >> Route(_last_rows, to=(_ROWS,), size=physical_of(table).bytes)
        last = Replay(latest, main_type=element_type, gives_all=True, stored={_ROWS: of_table.columns})
        replayed: PCollection[Any] = ((routed[_ROWS],) | "Last" >> last)[MAIN]
        return replayed


def _last_rows(batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
    rows = last_of_each(newest(batch))
    writer.noted(_ROWS).update(kinds(rows["key"]))
    writer.send(_ROWS, hashes(rows["key"]), rows)


def _elements(rows: Any, of_table: TableType) -> Iterator[Any]:
    """The last changes of a partition or of a batch, without deletes."""
    key, value, timestamp = (combine_chunks(rows[name]) for name in ("key", "value", "timestamp"))
    live = pa.array(valid(value))
    key, value, timestamp = (column.filter(live) for column in (key, value, timestamp))
    if not of_table.is_typed:
        pairs = zip(keys_in_python(key, of_table), python_values(value), strict=True)
        yield from map(timestamped, pairs, timestamp.to_pylist())
    elif len(key):
        key = pa.nulls(len(key)) if of_table.is_total else key
        yield pa.record_batch([key, value, times_or_null(timestamp)], names=["key", "value", "timestamp"])
