"""Parses the JSON texts of rows into typed columns: with Arrow where it is exact, else value by value."""

import base64
import datetime as dt
import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json

from beam_joins.pipelines.formats.types.column_kind import text_of
from beam_joins.pipelines.formats.types.exact_json import BytesText, loads
from beam_joins.pipelines.formats.types.json_members import columns_of_members
from beam_joins.pipelines.formats.types.json_text import content_of, joined, json_column
from beam_joins.values.arrow_types import JSON_TYPE, is_json
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace, exact_column

_NULL: Final = b"null"
_QUOTE: Final = b'"'
_AS_TEXT: Final = "; what no calendar has, such as infinity, is read by schema= with text as the type of the column"
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""The number of digits of a second, by the unit."""
_NO_TIME: Final = "Failed to parse string"
BytesOf = Callable[[str], bytes]
BYTES_OF: Final[dict[BytesText, BytesOf]] = {"base64": partial(base64.b64decode, validate=True), "hexadecimal": bytes.fromhex}
_BINARY: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_LEAST, _MOST = -(2**63), 2**63 - 1
_MANTISSA_BITS: Final = {16: 10, 32: 23, 64: 52}
_WIDE, _WIDEST = 38, 76
"""The numbers of digits that decimals of 128 and of 256 bits have."""
_TYPES: Final = {bool: pa.bool_(), bytes: pa.binary(), dt.datetime: pa.timestamp("us", "UTC")}


def typed(texts: Sequence[bytes] | pa.Array, schema: pa.Schema, bytes_text: BytesText = "base64") -> pa.RecordBatch:
    r"""The columns of a schema in rows of JSON; a row without one has null there.

    Other columns are left out; fields that a struct does not have are refused.

    Times and dates are text in ISO 8601, bytes text in ``bytes_text``. Text may be given as a number, which keeps its
    digits. Raises ``ValueError`` for a value that does not fit its column.

    >>> schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("n", pa.string())])
    >>> typed([b'{"id": 1, "day": "2026-01-02", "n": 1.50}'], schema).to_pylist()
    [{'id': 1, 'day': datetime.date(2026, 1, 2), 'n': '1.50'}]
    >>> typed([b'{"b": "00ff"}'], pa.schema([("b", pa.binary())]), "hexadecimal").to_pylist()
    [{'b': b'\x00\xff'}]
    """
    if any(is_json(field.type) for field in schema):
        return _with_json(texts, schema, bytes_text)
    bytes_of = BYTES_OF[bytes_text]
    read_by_arrow = pa.schema([field.with_type(pa.string()) if _is_cast(field.type) else field for field in schema])
    # what is inferred of a struct is refused where it is cast
    behavior = "infer" if any(field.type.num_fields for field in schema) else "ignore"
    data = pa.py_buffer(content_of(joined(texts, b"\n")) if isinstance(texts, pa.Array) else b"\n".join(texts))
    options = pa.json.ParseOptions(explicit_schema=read_by_arrow, newlines_in_values=False, unexpected_field_behavior=behavior)
    try:
        if any(_is_otherwise(field.type) for field in schema if field.type.num_fields):
            raise pa.ArrowNotImplementedError
        table = pa.json.read_json(pa.BufferReader(data), pa.json.ReadOptions(use_threads=False, block_size=data.size + 1), options)
        columns = [_read(table[field.name].combine_chunks(), field, bytes_of) for field in schema]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        columns = _one_by_one(texts.to_pylist() if isinstance(texts, pa.Array) else texts, schema, bytes_of)
    return pa.record_batch(columns, schema=schema)


def _with_json(texts: Sequence[bytes] | pa.Array, schema: pa.Schema, bytes_text: BytesText) -> pa.RecordBatch:
    """The columns of a schema that has some of JSON, which are the texts of values."""
    texts = texts.to_pylist() if isinstance(texts, pa.Array) else texts
    names = [field.name for field in schema if is_json(field.type)]
    of_json = columns_of_members(texts, names)
    others = typed(texts, pa.schema([field for field in schema if field.name not in of_json]), bytes_text)
    columns = [json_column(of_json[name]) if name in of_json else others[name] for name in schema.names]
    return pa.record_batch(columns, schema=schema)


def _is_otherwise(kind: pa.DataType) -> bool:
    """Whether a type is one of timestamps or bytes, or has them within: Arrow takes text without a zone for
    UTC, leaves zones out, and takes the text of bytes for the bytes.
    """
    within = any(_is_otherwise(kind.field(i).type) for i in range(kind.num_fields))
    return within or pa.types.is_timestamp(kind) or is_bytes(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a type is one of bytes."""
    return any(is_such(kind) for is_such in _BINARY)


def is_large(column: pa.Array) -> bool:
    """Whether a float may be another number than its text: beyond the range, or a whole number of more digits."""
    if column.type.num_fields:
        return any(map(is_large, column.flatten() if pa.types.is_struct(column.type) else [column.flatten()]))
    if not pa.types.is_floating(column.type):
        return False
    return bool(pa.compute.any(pa.compute.greater_equal(pa.compute.abs(column), _exact_below(column.type))).as_py())


def _exact_below(kind: pa.DataType) -> float:
    """Below which no other whole number is rounded to one of a type of floats."""
    return float(2 << _MANTISSA_BITS[kind.bit_width])


def _is_cast(kind: pa.DataType) -> bool:
    """Whether Arrow reads the text of such a value, and then makes it of the text."""
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind) or is_bytes(kind))


def _read(column: pa.Array, field: pa.Field, bytes_of: BytesOf) -> pa.Array:
    if is_large(column):
        raise pa.ArrowInvalid("a large number")
    if field.type.num_fields:
        return exact_cast(column, field.type, ValuePlace("a row", field.name))
    if is_bytes(field.type):
        return pa.array([None if text is None else bytes_of(text) for text in column.to_pylist()], field.type)
    return cast_text(column, field.type)


def cast_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts of times and dates, or what Arrow has read of them, in a type; raises ``pa.ArrowInvalid``."""
    if pa.types.is_string(column.type) and (pa.types.is_time(kind) or pa.types.is_timestamp(kind)):
        column = _without_zeros(column, kind.unit)
    if pa.types.is_time(kind) and not pa.types.is_time(column.type):
        at = pa.compute.binary_join_element_wise("1970-01-01T", column, "")
        return at.cast(pa.timestamp(kind.unit)).cast(kind)
    return column if column.type == kind else column.cast(kind)


def _without_zeros(texts: pa.StringArray, unit: str) -> pa.StringArray:
    """Times without the zeros behind the digits that a unit has: Arrow refuses these as it does other digits.

    >>> _without_zeros(pa.array(["03:04:05.678000", "2026-01-02T03:04:05.000000Z", "03:04:05.6780001"]), "ms").to_pylist()
    ['03:04:05.678', '2026-01-02T03:04:05.000Z', '03:04:05.6780001']
    >>> _without_zeros(pa.array(["03:04:05.000", "03:04:05.000+01:00", "03:04:05.1"]), "s").to_pylist()
    ['03:04:05', '03:04:05+01:00', '03:04:05.1']
    """
    digits = _DIGITS[unit]
    kept = rf"(:[0-9]{{2}}[.][0-9]{{{digits}}})" if digits else "(:[0-9]{2})[.]"
    return pa.compute.replace_substring_regex(texts, rf"{kept}0+(|Z|[+-][0-9:]+)$", r"\1\2")


def _one_by_one(texts: Sequence[bytes], schema: pa.Schema, bytes_of: BytesOf) -> list[pa.Array]:
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    rows = [decoder.decode(text) for text in texts]
    return [one_by_one([bytes(row.get(field.name, _NULL)) for row in rows], field, bytes_of) for field in schema]


def one_by_one(texts: Sequence[bytes | None], field: pa.Field, bytes_of: BytesOf) -> pa.Array:
    """The values of JSON texts in the type of a field. Raises ValueError, a sentence, for a text of another type."""
    try:
        return _column([None if text == _NULL else text for text in texts], field, bytes_of)
    except (pa.ArrowException, InvalidOperation, TypeError, ValueError, KeyError) as error:
        remedy = _AS_TEXT if pa.types.is_temporal(field.type) and _NO_TIME in str(error) else ""
        raise ValueError(f"column '{field.name}' is not of type {field.type}: {str(error).splitlines()[0]}{remedy}") from None


def require_double(name: str, value: Any) -> None:
    """Raise ValueError for a number of more digits than a double has, given as :func:`loads` reads it."""
    if isinstance(value, Decimal):
        raise ValueError(f"column '{name}' is of type double, which does not hold all digits of {value}")


def _column(texts: list[bytes | None], field: pa.Field, bytes_of: BytesOf) -> pa.Array:
    kind = field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([None if text is None else _as_text(text) for text in texts], kind)
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        if wrong := [text for text in texts if text is not None and not text.startswith(_QUOTE)]:
            raise ValueError(f"{wrong[0].decode()} is no text in ISO 8601")
        return cast_text(pa.array([None if text is None else json.loads(text) for text in texts], pa.string()), kind)
    values = [None if text is None else _value(loads(text), kind, bytes_of) for text in texts]
    return exact_column(values, kind, ValuePlace("a row", field.name))


def _as_text(text: bytes) -> str:
    value: str = json.loads(text) if text.startswith(_QUOTE) else text.decode()
    return value


def _value(value: Any, kind: pa.DataType, bytes_of: BytesOf) -> Any:
    """The value of a type that a value of JSON stands for; null stays null."""
    if value is None:
        return None
    if isinstance(value, list) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return [_value(item, kind.value_type, bytes_of) for item in value]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return value | {field.name: _value(value.get(field.name), field.type, bytes_of) for field in kind}
    if is_bytes(kind):
        return bytes_of(value)
    for is_such, made in _MADE:
        if is_such(kind):
            return made(value, kind)
    return value


def _time(text: Any, kind: pa.DataType) -> Any:
    """A time as Python has it; raises ValueError for one of nanoseconds, which it does not."""
    made = cast_text(pa.array([text], pa.string()), kind)[0]
    if pa.types.is_time64(kind) and kind.unit == "ns" and made.value % 1_000:
        raise ValueError(f"{text} has nanoseconds, which are read of columns alone")
    return made.as_py()


def _number(value: Any, kind: pa.DataType) -> float:
    """The nearest number that a column of the type holds; raises ValueError for a whole number that it does not."""
    if isinstance(value, bool):
        raise ValueError("true or false is no number")
    with np.errstate(over="ignore"):
        nearest = float(np.dtype(f"f{kind.bit_width // 8}").type(value))
    if math.isinf(nearest) and not Decimal(str(value)).is_infinite():
        raise ValueError(f"{value} is beyond the range")
    if isinstance(value, int) and nearest != value:
        raise ValueError(f"it does not hold all digits of {value}")
    return nearest


_MADE: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...]] = (
    (pa.types.is_decimal, lambda value, kind: Decimal(str(value))),
    (pa.types.is_floating, _number),
    (pa.types.is_string, lambda value, kind: value if isinstance(value, str) else text_of(value).decode()),
    (pa.types.is_temporal, _time),
)


def type_of_values(values: list[Any]) -> pa.DataType:
    """The type of a column that has values of JSON, or times and bytes.

    Whole numbers are of 64 bits, or decimals where one does not fit; with fractions they are doubles, or
    decimals where a double does not have the digits of one. Objects and lists are JSON, and so is what is one of these beside
    others; other values of several kinds are text.

    >>> type_of_values([1, 2.5]), type_of_values([1, Decimal("0.10000000000000000001")]), type_of_values([1, "a"])
    (DataType(double), Decimal128Type(decimal128(38, 20)), DataType(string))
    >>> type_of_values([1, {"a": 1}])
    JsonType(extension<arrow.json>)
    """
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and (type_ := _TYPES.get(next(iter(kinds)))) is not None:
        return type_
    if not kinds or not kinds <= {int, float, Decimal}:
        return JSON_TYPE if kinds & {dict, list} else pa.string()
    if kinds == {int} and all(_LEAST <= value <= _MOST for value in values):
        return pa.int64()
    if Decimal not in kinds and all(not isinstance(value, int) or abs(value) <= 1 << 53 for value in values):
        return pa.float64()
    exact = [Decimal(str(value)) for value in values]
    is_finite = all(value.is_finite() for value in exact)
    scale = max(0, *(-int(value.as_tuple().exponent) for value in exact)) if is_finite else _WIDEST
    whole = max(1, *(value.adjusted() + 1 for value in exact))
    if whole + scale > _WIDEST:
        return pa.string()
    return pa.decimal128(_WIDE, scale) if whole + scale <= _WIDE else pa.decimal256(_WIDEST, scale)
