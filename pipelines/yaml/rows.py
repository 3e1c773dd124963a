"""Rows of Beam schemas as typed columns, and the rows of tables as rows of Beam schemas."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
from apache_beam.portability.api import schema_pb2
from apache_beam.pvalue import PCollection
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import schema_from_element_type, typing_from_runner_api
from apache_beam.typehints.typehints import UnionConstraint
from apache_beam.utils.timestamp import Timestamp

from beam_joins.transforms.connect import as_arrow
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
"""The type of fields of which Beam knows no one type."""
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


def as_columns(rows: PCollection[Any], schema: pa.Schema) -> PCollection[Any]:
    """The rows as record batches with these columns."""
    batches = rows | "Batch" >> beam.BatchElements(min_batch_size=1, max_batch_size=10_000)
    columns: PCollection[Any] = batches | "Columns" >> beam.Map(_record_batch, schema).with_output_types(pa.RecordBatch)
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


def rows_of(structs: pa.StructArray) -> Iterator[Any]:
    """The rows of a column of structs, as rows of Beam."""
    for row in structs.to_pylist():
        yield beam.Row(**{name: _of_beam(value) for name, value in row.items()})


def _of_beam(value: Any) -> Any:
    if isinstance(value, dict):
        return beam.Row(**{name: _of_beam(each) for name, each in value.items()})
    if isinstance(value, datetime):
        return Timestamp.from_utc_datetime(value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC))
    return [_of_beam(each) for each in value] if isinstance(value, list) else value
