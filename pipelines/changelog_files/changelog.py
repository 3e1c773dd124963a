"""A changelog in files: found, looked at before the run starts, and cut into parts that are read side by side."""

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.changelog_files import avro_records, json_lines
from beam_joins.pipelines.changelog_files.avro_records import Schema
from beam_joins.pipelines.changelog_files.columns import Columns
from beam_joins.pipelines.changelog_files.paths import absolute, is_local, matching, require_file_system
from beam_joins.pipelines.command.input_error import InputError

Format = Literal["avro", "json lines"]
PART_BYTES: Final = 16 << 20
LOOK_RECORDS: Final = 10_000
"""How many records are looked at to learn what columns there are."""
_PACKED: Final = (".gz", ".bz2", ".zst")


class File(NamedTuple):
    """A file: ``path`` is absolute, for workers with another working directory; ``shown`` is as the user knows it."""

    path: str
    bytes: int
    shown: str


class Part(NamedTuple):
    """The records of a file that begin in ``[start, stop)``; stop 0: all that follow. ``file`` is the file's number."""

    file: int
    path: str
    start: int
    stop: int
    shown: str


@dataclass(frozen=True, kw_only=True)
class Changelog:
    """The files of one changelog and what was seen in them; ``schema`` is that of Avro files."""

    name: str
    files: tuple[File, ...]
    format: Format
    columns: Columns
    schema: Schema | None
    first: tuple[dict[str, Any], ...]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    def parts(self) -> list[Part]:
        """The files in parts of about PART_BYTES; a compressed one cannot be cut."""
        parts = []
        for number, file in enumerate(self.files):
            path, size, shown = file
            if path.endswith(_PACKED):
                parts.append(Part(number, path, 0, 0, shown))
            else:
                parts += [Part(number, path, start, min(start + PART_BYTES, size), shown) for start in range(0, size, PART_BYTES)]
        return parts

    def require(self, option: str, column: str) -> None:
        """Raise InputError if no record looked at has the column; the option is the one that names it."""
        there = (
            [field["name"] for field in self.schema["fields"]] if self.schema else list(dict.fromkeys(itertools.chain(*self.first)))
        )
        if column not in there and (there or self.schema):
            raise InputError(f"{self.name} have no column '{column}' ({option}): {self.files[0].shown} has {', '.join(there)}")

    def kind_of(self, column: str) -> str | None:
        """What the column holds, in words, if the records looked at agree."""
        kinds = {kind(row[column]) for row in self.first if row.get(column) is not None}
        return kinds.pop() if len(kinds) == 1 else None

    def first_kind_of(self, column: str) -> str | None:
        """What the column holds, in words, in the first record looked at that has it."""
        return next((kind(row[column]) for row in self.first if row.get(column) is not None), None)


def find_changelog(name: str, pattern: str, columns: Columns) -> Changelog:
    """Find the files of a path or glob, and look into them.

    The time unit of an Avro column that says its own replaces the one in ``columns``.

    Raises:
        InputError: nothing there, not a file, not readable, of an unknown or of several formats, or without one of the columns.
    """
    if os.path.isdir(pattern):
        raise InputError(f"{name}: {pattern} is a directory: name a file, or a glob such as {os.path.join(pattern, '*.jsonl')}")
    if not is_local(pattern):
        require_file_system(name, pattern)
    try:
        found = matching(pattern)
    except Exception as error:  # each file system has errors of its own: of the network, of credentials
        raise InputError(f"{name}: cannot look for {pattern}: {_reason(error)}") from error
    shown = (lambda path: path) if absolute(pattern) == pattern else os.path.relpath
    files = tuple(File(file.path, file.bytes, shown(file.path)) for file in found)
    if not files:
        raise InputError(f"{name}: there is no file {pattern}")
    formats = {format_of(name, file.shown) for file in files}
    if len(formats) > 1:
        raise InputError(
            f"{name}: {pattern} finds both Avro and JSON lines files: give them in runs of their own, or convert one kind"
        )
    format_ = formats.pop()
    try:
        for file in files:
            FileSystems.open(file.path, compression_type=CompressionTypes.UNCOMPRESSED).close()
        schema = _common_schema(name, files) if format_ == "avro" else None
        first = tuple(itertools.islice(_first_records(name, files, format_), LOOK_RECORDS))
    except (OSError, EOFError) as error:
        raise InputError(f"{name}: cannot read {getattr(error, 'filename', None) or pattern}: {_reason(error)}") from error
    if schema is not None and (kind := avro_records.logical_type(schema, columns.timestamp)) in avro_records.UNIT_OF:
        columns = replace(columns, unit=avro_records.UNIT_OF[kind])
    return Changelog(name=name, files=files, format=format_, columns=columns, schema=schema, first=first)


def format_of(what: str, path: str) -> Format:
    """The format that a path's suffix stands for; raises InputError, naming the suffixes that there are."""
    bare = path
    for packed in _PACKED:
        bare = bare.removesuffix(packed)
    if bare.endswith(json_lines.SUFFIXES):
        return "json lines"
    if path.endswith(avro_records.SUFFIXES):
        return "avro"
    raise InputError(
        f"{what}: {path} must end in {', '.join((*avro_records.SUFFIXES, *json_lines.SUFFIXES))} (JSON lines also with {' or '.join(_PACKED)}),"
        " which says what format it has"
    )


def _common_schema(name: str, files: Sequence[File]) -> Schema:
    schemas = []
    for file in files:
        try:
            schemas.append(avro_records.read_schema(file.path))
        except ValueError as error:
            raise InputError(f"{name}: {file.shown} {error}") from error
    for file, schema in zip(files, schemas, strict=True):
        if schema != schemas[0]:
            raise InputError(f"{name}: {file.shown} has another Avro schema than {files[0].shown}: write them with one schema")
    return schemas[0]


def _first_records(name: str, files: Sequence[File], format_: Format) -> Iterator[dict[str, Any]]:
    """The usable records; an unusable line is the run's business."""
    for file in files:
        if format_ == "json lines":
            yield from (row for _, row in json_lines.read_json_lines(file.path) if isinstance(row, dict))
        else:
            try:
                yield from (row for _, row in avro_records.read_avro(file.path, 0, file.bytes))
            except ValueError as error:
                raise InputError(f"{name}: {file.shown} {error}") from error


def kind(value: object) -> str:
    """What a value is, in words.

    >>> kind(7)
    'whole numbers'
    """
    kinds = {bool: "true or false", int: "whole numbers", str: "text", bytes: "bytes", float: "fractions"}
    return kinds.get(type(value), type(value).__name__)


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
