"""Writes Arrow columns as JSON text: exact numbers, bytes in base64, times as stored or without their unit."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.columns.sorting import valid
from beam_joins.errors import OutputError
from beam_joins.keys.nested import stored_keys
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.values.arrow_types import JSON_TYPE, is_json, is_list, is_uuid, items_of, lists_of, uuid_texts

NULL: Final = b"null"
_LONG_DIGITS: Final = 19
_ESCAPED: Final = r'["\\\x00-\x1f]'
_WHOLE: Final = r"^-?[0-9]+$"
_NOT_FINITE: Final = (("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf"))


def joined(*parts: Any, null: bytes = b"") -> pa.Array:
    """The parts one after the other, ``null`` where one is null.

    >>> joined(b"<", pa.array([b"a", None]), b">", null=b"-").to_pylist()
    [b'<a>', b'<->']
    """
    return pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=null)


def content_of(values: pa.Array) -> memoryview:
    """The bytes of an array of bytes, one value after the other, as they lie in memory.

    >>> bytes(content_of(pa.array([b"a", b"bc"]).slice(1)))
    b'bc'
    """
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return memoryview(b"")
    begin, end = (memoryview(offsets).cast("i")[values.offset + i] for i in (0, len(values)))
    return memoryview(data)[begin:end]


def objects(texts: dict[str, pa.Array], length: int) -> pa.Array:
    r"""A JSON object for each row, of the JSON texts of its members; null is written as null.

    >>> objects({"a": texts_of(pa.array([1, None])), "b": texts_of(pa.array(['x"', "y"]))}, 2).to_pylist()
    [b'{"a":1,"b":"x\\""}', b'{"a":null,"b":"y"}']
    """
    if not texts:
        return pa.array([b"{}"] * length, pa.binary())
    names = [orjson.dumps(name) + b":" for name in texts]
    parts = [part for n, (name, text) in enumerate(zip(names, texts.values(), strict=True)) for part in (b"," * (n > 0) + name, text)]
    return joined(b"{", *parts, b"}", null=NULL)


def texts_of(column: pa.Array) -> pa.Array:
    """The JSON text of each value, null for null.

    >>> texts_of(pa.array([0.5, 2.0, float("nan"), 1e22])).to_pylist(), texts_of(pa.array([0.1], pa.float32())).to_pylist()
    ([b'0.5', b'2.0', b'"NaN"', b'1e+22'], [b'0.1'])
    """
    if is_json(column.type):
        return column.storage.cast(pa.binary())
    column = uuid_texts(column) if is_uuid(column.type) else stored_keys(column)
    kind = column.type
    if pa.types.is_dictionary(kind) or is_nested(kind):
        return texts_of(column.dictionary_decode()) if pa.types.is_dictionary(kind) else nested_texts(column, texts_of)
    column = stored(column)
    if pa.types.is_boolean(kind) or pa.types.is_integer(column.type) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return column.cast(pa.string()).cast(pa.binary())
    if pa.types.is_floating(kind):
        return _fractions(column.cast(pa.float32()) if pa.types.is_float16(kind) else column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return quoted(column.cast(pa.string()))
    return pa.array([None if value is None else dumps_line(value)[:-1] for value in column.to_pylist()], pa.binary())


def json_column(texts: pa.Array) -> pa.Array:
    """A column of JSON of these texts.

    >>> texts_of(json_column(pa.array([b"1.50", None]))).to_pylist()
    [b'1.50', None]
    """
    return pa.ExtensionArray.from_storage(JSON_TYPE, texts.cast(pa.string()))


def is_nested(kind: pa.DataType) -> bool:
    """Whether values of a type are structs, lists or maps."""
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind) or is_list(kind))


def nested_texts(column: pa.Array, texts: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The JSON text of each value, null for null: what ``texts`` gives of columns without others within, and of
    nested ones objects, lists, and maps as lists of pairs.

    >>> nested_texts(pa.array([[{"n": 1, "s": "a"}, None], None]), texts_of).to_pylist()
    [b'[{"n":1,"s":"a"},null]', None]
    """
    kind = column.type
    if not is_nested(kind):
        return texts(column)
    if pa.types.is_struct(kind):
        inner = {field.name: nested_texts(part, texts) for field, part in zip(kind, column.flatten(), strict=True)}
        made = objects(inner, len(column))
    else:
        parts, lengths = items_of(column)
        if pa.types.is_map(kind):
            key, item = (nested_texts(part, texts) for part in parts.flatten())
            items = joined(b"[", key, b",", item, b"]", null=NULL)
        else:
            items = nested_texts(parts, texts).fill_null(NULL)
        made = joined(b"[", pc.binary_join(lists_of(items, lengths, ~valid(column), pa.list_(pa.binary())), b","), b"]")
    return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.binary())) if column.null_count else made


def at_any_depth(column: pa.Array, made: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The column with the results of ``made`` in place of columns without others within.

    >>> at_any_depth(pa.array([[{"day": 1}], None], pa.list_(pa.struct({"day": pa.date32()}))), stored).to_pylist()
    [[{'day': 1}], None]
    """
    kind = column.type
    if not is_nested(kind):
        return made(column)
    if pa.types.is_struct(kind):
        parts = [at_any_depth(part, made) for part in column.flatten()]
        fields = [pa.field(field.name, part.type) for field, part in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null()) if parts else column
    parts, lengths = items_of(column)
    items = at_any_depth(parts, made)
    kind = pa.map_(*(field.type for field in items.type)) if pa.types.is_map(kind) else pa.list_(items.type)
    return lists_of(items, lengths, ~valid(column), kind)


def stored(column: pa.Array) -> pa.Array:
    """Times and dates as the whole numbers that they are stored as; other columns as they are."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind) or pa.types.is_duration(kind):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(kind) or pa.types.is_time32(kind) else column


def without_units(column: pa.Array) -> pa.Array:
    """Times without their unit: timestamps and durations as microseconds, dates and times of day as ISO 8601
    text; other columns as they are.

    Nanoseconds that are no whole microseconds are decimals. Raises ``ValueError`` for a time that
    microseconds in 64 bits do not hold.

    >>> without_units(pa.array([1_500], pa.timestamp("ms"))).to_pylist(), without_units(pa.array([1, None], pa.date32())).to_pylist()
    ([1500000], ['1970-01-02', None])
    >>> without_units(pa.array([8 * 3_600_000, 1], pa.time32("ms"))).to_pylist()
    ['08:00:00', '00:00:00.001000']
    """
    kind = column.type
    if pa.types.is_date(kind):
        return column.cast(pa.date32()).cast(pa.string())
    if pa.types.is_time(kind):
        return _clock_texts(column)
    if not pa.types.is_timestamp(kind) and not pa.types.is_duration(kind):
        return column
    numbers = column.cast(pa.int64())
    try:
        micros = pa.duration("us")
        return numbers.view(pa.duration(kind.unit)).cast(micros).cast(pa.int64())
    except pa.ArrowInvalid:
        if kind.unit == "ns":
            return numbers.cast(pa.decimal128(_LONG_DIGITS, 0)).view(pa.decimal128(_LONG_DIGITS, 3))
    raise ValueError(f"has a time of type {kind} that microseconds in 64 bits do not hold: write it as text or a whole number")


def texts_without_units(column: pa.Array) -> pa.Array:
    """The JSON text of each value of what :func:`without_units` makes of a column, at any depth.

    >>> texts_without_units(pa.array([[1_500, 2_000], None], pa.list_(pa.timestamp("ns")))).to_pylist()
    [b'[1.5,2]', None]
    """
    if is_nested(column.type):
        return nested_texts(column, texts_without_units)
    plain = without_units(column)
    if not pa.types.is_decimal(plain.type) or pa.types.is_decimal(column.type):
        return texts_of(plain)
    return pc.replace_substring_regex(plain.cast(pa.string()), r"\.000$|0{1,2}$", "").cast(pa.binary())


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


def iso_json(column: pa.Array) -> pa.Array:
    """The JSON text of each value, times and dates in ISO 8601 at any depth, null for null.

    >>> iso_json(pa.array([{"at": 1, "day": None}], pa.struct({"at": pa.timestamp("s"), "day": pa.date32()}))).to_pylist()
    [b'{"at":"1970-01-01T00:00:01","day":null}']
    """
    return nested_texts(column, _iso_leaf)


def _iso_leaf(column: pa.Array) -> pa.Array:
    return texts_of(iso_texts(column))


def _clock_texts(column: pa.Array) -> pa.Array:
    with suppress(pa.ArrowInvalid):  # nanoseconds
        column = column.cast(pa.time64("us"))
    texts = pc.replace_substring_regex(column.cast(pa.string()), r"(\.[0-9]{6})000$", r"\1")
    return pc.replace_substring_regex(texts, r"\.000000$", "")


def quoted(texts: pa.Array) -> pa.Array:
    """Texts as JSON writes them, null for null."""
    quoted = joined(b'"', texts.cast(pa.binary()), b'"')
    if texts.null_count:
        quoted = pc.if_else(texts.is_valid(), quoted, pa.scalar(None, pa.binary()))
    data: Any = np.frombuffer(content_of(texts), np.uint8)
    if not ((data < ord(" ")) | (data == ord('"')) | (data == ord("\\"))).any():  # several times as fast as the expression
        return quoted
    escaped = pc.match_substring_regex(texts, _ESCAPED).fill_null(False)
    return pc.replace_with_mask(quoted, escaped, pa.array(map(orjson.dumps, texts.filter(escaped).to_pylist()), pa.binary()))


def _fractions(numbers: pa.Array) -> pa.Array:
    texts = numbers.cast(pa.string())
    whole = pc.match_substring_regex(texts, _WHOLE)
    texts = pc.if_else(whole, pc.binary_join_element_wise(texts, "0", "."), texts)
    if not pc.all(pc.is_finite(numbers)).as_py():
        for name, text in _NOT_FINITE:
            texts = pc.if_else(pc.equal(texts, text), f'"{name}"', texts)
    return texts.cast(pa.binary())
