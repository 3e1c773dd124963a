"""Encodes Arrow columns for PostgreSQL's COPY."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.pipelines.systems.postgres.postgres_forms import TargetColumn
from beam_joins.values.arrow_types import is_bytes, is_uuid, python_list, uuid_texts
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace

_TEXT = pa.large_string()
_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_BEFORE_CHRIST: Final = re.compile(r"^(-\d+|0000)(-.*)")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def copy_text(columns: Sequence[pa.Array], into: Sequence[TargetColumn] | None = None) -> bytes:
    r"""Columns of one length as lines of COPY's text format, as the columns that they are written to need it.

    Raises ``ValueError`` for a time with nanoseconds, which PostgreSQL would round, and for a value that its column
    would change.

    >>> copy_text([pa.array([1, None]), pa.array(["a\tb", ""]), pa.array([b"\x01", None])])
    b'1\ta\\tb\t\\\\x01\n\\N\t\t\\N\n'
    """
    cells = [_cells(column) for column in columns] if into is None else list(map(_written, columns, into))
    lines = pc.binary_join_element_wise(*cells, pa.scalar("\t", _TEXT), null_handling="replace", null_replacement="\\N")
    ended = pc.binary_join_element_wise(lines, pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))
    return b"" if not len(ended) else bytes(ended.buffers()[2])


def _written(column: pa.Array, into: TargetColumn) -> pa.Array:
    form = into.form
    if form.cast is not None:
        column = exact_cast(column, form.cast, ValuePlace("a row", into.name))
    if form.pattern is None and form.digits is None and not form.has_one_of_each:
        return _cells(column)
    text = pc.cast(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column, _TEXT)
    if form.pattern is not None:
        wrong = pc.invert(pc.match_substring_regex(text, f"^(?:{form.pattern})$"))
    else:
        is_wrong = _has_key_twice if form.digits is None else partial(_lacks_digits, kind=form.digits)
        wrong = pa.array([value is not None and is_wrong(value) for value in text.to_pylist()], pa.bool_())
    if pc.any(wrong).as_py():
        value = text.filter(wrong)[0].as_py()
        raise ValueError(f"the column {into.name} is {into.type.shown}, which does not hold {value!r} as it is")
    return _cells(column)


def _has_key_twice(text: str) -> bool:
    """Whether an object in a JSON text has a key twice; the server refuses what is no JSON."""
    if text.count(":") < len("::"):
        return False
    counts = list[bool]()
    with suppress(ValueError, RecursionError):
        json.loads(text, object_pairs_hook=lambda pairs: counts.append(len(dict(pairs)) < len(pairs)))
    return any(counts)


def _lacks_digits(text: str, kind: pa.DataType) -> bool:
    """Whether floats do not have the numbers in a text, by their value or by the digits that they are shown with."""
    width = np.float32 if kind == pa.float32() else np.float64
    floats = ((width(number), Decimal(number)) for number in _NUMBER.findall(text))
    return any(exact not in (Decimal(str(number)), Decimal(float(number))) for number, exact in floats if np.isfinite(number))


def _cells(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    try:
        text = _texts(column)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{error}: PostgreSQL keeps microseconds, so round them before") from None
    if (pa.types.is_date(kind) or pa.types.is_timestamp(kind)) and pc.any(pc.match_substring_regex(text, r"^(-|0000)")).as_py():
        return pa.array([value and _BEFORE_CHRIST.sub(_in_era, value) for value in text.to_pylist()], _TEXT)
    if pa.types.is_primitive(kind) or is_bytes(kind):
        return text
    for plain, escaped in _ESCAPED:
        text = pc.replace_substring(text, plain, escaped)
    return text


def _texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_nested(kind):
        return pa.array([None if value is None else dumps_line(value).decode().rstrip("\n") for value in python_list(column)], _TEXT)
    if is_bytes(kind):
        return pa.array([None if value is None else "\\\\x" + value.hex() for value in column.to_pylist()], _TEXT)
    if is_uuid(kind):
        return uuid_texts(column).cast(_TEXT)
    if kind == pa.time64("ns"):
        column = pc.cast(column, pa.time64("us"))
    if pa.types.is_timestamp(kind):
        column = pc.cast(column, pa.timestamp("us" if kind.unit == "ns" else kind.unit, kind.tz and "UTC"))
    return pc.cast(column, _TEXT)


def _in_era(year: Any) -> str:
    """PostgreSQL writes the year 0 as 1 BC."""
    return f"{1 - int(year[1]):04d}{year[2]} BC"
