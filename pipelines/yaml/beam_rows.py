"""Rows of Beam schemas as typed columns, and results of joins of streams and dropped records as rows of Beam schemas."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins import Change, Dropped
from beam_joins.columns.positions import times_or_null
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.transforms.connect.tables import PlainRows, TableType, batches_of_rows, row_type, rows_of

_TIMESTAMP: Final = ("timestamp", pa.int64())


def as_columns(rows: PCollection[Any], side: str = "") -> PCollection[Any]:
    """The rows as record batches. Raises ``ValueError`` for a collection of something else, and for a field that no type of Arrow
    holds.
    """
    if (batches := batches_of_rows(rows, f"Columns {side}".rstrip())) is None:
        raise ValueError(f"the input has elements of the type {rows.element_type}: give rows with a schema")
    return batches


def result_rows(results: PCollection[Any], schema: pa.Schema, key: str | Sequence[str] | None) -> PCollection[Any]:
    """The results of a join of streams, batches of ``key``, ``value`` and ``timestamp``: the columns of the key, those of
    the value, and ``timestamp``.
    """
    plain = PlainRows("A stream", TableType(schema.field("key").type, schema.field("value").type), key)
    return _rows(results, _timed(plain.schema), partial(_results, plain))


def _results(plain: PlainRows, batch: pa.RecordBatch) -> Sequence[pa.Array]:
    return [*plain.columns(batch["key"], batch["value"]), times_or_null(batch["timestamp"])]


def _timed(schema: pa.Schema) -> pa.Schema:
    if _TIMESTAMP[0] in schema.names:
        raise ValueError(f"the result has a column {_TIMESTAMP[0]!r}, which is that of the event time: give it another name")
    return schema.append(pa.field(*_TIMESTAMP))


def dropped_rows(dropped: Sequence[PCollection[Dropped]]) -> PCollection[Any]:
    """Records that are in no result: ``reason``, ``record`` in JSON, and ``timestamp`` in microseconds."""
    schema = pa.schema([("reason", pa.string()), ("record", pa.string()), _TIMESTAMP])
    rows: PCollection[Any] = (
        tuple(dropped) | "Errors" >> beam.Flatten() | "Error" >> beam.Map(_dropped).with_output_types(row_type(schema))
    )
    return rows


def _dropped(dropped: Dropped) -> Any:
    record = dropped.record.new if isinstance(dropped.record, Change) else dropped.record
    record = record if isinstance(record, str) else dumps_line(record).decode().rstrip()
    return beam.Row(reason=dropped.reason, record=record, timestamp=None if dropped.timestamp == NO_TIME else dropped.timestamp)


def _rows(batches: PCollection[Any], schema: pa.Schema, columns: Callable[[Any], Sequence[pa.Array]]) -> PCollection[Any]:
    """The rows of batches, in whose order ``columns`` gives the columns of the schema."""

    def made(batch: Any) -> Iterator[Any]:
        return rows_of(pa.RecordBatch.from_arrays(columns(batch), schema=schema))

    rows: PCollection[Any] = batches | "Rows" >> beam.FlatMap(made).with_output_types(row_type(schema))
    return rows
