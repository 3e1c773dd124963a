"""Reads and writes CSV: a header, one record a line, an empty field for null.

Numbers keep their digits, as they are text.
"""

import base64
import io
import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from beam_joins.errors import OutputError
from beam_joins.keys.key_columns import Bools
from beam_joins.pipelines.formats.changelog_columns import WHOLE, Columns, flag_of
from beam_joins.pipelines.formats.column_formats import (
    formats_by,
    has_decimal_comma,
    in_thousands,
    kind_of,
    plain_text,
    plain_texts,
    readings,
)
from beam_joins.pipelines.formats.csv_schema import DECIMAL, UNKNOWN, Layout, Misfit, Reading, written_name
from beam_joins.pipelines.formats.csv_text import (
    LOOKED_AT,
    fields_or_fault,
    fields_or_none,
    is_one_part,
    joined,
    names_in_header,
    record_pattern,
    records_of,
    with_its_text,
)
from beam_joins.pipelines.formats.file_format import FileFormat
from beam_joins.pipelines.formats.file_parts import File, FormatReader, Part
from beam_joins.pipelines.formats.line_files import cut_lines, line_number, parts_by_bytes, whole_lines
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.pipelines.formats.types.exact_json import loads
from beam_joins.pipelines.formats.types.json_text import iso_texts, nested_texts, objects, texts_of, texts_without_units
from beam_joins.values.arrow_types import is_bytes, is_json

_WHOLE: Final = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]{0,200})(\.[0-9]{1,200})?([eE][+-]?[0-9]{1,2})?$"
_DIGITS: Final = 38
_EXACT: Final = r"^-?(0|[1-9][0-9]{0,27})(\.[0-9]{1,28})?([eE][+-]?[0-9])?$"
"""Decimals; Arrow takes those of more digits too, but reads beyond its tables then."""
_PATTERNS: Final = {"int64": _WHOLE, "double": _NUMBER}
_PADDED: Final = re.compile(r"-?0[0-9]|\+")
"""The beginning of a text that looks like a number, but in a column whose type is inferred may be none: a leading
zero, a plus sign.
"""
_TEXTS: Final = ("string", UNKNOWN)
_TRUTH: Final = {"true": True, "false": False}


def with_layout(file: File, declared: Layout, remembered: Layout = ()) -> File:
    """The file with its columns and their types: those that are declared or remembered, the others as the first
    megabyte has them, with the values that alone make text of columns, and the formats that all of a column of text may be in. A
    file without any byte has none, and no rows.

    Raises ValueError, one sentence without the path, for a file without a header and for a declared column
    that it does not have.
    """
    lines, size = [], 0
    for line in records_of(file):
        lines.append(line)
        if (size := size + len(line)) > LOOKED_AT:
            break
    if not lines:  # as part files of empty partitions: it has no rows
        return file
    names = names_in_header(file, lines[0].removeprefix(b"\xef\xbb\xbf"))
    kinds = dict(declared)
    if missing := [name for name in kinds if name not in names]:
        raise ValueError(f"has no column '{missing[0]}'; it has {', '.join(names)}")
    records = {
        n: fields
        for n, line in enumerate(lines)
        if n and (fields := fields_or_none(line, file.delimiter)) and len(fields) == len(names)
    }
    texts = dict(zip(names, zip(*records.values(), strict=True) if records else [()] * len(names), strict=True))
    types, misfits, formats = {**dict(remembered), **kinds}, list[Misfit](), dict(file.formats)
    inferred = {name: column for name, column in texts.items() if name not in types}
    for name, column in inferred.items():
        if name in formats:
            kind, _ = _type_in(plain_texts(pa.array(column, pa.string()), formats[name]))
            types[name] = kind_of(formats[name]) if kind == UNKNOWN else kind
            continue
        types[name], odd = _type_in(pa.array([text or None for text in column], pa.string()))
        if odd is not None:
            at = list(records)[column.index(odd[1])]
            place = 1 + sum(each.count(b"\n") for each in lines[:at])
            misfits.append(Misfit(name, *odd, place, column.count(odd[1])))
    layout = tuple((name, types[name]) for name in names)
    unformatted = {name: [*filter(None, column)] for name, column in inferred.items() if name not in formats}
    read = tuple(_readings(unformatted, types, has_commas=any(map(has_decimal_comma, formats.values()))))
    return replace(file, layout=layout, misfits=tuple(misfits), readings=read, declared=tuple(kinds))


def _readings(columns: Mapping[str, list[str]], types: Mapping[str, str], *, has_commas: bool) -> Iterator[Reading]:
    """The columns that may be written in formats: texts, and where a comma stands before fractions elsewhere in the file, numbers
    whose points may stand between thousands.
    """
    for name, texts in columns.items():
        if types[name] == "string" and (formats := readings(texts)):
            has_commas |= has_decimal_comma(formats)
            yield Reading(name, texts[0], formats)
    for name, texts in columns.items() if has_commas else ():
        if types[name] == "double" and (formats := in_thousands(texts)):
            yield Reading(name, texts[0], formats)


def type_named(kind: str) -> pa.DataType:
    """The type of a column that an option names.

    >>> type_named("double"), type_named("decimal(12,2)")
    (DataType(double), Decimal128Type(decimal128(12, 2)))
    """
    named = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_(), "string": pa.string(), UNKNOWN: pa.string()}
    return named[kind] if kind in named else _decimal(kind)


def layout_by(schema: pa.Schema, layout: Layout) -> Layout:
    """The layout of a CSV file whose columns of ``schema`` are to be made of its types: times, dates and
    others of text, JSON of what the column is.

    >>> layout_by(pa.schema({"zip": pa.string(), "n": pa.int8()}), (("zip", "int64"), ("n", "int64"), ("x", "bool")))
    (('zip', 'string'), ('n', 'int64'), ('x', 'bool'))
    """
    types = {field.name: field.type for field in schema if not is_json(field.type)}
    return tuple((name, _kind_of(types[name]) if name in types else kind) for name, kind in layout)


def _kind_of(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    kinds = (("int64", pa.types.is_integer), ("double", pa.types.is_floating), ("bool", pa.types.is_boolean))
    return next((kind for kind, is_kind in kinds if is_kind(type_)), "string")


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
        regular = _true(pc.match_substring_regex(lines, record_pattern(file.delimiter)))[present]
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
            given, column = column, plain_texts(column, formats[name])
            sure &= _true(pc.or_(pc.is_null(given), pc.is_valid(column)))
        typed, text, right = _typed(column, kind)
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


def _typed(column: pa.Array, kind: str) -> tuple[pa.Array, pa.Array, Bools]:
    """A column of texts as it is compared, its JSON texts, and for which records both are right."""
    if kind in _TEXTS:
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
                return f"column '{name}' is not in the format {' or '.join(formats[name])}: {field!r}"
            text = plain
        if kind not in _TEXTS and name not in file.declared and _PADDED.match(text):
            return (
                f"column '{name}' is {text!r}, which may be no number, as a postal code is none, and is {kind} in the records before "
                f"it: say from the first run on what it is, with {_types_by(option, name, 'string', kind)}"
            )
        try:
            row[name] = _value(text, kind) if text else None
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


def _value(text: str, kind: str) -> Any:
    if kind in _TEXTS:
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


def _table(data: bytes, names: list[str], delimiter: str) -> pa.Table:
    """The fields of lines as texts, null where one is empty."""
    read = pa.csv.ReadOptions(use_threads=False, column_names=names, block_size=max(len(data), 1))
    texts = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True)
    return pa.csv.read_csv(pa.BufferReader(data), read, pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=False), texts)


def _type_in(texts: pa.Array) -> tuple[str, tuple[str, str] | None]:
    """The type that all of the texts have: numbers are not written with zeros before them, as postal codes
    are. Of text also the type that most of them have, and the other one, where it is the only one.
    """
    present, odd = texts.drop_null(), None
    for kind in ("int64", "double", "bool") if len(present) else ():
        right = _typed(present, kind)[2]
        if right.all():
            return kind, None
        others = present.filter(pa.array(~right))
        if odd is None and 2 * len(others) < len(present) and len(others.unique()) == 1 and not _is_value(others[0].as_py(), kind):
            odd = kind, others[0].as_py()
    return ("string", odd) if len(present) else (UNKNOWN, None)


def _is_value(text: str, kind: str) -> bool:
    """Whether a text is a value of a type that an option says."""
    try:
        _value(text, kind)
    except (ValueError, InvalidOperation):
        return False
    return True


def _decimal(kind: str) -> pa.DataType:
    match = DECIMAL.fullmatch(kind)
    assert match is not None
    return pa.decimal128(int(match[1]), int(match[2]))


def _true(column: pa.Array) -> Bools:
    chosen: Bools = column.to_numpy(zero_copy_only=False)
    return chosen


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
