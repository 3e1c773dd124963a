"""The formats of changelogs, by name and by suffix."""

from typing import Final

from beam_joins.pipelines.changelog_files.avro_records import Avro
from beam_joins.pipelines.changelog_files.files import Format, Source
from beam_joins.pipelines.changelog_files.json_lines import PACKED, JsonLines
from beam_joins.pipelines.command.input_error import InputError

SOURCES: Final[dict[Format, Source]] = {"avro": Avro(), "json lines": JsonLines()}


def format_of(what: str, path: str) -> Format:
    """The format that a path's suffix stands for; raises InputError, naming the suffixes that there are."""
    bare = path
    for packed in PACKED:
        bare = bare.removesuffix(packed)
    for name, source in SOURCES.items():
        if (bare if name == "json lines" else path).endswith(source.suffixes):
            return name
    suffixes = ", ".join(suffix for source in SOURCES.values() for suffix in source.suffixes)
    raise InputError(f"{what}: {path} must end in {suffixes} (JSON lines also with {' or '.join(PACKED)}), which says what format it has")
