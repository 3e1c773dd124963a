"""The formats of changelogs, by name and by suffix."""

from collections.abc import Sequence
from typing import Any, Final

from beam_joins.pipelines.changelog_files.avro_records import Avro
from beam_joins.pipelines.changelog_files.csv_rows import Csv
from beam_joins.pipelines.changelog_files.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.changelog_files.envelopes.maxwell import Maxwell
from beam_joins.pipelines.changelog_files.envelopes.sources import DebeziumAvro, DebeziumParquet, EnvelopeLines
from beam_joins.pipelines.changelog_files.envelopes.wal2json import Wal2Json
from beam_joins.pipelines.changelog_files.files import Format, Source
from beam_joins.pipelines.changelog_files.json_lines import JsonLines
from beam_joins.pipelines.changelog_files.lines import PACKED
from beam_joins.pipelines.changelog_files.parquet_rows import Parquet
from beam_joins.pipelines.command.input_error import InputError

PLAIN_FORMATS: Final = ("avro", "json lines", "parquet", "csv")
ENVELOPES: Final[dict[Format, EnvelopeLines | DebeziumAvro | DebeziumParquet]] = {
    "debezium": EnvelopeLines(DebeziumJson),
    "debezium avro": DebeziumAvro(),
    "debezium parquet": DebeziumParquet(),
    "wal2json": EnvelopeLines(Wal2Json, whole=True),
    "maxwell": EnvelopeLines(Maxwell),
}
DEBEZIUM: Final[dict[Format, Format]] = {"json lines": "debezium", "avro": "debezium avro", "parquet": "debezium parquet"}
"""The formats in which Debezium's events may be written."""
SOURCES: Final[dict[Format, Source]] = {"avro": Avro(), "json lines": JsonLines(), "parquet": Parquet(), "csv": Csv(), **ENVELOPES}
_OF_LINES: Final = ("json lines", "csv")


def format_of(what: str, path: str, formats: Sequence[Any] = PLAIN_FORMATS) -> Any:
    """The format, among these, that a path's suffix stands for; raises InputError, naming the suffixes that there are."""
    for name in formats:
        if _is_of(name, path):
            return name
    suffixes = ", ".join(suffix for name in formats for suffix in SOURCES[name].suffixes)
    lines = " and ".join({"json lines": "JSON lines", "csv": "CSV"}[name] for name in _OF_LINES if name in formats)
    raise InputError(f"{what}: {path} must end in {suffixes} ({lines} also with {' or '.join(PACKED)}), which says what format it has")


def has_format(path: str) -> bool:
    """Whether a path's suffix stands for one of the formats."""
    return any(_is_of(name, path) for name in SOURCES)


def _is_of(name: Format, path: str) -> bool:
    for packed in PACKED if name in _OF_LINES else ():
        path = path.removesuffix(packed)
    return path.endswith(SOURCES[name].suffixes)
