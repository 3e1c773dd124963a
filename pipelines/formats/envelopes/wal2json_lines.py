"""Joins the lines of wal2json's log into whole transactions."""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from beam_joins.pipelines.formats.envelopes.enveloped import EnvelopeLines
from beam_joins.pipelines.formats.envelopes.row_change import Envelope, lsn, lsn_text
from beam_joins.pipelines.formats.envelopes.wal2json import Wal2Json
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.line_files import whole_lines

Lines = list[tuple[int, bytes]]
"""Lines, each with its place."""
TRANSACTION: Final = "transaction"
_BEGINS: Final = re.compile(rb'\{\s*"(?:action"\s*:\s*"B"|xid"\s*:|nextlsn"\s*:|timestamp"\s*:|change"\s*:)')
"""The beginning of the first line of a transaction; no text in JSON has this, as its quotes are escaped there."""
_NEXT_LSN: Final = re.compile(rb'"nextlsn"\s*:\s*"([0-9A-Fa-f]+/[0-9A-Fa-f]+)"')
_MOST_HELD: Final = 64 << 20


class Line(NamedTuple):
    """``kind`` is the action of format 2 or TRANSACTION, a line of format 1; ``end`` is the place behind the
    commit, where a line says it.
    """

    kind: str
    end: int | None = None
    timestamp: str | None = None


class _Line(msgspec.Struct):
    action: str | None = None
    change: msgspec.Raw | None = None
    timestamp: str | None = None
    lsn: str | None = None
    nextlsn: str | None = None


_DECODER: Final = msgspec.json.Decoder(_Line)


def line_of(text: bytes) -> Line | None:
    """Parses the bounds of a transaction in a line; ``None`` if wal2json has not written it.

    >>> line_of(b'{"action":"C","lsn":"0/5","nextlsn":"0/8","timestamp":"2026-01-01 00:00:00+00"}')
    Line(kind='C', end=8, timestamp='2026-01-01 00:00:00+00')
    """
    try:
        line = _DECODER.decode(text)
        at = line.nextlsn or line.lsn if line.action in ("B", "C", None) else None
        end = None if at is None else lsn(at)
    except (ValueError, RecursionError):
        return None
    if line.action is None and line.change is None:
        return None
    return Line(line.action or TRANSACTION, end, line.timestamp)


def end_of_cut(text: bytes) -> int | None:
    """The place behind the commit of a transaction whose line was cut off, where the line says it."""
    match = _NEXT_LSN.search(text)
    return None if match is None else lsn(match[1].decode())


def cut_apart(text: bytes) -> list[tuple[int, bytes]]:
    r"""A line, or those that became one as a reader was killed before it wrote the newline and another one
    wrote on; each with its offset.

    >>> cut_apart(b'{"action":"I","sche{"action":"B","lsn":"0/8"}')
    [(0, b'{"action":"I","sche'), (19, b'{"action":"B","lsn":"0/8"}')]
    """
    if _BEGINS.search(text, 1) is None:
        return [(0, text)]
    starts = [0, *(match.start() for match in _BEGINS.finditer(text, 1)), len(text)]
    return [(start, text[start:stop]) for start, stop in pairwise(starts)]


class Wal2JsonLines(EnvelopeLines):
    """The reader of the files of wal2json: from the byte ``start`` of a file up to ``stop``, as if ``begin`` stood
    before its first line and ``end`` behind its last.
    """

    name = "wal2json"
    bytes_text = "hexadecimal"
    key_remedy = "read the slot with include-pk"
    whole_rows = True
    spans_files = True

    def _envelope(self, file: File) -> Envelope:
        return Wal2Json(file.key, file.table, file.columns)

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """One, or none where all of the file waits."""
        return [] if file.stop == file.start else [(file.start, file.stop or 0)]

    def _looked_at(self, file: File) -> Iterator[Lines]:
        part = Part(0, file, file.start, file.look_bytes)
        transactions = WholeTransactions(partial(_next_end, part))
        yield from map(transactions.of, self._lines(part))
        yield transactions.rest()

    def _items(self, part: Part) -> Iterator[Lines]:
        transactions = WholeTransactions(partial(_next_end, part))
        yield from map(transactions.of, self._lines(part))
        if part.file.stop is None:
            yield transactions.rest()

    def _lines(self, part: Part) -> Iterator[Lines]:
        if part.file.begin:
            yield [(part.first_place, part.file.begin)]
        for lines in super()._items(part):
            behind = part.first_place + part.stop - part.start
            yield [(place, text[: behind - place]) for place, text in lines] if part.stop else lines
        if part.file.end:
            yield [(part.first_place, part.file.end)]


class WholeTransactions:
    """Passes the lines of complete transactions on, and the lines between them.

    When a reader was killed, the server sends the transaction that was cut off again, and maybe others before
    it: the lines of the one that was cut off are left out where another transaction begins. A transaction of
    more than 64 MiB is not held back: ``next_end`` gives the line that ends it, ``None`` if there is none,
    for the place of a line of it.
    """

    def __init__(self, next_end: Callable[[int], bytes | None]) -> None:
        self._next_end = next_end
        self._held: Lines = []
        self._bytes = 0
        self._within = False
        self._begin: Line | None = None
        self._passes: bool | None = None
        """Whether the transaction is passed on or left out, ``None`` while it is held back."""
        self._cut_off: int | None = None
        """The largest end of a transaction that was cut off and has not come again."""
        self._unread = False
        """Whether the last line cannot be read, and so may have been the end of the transaction."""

    def of(self, lines: Iterable[tuple[int, bytes]]) -> Lines:
        """The lines that can be passed on after these have arrived.

        Raises ValueError where a transaction is missing.
        """
        passed: Lines = []
        for place, text in lines:
            if (line := line_of(text)) is not None:
                passed += self._of(place, text, line)
                continue
            pieces = cut_apart(text)
            for offset, piece in pieces:
                line = line_of(piece)
                if line is None and piece is not pieces[-1][1]:
                    self._was_cut_off(end_of_cut(piece))
                else:
                    passed += self._of(place + offset, piece, line)
        return passed

    def rest(self) -> Lines:
        """The lines that are still held back at the end."""
        held = self._held
        self._close()
        return held

    def _of(self, place: int, text: bytes, line: Line | None) -> Lines:
        kind = line.kind if line else None
        if line and kind in ("B", TRANSACTION):
            before = self._before(line)
            if kind == TRANSACTION:
                return [*before, (place, text)]
            self._within, self._begin, self._held = True, line, [(place, text)]
            return before
        if kind == "C":
            return self._ended(place, text, line)
        if not self._within and kind in (None, "M"):
            return [(place, text)]
        self._within, self._unread = True, line is None
        return self._kept(place, text)

    def _before(self, line: Line) -> Lines:
        """The lines to pass on before a transaction begins. Raises ValueError where lines are missing."""
        held: Lines = []
        if self._within:
            if self._unread and self._passes is not False:
                held = self._held
            elif self._begin is None:
                raise ValueError("has changes whose transaction has neither a beginning nor an end: a file is missing")
            else:
                self._was_cut_off(self._begin.end)
            self._close()
        if self._cut_off is not None and line.end is not None:
            if line.end > self._cut_off:
                raise ValueError(
                    f"goes on behind the transaction with nextlsn {lsn_text(self._cut_off)}, which is cut off: read "
                    "the slot again from there"
                )
            if line.end == self._cut_off:
                self._cut_off = None
        return held

    def _ended(self, place: int, text: bytes, line: Line | None) -> Lines:
        if not self._within:
            return []
        if line and self._begin and line.end != self._begin.end:
            raise ValueError(f"ends a transaction with nextlsn {lsn_text(line.end or 0)} that it has not begun: lines are missing")
        lines = [] if self._passes is False else [*self._held, (place, text)]
        if self._begin is None and self._passes is None:
            lines.insert(0, (place, as_begin(text)))
        self._close()
        return lines

    def _kept(self, place: int, text: bytes) -> Lines:
        if self._passes is not None:
            return [(place, text)] if self._passes else []
        self._held.append((place, text))
        self._bytes += len(text)
        if self._bytes <= _MOST_HELD or self._unread:
            return []
        end, held = self._next_end(place), self._held
        self._passes, self._held = end is not None, []
        if end and self._begin is None:
            held.insert(0, (place, as_begin(end)))
        return held if self._passes else []

    def _was_cut_off(self, end: int | None) -> None:
        if end is not None:
            self._cut_off = max(end, self._cut_off or 0)

    def _close(self) -> None:
        self._within, self._begin, self._passes, self._unread = False, None, None, False
        self._held, self._bytes = [], 0


def as_begin(end: bytes) -> bytes:
    """The line that begins a transaction, made of the line that ends it: they say the same."""
    return re.sub(rb'("action"\s*:\s*)"C"', rb'\1"B"', end, count=1)


def _next_end(part: Part, place: int) -> bytes | None:
    """The line that ends the transaction of a place, empty for a line that cannot be read; ``None``: another one
    begins, or nothing follows.
    """
    start, unread = part.start + place - part.first_place + 1, False
    for _, data in whole_lines(Part(0, part.file, start, 0)):
        for text in io.BytesIO(data):
            for _, piece in cut_apart(text):
                line = line_of(piece)
                if line and line.kind == "C":
                    return piece
                if line and line.kind == "B":
                    return b"" if unread else None
                unread = line is None and text.endswith(piece) and bool(text.strip())
    return part.file.end or None
