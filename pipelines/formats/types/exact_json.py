"""Reads and writes JSON with exact numbers: integers of any size, and a Decimal where a double would round."""

import base64
import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

import msgspec
import orjson

BytesText = Literal["base64", "hexadecimal"]
"""The encoding of bytes as text."""

# what a fast parser might round: 19 digits and more, 16 digits and a point or an exponent, exponents below
# -99
_LONG: Final = re.compile(rb"\d{19}|(?=[\d.]{17})\d*\.\d|\d{16}[eE]|\d[eE]-\d{3}")
# the same, coarser and ten times as fast, in a line where 0 stands for every digit and for a point
_SHAPE: Final = bytes.maketrans(b"123456789.E", b"0000000000e")
_LONG_SHAPES: Final = (b"0" * 17, b"0" * 16 + b"e", b"0e-000")
_LEAST, _MOST = -(2**63), 2**64 - 1
_REPLACED: Final = "\ufffd"


def loads(line: bytes) -> Any:
    """The value of a JSON text; a number with a fraction is a float if that has the same value when written,
    else a Decimal.

    Raises ValueError for what is no JSON, and for a number beyond the range of doubles or of more than 4,300
    digits.

    >>> loads(b'[9007199254740993.5, 0.1, 123456789012345678901]')
    [Decimal('9007199254740993.5'), 0.1, 123456789012345678901]
    """
    value = orjson.loads(line)
    shape = line.translate(_SHAPE)
    if not any(long in shape for long in _LONG_SHAPES) or _LONG.search(line) is None:
        return value
    try:
        return json.loads(line, parse_float=_fraction)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def object_of(line: bytes) -> dict[str, Any] | str:
    r"""The object of a line, or its fault.

    >>> object_of(b'{"a": 1}'), object_of(b"[1, 2]")
    ({'a': 1}, 'not a JSON object but [1, 2]')
    >>> object_of(b'{"a": 1, "name": "M\xfcller"}')
    "column 'name' is not UTF-8 (byte 0xfc): write the file in UTF-8"
    """
    try:
        row = loads(line)
    except ValueError as error:
        return _not_utf8(line) or f"not JSON: {getattr(error, 'msg', error)}"
    if isinstance(row, dict):
        return row
    text = line.decode(errors="replace").strip()
    return f"not a JSON object but {text if len(text) <= 40 else f'{text[:40]}...'}"


def _not_utf8(line: bytes) -> str | None:
    """The fault of a line whose bytes are not UTF-8; None for others."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        shown = object_of(line.decode(errors="replace").encode())
        marked = [] if isinstance(shown, str) else [name for name, value in shown.items() if _REPLACED in f"{name}{value}"]
        where = f"column '{marked[0]}'" if marked else "the line"
        return f"{where} is not UTF-8 (byte 0x{line[error.start]:02x}): write the file in UTF-8"
    return None


def dumps_line(row: Any) -> bytes:
    r"""The row, or another value, as a line; times, NaN and infinity become text, bytes base64.

    >>> dumps_line({"a": Decimal("1.10"), "b": 2**70, "c": float("nan")})
    b'{"a":1.10,"b":1180591620717411303424,"c":"NaN"}\n'
    """
    try:
        line = orjson.dumps(row, default=_other, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a whole number of more than 64 bits
        line = b""
    if line and (b"null" not in line or not _holds_not_finite(row)):
        return line
    return orjson.dumps(_spelt_out(row), default=_other, option=orjson.OPT_APPEND_NEWLINE)


def object_text(names: Iterable[str], values: Iterable[msgspec.Raw]) -> bytes:
    """A JSON object of members that are JSON texts.

    >>> object_text(["a"], [msgspec.Raw(b"1.10")])
    b'{"a":1.10}'
    """
    members = (msgspec.json.encode(name) + b":" + bytes(value) for name, value in zip(names, values, strict=True))
    return b"{" + b",".join(members) + b"}"


def _fraction(text: str) -> float | Decimal:
    number = float(text)
    try:
        exact = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"the number {text} is too small") from error
    return number if math.isfinite(number) and Decimal(repr(number)) == exact else exact


def _other(value: Any) -> Any:
    if isinstance(value, Decimal) and value.is_finite():
        return orjson.Fragment(str(value).encode())
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _holds_not_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_not_finite, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_not_finite, value))
    return isinstance(value, float) and not math.isfinite(value)


def _spelt_out(value: Any) -> Any:
    """The value with numbers that orjson refuses or writes as null in a form that it takes."""
    if isinstance(value, dict):
        return {name: _spelt_out(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_spelt_out(inner) for inner in value]
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return orjson.Fragment(str(value).encode())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
