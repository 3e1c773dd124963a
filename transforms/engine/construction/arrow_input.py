"""Collections of Arrow tables or record batches, whose columns are known when the pipeline is built."""

from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from typing import Any, get_type_hints

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.typehints import typehints
from apache_beam.typehints.arrow_type_compatibility import arrow_schema_from_beam_schema
from apache_beam.typehints.schemas import named_fields_to_schema

from beam_joins.columns.sorting import combine_chunks
from beam_joins.transforms.engine.construction.element_types import type_or_any
from beam_joins.values.arrow_types import plain_field
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace
from beam_joins.values.schema_union import common_schema

_MARK, _BYTES = "_beam_joins_arrow_schema", "_beam_joins_arrow_bytes"


def is_arrow(pcoll: PCollection[Any]) -> bool:
    """Whether a collection is of Arrow tables or record batches."""
    return pcoll.element_type in (pa.Table, pa.RecordBatch)


def as_arrow(pcoll: PCollection[Any], schema: pa.Schema, *, size: int | None = None) -> PCollection[Any]:
    """The same collection of tables or record batches, whose columns are known to be those of the schema, and
    to have about ``size`` bytes.
    """
    setattr(pcoll, _MARK, plain_schema(schema))
    setattr(pcoll, _BYTES, size)
    return pcoll


def arrow_bytes(pcoll: PCollection[Any]) -> int | None:
    """About the size of a collection of tables or record batches, in bytes; ``None`` where its reader does
    not say.
    """
    size: int | None = getattr(pcoll, _BYTES, None)
    return size


def arrow_schema(pcoll: PCollection[Any]) -> pa.Schema | None:
    """The columns of a collection of tables or record batches: those that its reader knows, or those of the
    batches of a ``beam.Create``.
    """
    marked: pa.Schema | None = getattr(pcoll, _MARK, None)
    if marked is not None:
        return marked
    batches = [value.schema for value in _created(pcoll) if isinstance(value, pa.Table | pa.RecordBatch)]
    return common_schema(map(plain_schema, batches), of="batches") if batches else None


def declared_schema(schema: Any, option: str = "schema") -> pa.Schema:
    """The columns that an option declares: those of a ``pyarrow.Schema``, a ``NamedTuple`` or a dataclass.

    >>> from typing import NamedTuple
    >>> class Order(NamedTuple):
    ...     id: int
    >>> declared_schema(Order).names
    ['id']
    """
    if isinstance(schema, pa.Schema) and len(schema):
        return plain_schema(schema)
    if isinstance(schema, type) and (is_dataclass(schema) or hasattr(schema, "_fields")):
        fields: list[Any] = [(name, typehints.Optional[type_or_any(hint)]) for name, hint in get_type_hints(schema).items()]
        return plain_schema(arrow_schema_from_beam_schema(named_fields_to_schema(fields)))
    raise ValueError(f"{option}={schema!r}: give a pyarrow.Schema, a NamedTuple class or a dataclass")


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with :func:`plain types <beam_joins.values.arrow_types.plain_type>`: dictionaries differ from one
    batch to another.
    """
    return pa.schema([plain_field(field).remove_metadata() for field in schema])


def struct_of(batch: Any, schema: pa.Schema, named: Iterable[tuple[str, str]] = ()) -> pa.Array:
    """The rows of a batch as one array of structs with the columns of the schema, null where the batch has
    none.

    ``named`` are options and the columns that they name, which every batch must have.

    Raises ``ValueError`` for anything that is no batch, for a batch without a named column, and for columns
    that the schema does not have, or that are of another type there.
    """
    if not isinstance(batch, pa.Table | pa.RecordBatch):
        raise ValueError(f"a collection in columns is of Arrow tables or record batches, but has a {type(batch).__name__}")
    for option, name in named:
        if name not in batch.schema.names:
            raise ValueError(f"{option}={name!r}: a batch has no such column; it has {', '.join(batch.schema.names) or 'none'}")
    if batch.schema.equals(schema):
        # an older PyArrow makes no struct array of a table without rows
        return combine_chunks(batch.to_struct_array()) if len(batch) else pa.nulls(0, pa.struct(list(batch.schema)))
    if unknown := [name for name in batch.schema.names if name not in schema.names]:
        raise ValueError(
            f"a batch has the column {unknown[0]!r}, and the columns are known to be {', '.join(schema.names)}: give all with schema="
        )
    columns = [
        exact_cast(combine_chunks(batch.column(field.name)), field.type, ValuePlace("a batch", field.name))
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.StructArray.from_arrays(columns, fields=list(schema)) if columns else pa.nulls(len(batch), pa.struct([]))


def _created(pcoll: PCollection[Any]) -> Iterator[Any]:
    step = pcoll.producer
    while step is not None:
        if isinstance(step.transform, beam.Create) and pcoll in step.outputs.values():
            yield from step.transform.values
        step = step.parent
