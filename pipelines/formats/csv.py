"""Reads and writes CSV: a header, one record a line, an empty field for null.

Numbers keep their digits, as they are text.
"""

import base64
import io
import itertools
from collections.abc import Collection, Iterator
from dataclasses import replace
from decimal import InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from beam_joins.errors import OutputError
from beam_joins.pipelines.formats.changelog_columns import WHOLE, Columns, flag_of
from beam_joins.pipelines.formats.column_formats import (
    formats_by,
    plain_text,
    plain_texts,
    readings,
)
from beam_joins.pipelines.formats.csv_schema import Layout, written_name
from beam_joins.pipelines.formats.csv_text import (
    fields_or_fault,
    is_one_part,
    joined,
    record_pattern,
    records_of,
    with_its_text,
)
from beam_joins.pipelines.formats.csv_types import PADDED, TEXTS, as_type, bools_of, value_of, with_layout
from beam_joins.pipelines.formats.file_format import FileFormat
from beam_joins.pipelines.formats.file_parts import File, FormatReader, Part
from beam_joins.pipelines.formats.line_files import cut_lines, line_number, parts_by_bytes, whole_lines
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.pipelines.formats.types.json_text import iso_texts, nested_texts, objects, texts_of, texts_without_units
from beam_joins.values.arrow_types import is_bytes


class CsvReader(FormatReader):
    """Reads CSV files."""

    name = "csv"
    options = ("schema", "delimiter", "encoding", "column_formats")
    may_be_empty = True
    expansion = 1

    def keeps_texts(self, file: File) -> bool:
        """It does."""
        return True

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes; a file whose lines do not begin records, or are of another encoding, is not cut."""
        return [(0, 0)] if file.spans_lines or file.encoding else parts_by_bytes(file, size)

    def described(self, file: File, columns: Columns, remembered: Layout) -> File:
        """The file with its text and the types of its columns."""
        file = with_its_text(file, columns.csv.delimiter, columns.csv.encoding, columns.flag("encoding"))
        return with_layout(replace(file, formats=columns.csv.formats), columns.declared, remembered)

    def types(self, file: File) -> list[tuple[str, str]]:
        """The columns that the file is read with, and their types."""
        return list(file.layout)

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records."""
        for line in itertools.islice(records_of(file), 1, None):
            if line.strip() and isinstance(row := _row(line, file), dict):
                yield row

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The records, some at a time."""
        blocks, held, joins = whole_lines(part), b"", is_one_part(part)
        block = next(blocks, None)
        while block is not None:
            following = next(blocks, None)
            place, data = block[0] - len(held), held + block[1]
            header = 0 if part.start + place else data.find(b"\n") + 1 or len(data)
            rows, rest = _rows(
                data[header:], part.first_place + place + header, part.file, plan, joins=joins, is_last=following is None
            )
            held = data[header:][rest:]
            block = following
            if rows is not None:
                yield rows

    def where(self, part: Part, place: int) -> str:
        """The number of the line."""
        return line_number(part, place)


def _rows(data: bytes, start: int, file: File, plan: ReadPlan | None, *, joins: bool, is_last: bool) -> tuple[RawRows | None, int]:
    """The records of lines, and the place of a record that may go on behind them; ``joins``: records may have several
    lines.
    """
    begins, ends, lines, present = cut_lines(data, b"\r\n")
    count, rest, regular = len(begins), len(data), np.ones(len(begins), np.bool_)
    if b'"' in data:
        regular = bools_of(pc.match_substring_regex(lines, record_pattern(file.delimiter)))[present]
        if joins and not regular.all():
            begins, ends, rest = joined(data, begins, ends, regular, file, is_last=is_last)
    if not len(begins):
        return None, rest

    def row(n: int) -> dict[str, Any] | str:
        return _row(data[begins[n] : ends[n]], file, plan)

    def value(n: int) -> dict[str, Any] | str:
        return row(n) if plan is None else _numbered(row(n), (plan.columns.timestamp or "", *plan.sequences))

    places, names = pa.array(begins + start), [name for name, _ in file.layout]
    one_by_one = RawRows(places, row, value=value), rest
    # Arrow ends a line at each carriage return, and takes what is not UTF-8 for an error of the whole
    if plan is None or not plan.fits(names) or len(begins) < count or data.count(b"\r") > data.count(b"\r\n"):
        return one_by_one
    try:
        table = _table(data, names, file.delimiter)
    except pa.ArrowInvalid:
        return one_by_one
    if len(table) != len(begins):
        return one_by_one
    columns: dict[str, pa.Array] = {}
    texts: dict[str, pa.Array] = {}
    sure = regular.copy()
    asked, formats = plan.names(), dict(file.formats)
    for name, kind in file.layout:
        column = table[name].combine_chunks()
        if name in formats:
            written, column = column, plain_texts(column, formats[name])
            sure &= bools_of(pc.or_(pc.is_null(written), pc.is_valid(column)))
        typed, text, right = as_type(column, kind)
        sure &= right
        if name in asked:
            columns[name] = typed
        texts[name] = text
    missing = {name: pa.nulls(len(table)) for name in asked if name not in columns}
    rows = objects(plan.value_of(texts, pa.nulls(len(table), pa.binary())), len(table))
    return RawRows(places, row, columns | missing, rows, sure, value=value), rest


def _numbered(row: dict[str, Any] | str, of_order: Collection[str]) -> dict[str, Any] | str:
    """A record with the numbers in columns that order it: one text in a column makes text of its numbers, too."""
    if isinstance(row, str):
        return row
    texts = {name: text for name in of_order if isinstance(text := row.get(name), str) and WHOLE.fullmatch(text)}
    return {**row, **{name: int(text) for name, text in texts.items()}} if texts else row


def _row(line: bytes, file: File, plan: ReadPlan | None = None) -> dict[str, Any] | str:
    """The record of a line, or its fault."""
    side = None if plan is None else plan.columns.side
    option, layout, formats = flag_of(side, "schema"), file.layout, dict(file.formats)
    fields = fields_or_fault(line, [name for name, _ in layout], file.delimiter, flag_of(side, "encoding"))
    if isinstance(fields, str):
        return fields
    if len(fields) != len(layout):
        return f"{len(fields)} fields, where the header has {len(layout)}"
    row: dict[str, Any] = {}
    for (name, kind), field in zip(layout, fields, strict=True):
        text = field
        if field and name in formats:
            if (plain := plain_text(field, formats[name])) is None:
                several = "in one of the formats, or means several things in them:" if len(formats[name]) > 1 else "in the format"
                return f"column '{name}' is not {several} {' or '.join(formats[name])}: {field!r}"
            text = plain
        if kind not in TEXTS and name not in file.declared and PADDED.match(text):
            return (
                f"column '{name}' is {text!r}, which may be no number, as a postal code is none, and is {kind} in the records before "
                f"it: say from the first run on what it is, with {_types_by(option, name, 'string', kind)}"
            )
        try:
            row[name] = value_of(text, kind) if text else None
        except (ValueError, InvalidOperation):
            types = _types_by(option, name, "double", "string")
            remedy = "" if name in file.declared else f": say from the first run on what it is, with {types}"
            if name not in formats and (fitting := readings([text])):
                remedy = f": say how it is written, with {formats_by(flag_of(side, 'column_formats'), name, fitting)}"
            return f"column '{name}' is not of type {kind}: {field!r}{remedy}"
    return row


def _types_by(option: str, name: str, *kinds: str) -> str:
    """An option with the types that it may give a column: those alone in Python, whose ``schema=`` has another form."""
    return f"{option} ({' or '.join(kind if option.endswith('=') else f'{written_name(name)}:{kind}' for kind in kinds)})"


def _table(data: bytes, names: list[str], delimiter: str) -> pa.Table:
    """The fields of lines as texts, null where one is empty."""
    read = pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=max(len(data), 1))
    texts = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True)
    return pa.csv.read_csv(pa.BufferReader(data), read, pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=False), texts)


class CsvEncoder:
    """Rows with a header; what is no text, number or truth value is text: times in ISO 8601, durations in
    microseconds, bytes in base64, rows within rows as JSON.
    """

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        self._columns = columns

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The rows. Raises OutputError for a time that has no text."""
        fields = [pa.field(field.name, _written(field.type)) for field in self._columns]
        texts = [_field_texts(field.name, column) for field, column in zip(self._columns, columns, strict=True)]
        return pa.StructArray.from_arrays(texts, fields=fields)

    def writer(self, file: Any) -> "CsvWriter":
        """A writer of rows to a file."""
        return CsvWriter(file, pa.schema([(field.name, _written(field.type)) for field in self._columns]))


class CsvWriter:
    """Writes a header, and rows that are structs."""

    def __init__(self, file: Any, columns: pa.Schema) -> None:
        self._file = file
        self._write(columns.empty_table(), header=True)

    def write(self, rows: pa.StructArray) -> None:
        """Write rows."""
        self._write(pa.RecordBatch.from_struct_array(rows), header=False)

    def _write(self, rows: pa.Table | pa.RecordBatch, *, header: bool) -> None:
        lines = io.BytesIO()  # Arrow takes compressed files of Beam's for closed
        pa.csv.write_csv(rows, lines, pa.csv.WriteOptions(include_header=header))
        self._file.write(lines.getvalue())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _written(kind: pa.DataType) -> pa.DataType:
    """The type with which a column is written to CSV."""
    plain = pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
    return kind if plain or pa.types.is_decimal(kind) else pa.string()


def _field_texts(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if _written(kind) == kind:
        return column
    if is_bytes(kind):
        return pa.array([None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()], pa.string())
    try:
        plain = iso_texts(column)
        return plain if plain.type == pa.string() else nested_texts(plain, _json_texts).cast(pa.string())
    except OutputError as error:
        raise OutputError(f"column '{name}': {error}") from None
    except ValueError as error:
        raise OutputError(f"column '{name}' {error}") from error


def _json_texts(column: pa.Array) -> pa.Array:
    """The JSON texts of a column: durations in microseconds, other times in ISO 8601."""
    return texts_without_units(column) if pa.types.is_duration(column.type) else texts_of(iso_texts(column))


FORMAT: Final = FileFormat(reader=CsvReader(), encoder=CsvEncoder, nests=False)
