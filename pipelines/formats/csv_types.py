"""The types of the columns of CSV files: as options name them, as a look at the first megabyte has them, and their values."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.keys.key_columns import Bools
from beam_joins.pipelines.formats.column_formats import has_decimal_comma, in_thousands, plain_texts, readings, type_of_formats
from beam_joins.pipelines.formats.csv_schema import DECIMAL, UNKNOWN, Layout, Misfit, Reading
from beam_joins.pipelines.formats.csv_text import LOOKED_AT, fields_or_none, names_in_header, records_of
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.formats.types.exact_json import loads
from beam_joins.pipelines.formats.types.json_text import texts_of
from beam_joins.values.arrow_types import is_json

_WHOLE: Final = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]{0,200})(\.[0-9]{1,200})?([eE][+-]?[0-9]{1,2})?$"
_DIGITS: Final = 38
_EXACT: Final = r"^-?(0|[1-9][0-9]{0,27})(\.[0-9]{1,28})?([eE][+-]?[0-9])?$"
"""Decimals; Arrow takes those of more digits too, but reads beyond its tables then."""
_PATTERNS: Final = {"int64": _WHOLE, "double": _NUMBER}
PADDED: Final = re.compile(r"-?0[0-9]|\+")
"""The beginning of a text that looks like a number, but in a column whose type is inferred may be none: a leading
zero, a plus sign.
"""
TEXTS: Final = ("string", UNKNOWN)
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
            plain, present = plain_texts(pa.array(column, pa.string()), formats[name]), [*filter(None, column)]
            if present and plain.null_count == len(plain):
                raise ValueError(
                    f"has no text in column '{name}' in the format {' or '.join(formats[name])}, but such as {present[0]!r}"
                )
            kind, _ = _type_in(plain)
            types[name] = type_of_formats(formats[name]) if kind == UNKNOWN else kind
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


def as_type(column: pa.Array, kind: str) -> tuple[pa.Array, pa.Array, Bools]:
    """A column of texts as it is compared, its JSON texts, and for which records both are right."""
    if kind in TEXTS:
        return column, texts_of(column), np.ones(len(column), np.bool_)
    if kind == "bool":
        lower = pc.utf8_lower(column)
        right = pc.is_in(lower, pa.array([*_TRUTH, None]))
        text = pc.if_else(right, lower, pa.scalar(None, pa.string()))
        return pc.equal(text, "true"), text.cast(pa.binary()), bools_of(right)
    plain = pc.match_substring_regex(column, _PATTERNS.get(kind, _EXACT)).fill_null(True)
    text = pc.if_else(plain, column, pa.scalar(None, pa.string()))
    right = bools_of(plain)
    if kind == "int64":
        return text.cast(pa.int64()), text.cast(pa.binary()), right
    if kind != "double":
        try:
            text.cast(_decimal(kind))
        except pa.ArrowInvalid:  # one of them does not fit
            right = np.zeros(len(column), np.bool_)
    return text.cast(pa.float64()), text.cast(pa.binary()), right


def value_of(text: str, kind: str) -> Any:
    """The value of a text as a type has it. Raises ValueError and InvalidOperation.

    >>> value_of("12.50", "decimal(4,2)"), value_of("True", "bool")
    (Decimal('12.50'), True)
    """
    if kind in TEXTS:
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


def _type_in(texts: pa.Array) -> tuple[str, tuple[str, str] | None]:
    """The type that all of the texts have: numbers are not written with zeros before them, as postal codes
    are. Of text also the type that most of them have, and the other one, where it is the only one.
    """
    present, odd = texts.drop_null(), None
    for kind in ("int64", "double", "bool") if len(present) else ():
        right = as_type(present, kind)[2]
        if right.all():
            return kind, None
        others = present.filter(pa.array(~right))
        if odd is None and 2 * len(others) < len(present) and len(others.unique()) == 1 and not _is_value(others[0].as_py(), kind):
            odd = kind, others[0].as_py()
    return ("string", odd) if len(present) else (UNKNOWN, None)


def _is_value(text: str, kind: str) -> bool:
    """Whether a text is a value of a type that an option says."""
    try:
        value_of(text, kind)
    except (ValueError, InvalidOperation):
        return False
    return True


def _decimal(kind: str) -> pa.DataType:
    match = DECIMAL.fullmatch(kind)
    assert match is not None
    return pa.decimal128(int(match[1]), int(match[2]))


def bools_of(column: pa.Array) -> Bools:
    """A column of true and false without nulls, in NumPy."""
    chosen: Bools = column.to_numpy(zero_copy_only=False)
    return chosen
