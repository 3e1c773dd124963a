"""Maps PostgreSQL's types to Arrow types, and its texts of values to typed values, Python's values and JSON."""

import re
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.pipelines.formats.types.exact_json import loads
from beam_joins.pipelines.formats.types.json_text import quoted
from beam_joins.pipelines.formats.types.typed_texts import BYTES_OF, cast_text, is_bytes, is_large, one_by_one, require_double

Texts: TypeAlias = Literal["numbers", "booleans", "bytes", "text"]
"""The kind of value that the texts of a column are."""

_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")
_PRECISION: Final = re.compile(r"\((\d+)\)")
_SAME: Final = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "oid": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "time without time zone": pa.time64("us"),
}
_WIDEST: Final = 76
_EXACT_DIGITS: Final = 15
"""So many digits of a number a double holds."""


@cache
def arrow_type(name: str) -> pa.DataType:
    """The type of a column.

    Types that are not known here are text, as PostgreSQL writes them: among them ``numeric`` without a scale,
    with all its digits.

    >>> arrow_type("numeric(12,2)"), arrow_type("timestamp(3) without time zone"), arrow_type("character varying(30)")
    (Decimal128Type(decimal128(12, 2)), TimestampType(timestamp[us]), DataType(string))
    """
    if (numeric := _NUMERIC.fullmatch(name)) and int(numeric[1]) <= _WIDEST and 0 <= int(numeric[2]) <= int(numeric[1]):
        precision, scale = int(numeric[1]), int(numeric[2])
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return _SAME.get(_PRECISION.sub("", name), pa.string())


def may_be_left_out(kind: pa.DataType) -> bool:
    """Whether values of a column may be so large that PostgreSQL stores them apart (TOAST), and its log
    leaves them out while they do not change.
    """
    return bool(pa.types.is_string(kind) or pa.types.is_null(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind))


def json_texts(texts: pa.Array, held: Texts) -> pa.Array:
    r"""The JSON text of each value, null for null: numbers with their digits, bytes in hexadecimal.

    >>> json_texts(pa.array(["1.50", "NaN", None]), "numbers").to_pylist(), json_texts(pa.array([r"\x00ff"]), "bytes").to_pylist()
    ([b'1.50', b'"NaN"', None], [b'"00ff"'])
    """
    if held == "booleans":
        return pc.if_else(pc.equal(texts, "t"), pa.scalar(b"true"), pa.scalar(b"false"))
    if held == "numbers":
        finite = pc.match_substring_regex(texts, "[0-9]$")
        plain = texts.cast(pa.binary())
        return plain if pc.all(finite).as_py() is not False else pc.if_else(finite, plain, quoted(texts))
    return quoted(pc.utf8_slice_codeunits(texts, 2) if held == "bytes" else texts)


def python_values(texts: pa.Array, held: Texts) -> list[Any]:
    """The values as Python has those of the JSON; a ValueError in place of a number that it does not read.

    >>> python_values(pa.array(["1.50", "0.10000000000000000001", None, "7"]), "numbers")
    [1.5, Decimal('0.10000000000000000001'), None, 7]
    """
    if held == "booleans":
        return list(pc.equal(texts, "t").to_pylist())
    if held == "numbers":
        numbers = json_texts(texts, held).fill_null(b"null").to_pylist()
        try:
            return list(loads(b"[" + b",".join(numbers) + b"]"))
        except ValueError:
            return list(map(_number, numbers))
    return list((pc.utf8_slice_codeunits(texts, 2) if held == "bytes" else texts).to_pylist())


def _number(text: bytes) -> Any:
    try:
        return loads(text)
    except ValueError as error:
        return ValueError(str(error))


def column_of_numbers(texts: pa.Array) -> pa.Array:
    """Numbers as whole numbers of 64 bits, or doubles; texts where one is no number, such as NaN.

    >>> [column_of_numbers(pa.array([text])).type for text in ("7", "7.5", "NaN")]
    [DataType(int64), DataType(double), DataType(string)]
    """
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        is_finite = pc.all(pc.match_substring_regex(texts, "[0-9]$")).as_py() is not False
        return texts.cast(pa.float64()) if is_finite else texts


def typed_values(texts: pa.Array, held: Texts, name: str, field: pa.Field) -> pa.Array:
    """The values in the type of a field; ``name`` is that of PostgreSQL's type.

    Raises ValueError, a sentence, for a value that does not fit.

    >>> typed_values(pa.array(["1.50", None]), "numbers", "numeric(5,2)", pa.field("n", pa.decimal128(5, 2))).to_pylist()
    [Decimal('1.50'), None]
    """
    try:
        made = _many_at_a_time(texts, held, name, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        made = None
    if made is not None:
        return made
    values = json_texts(texts, held).to_pylist()
    for text in values if pa.types.is_floating(field.type) and held == "numbers" else ():
        require_double(field.name, None if text is None else loads(text))
    return one_by_one(values, field, BYTES_OF["hexadecimal"])


def _many_at_a_time(texts: pa.Array, held: Texts, name: str, kind: pa.DataType) -> pa.Array | None:
    """The values, or None where that takes a closer look."""
    made = None
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if held == "booleans" and (is_text or pa.types.is_boolean(kind)):
        made = pc.equal(texts, "t").cast(kind)
    elif held == "bytes" and is_bytes(kind):
        made = pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts.to_pylist()], kind)
    elif is_text:
        made = (pc.utf8_slice_codeunits(texts, 2) if held == "bytes" else texts).cast(kind)
    elif held == "text" and pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        made = cast_text(texts, kind)
    elif held == "numbers" and pa.types.is_floating(kind) and _SAME.get(name) != kind:
        # of other numbers than those that PostgreSQL writes of a double, one may have more digits
        if (pc.max(pc.utf8_length(texts)).as_py() or 0) <= _EXACT_DIGITS:
            doubles = texts.cast(kind)
            made = None if is_large(doubles) else doubles
    elif held == "numbers" and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        made = texts.cast(kind)
    elif held == "numbers" and pa.types.is_decimal(kind) and not pc.any(pc.match_substring(texts, "e")).as_py():
        made = texts.cast(kind)  # of an exponent Arrow may make another number
    return made
