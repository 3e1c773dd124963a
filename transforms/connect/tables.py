"""Tables for readers and writers: a reader gives Arrow batches whose columns, order and size the engine knows
(:func:`declared_schema`, :func:`as_arrow`); a writer takes tables in batches (:func:`in_batches`), asks for their types
(:func:`table_type`), and routes rows by key (:class:`Route`).
"""

from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.log_spans import IN_TIME
from beam_joins.transforms.engine.construction.arrow_input import arrow_schema, as_arrow, declared_schema, plain_schema
from beam_joins.transforms.engine.construction.beam_schemas import batches_of_rows, row_type, rows_of
from beam_joins.transforms.engine.construction.plain_rows import PlainRows
from beam_joins.transforms.engine.construction.table_type import (
    TableType,
    at_first_position,
    begins_anew,
    compared_as,
    is_batches,
    table_type,
)
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.stages.replay import InlineRoute as Route
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.stages.table_rows import last_of_each, newest

__all__ = [
    "IN_TIME",
    "BlockWriter",
    "PlainRows",
    "Route",
    "TableType",
    "arrow_schema",
    "as_arrow",
    "at_first_position",
    "batches_of_rows",
    "begins_anew",
    "compared_as",
    "declared_schema",
    "in_batches",
    "is_batches",
    "last_of_each",
    "newest",
    "plain_schema",
    "prepared",
    "row_type",
    "rows_of",
    "table_type",
]
