"""Encodes Arrow columns for PostgreSQL's COPY."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.arrow_types import is_bytes, python_list
from beam_joins.pipelines.formats.exact_json import dumps_line

_TEXT = pa.large_string()
_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def copy_text(columns: Sequence[pa.Array]) -> bytes:
    r"""Columns of one length as lines of COPY's text format.

    Raises ``ValueError`` for a time with nanoseconds, which PostgreSQL would round.

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
        text = pa.array([None if value is None else dumps_line(value).decode().rstrip("\n") for value in python_list(column)], _TEXT)
    elif is_bytes(kind):
        return pa.array([None if value is None else "\\\\x" + value.hex() for value in column.to_pylist()], _TEXT)
    else:
        text = pc.cast(column, _TEXT)
        if pa.types.is_primitive(kind):
            return text
    for plain, escaped in _ESCAPED:
        text = pc.replace_substring(text, plain, escaped)
    return text
