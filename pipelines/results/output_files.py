"""Result files that appear whole or not at all: made in a hidden sibling directory, renamed when the run has
succeeded.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from apache_beam.io.filesystem import CompressionTypes

from beam_joins.errors import InputError
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import absolute, is_local, require_file_system
from beam_joins.pipelines.formats.output_records import Anew, TableRecords
from beam_joins.pipelines.formats.registry import format_of
from beam_joins.pipelines.results.publication import Move, Publication, part_name, parts_of
from beam_joins.pipelines.results.sorted_output import ChangesInOrder, RowsInOrder, merge
from beam_joins.transforms.connect.files import create_file, exists


def _itself(values: Any) -> Any:
    return values


@dataclass(frozen=True)
class Output:
    """One result: its name in the summary, its path, and the format of its records.

    ``row`` gives the rows, as the records take them, of the table's values, by default the values themselves. ``owner`` is
    the path that a run claims where several runs have paths of their own; ``in_parts``: the result stays in the parts in
    which it was written.
    """

    name: str
    path: str
    records: TableRecords
    row: Callable[[Any], Any] = _itself
    owner: str = ""
    in_parts: bool = False

    @property
    def claimed(self) -> str:
        """The path that one run at a time may claim."""
        return self.owner or self.path

    @property
    def encode(self) -> ChangesInOrder | RowsInOrder:
        """The encoder of batches of changes, or of the final rows, as records."""
        records = self.records
        return RowsInOrder(records.of_rows, self.row) if records.of_finals else ChangesInOrder(records.of_changes, self.row)

    def begun(self, anew: Anew | None) -> Self:
        """The same of a table that begins anew. Raises InputError for records that cannot say so."""
        try:
            return replace(self, records=self.records.begun(anew))
        except ValueError as error:
            raise InputError(f"{self.path}: {error}") from error

    def create(self, path: str) -> Any:
        """A writer of its records to a new file, which is compressed as the result is."""
        raw = CompressionTypes.UNCOMPRESSED
        return self.records.writer(create_file(path, CompressionTypes.detect_compression_type(self.path) or raw))

    def merge(self, parts: Sequence[str], whole: str, *, removes: bool) -> None:
        """Merges sorted parts into a new file, behind the head of its records, and ``removes`` each that is in it. Raises
        OSError.
        """
        merge(self.create(whole), parts, head=self.records.head, removes=removes)


def check_output(option: str, path: str, *, make: bool = True) -> None:
    """Raises InputError for a path where no result can be written; makes its directory, unless told not to."""
    format_of(option, path)
    if not is_local(path):
        require_file_system(option, path)
        return
    if os.path.isdir(path):
        raise InputError(f"{option}: {path} is a directory: name a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{option}: {path} is a device or a pipe, which a file would replace: name a file")
    parent = os.path.dirname(path) or os.curdir
    if not make:
        return
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option}: cannot make the directory {parent}: {error.strerror}") from error
    if not os.access(parent, os.W_OK):
        raise InputError(f"{option}: the directory {parent} cannot be written")


def absent_folders(paths: Iterable[str | None]) -> list[str]:
    """The folders of paths to be written that :func:`check_output` makes."""
    parents = (os.path.dirname(path) for path in paths if path and is_local(path))
    return list(dict.fromkeys(parent for parent in parents if parent and not os.path.exists(parent)))


class Staging(Publication):
    """The publication of a command's outputs.

    Entering it raises InputError if another run writes one of them, OutputError if nothing can be written.
    """

    def __init__(self, outputs: Sequence[Output]) -> None:
        super().__init__(*(output.claimed for output in outputs))
        self._outputs = outputs

    def __enter__(self) -> Self:
        with writing(self._outputs[0].path):
            return super().__enter__()

    def whole(self, output: Output) -> str:
        """Where an output is made whole before it is renamed."""
        return os.path.join(self.attempt(output.claimed), f"whole-{output.name}-{os.path.basename(output.path)}")

    def size_text(self) -> str:
        """The size of the outputs so far, in words; empty where it is not visible from here."""
        sizes = []
        for directory in {self.attempt(output.claimed) for output in self._outputs}:
            with suppress(OSError):  # a failed bundle removes its file
                sizes += [entry.stat().st_size for entry in os.scandir(directory)]
        return f"{sum(sizes) / 1e6:,.1f} MB written" if sizes else ""

    def publish_parts(self, parts: Mapping[str, Sequence[str]], merge: Callable[[str], None] | None = None) -> dict[str, list[str]]:
        """Give the outputs their parts, merged or as they are, all outputs or none; gives the paths of each
        output's files. The last output gets no name, but is given to ``merge``, if that is not ``None``.

        Raises:
            InputError: another run has taken an output over.
            OutputError: they cannot be written.
        """
        files = {output: self.prepared(output, parts[output.name]) for output in self._outputs}
        if merge is not None:
            _, (move,) = files.popitem()
            self.require_held()
            merge(move.source)
        with writing(self._outputs[0].path):
            self.publish([move for each in files.values() for move in each], [path for output in files for path in _earlier(output)])
        return {output.name: [move.target for move in each] for output, each in files.items()}

    def prepared(self, output: Output, parts: Sequence[str]) -> list[Move]:
        """The files of an output, its parts merged into one and removed, or as they are, and their names.

        Raises OutputError.
        """
        if not output.in_parts or not parts:
            with writing(output.path):
                output.merge(parts, self.whole(output), removes=True)
            return [Move(self.whole(output), output.path)]
        stem, suffix = split_suffix(output.path)
        return [Move(part, part_name(stem, number, len(parts), suffix)) for number, part in enumerate(parts)]


def split_suffix(path: str) -> tuple[str, str]:
    """A path before and from the suffix that says its format.

    >>> split_suffix("out/a.b.jsonl.gz")
    ('out/a.b', '.jsonl.gz')
    """
    match = re.search(r"\.\w+(\.(gz|bz2|zst))?$", path)
    return (path[: match.start()], match[0]) if match else (path, "")


def _earlier(output: Output) -> set[str]:
    path = absolute(output.path)
    return {*parts_of(*split_suffix(output.path)), *({path} if exists(path) else ())}
