"""Files that arrive in a folder, or grow, as a source: one after the other, in the order of their names."""

import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.base.paths import matching
from beam_joins.pipelines.formats.avro_rows import with_uuids_as_text
from beam_joins.pipelines.formats.exact_json import loads
from beam_joins.pipelines.formats.files import Growing, NotWhole
from beam_joins.pipelines.formats.registry import growing_format
from beam_joins.pipelines.io.sources.follow import Piece, Range
from beam_joins.pipelines.io.sources.rows import Rows

_BEFORE_ALL: Final = ("", 0)
_BEHIND: Final = sys.maxsize
_NOT_FINITE: Final = re.compile(rb"[:,\[]\s*(?:NaN|-?Inf)")
"""A number that is not finite, or a text that looks like one."""


_LOGGER = logging.getLogger(__name__)


def _require_json(lines: bytes) -> None:
    """Raises InputError for a line with NaN or infinity, which Arrow takes for numbers and JSON does not have."""
    for line in filter(_NOT_FINITE.search, lines.splitlines()):
        try:
            loads(line)
        except ValueError as error:
            raise InputError(f"a line cannot be read ({error})") from error


@cache
def _tell_of_waiting(path: str) -> None:
    _LOGGER.warning("%s ends within a record: the files behind it wait until it is whole", path)


@dataclass(frozen=True)
class Files:
    """A source of the files that match a pattern. A place is the path of a file and a place in it."""

    rows: Rows
    follow: bool

    def range(self, element: str) -> Range:
        """From the first file on; without ``follow`` to the end of the last existing one."""
        if self.follow:
            return _BEFORE_ALL, None
        files = matching(element)
        return _BEFORE_ALL, (files[-1].path, _BEHIND) if files else _BEFORE_ALL

    def pieces(self, element: str, place: tuple[str, int], end: tuple[str, int] | None) -> Iterator[Piece]:
        """The complete records from that place on.

        The files are listed before any is read: one that has a later file beside it grows no more, and is
        read to its end.
        """
        paths = [file.path for file in matching(element) if file.path >= place[0] and (end is None or file.path <= end[0])]
        for path, following in zip(paths, [*paths[1:], None], strict=False):
            is_whole = following is not None or end is not None
            try:
                yield from self._pieces(Growing(path, place[1] if path == place[0] else 0, is_whole, self._columns))
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

    @property
    def _columns(self) -> tuple[str, ...] | None:
        return None if self.rows.schema is None else tuple(self.rows.schema.names)

    def _pieces(self, file: Growing) -> Iterator[Piece]:
        whole = growing_format(file.path).whole
        assert whole is not None
        for place, content in whole(file):
            after = (file.path, place)
            if isinstance(content, bytes):
                if self.rows.schema is not None and _NOT_FINITE.search(content):
                    _require_json(content)
                yield self.rows.of_lines(after, content)
            elif isinstance(content, list):
                yield self.rows.of_dicts(after, [with_uuids_as_text(record, self.rows.schema) for record in content])
            else:
                yield self.rows.of_table(after, content)

    def close(self) -> None:
        """Does nothing: no file stays open."""
