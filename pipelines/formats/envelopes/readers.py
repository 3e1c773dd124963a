"""The readers of envelopes: by the name that options give them, and by the format of the files that they are written in."""

from typing import Final

from beam_joins.pipelines.formats.envelopes.debezium_files import (
    DebeziumArrow,
    DebeziumAvro,
    DebeziumLines,
    DebeziumParquet,
)
from beam_joins.pipelines.formats.envelopes.enveloped import Enveloped
from beam_joins.pipelines.formats.envelopes.maxwell import IS_DDL, NO_CANAL, MaxwellLines
from beam_joins.pipelines.formats.envelopes.wal2json_lines import Wal2JsonLines
from beam_joins.pipelines.formats.registry import Format

ENVELOPES: Final[dict[str, dict[Format, Enveloped]]] = {
    "debezium": {
        "json lines": DebeziumLines(),
        "avro": DebeziumAvro(),
        "parquet": DebeziumParquet(),
        "arrow": DebeziumArrow(),
    },
    "wal2json": {"json lines": Wal2JsonLines()},
    "maxwell": {"json lines": MaxwellLines()},
}
NOT_READ: Final = {
    "_meta": "what Estuary says of a change lies within _meta, where no option reads it: make columns of it first",
    IS_DDL: NO_CANAL,
}
"""Envelopes that no format reads, by a column that shows them: what to do."""
SHOWN_BY: Final = {
    frozenset({"op", "source"}): "debezium",
    frozenset({"schema", "payload"}): "debezium",
    frozenset({"action", "schema", "table"}): "wal2json",
    frozenset({"change"}): "wal2json",
    frozenset({"database", "table", "type", "data"}): "maxwell",
}
"""The formats of envelopes by columns that records in them have."""
