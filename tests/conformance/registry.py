"""The ops that the tool runs, by their names in the format.

A further op is one more :class:`Operator` in the file of its family.
"""

from tests.conformance import (
    foreign_key_join,
    stream_stream_join,
    stream_table_join,
    table_aggregate,
    table_table_join,
    tables,
    windowed_table,
)
from tests.conformance.operators import Operator

OPERATORS: dict[str, Operator] = {
    "fk_join": foreign_key_join.OPERATOR,
    "stream_global_table_join": stream_table_join.GLOBAL_TABLE_JOIN,
    "stream_stream_join": stream_stream_join.OPERATOR,
    "stream_table_join": stream_table_join.TABLE_JOIN,
    "stream_to_table": tables.TO_STREAM,
    "table_aggregate": table_aggregate.OPERATOR,
    "table_filter": tables.FILTER,
    "table_table_join": table_table_join.OPERATOR,
    "table_to_stream": tables.TO_STREAM,
    "windowed_table": windowed_table.COUNT,
    "windowed_table_join": windowed_table.JOIN,
}
