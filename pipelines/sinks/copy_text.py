"""Arrow columns as PostgreSQL's COPY reads them, and the SQL types that hold them."""

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.pipelines.changelog_files.exact_json import dumps_line

_TEXT = pa.large_string()
_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def _is_bytes(kind: pa.DataType) -> bool:
    is_of = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(each(kind) for each in is_of)


_IS: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (lambda kind: kind in (pa.int8(), pa.int16(), pa.uint8()), "smallint"),
    (lambda kind: kind in (pa.int32(), pa.uint16()), "integer"),
    (lambda kind: kind in (pa.int64(), pa.uint32()), "bigint"),
    (pa.types.is_uint64, "numeric(20)"),
    (lambda kind: kind in (pa.float16(), pa.float32()), "real"),
    (pa.types.is_float64, "double precision"),
    (lambda kind: pa.types.is_string(kind) or kind in (_TEXT, pa.string_view()) or pa.types.is_null(kind), "text"),
    (_is_bytes, "bytea"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_nested, "jsonb"),
)


def sql_type(kind: pa.DataType) -> str:
    """The SQL type of a column; raises ``ValueError`` for a type that has none.

    >>> sql_type(pa.decimal128(12, 2)), sql_type(pa.timestamp("us", "UTC")), sql_type(pa.list_(pa.int64()))
    ('numeric(12, 2)', 'timestamp with time zone', 'jsonb')
    """
    if pa.types.is_dictionary(kind):
        return sql_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"timestamp with{'out' if kind.tz is None else ''} time zone"
    for is_of, name in _IS:
        if is_of(kind):
            return name
    raise ValueError(f"PostgreSQL has no type for a column of type {kind}: cast it to one of numbers, text, bytes or times")


def copy_text(columns: Sequence[pa.Array]) -> bytes:
    r"""Columns of one length as lines of COPY's text format. Raises ``ValueError`` for a time with nanoseconds, which PostgreSQL would round.

    >>> copy_text([pa.array([1, None]), pa.array(["a\tb", ""]), pa.array([b"\x01", None])])
    b'1\ta\\tb\t\\\\x01\n\\N\t\t\\N\n'
    """
    cells = [_cells(column) for column in columns]
    lines = pc.binary_join_element_wise(*cells, pa.scalar("\t", _TEXT), null_handling="replace", null_replacement="\\N")
    ended = pc.binary_join_element_wise(lines, pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))
    return b"" if not len(ended) else bytes(ended.buffers()[2])


def _cells(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if kind == pa.time64("ns") or (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        column = pc.cast(column, pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us", kind.tz))
    if pa.types.is_nested(kind):
        text = pa.array([None if value is None else dumps_line(value).decode().rstrip("\n") for value in column.to_pylist()], _TEXT)
    elif _is_bytes(kind):
        return pa.array([None if value is None else "\\\\x" + value.hex() for value in column.to_pylist()], _TEXT)
    else:
        text = pc.cast(column, _TEXT)
        if pa.types.is_primitive(kind):
            return text
    for plain, escaped in _ESCAPED:
        text = pc.replace_substring(text, plain, escaped)
    return text
