"""Files that arrive in a folder, or grow, as a source: one after the other, in the order of their names and the numbers in them."""

import io
import itertools
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Protocol

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection
from xxhash import xxh3_64_hexdigest

from beam_joins.errors import InputError
from beam_joins.pipelines.base.lakes import require_plain
from beam_joins.pipelines.base.paths import absolute, matching, require_file_system
from beam_joins.pipelines.changelogs.event_time import EventTime
from beam_joins.pipelines.changelogs.followed_changes import followed
from beam_joins.pipelines.changelogs.source_reads import Place, Range, ReadPiece, read_with
from beam_joins.pipelines.formats.changelog_columns import Unit
from beam_joins.pipelines.formats.file_parts import Block, File, Growing, NotWhole
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.registry import growing_format, growing_suffixes
from beam_joins.pipelines.results.paths_in_use import reads_files
from beam_joins.transforms.connect.files import ListedFile, cause, open_file

_NUMBER: Final = re.compile(r"([0-9]+)")
_BEFORE_ALL: Final = ("", 0)
_BEHIND: Final = sys.maxsize
_MARKED: Final = 1 << 10
"""The number of bytes by which a file is known, at its beginning and before a place or at its end."""
_REPLACED: Final = (
    "is shorter than what was read of it, or another file: rows of it may have been lost; rotate files by another name, behind the "
    "earlier ones in order (app-2.jsonl), and begin anew"
)
_LOGGER = logging.getLogger(__name__)


class Elements(Protocol):
    """A reader that makes elements of the records of files; of files in columns only ``columns`` are read, ``None``:
    all.
    """

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that are read."""

    def piece(self, after: Place, block: Block) -> ReadPiece:
        """The elements of some records. Raises ValueError for a bad one."""


@cache
def _tell_of_earlier(pattern: str) -> None:
    _LOGGER.warning("of %s files have grown or come that lie before others that were read: they are left out", pattern)


@cache
def _tell_of_waiting(path: str) -> None:
    _LOGGER.warning("%s ends within a record: the files behind it wait until it is whole", path)


class GrowingFiles(beam.PTransform[PBegin, PCollection[Any]]):
    """The elements of the files that match a pattern, of type ``made``; with ``follow`` of those that come later too."""

    def __init__(self, pattern: str, elements: Elements, made: Any, event_time: EventTime, *, follow: bool) -> None:
        """Raises ``ValueError`` for a pattern of files that do not grow."""
        super().__init__()
        require_growing(pattern)
        self._pattern = absolute(pattern)
        self._read = read_with(Files(elements, follow), event_time, follow=follow).with_output_types(made)

    def expand(self, begin: PBegin) -> PCollection[Any]:
        """Apply the transform."""
        reads_files(begin.pipeline, self._pattern, [file.path for file in _matching(self._pattern)])
        elements: PCollection[Any] = begin | "Pattern" >> beam.Create([self._pattern], reshuffle=False) | "Read" >> self._read
        return elements


def require_growing(path: Any) -> None:
    """Raise ``ValueError`` for anything but a path of files that may grow."""
    suffixes = growing_suffixes()
    if not isinstance(path, str) or not path.endswith(suffixes):
        raise ValueError(f"path={path!r}: give a path or a glob that ends with one of {', '.join(suffixes)}")
    require_file_system("path", path)


def growing_schema(pattern: str) -> pa.Schema | None:
    """The columns of the first file, of formats whose files say them. Raises ``ValueError`` if there is no file yet."""
    require_growing(pattern)
    reader = growing_format(pattern).format.reader
    if not reader.columnar:
        return None
    files = _matching(absolute(pattern))
    if not files:
        raise ValueError(f"schema=None: there is no file {pattern} yet that says which columns there are; give a schema")
    try:
        return reader.schema(File.at(files[0].path, reader))
    except OSError as error:
        raise InputError(f"{files[0].path} cannot be read: {cause(error)}") from error
    except ValueError as error:
        raise InputError(f"{files[0].path} {error}") from error


def _matching(pattern: str) -> list[ListedFile]:
    try:
        files = matching(pattern)
    except OSError as error:
        raise InputError(f"cannot look for {pattern}: {cause(error)}") from error
    require_plain(pattern, [file.path for file in files])
    return sorted(files, key=lambda file: _order(file.path))


def _order(path: str) -> tuple[Sequence[str | int], str]:
    """The order of a path: that of its texts and of the numbers between them.

    >>> sorted(["part-10.jsonl", "part-9.jsonl", "part-09.jsonl", "part.jsonl"], key=_order)
    ['part-09.jsonl', 'part-9.jsonl', 'part-10.jsonl', 'part.jsonl']
    """
    return [int(part) if place % 2 else part for place, part in enumerate(_NUMBER.split(path))], path


def _mark_of(path: str, place: int) -> str:
    """A digest of what tells a file from another one under its name: of lines the first bytes and those before the place; of files
    in blocks and in columns, whose beginning or end is never that of another one, these.
    """
    name = growing_format(path).name
    with open_file(path) as file:
        size = file.seek(0, io.SEEK_END)
        of_lines = name == "json lines"
        ends = min(size, place) if of_lines else 0 if name == "avro" else size
        file.seek(0)
        first = file.read(min(_MARKED, place) if of_lines else _MARKED)
        file.seek(max(0, ends - _MARKED))
        return xxh3_64_hexdigest(first + file.read(min(_MARKED, ends)) + str(ends).encode())


@dataclass(frozen=True)
class Files:
    """A source of the files that match a pattern. A place is the path of a file and a place in it, and behind records a mark by
    which the file is known, and the bytes of the files before it.
    """

    elements: Elements
    follow: bool

    def range(self, element: str) -> Range:
        """From the first file on; without ``follow`` to the end of the last existing one."""
        if self.follow:
            return _BEFORE_ALL, None
        files = _matching(element)
        return _BEFORE_ALL, (files[-1].path, _BEHIND) if files else _BEFORE_ALL

    def pieces(self, element: str, place: tuple[Any, ...], end: tuple[str, int] | None) -> Iterator[ReadPiece]:
        """The complete records from that place on.

        The files are listed before any is read: a file that has a later file beside it grows no more, and is
        read to its end. Raises InputError for a file that is not the one that was read to the place.
        """
        files = _matching(element)
        begun, at, *known = place
        earlier = sum(file.bytes for file in files if _order(file.path) < _order(begun))
        if known and earlier > known[1]:
            _tell_of_earlier(element)
        if known and any(file.path == begun for file in files):
            try:
                is_same = _mark_of(begun, at) == known[0]
            except OSError as error:
                raise InputError(f"{begun} cannot be read: {cause(error)}") from error
            if not is_same:
                raise InputError(f"{begun} {_REPLACED}")
        begin, last = _order(begun), None if end is None else _order(end[0])
        left = [file for file in files if begin <= _order(file.path) and (last is None or _order(file.path) <= last)]
        before = [*itertools.accumulate((file.bytes for file in left), initial=earlier)]
        for path, following, bytes_before in zip([file.path for file in left], [*left[1:], None], before, strict=False):
            is_whole = following is not None or end is not None
            try:
                yield from self._pieces(Growing(path, at if path == begun else 0, is_whole, self.elements.columns), bytes_before)
            except NotWhole:
                if end is not None:
                    raise InputError(f"{path} ends within a record") from None
                if following is not None:
                    _tell_of_waiting(path)
                return
            except ValueError as error:
                raise InputError(f"{path}: {error}") from error
            except OSError as error:
                raise InputError(f"{path} cannot be read: {cause(error)}") from error
        if end is not None:
            yield ReadPiece(end, [], None, 0)

    def _pieces(self, file: Growing, before: int) -> Iterator[ReadPiece]:
        growing = growing_format(file.path).format.growing
        assert growing is not None
        for place, block in growing(file):
            yield self.elements.piece((file.path, place, _mark_of(file.path, place), before), block)

    def close(self) -> None:
        """Does nothing: no file stays open."""


@dataclass(frozen=True)
class FollowedChanges:
    """The changes of growing files in the columns of a plan: :class:`Elements`."""

    plan: ReadPlan

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the rows, and the columns about the change."""
        typed = self.plan.typed
        return None if typed is None else tuple(dict.fromkeys((*typed.names, *self.plan.names())))

    def piece(self, after: Place, block: Block) -> ReadPiece:
        """The changes of some records. Raises ValueError for a bad one."""
        plan = self.plan.of_unit(_unit_of(after[0], self.plan.columns.timestamp or ""))
        made = followed(plan, after, block(plan))
        if made.fault is not None:
            raise ValueError(f"a record cannot be read ({made.fault[1]})")
        return made.piece


@lru_cache(16)
def _unit_of(path: str, column: str) -> Unit | None:
    """The unit of a column of times, as a file says it; None where it says none."""
    reader = growing_format(path).format.reader
    return reader.unit(File.at(path, reader), column)
