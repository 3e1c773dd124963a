"""The readers of records, plain ones and envelopes, by the name of their format."""

from typing import Final

from beam_joins.pipelines.formats.envelopes.delta_changes import DeltaChanges
from beam_joins.pipelines.formats.envelopes.maxwell import IS_DDL, NO_CANAL, Maxwell
from beam_joins.pipelines.formats.envelopes.slot_changes import SlotChanges
from beam_joins.pipelines.formats.envelopes.slot_lines import SlotLines
from beam_joins.pipelines.formats.envelopes.sources import DebeziumArrow, DebeziumAvro, DebeziumLines, DebeziumParquet, EnvelopeLines
from beam_joins.pipelines.formats.envelopes.wal2json import Wal2Json
from beam_joins.pipelines.formats.file_format import FormatReader
from beam_joins.pipelines.formats.registry import FORMATS, Format

ENVELOPES: Final[dict[Format, EnvelopeLines | DebeziumAvro | DebeziumParquet | DebeziumArrow]] = {
    "debezium": DebeziumLines(),
    "debezium avro": DebeziumAvro(),
    "debezium parquet": DebeziumParquet(),
    "debezium arrow": DebeziumArrow(),
    "wal2json": SlotLines(Wal2Json),
    "maxwell": EnvelopeLines(Maxwell),
}
DEBEZIUM: Final[dict[Format, Format]] = {
    "json lines": "debezium",
    **{each: f"debezium {each}" for each in ("avro", "parquet", "arrow")},
}
"""The formats in which Debezium's events may be written."""
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
SLOT: Final = "pgoutput"
"""The format of the changes that are spooled of a slot."""
DELTA: Final = "delta"
"""The format of the files of a Delta table."""
READERS: Final[dict[Format, FormatReader]] = {
    **{each.name: each.format.reader for each in FORMATS},
    **ENVELOPES,
    SLOT: SlotChanges(),
    DELTA: DeltaChanges(),
}
"""The readers of records, by the name of their format."""
