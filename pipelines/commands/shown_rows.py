"""Shows rows of a state as a table for people, and reads the keys that a command line names."""

import csv
import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from beam_joins.elements.iso_times import NO_TIME, text_of_micros
from beam_joins.keys.opaque import is_opaque, python_values
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.transforms.connect.runs import StoredTable

_READ: Final[tuple[Callable[[str], Any], ...]] = (
    str,
    int,
    float,
    {"true": True, "false": False}.__getitem__,
    dt.date.fromisoformat,
    dt.datetime.fromisoformat,
    UUID,
    bytes.fromhex,
)
"""The values that a text may be meant as: the type of a column decides."""
_GAP: Final = "  "
_VALUE: Final = "value"
_FORMS: Final = ("json lines", "columns")
"""The columns that rows of commands lie in."""


def keys_of(text: str) -> list[Any]:
    """The keys that a text may be meant as, of one column and, with commas, of several.

    >>> keys_of("7")[:3], keys_of("a,7")[:3]
    (['7', 7, 7.0], ['a,7', ('a', '7'), ('a', 7)])
    """
    parts = next(csv.reader([text]), [text])
    several = itertools.product(*map(_values_of, parts)) if len(parts) > 1 else ()
    return [*_values_of(text), *several]


def _values_of(text: str) -> list[Any]:
    values = []
    for read in _READ:
        with suppress(ValueError, KeyError):
            values.append(read(text))
    return values


def lines_of(tables: Iterable[StoredTable], limit: int) -> Iterator[str]:
    """The lines that show at most so many rows, below the labels of their tables."""
    shown, left, is_cut = dict[tuple[str, str], list[list[str]]](), limit, False
    for label, name, rows in tables:
        some = rows.slice(0, left)
        left -= len(some)
        if len(some):
            shown.setdefault((label, name), [_names(some)]).extend(_texts(some))
        if is_cut := len(some) < len(rows):
            break
    for (label, name), lines in shown.items():
        yield f"{label}, {name}"
        yield from _in_columns(lines)
    if is_cut:
        yield f"more than {counted(limit, 'row')}: --limit shows more, --key those of a key"


def _names(rows: pa.Table) -> list[str]:
    return [*(name for name in rows.column_names if name != _VALUE), *([_VALUE] if _VALUE in rows.column_names else [])]


def _texts(rows: pa.Table) -> Iterator[list[str]]:
    """The texts of rows, in the order of :func:`_names`."""
    columns = [_column(name, rows[name].combine_chunks()) for name in _names(rows)]
    return map(list, zip(*columns, strict=True))


def _column(name: str, column: Any) -> list[str]:
    if name == "timestamp":
        return ["" if micros in (None, NO_TIME) else text_of_micros(micros) for micros in column.to_pylist()]
    if name == _VALUE and pa.types.is_struct(column.type):
        form = next((each for each in _FORMS if column.type.get_field_index(each) >= 0), None)
        column = column if form is None else column.field(form)
    if pa.types.is_binary(column.type) and name == _VALUE:  # JSON
        return ["" if text is None else text.decode() for text in column.to_pylist()]
    return list(map(_text, _values(column)))


def _values(column: pa.Array) -> Sequence[Any]:
    if not is_opaque(column.type):
        return python_values(column)
    try:
        return python_values(column)
    except Exception as error:  # a class of the program that has written it
        return [f"{len(each)} bytes ({error})" for each in column.storage.to_pylist()]


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else dumps_line(value).decode().strip()


def _in_columns(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield _GAP + _GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
