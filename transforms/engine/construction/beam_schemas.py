"""Beam schemas and Arrow schemas: the columns of elements that are rows, and rows made of columns."""

import keyword
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import RowCoder, registry
from apache_beam.portability import common_urns
from apache_beam.portability.api import schema_pb2
from apache_beam.pvalue import PCollection
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import schema_from_element_type, typing_from_runner_api
from apache_beam.typehints.typehints import UnionConstraint
from apache_beam.utils.timestamp import Timestamp

from beam_joins.functions.typed_rows import column_writer
from beam_joins.transforms.engine.construction.arrow_input import as_arrow
from beam_joins.values.arrow_types import is_bytes, is_json, is_list, is_text, is_uuid, uuid_texts
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace, fields_of

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
_ATOMS: Final = {arrow: atom for atom, arrow in _ATOMIC.items() if arrow != pa.int8()}  # Beam's coder takes bytes without a sign
_ANY: Final = "beam:logical:pythonsdk_any:v1"
"""The type of fields whose type Beam does not know."""
_MICROS: Final = "beam:logical_type:micros_instant:v1"
_DATE: Final = common_urns.date.urn if hasattr(common_urns, "date") else ""  # Beam has it since 2.71
_URNS: Final[tuple[tuple[Callable[[Any], bool], str], ...]] = (
    (pa.types.is_timestamp, _MICROS),
    (pa.types.is_date32, _DATE),
    (pa.types.is_decimal, common_urns.decimal.urn),
)
_SAME_VALUES: Final[tuple[tuple[Callable[[Any], bool], pa.DataType], ...]] = (
    (lambda kind: pa.types.is_int8(kind) or pa.types.is_uint8(kind), pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_float16, pa.float32()),
    (lambda kind: is_text(kind) or is_uuid(kind) or is_json(kind), pa.string()),
    (is_bytes, pa.binary()),
)
"""Types without a type of their own in Beam, and those that hold their values."""
_LOGICAL: Final = {
    _MICROS: pa.timestamp("us", "UTC"),
    "beam:logical_type:millis_instant:v1": pa.timestamp("ms", "UTC"),
    **({_DATE: pa.date32()} if _DATE else {}),
}


def columns_of_rows(element_type: Any) -> pa.Schema | None:
    """The columns of elements that are rows: of ``beam.Row``, a ``NamedTuple``, or a class whose coder is that of rows. None
    for other elements.

    Raises ``ValueError`` for a field that no type of Arrow holds.

    >>> columns_of_rows(RowTypeConstraint.from_fields([("id", int), ("name", str)])).names, columns_of_rows(int)
    (['id', 'name'], None)
    """
    is_row = isinstance(element_type, RowTypeConstraint) or hasattr(element_type, "_fields")
    if not is_row and isinstance(element_type, type):
        is_row = isinstance(registry.get_coder(element_type), RowCoder)
    try:
        fields = schema_from_element_type(_widened(element_type)).fields if is_row else None
    except (TypeError, ValueError, AttributeError):  # of hints that Beam does not understand
        return None
    return None if fields is None else pa.schema([pa.field(field.name, _column(field.name, field.type)) for field in fields])


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
        case "logical_type" if kind.logical_type.urn in _LOGICAL:
            return _LOGICAL[kind.logical_type.urn]
        case "logical_type" if kind.logical_type.urn == _ANY:
            raise ValueError(
                f"the field {name!r} has values of several kinds, such as numbers and text, or any: write all as one, or give it "
                "an output_type"
            )
    raise ValueError(f"the field {name!r} is of a type that no column has: {kind.WhichOneof('type_info')}")


def batches_of_rows(rows: PCollection[Any], label: str) -> PCollection[Any] | None:
    """The rows as record batches of known columns; None for a collection of something else. Raises ``ValueError`` as
    :func:`columns_of_rows`.
    """
    schema = columns_of_rows(rows.element_type)
    if schema is None:
        return None
    lists = rows | f"{label} of some" >> beam.BatchElements(min_batch_size=1, max_batch_size=10_000)
    return as_arrow(lists | label >> beam.Map(record_batch, schema).with_output_types(pa.RecordBatch), schema)


def record_batch(rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """The batch of rows with these fields; raises ``ValueError`` for a value that a column does not hold exactly."""
    return pa.RecordBatch.from_struct_array(column_writer("a row", schema)(fields_of(row) for row in rows))


def row_type(schema: pa.Schema) -> Any:
    """The element type of rows with these columns, all of which may be null. Raises ``ValueError`` for a
    column that no field of Beam holds, and for a name that is no name of a field.
    """
    return RowTypeConstraint.from_fields([(field.name, typing_from_runner_api(_field(field.name, field.type))) for field in schema])


def _field(name: str, kind: pa.DataType) -> schema_pb2.FieldType:
    last = name.rpartition(".")[2]
    if not last.isidentifier() or last.startswith("_") or keyword.iskeyword(last):
        raise ValueError(f"the column {last!r} is no name of a field of a Beam row: give it another one with MapTable, or in key=")
    if kind in _ATOMS:
        return schema_pb2.FieldType(atomic_type=_ATOMS[kind], nullable=True)
    if is_list(kind):
        return schema_pb2.FieldType(array_type=schema_pb2.ArrayType(element_type=_field(name, kind.value_type)), nullable=True)
    if pa.types.is_struct(kind):
        fields = [schema_pb2.Field(name=each.name, type=_field(f"{name}.{each.name}", each.type)) for each in kind]
        return schema_pb2.FieldType(row_type=schema_pb2.RowType(schema=schema_pb2.Schema(fields=fields)), nullable=True)
    for is_kind, same in _SAME_VALUES:
        if is_kind(kind):
            return _field(name, same)
    urn = next((urn for is_kind, urn in _URNS if urn and is_kind(kind)), None)
    if urn is None:
        raise ValueError(f"the column {name!r} is of the type {kind}, which Beam rows do not have: cast the column, or leave it out")
    return schema_pb2.FieldType(logical_type=schema_pb2.LogicalType(urn=urn), nullable=True)


def rows_of(batch: pa.RecordBatch) -> Iterator[beam.Row]:
    """The rows of a batch.

    >>> list(rows_of(pa.record_batch({"id": [1], "who": [{"name": "Ann"}]})))
    [Row(id=1, who=Row(name='Ann'))]
    """
    return _rows(batch.schema.names, batch.columns)


def _rows(names: Sequence[str], columns: Iterable[pa.Array]) -> Iterator[beam.Row]:
    return (beam.Row(**dict(zip(names, values, strict=True))) for values in zip(*map(_values, columns), strict=True))


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if is_uuid(kind):
        return _values(uuid_texts(column))
    if pa.types.is_timestamp(kind):
        micros = exact_cast(column, pa.timestamp("us", kind.tz), ValuePlace("a table")).cast(pa.int64()).to_pylist()
        return [None if each is None else Timestamp(micros=each) for each in micros]
    if pa.types.is_struct(kind):
        rows = _rows([field.name for field in kind], column.flatten())
        return [row if held else None for row, held in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if is_list(kind):
        items = iter(_values(column.flatten()))
        return [None if n is None else list(islice(items, n)) for n in pc.list_value_length(column).to_pylist()]
    values: list[Any] = column.to_pylist()
    return values
