"""The JSON texts of rows as typed columns: many at a time by Arrow, and what Arrow does not read value by value."""

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.json

from beam_joins.pipelines.changelog_files.envelopes.column_kind import text_of
from beam_joins.pipelines.changelog_files.exact_json import loads

_NULL: Final = b"null"
_QUOTE: Final = b'"'
_BINARY: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def typed(texts: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema in rows of JSON; a row without one has null there.

    Times and dates are text in ISO 8601, bytes text in base64. Text may be given as a number, which keeps its digits. Raises ``ValueError`` for a value that does not
    fit its column.

    >>> schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("n", pa.string())])
    >>> typed([b'{"id": 1, "day": "2026-01-02", "n": 1.50}'], schema).to_pylist()
    [{'id': 1, 'day': datetime.date(2026, 1, 2), 'n': '1.50'}]
    """
    read_by_arrow = pa.schema([field.with_type(pa.string()) if _is_cast(field.type) else field for field in schema])
    data = b"\n".join(texts)
    options = pa.json.ParseOptions(explicit_schema=read_by_arrow, newlines_in_values=False, unexpected_field_behavior="ignore")
    try:
        table = pa.json.read_json(pa.BufferReader(data), pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1), options)
        columns = [_cast(table[field.name].combine_chunks(), field.type) for field in schema]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        columns = _one_by_one(texts, schema)
    return pa.record_batch(columns, schema=schema)


def _is_cast(kind: pa.DataType) -> bool:
    """Whether Arrow reads the text of such a value, and then makes it of the text."""
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or (pa.types.is_timestamp(kind) and kind.tz is None))


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_time(kind) and not pa.types.is_time(column.type):
        at = pa.compute.binary_join_element_wise("1970-01-01T", column, "")
        return at.cast(pa.timestamp(kind.unit)).cast(kind)
    return column if column.type == kind else column.cast(kind)


def _one_by_one(texts: Sequence[bytes], schema: pa.Schema) -> list[pa.Array]:
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    rows = [decoder.decode(text) for text in texts]
    columns = []
    for field in schema:
        given = [bytes(row.get(field.name, _NULL)) for row in rows]
        try:
            columns.append(_column([None if text == _NULL else text for text in given], field.type))
        except (pa.ArrowException, InvalidOperation, TypeError, ValueError, KeyError) as error:
            raise ValueError(f"column '{field.name}' is not of type {field.type}: {str(error).splitlines()[0]}") from None
    return columns


def _column(texts: list[bytes | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([None if text is None else _as_text(text) for text in texts], kind)
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return _cast(pa.array([None if text is None else json.loads(text) for text in texts], pa.string()), kind)
    return pa.array([None if text is None else _value(loads(text), kind) for text in texts], kind)


def _as_text(text: bytes) -> str:
    said: str = json.loads(text) if text.startswith(_QUOTE) else text.decode()
    return said


def _value(value: Any, kind: pa.DataType) -> Any:
    """What Arrow takes for a value of a type; null stays null."""
    if value is None:
        return None
    for is_such, made in _MADE:
        if is_such(kind):
            return made(value, kind)
    return value


def _number(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, bool):
        raise ValueError("true or false is no number")
    return float(value)


def _list(values: Any, kind: pa.DataType) -> list[Any]:
    return [_value(value, kind.value_type) for value in values]


_MADE: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...]] = (
    (pa.types.is_binary, lambda value, kind: base64.b64decode(value, validate=True)),
    (pa.types.is_large_binary, lambda value, kind: base64.b64decode(value, validate=True)),
    (pa.types.is_fixed_size_binary, lambda value, kind: base64.b64decode(value, validate=True)),
    (pa.types.is_decimal, lambda value, kind: Decimal(str(value))),
    (pa.types.is_floating, _number),
    (pa.types.is_list, _list),
    (pa.types.is_large_list, _list),
    (pa.types.is_struct, lambda value, kind: {field.name: _value(value.get(field.name), field.type) for field in kind}),
    (pa.types.is_string, lambda value, kind: value if isinstance(value, str) else text_of(value).decode()),
    (pa.types.is_temporal, lambda value, kind: _cast(pa.array([value], pa.string()), kind)[0].as_py()),
)
