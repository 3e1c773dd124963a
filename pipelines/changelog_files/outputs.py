"""Result files that appear whole or not at all: made in a hidden sibling directory, renamed when the run has succeeded."""

import os
import re
import shutil
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

import fastavro
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from fastavro.write import Writer

from beam_joins.pipelines.changelog_files.avro_records import AvroWriter, Schema
from beam_joins.pipelines.changelog_files.changelog import Format, absolute, format_of
from beam_joins.pipelines.changelog_files.json_lines import JsonLinesWriter
from beam_joins.pipelines.command.input_error import InputError

_PART_NAME: Final = re.compile(r"-\d{5}-of-\d{5}$")


class Output(NamedTuple):
    """One result: what it is called in the summary, where it goes, and its format (``schema`` for Avro)."""

    name: str
    path: str
    format: Format
    schema: Schema | None = None

    def create(self, path: str) -> AvroWriter | JsonLinesWriter:
        """A writer of this format to a new file."""
        file = FileSystems.create(path)
        return JsonLinesWriter(file) if self.schema is None else AvroWriter(file, self.schema)


class Move(NamedTuple):
    """A file that is whole, and the name that it is to get."""

    source: str
    target: str


def check_output(option: str, path: str) -> Format:
    """The format of a path to be written; makes its directory. Raises InputError if nothing can be written there."""
    format_ = format_of(option, path)
    if "://" in path:
        return format_
    if os.path.isdir(path):
        raise InputError(f"{option}: {path} is a directory: name a file in it")
    parent = os.path.dirname(path) or os.curdir
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option}: cannot make the directory {parent}: {error.strerror}") from error
    if not os.access(parent, os.W_OK):
        raise InputError(f"{option}: the directory {parent} cannot be written")
    return format_


class Staging:
    """A hidden directory beside each output for what is not yet whole; gone when the block ends, however it ends."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        name = f".beam_joins-{uuid.uuid4().hex[:12]}"
        self._of_parent = {parent: os.path.join(parent, name) for parent in map(_parent, outputs)}

    def __enter__(self) -> "Staging":
        for directory in self._of_parent.values():
            FileSystems.mkdirs(directory)
        return self

    def __exit__(self, *error: object) -> None:
        FileSystems.delete(list(self._of_parent.values()))

    def beside(self, output: Output) -> str:
        """The hidden directory in the output's own one."""
        return self._of_parent[_parent(output)]

    def said(self) -> str:
        """How much is in it by now, in words; nothing where that cannot be seen from here."""
        sizes = [
            entry.stat().st_size
            for directory in self._of_parent.values()
            if os.path.isdir(directory)
            for entry in os.scandir(directory)
        ]
        return f"{sum(sizes) / 1e6:,.1f} MB written" if sizes else ""


def prepare(output: Output, parts: Sequence[str], staging: Staging, *, one_file: bool) -> list[Move]:
    """Make an output's parts ready: joined into one file, or as they are."""
    if one_file or not parts:
        whole = os.path.join(staging.beside(output), f"whole-{os.path.basename(output.path)}")
        (_join_avro if output.schema is not None else _join_lines)(output, parts, whole)
        return [Move(whole, output.path)]
    stem, suffix = split_suffix(output.path)
    return [Move(part, f"{stem}-{number:05d}-of-{len(parts):05d}{suffix}") for number, part in enumerate(parts)]


def publish(output: Output, moves: Sequence[Move]) -> list[str]:
    """Give the files their names, and remove what an earlier run left under other names of the same output."""
    earlier = _earlier(output)
    for source, target in moves:
        if "://" in target and target in earlier:  # a local rename replaces, others may refuse
            FileSystems.delete([target])
        FileSystems.rename([source], [target])
    stale = earlier - {absolute(move.target) for move in moves}
    if stale:
        FileSystems.delete(sorted(stale))
    return [move.target for move in moves]


def split_suffix(path: str) -> tuple[str, str]:
    """A path before and from the suffix that says its format.

    >>> split_suffix("out/a.b.jsonl.gz")
    ('out/a.b', '.jsonl.gz')
    """
    found = re.search(r"\.\w+(\.(gz|bz2|zst))?$", path)
    return (path[: found.start()], found[0]) if found else (path, "")


def _parent(output: Output) -> str:
    return os.path.dirname(absolute(output.path))


def _earlier(output: Output) -> set[str]:
    stem, suffix = split_suffix(absolute(output.path))
    found = [file.path for match in FileSystems.match([f"{stem}-*{suffix}"]) for file in match.metadata_list]
    parts = [path for path in found if path.startswith(stem) and _PART_NAME.match(path.removesuffix(suffix)[len(stem) :])]
    return {*parts, absolute(output.path)} if FileSystems.exists(output.path) else set(parts)


def _join_lines(output: Output, parts: Sequence[str], whole: str) -> None:
    raw = CompressionTypes.UNCOMPRESSED  # compressed files one after the other are a compressed file
    if not parts:
        output.create(whole).close()
        return
    with FileSystems.create(whole, compression_type=raw) as target:
        for part in parts:
            with FileSystems.open(part, compression_type=raw) as source:
                shutil.copyfileobj(source, target, 1 << 20)


def _join_avro(output: Output, parts: Sequence[str], whole: str) -> None:
    with FileSystems.create(whole) as target:
        writer = Writer(target, fastavro.parse_schema(output.schema or {}), codec="deflate")
        for part in parts:
            with FileSystems.open(part) as source:
                for block in fastavro.block_reader(source):
                    writer.write_block(block)
        writer.flush()
