"""Files that arrive in a folder, or grow, as a source: one after the other, in the order of their names."""

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from beam_joins.pipelines.changelog_files.paths import matching
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.sources.file_formats import NotWhole, Part, format_of
from beam_joins.pipelines.sources.follow import Piece, Range
from beam_joins.pipelines.sources.rows import Rows

_BEFORE_ALL: Final = ("", 0)
_BEHIND: Final = sys.maxsize


_LOGGER = logging.getLogger(__name__)


@cache
def _tell_of_waiting(path: str) -> None:
    _LOGGER.warning("%s ends within a record: the files behind it wait until it is whole", path)


@dataclass(frozen=True)
class Files:
    """The files of a pattern. A place is the path of a file and the place in it."""

    rows: Rows
    follow: bool

    def range(self, element: str) -> Range:
        """From the first file on; without ``follow``, to the end of the last one that is there."""
        if self.follow:
            return _BEFORE_ALL, None
        there = matching(element)
        return _BEFORE_ALL, (there[-1].path, _BEHIND) if there else _BEFORE_ALL

    def pieces(self, element: str, place: tuple[str, int], end: tuple[str, int] | None) -> Iterator[Piece]:
        """What is whole from that place on.

        The files are listed before any is read: one that has a later file beside it grows no more, and is read to its end.
        """
        paths = [file.path for file in matching(element) if file.path >= place[0] and (end is None or file.path <= end[0])]
        for path, following in zip(paths, [*paths[1:], None], strict=False):
            is_whole = following is not None or end is not None
            try:
                yield from format_of(path)(Part(path, place[1] if path == place[0] else 0, is_whole), self.rows)
            except NotWhole:
                if end is not None:
                    raise InputError(f"{path} ends within a record") from None
                if following is not None:
                    _tell_of_waiting(path)
                return
            except ValueError as error:
                raise InputError(f"{path}: {error}") from error
        if end is not None:
            yield Piece(end, [], None, 0)

    def close(self) -> None:
        """Nothing is kept open."""
