"""CSV files as changelogs: a header, one record a line, an empty field for null. Numbers keep their digits, as they are text."""

import csv
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from beam_joins.keys.columns import Bools
from beam_joins.pipelines.changelog_files.columns import Unit
from beam_joins.pipelines.changelog_files.exact_json import loads
from beam_joins.pipelines.changelog_files.files import File, Part
from beam_joins.pipelines.changelog_files.json_text import objects, texts_of
from beam_joins.pipelines.changelog_files.layout import DECIMAL, Layout
from beam_joins.pipelines.changelog_files.lines import (
    cut_lines,
    line_number,
    lines_of,
    next_line,
    open_lines,
    parts_by_bytes,
    whole_lines,
)
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading

_LOOKED_AT: Final = 1 << 20
_WHOLE: Final = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]{0,200})(\.[0-9]{1,200})?([eE][+-]?[0-9]{1,2})?$"
_DIGITS: Final = 38
_EXACT: Final = r"^-?(0|[1-9][0-9]{0,27})(\.[0-9]{1,28})?([eE][+-]?[0-9])?$"
"""Decimals; Arrow takes those of more digits too, but reads beyond its tables then."""
_PATTERNS: Final = {"int64": _WHOLE, "double": _NUMBER}
_FIELD: Final = r'(?:[^",]*|"(?:[^"]|"")*")'
_RECORD: Final = rf"^{_FIELD}(?:,{_FIELD})*\r?\n?$"
"""A line whose quotes begin and end fields, or are doubled within them: Arrow also takes others."""
_TRUTH: Final = {"true": True, "false": False}
csv.field_size_limit(2**31 - 1)  # a field may be as long as its line


def layout_of(file: File, declared: Layout, known: Layout = ()) -> Layout:
    """The columns of a file and their types: those that are declared or known, the others as the first megabyte has them.

    Raises ValueError, one sentence without the path, for a file without a header and for a declared column that it does not have.
    """
    with open_lines(file.path) as opened:
        head = next_line(opened).removeprefix(b"\xef\xbb\xbf")
        data = opened.read(_LOOKED_AT)
        data += next_line(opened) if data and not data.endswith(b"\n") else b""
    names = _fields_or_none(head)
    if not names or not all(names) or len(set(names)) < len(names):
        raise ValueError(f"has no header of different names, but begins with {head[:40]!r}")
    given = dict(declared)
    if missing := [name for name in given if name not in names]:
        raise ValueError(f"has no column '{missing[0]}'; it has {', '.join(names)}")
    records = [fields for fields in map(_fields_or_none, data.split(b"\n")) if fields is not None and len(fields) == len(names)]
    texts = (
        pa.array([text or None for text in column], pa.string())
        for column in (zip(*records, strict=True) if records else [[]] * len(names))
    )
    types = {**dict(known), **given}
    return tuple((name, types.get(name) or _type_in(column)) for name, column in zip(names, texts, strict=True))


class Csv:
    """How CSV files are read: a :class:`~beam_joins.pipelines.changelog_files.files.Source`."""

    suffixes = (".csv",)

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes."""
        return parts_by_bytes(file, size)

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records."""
        with open_lines(file.path) as opened:
            next_line(opened)
            for line in lines_of(opened):
                if line.strip() and isinstance(row := _row(line, file.layout), dict):
                    yield row

    def unit(self, file: File, column: str) -> Unit | None:
        """Not known."""
        return None

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The lines, some at a time."""
        for place, block in whole_lines(part):
            header = 0 if part.start + place else block.find(b"\n") + 1 or len(block)
            if (rows := _rows(block[header:], part.first_place + place + header, part.file.layout, reading)) is not None:
                yield rows

    def where(self, part: Part, place: int) -> str:
        """The number of the line."""
        return line_number(part, place)


def _rows(data: bytes, start: int, layout: Layout, reading: Reading | None) -> RawRows | None:
    begins, ends, lines, there = cut_lines(data, b"\r\n")
    if not there.any():
        return None

    def row(n: int) -> dict[str, Any] | str:
        return _row(data[begins[n] : ends[n]], layout)

    places = pa.array(begins + start)
    names = [name for name, _ in layout]
    if reading is None or reading.forms != ("json lines",) or reading.added in names:
        return RawRows(places, row)
    if data.count(b"\r") > data.count(b"\r\n"):  # Arrow ends a line at each
        return RawRows(places, row)
    try:
        table = _table(data, names)
    except pa.ArrowInvalid:
        return RawRows(places, row)
    if len(table) != len(begins):
        return RawRows(places, row)
    columns: dict[str, pa.Array] = {}
    texts: dict[str, pa.Array] = {}
    sure = np.ones(len(table), np.bool_)
    if b'"' in data:
        sure &= _true(pc.match_substring_regex(lines, _RECORD))[there]
    asked, left_out = reading.names(), reading.columns.about_the_change()
    for name, kind in layout:
        column = table[name].combine_chunks()
        typed, text, right = _typed(column, kind)
        sure &= right
        if name in asked:
            columns[name] = typed
        if name not in left_out:
            texts[name] = text
    missing = {name: pa.nulls(len(table)) for name in asked if name not in columns}
    return RawRows(places, row, columns | missing, objects(texts, len(table)), sure)


def _typed(column: pa.Array, kind: str) -> tuple[pa.Array, pa.Array, Bools]:
    """A column of texts as it is compared, its JSON texts, and for which records both are right."""
    if kind == "string":
        return column, texts_of(column), np.ones(len(column), np.bool_)
    if kind == "bool":
        lower = pc.utf8_lower(column)
        right = pc.is_in(lower, pa.array([*_TRUTH, None]))
        text = pc.if_else(right, lower, pa.scalar(None, pa.string()))
        return pc.equal(text, "true"), text.cast(pa.binary()), _true(right)
    plain = pc.match_substring_regex(column, _PATTERNS.get(kind, _EXACT)).fill_null(True)
    text = pc.if_else(plain, column, pa.scalar(None, pa.string()))
    right = _true(plain)
    if kind == "int64":
        return text.cast(pa.int64()), text.cast(pa.binary()), right
    if kind != "double":
        try:
            text.cast(_decimal(kind))
        except pa.ArrowInvalid:  # one of them does not fit
            right = np.zeros(len(column), np.bool_)
    return text.cast(pa.float64()), text.cast(pa.binary()), right


def _row(line: bytes, layout: Layout) -> dict[str, Any] | str:
    """The record of a line, or what is wrong with it."""
    try:
        fields = _fields(line)
    except ValueError as error:
        return f"not CSV: {error}"
    if len(fields) != len(layout):
        return f"{len(fields)} fields, where the header has {len(layout)}"
    row: dict[str, Any] = {}
    for (name, kind), text in zip(layout, fields, strict=True):
        try:
            row[name] = _value(text, kind) if text else None
        except (ValueError, InvalidOperation):
            return f"column '{name}' is not of type {kind}: {text!r}"
    return row


def _value(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    if kind == "bool":
        if (value := _TRUTH.get(text.lower())) is None:
            raise ValueError("neither true nor false")
        return value
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError("no number")
    if kind == "int64":
        return int(text)
    exact = Decimal(text)
    if not exact.is_finite():
        raise ValueError("no number")
    if kind != "double":
        if not -_DIGITS <= exact.as_tuple().exponent <= _DIGITS:  # type: ignore[operator]  # it is finite
            raise ValueError("of more digits than a decimal has")
        pa.scalar(exact, _decimal(kind))
        return exact
    return loads(str(exact).encode())


def _fields_or_none(line: bytes) -> list[str] | None:
    try:
        return _fields(line)
    except ValueError:  # a line that is none is the run's business
        return None


def _fields(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode().rstrip("\r\n")], strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from error


def _table(data: bytes, names: list[str]) -> pa.Table:
    """The fields of lines as texts, null where one is empty."""
    read = pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=max(len(data), 1))
    texts = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True)
    return pa.csv.read_csv(pa.BufferReader(data), read, pa.csv.ParseOptions(newlines_in_values=False), texts)


def _type_in(texts: pa.Array) -> str:
    """The type that all of the texts have: numbers are not written with zeros before them, as postal codes are."""
    there = texts.drop_null()
    for kind in ("int64", "double", "bool") if len(there) else ():
        if _typed(there, kind)[2].all():
            return kind
    return "string"


def _decimal(kind: str) -> pa.DataType:
    found = DECIMAL.fullmatch(kind)
    assert found is not None
    return pa.decimal128(int(found[1]), int(found[2]))


def _true(column: pa.Array) -> Bools:
    chosen: Bools = column.to_numpy(zero_copy_only=False)
    return chosen
