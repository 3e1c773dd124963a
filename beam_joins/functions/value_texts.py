"""The texts of values, which are the same in each process and differ where the values do."""

import decimal
import logging
import os
import pickle
import random
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from datetime import datetime, time, timezone
from enum import Enum
from functools import cached_property
from io import BytesIO
from types import SimpleNamespace
from typing import Any, get_origin
from weakref import finalize
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64, xxh3_64_hexdigest

from beam_joins.functions.column_expressions import EngineExpression
from beam_joins.values.copying import IMMUTABLE

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
NAMESPACES = {Namespace, SimpleNamespace}
"""The types whose values have attributes and nothing else."""
_LIVE = (
    logging.Logger,
    logging.LoggerAdapter,
    random.Random,
    np.random.Generator,
    np.random.BitGenerator,
    np.random.RandomState,
    finalize,
    type(os.environ),
)
"""The types whose values are other ones in each process, or after each use."""
_ZONES = {type(None), timezone, ZoneInfo}
_FEW = 10_000
"""The largest array whose values are written down; of a larger one it is their digest."""
_ROWS = 1 << 16


def is_shown(value: Any) -> bool:
    """Whether the ``repr`` of a value shows all of it: constants, types, and lists and dicts of these.

    >>> is_shown({"a": ["left.a", 1]}), is_shown(len)
    (True, False)
    """
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return all(map(is_shown, value))
    if kind is dict:
        return is_shown([*value, *value.values()])
    return _is_simple(value) or get_origin(value) is not None or isinstance(value, pa.DataType | pa.Schema)


def text_of(value: Any) -> str | None:
    """The text of a value that no other belongs to, ``None`` for others.

    >>> text_of([1, 2.5]), text_of(re.compile("a")), text_of(pa.scalar(1))
    ('[1, 2.5]', "pattern 'a' 32", 'int64 [1]')
    """
    kind = type(value)
    text: str | None = None
    if _is_simple(value) or get_origin(value) is not None:  # list[int] can be called, as classes can
        text = ascii(value)
    elif isinstance(value, re.Pattern):
        text = f"pattern {value.pattern!a} {int(value.flags)}"
    elif isinstance(value, ZoneInfo):
        text = f"zone {value.key!a}"
    elif isinstance(value, decimal.Context):
        traps = sorted(signal.__name__ for signal, is_set in value.traps.items() if is_set)
        text = f"context {(value.prec, value.rounding, value.Emin, value.Emax, value.capitals, value.clamp, traps)}"
    elif isinstance(value, bytearray | memoryview):
        text = f"{kind.__name__} {bytes(value)!a}"
    elif isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
        text = _of_numpy(value)
    elif kind.__module__.partition(".")[0] == "pyarrow":
        text = _of_arrow(value)
    elif isinstance(value, EngineExpression):
        text = f"{kind.__name__} {value}"
    return text if text is None else ADDRESS.sub("", text)


def _is_simple(value: Any) -> bool:
    kind = type(value)
    if kind in (list, tuple):
        kinds = {*map(type, value)}
        return kinds <= IMMUTABLE and (kinds.isdisjoint((datetime, time)) or all(map(_is_simple, value)))
    if kind is dict:
        return _is_simple([*value]) and _is_simple([*value.values()])
    return kind in IMMUTABLE and (kind not in (datetime, time) or type(value.tzinfo) in _ZONES)


def _of_numpy(value: Any) -> str:
    kind = value.dtype.str if value.dtype.names is None else value.dtype.descr
    if value.size <= _FEW or value.dtype.names is not None:
        return f"{kind} {value.tolist()!a}"
    return f"{kind} {value.shape} {xxh3_64_hexdigest(np.ascontiguousarray(value).tobytes())}"


def _of_arrow(value: Any) -> str | None:
    text: str | None = None
    match value:
        case pa.Field() | pa.Schema():
            text = f"{type(value).__name__} {value} {value.metadata}"
        case pa.DataType():
            text = f"{type(value).__name__} {value}"
        case pa.Scalar():
            text = _of_arrow(pa.repeat(value, 1))
        case pa.Array():
            text = _of_arrow(pa.chunked_array([value]))
        case pa.ChunkedArray():
            text = f"{value.type} {_of_column(value)}"
        case pa.RecordBatch() | pa.Table():
            table = value if isinstance(value, pa.Table) else pa.table(value)
            columns = [f"{name!a}: {_of_arrow(column)}" for name, column in zip(table.column_names, table.columns, strict=True)]
            text = f"{type(value).__name__} {{{', '.join(columns)}}}"
        case pa.Buffer():
            text = f"Buffer {xxh3_64_hexdigest(value)}"
        case pc.Expression():
            text = _of_expression(value)
        case pc.FunctionOptions():
            text = str(value)
    return text


def _of_column(column: pa.ChunkedArray) -> str:
    """The values, or their digest; the same for each cut into chunks."""
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):  # some of which Python has not
        column = column.cast({32: pa.int32(), 64: pa.int64()}[column.type.bit_width])
    if len(column) <= _FEW:
        return ascii(column.to_pylist())
    digest = xxh3_64()
    for start in range(0, len(column), _ROWS):
        digest.update(ascii(column.slice(start, _ROWS).to_pylist()).encode())
    return f"{len(column)} values {digest.hexdigest()}"


def _of_expression(expression: pc.Expression) -> str:
    """The text of an expression, which shows neither the types of its constants nor all of many, and these."""
    constants = pa.ipc.open_file(expression.__reduce__()[1][0]).read_all()
    return f"{expression} {', '.join(filter(None, map(_of_arrow, constants.columns)))}"


class _Nowhere:
    def write(self, data: Any) -> int:
        return len(data)


class _Pickler(pickle.Pickler):
    def __init__(self, is_left_out: Callable[[Any], bool]) -> None:
        super().__init__(_Nowhere(), 5, buffer_callback=lambda _: None)
        self._is_left_out = is_left_out

    def persistent_id(self, value: Any) -> int | None:
        if isinstance(value, _LIVE):
            raise pickle.PicklingError
        return 0 if self._is_left_out(value) else None


def is_pickled(value: Any, is_left_out: Callable[[Any], bool]) -> bool:
    """Whether an object is one of values, which can be pickled but for those ``is_left_out``; others have a connection, a lock or the
    like.
    """
    try:
        _Pickler(is_left_out).dump(value)
    except Exception:  # an object may raise anything
        return False
    return True


def state_of(value: Any, *, is_opaque: bool) -> Iterator[Any]:
    """The parts of what pickle writes of an object: values, and for each list and dict its items in order.

    ``is_opaque``: where it writes bytes, these say nothing. Raises ``ValueError`` then.
    """
    kind = type(value)
    try:
        reduced = value.__reduce_ex__(2)
    except Exception:
        if is_opaque or not hasattr(value, "__dict__"):
            raise
        reduced = kind, (), vars(value)
    if isinstance(reduced, str):
        yield reduced
        return
    made_by, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    of_class = {name for each in kind.__mro__ for name, member in vars(each).items() if isinstance(member, cached_property)}
    states = [each for each in (state if isinstance(state, tuple) else (state,)) if each is not None]
    named = [
        {name: part for name, part in each.items() if name not in of_class} if isinstance(each, dict) else each for each in states
    ]
    parts = [*arguments, *(part for each in named for part in (each.values() if isinstance(each, dict) else [each]))]
    if is_opaque and any(isinstance(part, bytes | bytearray | BytesIO) for part in parts):
        raise ValueError(f"{kind} is written as bytes")
    yield made_by
    yield from (frozenset(each) if isinstance(value, set | frozenset) and isinstance(each, list) else each for each in arguments)
    yield from (dict(sorted(each.items(), key=lambda item: ascii(item[0]))) if isinstance(each, dict) else each for each in named)
    yield list(items or ())
    yield list(pairs or ())


def sort_key(value: Any) -> str:
    """A text that orders the elements of a set, the same in each process."""
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(sort_key, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(sort_key, value)))}}}"
    return text_of(value) or getattr(value, "__qualname__", None) or type(value).__qualname__
