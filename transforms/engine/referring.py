"""What the rows of a table refer to, as a user says it: by fields, a function of columns, or a function of key and value."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.coders.key import KeyCoder, encode_key, key_coder
from beam_joins.copied import copied
from beam_joins.function_failed import FunctionFailed
from beam_joins.functions import keys_of, vectorized
from beam_joins.keys.columns import Bools
from beam_joins.keys.nested import windowed_keys
from beam_joins.keys.opaque import KEYS, is_opaque, python_keys, python_values
from beam_joins.sorting import integers, valid
from beam_joins.transforms.engine.table_type import TableType
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.windowed import Windowed

KeyColumn = Callable[[Iterable[Any]], pa.Array]
"""Makes a column of keys, ``None`` for no key."""


class Referred(NamedTuple):
    """What each of the values of a batch refers to, and which changes are left out of it, as the function raised for their new value."""

    to: Any
    failed: Bools


References = Callable[[ChangeBatch], Referred]
"""A column of what the values of a batch refer to, null for nothing; or a list of lists."""


def keys_like(table: TableType, what: str) -> KeyColumn:
    """How keys that a function gives become a column that can meet the keys of a table; the run raises ``ValueError`` for one that never can."""
    coder = key_coder(table.key, what)
    typed = coder if isinstance(coder, KeyCoder) else KeyCoder()

    def column(keys: Iterable[Any]) -> pa.Array:
        encoded = [None if key is None else encode_key(typed, key, what) for key in keys]
        return pa.ExtensionArray.from_storage(KEYS, pa.array(encoded, pa.binary()))

    def windowed(keys: Iterable[Any]) -> pa.Array:
        given = [key if key is None else _windowed(key, what) for key in keys]
        bounds = (pa.array([None if key is None else key.window[i] for key in given], pa.int64()) for i in (0, 1))
        mask = pa.array([key is None for key in given], pa.bool_())
        return windowed_keys(column(None if key is None else key.key for key in given), *bounds, mask=mask)

    return windowed if table.windowed else column


def one_reference(
    option: str,
    given: Any,
    called: Callable[[Any, Any], Any],
    functions: StageFunctions,
    keys: KeyColumn,
    kind: pa.DataType | None = None,
) -> References:
    """What rows refer to, each to one row, as the user has ``given`` it; ``called`` is the function that a field's name stands for.

    ``kind`` is the type of the values, where it is known: raises ``ValueError`` for columns that they do not have.
    """
    function = functions.function(option, given, called, fresh=True)
    if kind is not None and not is_opaque(kind) and not callable(given):
        keys_of(option, given, pa.nulls(0, kind))

    def references(batch: ChangeBatch) -> Referred:
        if (callable(given) and not isinstance(given, vectorized)) or is_opaque(batch.new.type):
            results, failed = of_values(batch, function, functions)
            return Referred(keys(results), failed)
        return Referred(keys_of(option, function if callable(given) else given, batch.values), np.zeros(len(batch), np.bool_))

    return references


def listed_references(given: Any, called: Callable[[Any, Any], Any], functions: StageFunctions) -> References:
    """What rows refer to, each to the rows of a list."""
    function = functions.function("foreign_keys", given, called, fresh=True)

    def of_list(key: Any, value: Any) -> tuple[Any, ...]:
        keys = function(key, value)
        if isinstance(keys, str | bytes):
            raise ValueError(f"foreign_keys gave {keys!r}, one key and not a list: give [{keys!r}], or use foreign_key")
        return tuple(keys or ())

    return lambda batch: Referred(*of_values(batch, of_list, functions))


def of_values(
    batch: ChangeBatch,
    function: Callable[[Any, Any], Any],
    functions: StageFunctions,
    record_of: Callable[[Change[Any, Any]], Any] = lambda change: change,
) -> tuple[list[Any], Bools]:
    """What a function of key and value gives for each of ``batch.values``, and for which changes it raised: their records go to ``bad``.

    ``None`` stands for a null, for a value that no change has before it, and where the function raised.
    """
    values = batch.values
    owner = np.full(len(values), -1)
    owner[: len(batch)] = np.arange(len(batch))
    before = integers(batch.before.fill_null(-1))
    earlier = np.flatnonzero(before >= len(batch))
    owner[before[earlier]] = earlier
    asked = np.flatnonzero((owner >= 0) & valid(values))
    given: list[Any] = [None] * len(values)
    raised: dict[int, FunctionFailed] = {}
    rows = zip(python_keys(batch.key.take(pa.array(owner[asked]))), python_values(values.take(pa.array(asked))), strict=True)
    for n, (key, value) in zip(asked.tolist(), rows, strict=True):
        try:
            given[n] = copied(function(key, value))
        except FunctionFailed as error:
            if not functions.handles(error.__cause__):
                raise
            raised[n] = error
    failed = np.zeros(len(batch), np.bool_)
    failed[[n for n in raised if n < len(batch)]] = True
    if failed.any():
        for n, change in enumerate(batch):
            if failed[n]:
                functions.caught(record_of(change), raised[n], change.timestamp)
    return given, failed


def _windowed(key: Any, what: str) -> Windowed[Any]:
    if not isinstance(key, Windowed):
        raise ValueError(f"{what} {key!r} is not Windowed, and the table that it refers to is windowed: give a Windowed(key, window)")
    if not isinstance(key.window, tuple) or [type(bound) for bound in key.window] != [int, int]:
        raise ValueError(f"{key.window!r} is not a Window(start, end) in microseconds")
    return key
