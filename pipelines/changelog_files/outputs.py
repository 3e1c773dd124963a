"""Result files that appear whole or not at all: made in a hidden sibling directory, renamed when the run has succeeded."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

import fastavro
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from fastavro.write import Writer

from beam_joins.pipelines.changelog_files.avro_records import AvroWriter, Schema
from beam_joins.pipelines.changelog_files.claim import held, new_claim, release, staging_of, take
from beam_joins.pipelines.changelog_files.formats import format_of
from beam_joins.pipelines.changelog_files.json_lines import JsonLinesWriter
from beam_joins.pipelines.changelog_files.paths import absolute, is_local, real, remove, require_file_system
from beam_joins.pipelines.changelog_files.publishing import Move, part_name, parts_of, publish
from beam_joins.pipelines.changelog_files.reading import Form
from beam_joins.pipelines.command.input_error import InputError, writing


class Output(NamedTuple):
    """One result: what it is called in the summary, where it goes, and its format (``schema`` for Avro).

    ``owner`` is what a run claims where several runs have paths of their own.
    """

    name: str
    path: str
    format: Form
    schema: Schema | None = None
    owner: str = ""

    @property
    def claimed(self) -> str:
        """The path that one run at a time may claim."""
        return self.owner or self.path

    def create(self, path: str) -> AvroWriter | JsonLinesWriter:
        """A writer of this format to a new file."""
        file = FileSystems.create(path)
        return JsonLinesWriter(file) if self.schema is None else AvroWriter(file, self.schema)


def check_output(option: str, path: str, *, make: bool = True) -> Form:
    """The format of a path to be written; makes its directory, unless told not to. Raises InputError if nothing can be written there."""
    format_: Form = format_of(option, path, ("avro", "json lines"))
    if not is_local(path):
        require_file_system(option, path)
        return format_
    if os.path.isdir(path):
        raise InputError(f"{option}: {path} is a directory: name a file in it")
    parent = os.path.dirname(path) or os.curdir
    if not make:
        return format_
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option}: cannot make the directory {parent}: {error.strerror}") from error
    if not os.access(parent, os.W_OK):
        raise InputError(f"{option}: the directory {parent} cannot be written")
    return format_


def refuse_inputs(path: str, inputs: Iterable[str]) -> None:
    """Raise InputError if a result at this path would take the place of an input: of its file, or of one named as an earlier part of it."""
    with writing(path):
        replaced = set(map(real, (absolute(path), *parts_of(*split_suffix(path)))))
    for file in inputs:
        if real(file) in replaced:
            shown = path if real(file) == real(path) else f"{file}, which {path} would replace as a part of an earlier result,"
            raise InputError(f"{shown} is an input: give the result another name")


class Staging:
    """A hidden directory beside each output for what is not yet whole; gone when the block ends, however it ends.

    Within the block no other run writes the outputs; entering it raises InputError if one does, OutputError if nothing can be written.
    """

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._outputs = outputs
        self._claim = new_claim()
        self._stack = ExitStack()
        self._unfinished = False

    def __enter__(self) -> "Staging":
        with ExitStack() as stack, writing(self._outputs[0].path):
            for output in self._outputs:
                take(output.claimed, self._claim)
                stack.callback(release, output.claimed, self._claim)
            for output in self._outputs:
                directory = self.beside(output)
                stack.callback(remove, directory)
                if is_local(directory):
                    os.makedirs(directory, exist_ok=True)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._unfinished:
            self._stack.close()

    @contextmanager
    def until_renamed(self) -> Iterator[None]:
        """If the block fails, what is in the directories stays, and with it the claims: whoever finishes the renames needs them."""
        self._unfinished = True
        yield
        self._unfinished = False

    def beside(self, output: Output) -> str:
        """The hidden directory in the output's own one."""
        return staging_of(output.claimed, self._claim)

    def whole(self, output: Output) -> str:
        """Where an output is made whole before it is renamed."""
        return os.path.join(self.beside(output), f"whole-{output.name}-{os.path.basename(output.path)}")

    def said(self) -> str:
        """How much is in it by now, in words; nothing where that cannot be seen from here."""
        sizes = []
        for directory in {self.beside(output) for output in self._outputs}:
            with suppress(OSError):  # a failed bundle removes its file
                sizes += [entry.stat().st_size for entry in os.scandir(directory)]
        return f"{sum(sizes) / 1e6:,.1f} MB written" if sizes else ""

    def publish(self, parts: Mapping[str, Sequence[str]], *, one_file: bool) -> dict[str, list[str]]:
        """Give the outputs their parts, joined or as they are, all outputs or none; gives the paths of each output's files.

        Raises:
            InputError: another run has taken an output over.
            OutputError: they cannot be written.
        """
        moves = [self.prepared(output, parts[output.name], one_file=one_file) for output in self._outputs]
        self.require_held()
        first = self._outputs[0]
        with writing(first.path):
            earlier = {path for output in self._outputs for path in _earlier(output)}
            publish([Move(source, absolute(target)) for each in moves for source, target in each], earlier, self.beside(first))
        return {output.name: [move.target for move in each] for output, each in zip(self._outputs, moves, strict=True)}

    def prepared(self, output: Output, parts: Sequence[str], *, one_file: bool) -> list[Move]:
        """The files of an output, its parts joined into one and removed, or as they are, and their names. Raises OutputError."""
        if one_file and len(parts) == 1:
            return [Move(parts[0], output.path)]
        if one_file or not parts:
            with writing(output.path):
                (_join_avro if output.schema is not None else _join_lines)(output, parts, self.whole(output))
            return [Move(self.whole(output), output.path)]
        stem, suffix = split_suffix(output.path)
        return [Move(part, part_name(stem, number, len(parts), suffix)) for number, part in enumerate(parts)]

    def require_held(self) -> None:
        """Raise InputError if another run has taken an output over."""
        for output in self._outputs:
            if not held(output.claimed, self._claim):
                raise InputError(f"{output.path} has been taken over by another run: no results were written")


def split_suffix(path: str) -> tuple[str, str]:
    """A path before and from the suffix that says its format.

    >>> split_suffix("out/a.b.jsonl.gz")
    ('out/a.b', '.jsonl.gz')
    """
    found = re.search(r"\.\w+(\.(gz|bz2|zst))?$", path)
    return (path[: found.start()], found[0]) if found else (path, "")


def _earlier(output: Output) -> set[str]:
    path = absolute(output.path)
    return {*parts_of(*split_suffix(output.path)), *({path} if FileSystems.exists(path) else ())}


def _join_lines(output: Output, parts: Sequence[str], whole: str) -> None:
    raw = CompressionTypes.UNCOMPRESSED  # compressed files one after the other are a compressed file
    if not parts:
        output.create(whole).close()
        return
    with FileSystems.create(whole, compression_type=raw) as target:
        for part in parts:
            with FileSystems.open(part, compression_type=raw) as source:
                shutil.copyfileobj(source, target, 1 << 20)
            remove(part)  # or the disk would hold the result twice


def _join_avro(output: Output, parts: Sequence[str], whole: str) -> None:
    with FileSystems.create(whole) as target:
        writer = Writer(target, fastavro.parse_schema(output.schema or {}), codec="deflate")
        for part in parts:
            with FileSystems.open(part) as source:
                for block in fastavro.block_reader(source):
                    writer.write_block(block)
            remove(part)
        writer.flush()
