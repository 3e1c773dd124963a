"""LatestTable: the content of a table at the end of bounded input."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch, require_columns
from beam_joins.changelog import upsert
from beam_joins.coders.block import read_blocks
from beam_joins.coders.key import value_coder
from beam_joins.keys.columns import Bools, factorize
from beam_joins.sorting import valid
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter, timestamped
from beam_joins.transforms.engine.checked_table import checked_table
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.table_form import InRecords, TableForm, require_one_change
from beam_joins.transforms.engine.table_rows import table_rows
from beam_joins.transforms.engine.table_type import require_bounded, table_key_coder, table_type


class LatestTable(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """The final rows of a table: ``PCollection[Change[K, V]]`` to ``PCollection[tuple[K, V]]``, one element per live row.

    Of a table in columns, ``PCollection[ChangeBatch]``, it makes record batches with the columns ``key``, ``value`` and ``timestamp``; it
    raises ``ValueError`` for keys or values that are Python objects there, made by a function of one record.
    An element carries the timestamp of the row's last change. ``partitions`` is as in :mod:`beam_joins.transforms.engine.partitions`. Raises ``ValueError`` when
    applied to windowed or unbounded input or to keys whose coder is not deterministic, and in the run for two changes of one row at one
    position.

    >>> from beam_joins import Change
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", None, 1, 0, 1), Change("k", 1, 2, 0, 2), Change("l", None, 3, 0, 1), Change("l", 3, None, 0, 2)])
    ...         | LatestTable()
    ...         | beam.Map(print)
    ...     )
    ('k', 2)
    """

    def __init__(self, *, partitions: int | None = None) -> None:
        super().__init__()
        self._partitions = partition_count(partitions)

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        require_bounded("LatestTable", pcoll)
        if pcoll.element_type is ChangeBatch:
            pcoll = checked_table(pcoll, "the key of LatestTable", self._partitions)
            rows: PCollection[Any] = pcoll | "Latest" >> beam.FlatMap(_latest_rows).with_output_types(pa.RecordBatch)
            return rows
        table = table_type(pcoll)
        keys, values = table_key_coder(table, "the key of LatestTable"), value_coder(table.value)
        routed = pcoll | "Route" >> Route(table_rows("rows", keys, values), to=("rows",), partitions=self._partitions)
        replayed = (routed["rows"],) | "Replay" >> Replay(
            _Last(InRecords(keys, values)), partitions=self._partitions, main_type=beam.typehints.KV[Any, Any]
        )
        latest: PCollection[Any] = replayed[MAIN]
        return latest


class _Last:
    def __init__(self, form: TableForm) -> None:
        self._form = form

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        batch, lost = upsert(read_blocks(blocks)["rows"], "records", self._form.encode)
        require_one_change(self._form, lost)
        last = pa.array(_is_last(batch))
        keys, values = self._form.keys(batch.key.filter(last)), self._form.values(batch.new.filter(last))
        yield from map(timestamped, zip(keys, values, strict=True), batch.timestamp.filter(last).to_pylist())


def _is_last(batch: ChangeBatch) -> Bools:
    """Which changes are the last of rows that are there."""
    (row,) = factorize(batch.key)
    changes_next: Bools = np.append(row[1:] != row[:-1], True)[: len(row)]
    return changes_next & valid(batch.new)


def _latest_rows(batch: ChangeBatch) -> Iterator[pa.RecordBatch]:
    require_columns(batch)
    last = _is_last(batch)
    if last.any():
        columns = {"key": batch.key, "value": batch.new, "timestamp": batch.timestamp}
        yield pa.record_batch(list(columns.values()), names=list(columns)).filter(pa.array(last))
