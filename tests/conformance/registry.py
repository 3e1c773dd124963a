"""The ops that the tool runs, by their names in the format. A further op is one more :class:`Operator` in the file of its family."""

from tests.conformance import foreign_key_join, tables
from tests.conformance.operators import Operator

OPERATORS: dict[str, Operator] = {
    "fk_join": foreign_key_join.OPERATOR,
    "stream_to_table": tables.TO_STREAM,
    "table_filter": tables.FILTER,
    "table_to_stream": tables.TO_STREAM,
}
