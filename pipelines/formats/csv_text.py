"""The text of CSV files: encoding, delimiter and header, and records that go on in the next line within quotes."""

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.pipelines.formats.csv_schema import DELIMITERS, UNKNOWN, widest
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.line_files import lines_of, open_lines

LOOKED_AT: Final = 1 << 20
"""So many bytes of a file are looked at."""
_MARKS: Final = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
"""The byte order marks of files that are not UTF-8."""
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_LONGEST: Final = 1 << 20
"""The most bytes of a record that goes on in other lines; a longer one begins with a quote too many."""
_OPEN_QUOTE: Final = "unexpected end of data"
_REPLACED: Final = "\ufffd"
csv.field_size_limit(2**31 - 1)  # a field may be as long as its line


class OpenQuote(ValueError):
    """A quoted field does not end in this line."""


def fields_of(record: bytes, delimiter: str) -> list[str]:
    """The fields of a record. Raises ValueError, a sentence, and UnicodeDecodeError for text that is not UTF-8."""
    try:
        return next(csv.reader([record.decode().rstrip("\r\n")], strict=True, delimiter=delimiter))
    except csv.Error as error:
        if _OPEN_QUOTE in str(error):
            raise OpenQuote("a quoted field does not end") from error
        raise ValueError(f"not CSV: {error}") from error


def with_its_text(file: File, delimiter: str, encoding: str, flag: str) -> File:
    """The file with its encoding, as its byte order mark or the option says; its delimiter, as the option says or its
    header shows: one of :data:`DELIMITERS` that is the only one to split it; and whether its records go on in the next
    line within quotes.

    ``flag`` is the option for the encoding. Raises ValueError, a sentence without the path.
    """
    with open_lines(file.path) as opened:
        begin = opened.read(4)
    marked = next((name for mark, name in _MARKS if begin.startswith(mark)), "utf-8" if begin.startswith(_UTF8_MARK) else encoding)
    file = replace(file, encoding="" if marked == "utf-8" else marked)
    header = next(lines_of(file), b"").removeprefix(_UTF8_MARK)
    try:
        header.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 in line 1 ({_byte_in(error)}): {_remedy_for_bytes(flag)}") from error
    file = replace(file, delimiter=delimiter or _delimiter_of(header))
    read, spans = 0, False
    for record in records_of(file):
        spans |= b"\n" in record.rstrip(b"\r\n")
        if (read := read + len(record)) > LOOKED_AT or spans:
            break
    return replace(file, spans_lines=spans)


def in_one_layout(files: Sequence[File]) -> tuple[File, ...]:
    """The files, whose columns have the same types in all of them: those that hold what each has. A value is the only one that
    makes text of a column if no other file has text there, and a column is in the formats that its texts in all files are in.
    """
    types = widest([file.layout for file in files])
    texts = {
        name for file in files for name, kind in file.layout if kind == "string" and name not in [each.column for each in file.misfits]
    }
    formats = _common_formats(files)
    return tuple(
        replace(
            file,
            readings=tuple(each._replace(formats=formats[each.column]) for each in file.readings if formats[each.column]),
            layout=tuple((name, types[name]) for name, _ in file.layout),
            misfits=tuple(each for each in file.misfits if each.column not in texts),
        )
        for file in files
    )


def _common_formats(files: Sequence[File]) -> dict[str, tuple[str, ...]]:
    """The columns of text that are in formats in some files, and the formats that they are in wherever they are no whole numbers."""
    formats: dict[str, tuple[str, ...]] = {each.column: each.formats for file in files for each in file.readings}
    for file in files:
        of_file, kinds = {each.column: each.formats for each in file.readings}, dict(file.layout)
        for name in formats.keys() & kinds.keys():
            if kinds[name] not in (UNKNOWN, "int64"):
                formats[name] = tuple(each for each in formats[name] if each in of_file.get(name, ()))
    return formats


def _byte_in(error: UnicodeDecodeError) -> str:
    """The byte that is not UTF-8, for people."""
    return f"byte 0x{error.object[error.start]:02x}"


def _remedy_for_bytes(flag: str) -> str:
    """The remedy for text that is not UTF-8; ``flag`` is the option for the encoding."""
    return f"say with {flag} what it is, as in {flag.rstrip('=')}=cp1252 or latin-1"


def _delimiter_of(header: bytes) -> str:
    splitting = [each for each in DELIMITERS if len(fields_or_none(header, each) or ()) > 1]
    return splitting[0] if len(splitting) == 1 else ","


def fields_or_none(record: bytes, delimiter: str) -> list[str] | None:
    """The fields of a record; None for what is none, which is the run's business."""
    try:
        return fields_of(record, delimiter)
    except ValueError:
        return None


def names_in_header(file: File, header: bytes) -> list[str]:
    """The names of the columns; raises ValueError, a sentence without the path, for a header that has none, or not each
    once.
    """
    try:
        names = fields_of(header, file.delimiter)
    except ValueError:
        names = []
    if b"\r" in header.strip(b"\r\n") and not names:
        raise ValueError("has lines that end with a carriage return alone: write the file with newlines")
    if not any(names):
        begins = f"begins with {header[:40]!r}" if header else "is empty"
        raise ValueError(f"{begins}, where a CSV file has the names of its columns: add that line")
    if names == ["sep=", ""]:
        raise ValueError(
            f"begins with {header.decode().rstrip()!r}, a line for Excel above the names of its columns: leave that line out"
        )
    if "" in names:
        raise ValueError(f"has no name for column {names.index('') + 1} of {len(names)} in its header: write one there")
    if twice := [name for n, name in enumerate(names) if name in names[:n]]:
        places = [str(n + 1) for n, name in enumerate(names) if name == twice[0]]
        raise ValueError(f"has '{twice[0]}' in its header as columns {' and '.join(places)}: give each column another name")
    return names


def records_of(file: File) -> Iterator[bytes]:
    """The header and the records of a file, each with all of its lines; a line whose quote has no end stands alone.

    Raises ValueError as :func:`lines_of` does.
    """
    lines, returned = lines_of(file), deque[bytes]()
    header = next(lines, None)
    if header is None:
        return
    yield header
    count = len(fields_or_none(header, file.delimiter) or ())
    coming = _with_returned(lines, returned)
    for line in coming:
        taken, size, state = [line], len(line), _state(line, file.delimiter, count)
        while state == "open" and (more := next(coming, None)) is not None:
            taken.append(more)
            size += len(more)
            if b'"' in more or size > _LONGEST:
                state = _state(b"".join(taken), file.delimiter, count)
        if state == "whole":
            yield b"".join(taken)
        else:
            yield line
            returned.extendleft(reversed(taken[1:]))


def _with_returned(lines: Iterator[bytes], returned: deque[bytes]) -> Iterator[bytes]:
    while True:
        line = returned.popleft() if returned else next(lines, None)
        if line is None:
            return
        yield line


def _state(text: bytes, delimiter: str, count: int) -> Literal["whole", "open", "bad"]:
    """Whether these lines are a record of so many fields, or go on; one line is a record in any case if it is not open."""
    if b'"' not in text:
        return "whole"
    try:
        fields = fields_of(text, delimiter)
    except OpenQuote:
        return "open" if len(text) <= _LONGEST else "bad"
    except ValueError:
        return "bad"
    return "whole" if len(fields) == count else "bad"


def record_pattern(delimiter: str) -> str:
    """A pattern of lines whose quotes begin and end fields, or are doubled within them: Arrow also takes others."""
    field = rf'(?:[^"\{delimiter}]*|"(?:[^"]|"")*")'
    return rf"^{field}(?:\{delimiter}{field})*\r?\n?$"


def fields_or_fault(record: bytes, names: Sequence[str], delimiter: str, flag: str) -> list[str] | str:
    """The fields of a record with these columns, or its fault; ``flag`` is the option for the encoding."""
    try:
        return fields_of(record, delimiter)
    except UnicodeDecodeError as error:
        fields = fields_or_none(record.decode(errors="replace").encode(), delimiter) or []
        where = next((f"column '{name}'" for name, text in zip(names, fields, strict=False) if _REPLACED in text), "the record")
        return f"{where} is not UTF-8 ({_byte_in(error)}): {_remedy_for_bytes(flag)}"
    except ValueError as error:
        if _is_escaped(record, len(names), delimiter):
            return "quotes have a backslash before them, where CSV doubles them: write the file so (Spark: option escape with '\"')"
        if not isinstance(error, OpenQuote):
            return str(error)
        return "a quoted field does not end in its line, nor in later ones so that the fields are those of the header"


def _is_escaped(record: bytes, count: int, delimiter: str) -> bool:
    """Whether a record that is no CSV has so many fields where a backslash stands before quotes, as Spark writes them."""
    if b'\\"' not in record:
        return False
    text = record.decode().rstrip("\r\n")
    try:
        fields = next(csv.reader([text], strict=True, delimiter=delimiter, doublequote=False, escapechar="\\"))
    except csv.Error:
        return False
    return len(fields) == count


def is_one_part(part: Part) -> bool:
    """Whether a part is all of its file, so that its lines are known to begin outside of quotes."""
    return not part.start and not 0 < part.stop < part.file.bytes


def joined(data: bytes, begins: Ints, ends: Ints, regular: Bools, file: File, *, is_last: bool) -> tuple[Ints, Ints, int]:
    """Where records begin and end whose lines do: those of one record are joined. ``regular`` lines have quotes only around
    fields. Also gives where the last record begins if more of it may come, as these lines are not the last; else their end.
    """
    keep, ends, behind = np.ones(len(begins), np.bool_), ends.copy(), 0
    for n in np.flatnonzero(~regular).tolist():
        if n < behind or _state(data[begins[n] : ends[n]], file.delimiter, len(file.layout)) != "open":
            continue
        for m in range(n + 1, len(begins)):
            if b'"' not in data[begins[m] : ends[m]] and ends[m] - begins[n] <= _LONGEST:
                continue  # it goes on
            state = _state(data[begins[n] : ends[m]], file.delimiter, len(file.layout))
            if state == "whole":
                ends[n], behind = ends[m], m + 1
                keep[n + 1 : behind] = False
            if state != "open":
                break
        else:
            if not is_last:
                return begins[:n][keep[:n]], ends[:n][keep[:n]], int(begins[n])
    return begins[keep], ends[keep], len(data)
