"""The ops that the tool runs, by their names in the format. A further op is one more :class:`Operator` in the file of its family."""

from tests.conformance import aggregates, foreign_key_join, streams, table_table_join, tables
from tests.conformance.operators import Operator

OPERATORS: dict[str, Operator] = {
    "fk_join": foreign_key_join.OPERATOR,
    "stream_global_table_join": streams.GLOBAL_TABLE_JOIN,
    "stream_stream_join": streams.STREAM_JOIN,
    "stream_table_join": streams.TABLE_JOIN,
    "stream_to_table": tables.TO_STREAM,
    "table_aggregate": aggregates.AGGREGATE,
    "table_filter": tables.FILTER,
    "table_table_join": table_table_join.OPERATOR,
    "table_to_stream": tables.TO_STREAM,
    "windowed_table": aggregates.WINDOWED,
    "windowed_table_join": aggregates.WINDOWED_JOIN,
}
