"""The ops as pipelines, by their names in the format."""

from tests.conformance.pipelines import aggregates, joins, streams, tables
from tests.conformance.pipelines.operators import Pipeline

PIPELINES: dict[str, Pipeline] = {
    "fk_join": joins.FOREIGN_KEY,
    "stream_global_table_join": streams.GLOBAL_TABLE_JOIN,
    "stream_stream_join": streams.STREAM_JOIN,
    "stream_table_join": streams.TABLE_JOIN,
    "stream_to_table": tables.TO_STREAM,
    "table_aggregate": aggregates.AGGREGATE,
    "table_filter": tables.FILTER,
    "table_table_join": joins.SAME_KEY,
    "table_to_stream": tables.TO_STREAM,
    "windowed_table": aggregates.COUNT,
    "windowed_table_join": aggregates.COUNT_JOIN,
}
