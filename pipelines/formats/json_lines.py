"""Reads and writes JSON lines, one object a line; many lines are parsed at a time with Arrow: the columns that are read.

The text of a row is that of its line without the members about the change; no value is printed again, so that no number is
altered.
"""

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO, ClassVar, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.pipelines.formats.changelog_columns import WITHIN
from beam_joins.pipelines.formats.file_format import BytesWriter, FileFormat
from beam_joins.pipelines.formats.file_parts import File, FormatReader, Growing, NotWhole, Part, Whole
from beam_joins.pipelines.formats.line_files import cut_lines, line_number, lines_of, parts_by_bytes, whole_lines
from beam_joins.pipelines.formats.read_plan import KEY_TYPES, ReadPlan, kind
from beam_joins.pipelines.formats.record_batch_parser import FEW, RawRows, structs_of
from beam_joins.pipelines.formats.row_texts import row_texts
from beam_joins.pipelines.formats.types.exact_json import object_of
from beam_joins.pipelines.formats.types.json_text import NULL, iso_json, joined, nested_texts, objects
from beam_joins.pipelines.formats.types.kafka_connect import connect_texts
from beam_joins.pipelines.formats.types.target_types import target_type
from beam_joins.pipelines.formats.types.typed_texts import is_large
from beam_joins.transforms.connect.files import open_file

_CHUNK: Final = 4 << 20
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark with which some writers begin a file of UTF-8."""
_LOOKED_AT: Final = 20
_OPEN, _CLOSE = b"{}"
_SPACE: Final = b" \t\r\n"
_DEEP: Final = 1_000
"""So many brackets, and a row may be nested deeper than JSON is read otherwise."""
_READ_BY_ARROW: Final = (pa.int64(), pa.float64(), pa.string(), pa.bool_())
"""The types whose values Arrow reads as they are meant, or not at all."""
_NOT_PLAIN: Final = r"\\u|[:,\[]\s*(?:NaN|-?Inf|-?[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{3})|[0-9]{200}"
"""The texts that Arrow takes and JSON does not, or that may be beyond the range of doubles; names spelt with escapes;
texts that look like these.
"""


def objects_in(file: File) -> Iterator[dict[str, Any]]:
    """The objects of a file; lines that are none are left out.

    Raises OSError and EOFError for what cannot be read.
    """
    lines = (line if n else line.removeprefix(BYTE_ORDER_MARK) for n, line in enumerate(lines_of(file)))
    return (row for line in lines if line.strip() and isinstance(row := object_of(line), dict))


class JsonLinesReader(FormatReader):
    """Reads files of JSON lines."""

    name = "json lines"
    options: ClassVar[tuple[str, ...]] = ("schema",)
    may_be_empty = True
    expansion = 1
    untyped_columns = True

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes."""
        return parts_by_bytes(file, size)

    def keeps_texts(self, file: File) -> bool:
        """It does."""
        return True

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The objects."""
        return objects_in(file)

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The lines, some at a time."""
        for place, data in whole_lines(part):
            for rows in _lines(data, part.start + place, plan):
                yield rows._replace(places=pc.add(rows.places, part.first_place - part.start))

    def where(self, part: Part, place: int) -> str:
        """The number of the line."""
        return line_number(part, place)


def whole_json(file: Growing) -> Iterator[Whole]:
    """Whole lines; the place is a byte.

    What is behind the last newline of a file that is whole is a line if it is a whole object.
    """
    with open_file(file.path) as opened:
        at, rest = file.place, b""
        opened.seek(at)
        while chunk := opened.read(_CHUNK):
            rest += chunk
            cut = rest.rfind(b"\n") + 1
            if cut:
                block = partial(_lines, rest[:cut], at)
                at += cut
                yield at, block
                rest = rest[cut:]
    last = rest if at else rest.removeprefix(BYTE_ORDER_MARK)
    if last.strip():
        if not file.is_whole or not isinstance(object_of(last), dict):
            raise NotWhole
        yield at + len(rest), partial(_lines, rest, at)


def _lines(data: bytes, start: int, plan: ReadPlan | None) -> Iterator[RawRows]:
    """The records of lines that begin at a place in their file."""
    lines = data if start else data.removeprefix(BYTE_ORDER_MARK)
    begin = start + len(data) - len(lines)
    rows = json_rows(lines, begin, plan)
    if rows is not None and rows.columns is None and plan is not None and len(rows.places) > FEW:  # some line is not as the others
        cut = rows.places[len(rows.places) // 2].as_py() - begin
        yield from _lines(lines[:cut], begin, plan)
        yield from _lines(lines[cut:], begin + cut, plan)
    elif rows is not None:
        yield rows


class JsonEncoder:
    """Rows as lines of JSON: with ISO times, or in pairs as Kafka Connect's JsonConverter writes them, with
    their schema.
    """

    def __init__(self, columns: pa.Schema, pairs: bool) -> None:
        """Raises ``ValueError`` for a column in pairs of a type that Debezium does not have."""
        self._names = columns.names
        self._head = b""
        if pairs:
            fields = target_type("connect", "", pa.struct(list(columns)))["fields"]
            self._head = b'{"schema":' + msgspec.json.encode({"type": "struct", "fields": fields}) + b',"payload":'

    def encoded(self, columns: list[pa.Array]) -> pa.Array:
        """The lines of rows."""
        named, count = dict(zip(self._names, columns, strict=True)), len(columns[0])
        texts = {name: nested_texts(column, connect_texts) if self._head else iso_json(column) for name, column in named.items()}
        return joined(self._head, objects(texts, count), b"}\n" if self._head else b"\n", null=NULL)

    def writer(self, file: BinaryIO) -> BytesWriter:
        """A writer of lines to a file."""
        return BytesWriter(file)


def json_rows(data: bytes, start: int, plan: ReadPlan | None) -> RawRows | None:
    """The records of whole lines, None if all are blank; ``start`` is the place of the first byte.

    Without ``plan`` they are read one by one.
    """
    begins, ends, lines, is_line = cut_lines(data, _SPACE)
    if not is_line.any():
        return None

    def line(n: int) -> bytes:
        return data[begins[n] : ends[n]]

    def row(n: int) -> dict[str, Any] | str:
        return object_of(line(n))

    places = pa.array(begins + start)
    columns = None if plan is None or not lines_are_text(lines) else _columns(data, begins, ends, plan)
    if plan is None or columns is None:
        return RawRows(places, row, line=line)
    if is_line.all() and data.endswith(b"\n") and int((ends - begins).sum()) == len(data) - len(lines):
        lines = pc.binary_slice(lines, 0, -1)
    else:
        lines = pc.ascii_trim(lines.cast(pa.string()), " \t\r\n").filter(pa.array(is_line)).cast(pa.binary())
    sure, fitting = _plain(lines), _fitting(columns, plan, len(lines))
    if "json lines" not in plan.forms:
        return RawRows(places, row, columns, None, sure, lines=lines, line=line, fitting=fitting)
    return RawRows(places, row, columns, row_texts(lines, sure, plan), sure, line=line, fitting=fitting)


def lines_are_text(lines: pa.Array) -> bool:
    """Whether lines are of UTF-8."""
    try:
        lines.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def read_columns(
    data: bytes | memoryview, schema: pa.Schema, count: int, allowed: frozenset[str] | None = None
) -> dict[str, pa.Array] | None:
    """Columns of so many objects, one after the other, null where one has none; None if Arrow cannot read
    them so, or where there are others than those ``allowed``.
    """
    others = "ignore" if allowed is None else "infer"
    options = pa.json.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior=others)
    try:
        table = pa.json.read_json(pa.BufferReader(data), pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1), options)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if len(table) != count or not (allowed is None or allowed.issuperset(table.column_names)):
        return None
    return {name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)}


def _columns(data: bytes, begins: Ints, ends: Ints, plan: ReadPlan) -> dict[str, pa.Array] | None:
    """The columns that are read, None if the lines are not all objects whose columns are of one type each."""
    octets = np.frombuffer(data, np.uint8)
    # lines that begin and end so, as many as Arrow finds objects, are one object each
    if not ((octets[begins] == _OPEN) & (octets[ends - 1] == _CLOSE)).all():
        return None
    schema = _schema(itertools.islice((data[i:j] for i, j in zip(begins, ends, strict=True)), _LOOKED_AT), plan)
    if schema is None:
        return None
    allowed, whole = plan.allowed if plan.typed is not None else None, _with_typed(schema, plan)
    if whole is not None and (columns := read_columns(data, whole, len(begins), allowed)) is not None:
        return columns
    return read_columns(data, schema, len(begins), allowed)


def _with_typed(schema: pa.Schema, plan: ReadPlan) -> pa.Schema | None:
    """The columns that are read and those of the rows, where Arrow reads all of these in their types."""
    typed = pa.schema([]) if plan.typed is None else plan.typed_lines
    if not len(typed) or any(field.type not in _READ_BY_ARROW for field in typed):
        return None
    types = {field.name: field.type for field in (*schema, *typed)}
    return None if any(types[field.name] != field.type for field in schema) else pa.schema(list(types.items()))


def _fitting(columns: dict[str, pa.Array], plan: ReadPlan, count: int) -> pa.StructArray | None:
    """The rows in typed columns, where these have been read."""
    if plan.typed is None or not len(plan.typed):
        return None
    typed = plan.typed_lines
    read = [columns[name] for name in typed.names if name in columns]
    if len(read) < len(typed):
        return None
    if any(column.type != field.type or is_large(column) for column, field in zip(read, typed, strict=True)):
        return None
    names = [column for column, _ in plan.taken] if plan.taken is not None else plan.typed.names
    return structs_of([columns[name] for name in names], plan.typed, count)


def _schema(lines: Iterable[bytes], plan: ReadPlan) -> pa.Schema | None:
    """The columns that are read, of the types that they have in these lines; None if that cannot be told."""
    if any(WITHIN in name for name in plan.names()):
        return None
    rows = [row for row in map(object_of, lines) if isinstance(row, dict)]
    types = plan.keys
    for name in plan.numbers:
        types.setdefault(name, pa.float64())
    for name in plan.names():
        held = next((kind(row[name]) for row in rows if row.get(name) is not None), "text")
        types.setdefault(name, KEY_TYPES.get(held, pa.string()))
    if pa.binary() in types.values():
        return None
    return pa.schema(list(types.items()))


def _plain(lines: pa.Array) -> Bools:
    """Which lines Arrow reads as JSON means them."""
    sure: Bools = ~pc.match_substring_regex(lines, _NOT_PLAIN).to_numpy(zero_copy_only=False)
    lengths = pc.binary_length(lines)
    if pc.max(lengths).as_py() > _DEEP:
        brackets = pc.add(pc.count_substring(lines, "["), pc.count_substring(lines, "{"))
        sure &= pc.less(brackets, _DEEP).to_numpy(zero_copy_only=False)
    return sure


FORMAT: Final = FileFormat(reader=JsonLinesReader(), encoder=JsonEncoder, growing=whole_json, of_json=True)
