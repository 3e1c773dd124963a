"""Converts values of Kafka Connect's JSON to the types of their columns, exactly."""

import base64
from decimal import Context
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.errors import OutputError
from beam_joins.pipelines.formats.json_text import texts_of

_EXACT: Final = Context(prec=100)


def connect_texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value, null for null."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else _unscaled(value, kind.scale) for value in column.to_pylist()], pa.binary())
    return texts_of(iso_texts(column) if pa.types.is_timestamp(kind) and kind.tz is not None else column)


def iso_texts(column: pa.Array) -> pa.Array:
    """Times and dates in ISO 8601; other columns as they are.

    Raises OutputError for a time that has no such text.

    >>> iso_texts(pa.array([1], pa.timestamp("ms", "UTC"))).to_pylist()
    ['1970-01-01T00:00:00.001Z']
    """
    kind = column.type
    if not pa.types.is_timestamp(kind):
        return column.cast(pa.string()) if pa.types.is_date(kind) or pa.types.is_time(kind) else column
    plain = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
    if pc.any(far := pc.starts_with(plain, "<")).as_py():  # Arrow says so of what its texts cannot say
        number = column.cast(pa.int64()).filter(far)[0]
        raise OutputError(f"there is a time beyond the year 32767, {number} {kind.unit} since 1970: is it of another unit?")
    texts = pc.replace_substring(plain, " ", "T", max_replacements=1)
    return texts if kind.tz is None else pc.binary_join_element_wise(texts, "Z", "")


def _unscaled(number: Any, scale: int) -> bytes:
    whole = int(number.scaleb(scale, _EXACT))
    return b'"' + base64.b64encode(whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)) + b'"'
