"""Reads the files of wal2json as one log: transactions may begin in one file and end in another, or wait for
their end.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.formats.envelopes.row_change import lsn_text
from beam_joins.pipelines.formats.envelopes.wal2json_lines import TRANSACTION, Line, cut_apart, end_of_cut, line_of
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.line_files import whole_lines
from beam_joins.pipelines.formats.registry import packed_as

_WINDOW: Final = 1 << 16


class Waiting(NamedTuple):
    """The end of a file, from the byte ``start`` on, that waits for the rest of its transaction.

    ``sentence`` tells people.
    """

    path: str
    start: int
    sentence: str
    comes_again: bool
    """Whether nothing of it is needed, as the server sends the whole transaction again."""


class ReadBefore(NamedTuple):
    """The range of transactions that earlier runs have read: the ends of the first and of the last one."""

    first: int | None = None
    last: int | None = None
    repeated: tuple[str, ...] = ()
    """The timestamps of those that begin a second time at the end of a file, whose rest may come in another
    one and is not needed.
    """


NONE_READ: Final = ReadBefore()


class Wal2JsonLog(NamedTuple):
    """The files, each with the part to read, and the ends that wait."""

    files: tuple[File, ...]
    waiting: tuple[Waiting, ...] = ()
    read: ReadBefore = NONE_READ


class _Head(NamedTuple):
    """The lines of a transaction that a file has before any beginning: so many lines, up to the byte ``stop``
    (0: all).

    ``commit`` is the line that ends it, empty if that is not in the file. ``again``: another transaction
    begins before the end.
    """

    commit: bytes
    line: Line
    lines: int
    stop: int
    again: bool = False


class _Tail(NamedTuple):
    """A transaction without its end: the line that begins it, empty where only a line that is cut off is
    there.
    """

    begin: bytes
    end: int | None
    timestamp: str | None
    start: int
    """Where the line begins that has the beginning,"""
    at: int
    """and where what is to be read ends."""


class _Outline(NamedTuple):
    """The transactions at the ends of a file, ``head`` and ``tail``, and the ends of the first and the last
    transaction that it has whole or begins.
    """

    file: File
    head: _Head | None
    tail: _Tail | None
    first: int | None
    last: int | None
    cut: int | None
    """Where the last line begins if it is cut off."""

    def covers(self, end: int) -> bool:
        """Whether a transaction is among those of the file, as the log of a slot leaves none out."""
        return self.first is not None and self.last is not None and self.first <= end <= self.last


def wal2json_log(name: str, files: Sequence[File], before: ReadBefore = NONE_READ) -> Wal2JsonLog:
    """The files as one log, in whatever order they come.

    A transaction that is cut is put together by what its lines say: its beginning and its end have the same
    ``nextlsn``, and its changes the same timestamp. One without its end waits if it is the last one.
    ``before`` is the ``read`` of the run before.

    Raises InputError for a file that begins within a transaction whose beginning is in no file, and where the
    log goes on behind one without its end.
    """
    log = _Log(name, [_outline(name, file) for file in files], before)
    placed = [log.placed(outline) for outline in log.outlines]
    return Wal2JsonLog(tuple(file for file, _ in placed), tuple(part for _, waiting in placed for part in waiting), log.read())


class _Log:
    def __init__(self, name: str, outlines: Sequence[_Outline], before: ReadBefore) -> None:
        self._name = name
        self.outlines = outlines
        self._before = before
        self._begun = [outline.tail for outline in outlines if outline.tail is not None and outline.tail.begin]
        self._commits = {o.head.line.end: o.head.commit for o in outlines if o.head is not None and o.head.commit}

    def read(self) -> ReadBefore:
        """The transactions that this run and those before it have read."""
        ends = [self._before.first, self._before.last, *self._commits]
        ends += [end for outline in self.outlines for end in (outline.first, outline.last) if self._is_covered(end)]
        read = [end for end in ends if end is not None]
        again = {tail.timestamp for tail in self._begun if self._is_covered(tail.end) or tail.end in self._commits}
        repeated = sorted({*self._before.repeated, *filter(None, again)})
        return ReadBefore(min(read, default=None), max(read, default=None), tuple(repeated))

    def placed(self, outline: _Outline) -> tuple[File, list[Waiting]]:
        """A file with the part of it to read, and the parts of it that wait."""
        file, waiting = outline.file, list[Waiting]()
        if outline.head is not None:
            file, waiting = self._continued(outline, outline.head)
        if outline.tail is not None:
            file, more = self._to_be_continued(outline._replace(file=file), outline.tail)
            waiting += more
        if file.end and outline.cut is not None and (end := line_of(file.end)) and len(self._tails(end)) > 1:
            file = replace(file, stop=outline.cut)  # a reader was killed here, and another one has begun the transaction again
        return file, waiting

    def _tails(self, of: Line | _Tail) -> list[_Tail]:
        """The beginnings of the transaction of a line, at the ends of files."""
        if of.end is None:
            return [tail for tail in self._begun if tail.timestamp == of.timestamp is not None]
        return [tail for tail in self._begun if tail.end == of.end]

    def _was_read(self, end: int | None) -> bool:
        """Whether an earlier run has read the transaction that ends there."""
        first, last, _ = self._before
        return None not in (end, first, last) and first <= end <= last  # type: ignore[operator]

    def _is_covered(self, end: int | None) -> bool:
        """Whether the transaction that ends there is whole in a file, or was in an earlier run."""
        return self._was_read(end) or (end is not None and any(each.covers(end) for each in self.outlines))

    def _continued(self, outline: _Outline, head: _Head) -> tuple[File, list[Waiting]]:
        """The file with the beginning of the transaction of its first lines."""
        file, begun = outline.file, next(iter(self._tails(head.line)), None)
        without = replace(file, start=head.stop) if head.stop else replace(file, stop=file.start)
        if head.again:
            if begun and begun.end and outline.first and outline.first <= begun.end:
                return without, []  # a reader was killed, and the server has sent the transaction again
        elif begun is not None:
            if self._was_read(begun.end):
                return without, []
            end = b"" if head.commit else self._commits.get(begun.end, b"")
            if head.commit or end:
                return replace(file, begin=begun.begin, end=end), []
            return without, [] if self._is_covered(begun.end) else [Waiting(file.path, file.start, "", comes_again=False)]
        if begun is None and (head.line.timestamp in self._before.repeated or self._is_covered(head.line.end)):
            return without, []
        of = "a transaction" if head.line.end is None else f"the transaction with nextlsn {lsn_text(head.line.end)}"
        remedy = "and read slots with include-transaction, which is the default"
        if head.stop:
            remedy = f"or take its first {head.lines:,} lines out, which loses their changes"
        raise InputError(
            f"{self._name}: {file.shown} begins within {of}, whose beginning is in no file: name the file before it too, {remedy}"
        )

    def _to_be_continued(self, outline: _Outline, tail: _Tail) -> tuple[File, list[Waiting]]:
        """The file with the end of the transaction of its last lines, or without these lines."""
        end = tail.end
        file = replace(outline.file, stop=tail.at)
        if self._was_read(end):
            return file, []
        if end in self._commits and self._tails(tail):
            # without its beginning, it is a reader that was killed: the server has sent it again, to other files
            return (replace(outline.file, end=self._commits[end]) if tail.begin else file), []
        behind = end or outline.last or 0
        later = next((each.file for each in self.outlines if each.last is not None and each.last > behind), None)
        if self._is_covered(end) or (end is None and later is not None):
            return file, []
        of = "a transaction" if end is None else f"the transaction with nextlsn {lsn_text(end)}"
        if later is not None:
            raise InputError(
                f"{self._name}: {file.shown} ends within {of}, whose end is in no file, and {later.shown} has later "
                "ones: name the file between"
                " them too, and files of other slots elsewhere"
            )
        sentence = (
            f"{self._name}: {file.shown} ends within {of}, which is not applied: it waits for the rest, or for the "
            "whole transaction again,"
            " in another file"
        )
        return file, [Waiting(file.path, tail.start, sentence, comes_again=not tail.begin)]


def _outline(name: str, file: File) -> _Outline:
    try:
        head, first = _head(file)
        tail, last, cut = _tail(file)
    except (OSError, EOFError):
        raise
    except ValueError as error:
        raise InputError(f"{name}: {file.shown} {error}") from error
    return _Outline(file, head, tail, first, last, cut)


def _lines(file: File, start: int) -> Iterator[tuple[int, int, bytes, bool]]:
    """Where lines begin that begin behind ``start``, where each piece of them begins, the piece, and whether
    it is whole or may be.
    """
    for place, data in whole_lines(Part(0, file, start, 0)):
        at = start + place
        for text in io.BytesIO(data):
            for offset, piece in cut_apart(text):
                yield at, at + offset, piece.strip(), piece.endswith(b"\n")
            at += len(text)


def _head(file: File) -> tuple[_Head | None, int | None]:
    """The part of a file before its first beginning of a transaction, and the end of the first transaction that
    begins.
    """
    head: _Head | None = None
    within: Line | None = None
    lines = 0
    for at, _, text, _ in _lines(file, file.start):
        line = line_of(text)
        if line is None or line.kind == "M":
            lines += 1
            continue
        if line.kind in ("B", TRANSACTION):
            return head or (within and _Head(b"", within, lines, at, again=True)), line.end
        lines += 1
        if line.kind == "C":
            head, within = head or _Head(text, line, lines, at + len(text) + 1), None
        else:
            within = within or line
    return head or (within and _Head(b"", within, lines, 0)), None


def _tail(file: File) -> tuple[_Tail | None, int | None, int | None]:
    """The transaction without its end that stands last, the end of the last one that has it, and where the
    last line begins if it is cut off.
    """
    size, packed = _WINDOW, packed_as(file.path)
    while True:
        start = file.start if packed else max(file.start, file.bytes - size)
        tail, last, cut = _last(_lines(file, start))
        if start == file.start or last is not None:
            return tail, last, cut
        size *= 16


def _last(lines: Iterator[tuple[int, int, bytes, bool]]) -> tuple[_Tail | None, int | None, int | None]:
    tail: _Tail | None = None
    last: int | None = None
    cut: tuple[int, bytes] | None = None
    line_start, readable = -1, False
    for start, begin, text, whole in lines:
        if start != line_start:
            line_start, readable = start, False
        at = begin if readable else start  # what is before it in its line was cut off, unless it can be read
        line = line_of(text)
        readable |= line is not None
        cut = (at, text) if line is None and not whole and text.startswith(b"{") else None
        if line is None:
            continue
        if line.kind == "B":
            tail = _Tail(text, line.end, line.timestamp, start, at)
        elif line.kind in ("C", TRANSACTION):
            tail, last = None, line.end
    if tail is None and cut is not None:
        at, text = cut
        tail = _Tail(b"", end_of_cut(text), None, at, at)
    return tail, last, cut[0] if cut else None
