"""Rows of Beam schemas as typed columns, and tables, streams and dropped records as rows of Beam schemas."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
from apache_beam.portability.api import schema_pb2
from apache_beam.pvalue import PCollection
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import schema_from_element_type, typing_from_runner_api
from apache_beam.typehints.typehints import UnionConstraint
from apache_beam.utils.timestamp import Timestamp

from beam_joins import Change, ChangeBatch, Dropped, LatestTable
from beam_joins.iso_times import NO_TIME
from beam_joins.pipelines.formats.plain_rows import PlainRows
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.positions import times_or_null
from beam_joins.transforms.connect import TableType, as_arrow, in_batches, table_type
from beam_joins.typed_rows import column_writer

_ATOMIC: Final = {
    schema_pb2.BYTE: pa.int8(),
    schema_pb2.INT16: pa.int16(),
    schema_pb2.INT32: pa.int32(),
    schema_pb2.INT64: pa.int64(),
    schema_pb2.FLOAT: pa.float32(),
    schema_pb2.DOUBLE: pa.float64(),
    schema_pb2.BOOLEAN: pa.bool_(),
    schema_pb2.STRING: pa.string(),
    schema_pb2.BYTES: pa.binary(),
}
_ANY: Final = "beam:logical:pythonsdk_any:v1"
"""The type of fields whose type Beam does not know."""
_TIMESTAMP: Final = ("timestamp", pa.int64())
_TIMES: Final = {"beam:logical_type:micros_instant:v1": "us", "beam:logical_type:millis_instant:v1": "ms"}


def columns_of(rows: PCollection[Any]) -> pa.Schema:
    """The columns of a collection of rows. Raises ``ValueError`` for a collection of something else, and for a
    field that no type of Arrow holds.
    """
    try:
        fields = schema_from_element_type(_widened(rows.element_type)).fields
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"the input has elements of the type {rows.element_type}: give rows with a schema") from None
    return pa.schema([pa.field(field.name, _column(field.name, field.type)) for field in fields])


def _widened(kind: Any) -> Any:
    """A type of rows in which fields of whole numbers and fractions are of fractions, which hold both or refuse them."""
    if isinstance(kind, RowTypeConstraint):
        return RowTypeConstraint.from_fields([(name, _widened(of_field)) for name, of_field in kind._fields])
    members = set(kind.union_types) if isinstance(kind, UnionConstraint) else set()
    if {int, float} <= members <= {int, float, type(None)}:
        return float | None if type(None) in members else float
    return kind


def _column(name: str, kind: schema_pb2.FieldType) -> pa.DataType:
    match kind.WhichOneof("type_info"):
        case "atomic_type" if kind.atomic_type in _ATOMIC:
            return _ATOMIC[kind.atomic_type]
        case "array_type":
            return pa.list_(_column(name, kind.array_type.element_type))
        case "row_type":
            return pa.struct([pa.field(each.name, _column(f"{name}.{each.name}", each.type)) for each in kind.row_type.schema.fields])
        case "logical_type" if kind.logical_type.urn in _TIMES:
            return pa.timestamp(_TIMES[kind.logical_type.urn], "UTC")
        case "logical_type" if kind.logical_type.urn == _ANY:
            raise ValueError(
                f"the field {name!r} has values of several kinds, such as numbers and text, or any: write all as one, or give it "
                "an output_type"
            )
    raise ValueError(f"the field {name!r} is of a type that no column has: {kind.WhichOneof('type_info')}")


def as_columns(rows: PCollection[Any], side: str = "") -> PCollection[Any]:
    """The rows as record batches. Raises ``ValueError`` as :func:`columns_of`."""
    schema = columns_of(rows)
    batches = rows | f"Batch {side}".rstrip() >> beam.BatchElements(min_batch_size=1, max_batch_size=10_000)
    columns = batches | f"Columns {side}".rstrip() >> beam.Map(_record_batch, schema).with_output_types(pa.RecordBatch)
    return as_arrow(columns, schema)


def _record_batch(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    dicts = ({name: _plain(getattr(row, name)) for name in schema.names} for row in rows)
    return pa.RecordBatch.from_struct_array(column_writer("a row", schema)(dicts))


def _plain(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value.to_utc_datetime(has_tz=True)
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def row_type(schema: pa.Schema) -> Any:
    """The element type of rows with these columns, all of which may be null. Raises ``ValueError`` for a
    column that no field of Beam holds.
    """
    fields = [(field.name, typing_from_runner_api(_field(field.name, field.type))) for field in schema]
    return RowTypeConstraint.from_fields(fields)


def _field(name: str, kind: pa.DataType) -> schema_pb2.FieldType:
    atomic = {arrow: atom for atom, arrow in _ATOMIC.items()}
    if kind in atomic:
        return schema_pb2.FieldType(atomic_type=atomic[kind], nullable=True)
    if pa.types.is_list(kind):
        return schema_pb2.FieldType(array_type=schema_pb2.ArrayType(element_type=_field(name, kind.value_type)), nullable=True)
    if pa.types.is_timestamp(kind):
        logical = schema_pb2.LogicalType(urn="beam:logical_type:micros_instant:v1")
        return schema_pb2.FieldType(logical_type=logical, nullable=True)
    if pa.types.is_struct(kind):
        fields = [schema_pb2.Field(name=each.name, type=_field(f"{name}.{each.name}", each.type)) for each in kind]
        return schema_pb2.FieldType(row_type=schema_pb2.RowType(schema=schema_pb2.Schema(fields=fields)), nullable=True)
    raise ValueError(f"the column {name!r} is of the type {kind}, which rows of Beam do not have: write the table, or cast the column")


def latest_rows(table: PCollection[Any], key: Sequence[str] | None) -> PCollection[Any]:
    """The final rows of a table: the columns of the key, then those of the value."""
    plain = PlainRows("LatestTable", table_type(table), key)
    return _rows(table | "Latest" >> LatestTable(), plain.schema, partial(_latest, plain))


def _latest(plain: PlainRows, batch: pa.RecordBatch) -> Sequence[pa.Array]:
    return plain.columns(batch["key"], batch["value"])


def change_rows(table: PCollection[Any], key: Sequence[str] | None) -> PCollection[Any]:
    """The changes of a table: ``old`` and ``new``, null where the row does not exist, ``timestamp`` in microseconds
    and ``position``, null where there is none.
    """
    plain = PlainRows("TableToChanges", table_type(table), key)
    row = pa.struct(list(plain.schema))
    schema = pa.schema([("old", row), ("new", row), _TIMESTAMP, ("position", pa.int64())])
    return _rows(in_batches(table), schema, partial(_changes, plain))


def _changes(plain: PlainRows, batch: ChangeBatch) -> Sequence[pa.Array]:
    return [
        *(plain.structs(batch.key, values) for values in (batch.old, batch.new)),
        *map(times_or_null, (batch.timestamp, batch.position)),
    ]


def stream_rows(table: PCollection[Any], key: Sequence[str] | None) -> PCollection[Any]:
    """The new rows of a table: the columns of the key, those of the value, null for a deleted row, and ``timestamp``."""
    plain = PlainRows("TableToStream", table_type(table), key)
    return _rows(in_batches(table), _timed(plain.schema), partial(_newest, plain))


def _newest(plain: PlainRows, batch: ChangeBatch) -> Sequence[pa.Array]:
    return [*plain.columns(batch.key, batch.new), times_or_null(batch.timestamp)]


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
    rows: PCollection[Any] = batches | "Rows" >> beam.FlatMap(partial(_rows_of, columns, schema)).with_output_types(row_type(schema))
    return rows


def _rows_of(columns: Callable[[Any], Sequence[pa.Array]], schema: pa.Schema, batch: Any) -> Iterator[Any]:
    for row in pa.RecordBatch.from_arrays(columns(batch), schema=schema).to_pylist():
        yield beam.Row(**{name: _of_beam(value) for name, value in row.items()})


def _of_beam(value: Any) -> Any:
    if isinstance(value, dict):
        return beam.Row(**{name: _of_beam(each) for name, each in value.items()})
    if isinstance(value, datetime):
        return Timestamp.from_utc_datetime(value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC))
    return [_of_beam(each) for each in value] if isinstance(value, list) else value
