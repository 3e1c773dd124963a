"""The references of a table's rows, as a user gives them: fields, a function of columns, or a function of key
and value.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.coders.key import key_coder
from beam_joins.elements.change import Change
from beam_joins.elements.windowed import Windowed
from beam_joins.function_failed import called_with_no_rows
from beam_joins.functions.marked_functions import keys_of, vectorized
from beam_joins.keys.key_columns import Bools
from beam_joins.keys.nested import WindowedType, windowed_keys
from beam_joins.keys.opaque import KEYS, is_opaque
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.stages.each_value import each_value
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.values.copying import copied


class KeyColumn(NamedTuple):
    """The conversion of the keys that a function gives, ``None`` for no key, to a column."""

    of: Callable[[Iterable[Any]], pa.Array]
    type: pa.DataType


class Referred(NamedTuple):
    """The references of a batch's values, null for none, and the changes for whose new value the function
    raised.
    """

    to: Any
    failed: Bools


class References(NamedTuple):
    """The references of rows: a column of keys, or of lists with one list for each row."""

    of: Callable[[ChangeBatch], Referred]
    type: pa.DataType
    """The type of the keys."""
    listed: KeyColumn | None = None
    """Makes a column of the keys of lists."""


def keys_like(table: TableType, what: str) -> KeyColumn:
    """The conversion of keys to a column that can meet the keys of a table; the run raises ``ValueError`` for
    a key that never can.
    """
    coder = key_coder(Any if isinstance(table.key, pa.DataType) else table.key, what)

    def column(keys: Iterable[Any]) -> pa.Array:
        return coder.column(list(keys), what, nulls=True)

    def windowed(keys: Iterable[Any]) -> pa.Array:
        bounded = [key if key is None else _windowed(key, what) for key in keys]
        bounds = (pa.array([None if key is None else key.window[i] for key in bounded], pa.int64()) for i in (0, 1))
        mask = pa.array([key is None for key in bounded], pa.bool_())
        return windowed_keys(column(None if key is None else key.key for key in bounded), *bounds, mask=mask)

    return KeyColumn(windowed, WindowedType(KEYS)) if table.windowed else KeyColumn(column, KEYS)


def one_reference(
    option: str, foreign_key: Any, called: Callable[[Any, Any], Any], functions: StageFunctions, left: TableType, keys: KeyColumn
) -> References:
    """The references of rows, one for each row, by the user's ``foreign_key``; ``called`` is the function
    that a field's name stands for.

    Raises ``ValueError`` for columns that the values of the left table do not have.
    """
    if is_opaque(left.value_column) or (callable(foreign_key) and not isinstance(foreign_key, vectorized)):
        function = functions.function(option, foreign_key, called, fresh=True)
        return References(partial(_by_value, left=left, function=function, functions=functions, column=keys.of), keys.type)
    spec = functions.function(option, foreign_key) if callable(foreign_key) else foreign_key
    with called_with_no_rows():
        kind = keys_of(option, spec, pa.nulls(0, left.value_column)).type
    return References(partial(_in_columns, option, spec), kind)


def _in_columns(option: str, spec: Any, batch: ChangeBatch) -> Referred:
    return Referred(keys_of(option, spec, batch.values), np.zeros(len(batch), np.bool_))


def listed_references(
    foreign_keys: Any, called: Callable[[Any, Any], Any], functions: StageFunctions, left: TableType, keys: KeyColumn
) -> References:
    """The references of rows, a list of them for each row."""
    function = functions.function("foreign_keys", foreign_keys, called, fresh=True)

    def of_list(key: Any, value: Any) -> tuple[Any, ...]:
        listed = function(key, value)
        if listed is None:
            return ()
        if isinstance(listed, Iterable) and not isinstance(listed, str | bytes | bytearray):
            return tuple(listed)
        error = ValueError(f"foreign_keys gave {listed!r}, one key and not a list: give [{listed!r}], or use foreign_key")
        if functions.handles(error):
            raise functions.failure("foreign_keys", error, (value,), key) from error
        raise error

    return References(lambda batch: _by_value(batch, left, of_list, functions, list), keys.type, keys)


def looked_up_windows(function: Callable[[Any, Any], Any], functions: StageFunctions, left: TableType, keys: KeyColumn) -> References:
    """The keys of a windowed table that rows look up; in ``bad`` is ``(key, value)`` of a row."""

    def record_of(change: Change[Any, Any]) -> Any:
        return change.key, change.new

    return References(lambda batch: _by_value(batch, left, function, functions, keys.of, record_of), keys.type)


def _by_value(
    batch: ChangeBatch,
    left: TableType,
    function: Callable[[Any, Any], Any],
    functions: StageFunctions,
    column: Callable[[Iterable[Any]], Any],
    record_of: Callable[[Change[Any, Any]], Any] = lambda change: change,
) -> Referred:
    failed: list[int] = []
    results = [copied(result) for result in each_value(batch, left, functions, function, record_of=record_of, failed=failed)]
    has_failed = np.zeros(len(batch), np.bool_)
    has_failed[failed] = True
    return Referred(column(results), has_failed)


def _windowed(key: Any, what: str) -> Windowed[Any]:
    if not isinstance(key, Windowed):
        raise ValueError(f"{what} {key!r} is not Windowed, and the table that it refers to is windowed: give a Windowed(key, window)")
    if not isinstance(key.window, tuple) or [type(bound) for bound in key.window] != [int, int]:
        raise ValueError(
            f"the window of {what} is {key.window!r} of type {type(key.window).__name__}: give a Window(start, end) in "
            "microseconds (window_of=, shift=)"
        )
    return key
