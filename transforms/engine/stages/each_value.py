"""A function of key and value on the values of a batch of changes: each value is given once, though it may be
new in one change and old in the next.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import integers
from beam_joins.elements.change import Change
from beam_joins.function_failed import FunctionFailed
from beam_joins.keys.key_columns import Ints
from beam_joins.keys.opaque import each_in_python
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.stages.table_rows import changes_in_python, keys_in_python


def each_value(
    batch: ChangeBatch,
    of_table: TableType,
    functions: StageFunctions,
    call: Callable[[Any, Any], Any],
    *,
    record_of: Callable[[Change[Any, Any]], Any] = lambda change: change,
    failed: list[int] | None = None,
) -> Iterator[Any]:
    """The results of a function for each of :attr:`ChangeBatch.values`, ``None`` for no value.

    Where it raises an exception that is handled, the record of the change with this new value goes to
    ``bad``, and its index to ``failed``. For an earlier value that was done with an earlier change.
    """
    row = rows_of_values(batch)
    keys = keys_in_python(batch.key.take(pa.array(np.maximum(row, 0))), of_table) if len(batch) else []
    for n, (value, changed) in enumerate(zip(each_in_python(batch.values), row.tolist(), strict=True)):
        result = None
        if value is not None and changed >= 0:
            try:
                result = call(keys[n], value)
            except FunctionFailed as error:
                if not functions.handles(error.__cause__):
                    raise
                if n < len(batch):
                    (change,) = changes_in_python(batch.filter(pa.array(np.arange(len(batch)) == n)), of_table)
                    functions.caught(record_of(change), error, change.timestamp)
                    if failed is not None:
                        failed.append(n)
        yield result


def refusing(batch: ChangeBatch, of_table: TableType, functions: StageFunctions, option: str) -> Callable[[int, Exception], None]:
    """Puts the change with a new value, by its index among :attr:`ChangeBatch.values`, for which ``option``
    gave no value of its type into ``bad``.

    Raises ``FunctionFailed`` where such exceptions are not handled. For an earlier value that was done with
    an earlier change.
    """

    def refuse(n: int, error: Exception) -> None:
        row = int(rows_of_values(batch)[n])
        (change,) = changes_in_python(batch.filter(pa.array(np.arange(len(batch)) == row)), of_table)
        failed = functions.failure(option, error, (), change.key)
        failed.__cause__ = error
        if n < len(batch) or not functions.handles(error):
            functions.caught(change, failed, change.timestamp)

    return refuse


def rows_of_values(batch: ChangeBatch) -> Ints:
    """The change that has each of a batch's values, -1 for a value without one."""
    count = len(batch)
    row = np.concatenate([np.arange(count), np.full(len(batch.earlier), -1)])
    before = integers(batch.before.fill_null(-1))
    earlier = np.flatnonzero(before >= count)
    row[before[earlier]] = earlier
    return row
