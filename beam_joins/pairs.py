"""Pairs of joined rows, and the call of a joiner of records for each."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.copying import copied
from beam_joins.functions import with_key
from beam_joins.keys.columns import Ints
from beam_joins.keys.opaque import each_in_python, python_values
from beam_joins.sorting import gather
from beam_joins.user_functions import Functions


class Pairs(NamedTuple):
    """Left and right values, and the indices of those that are joined: -1 for a missing value, and for both
    in a tombstone.

    ``key`` and ``timestamp`` are those of the results. A join appends to ``left_out`` the indices of the
    pairs for which the joiner raised.
    """

    left: pa.Array
    left_index: Ints
    right: pa.Array
    right_index: Ints
    key: Any = None
    timestamp: Any = None
    left_out: list[int] | None = None


def each_joined(
    joiner: Callable[..., Any], functions: Functions, pairs: Pairs, key_of: Callable[[int], Any], *, sides: int = 2
) -> Iterator[Any]:
    """What a joiner of records gives for each pair, ``None`` for a tombstone or where it raised; ``key_of``
    gives the key of the pair's result.

    With one of the ``sides`` the joiner is one of left values. It may write into its arguments. A result is
    valid only until the next one is taken.
    """
    columns = _columns(pairs, sides)
    refused = refusing(functions, pairs, key_of, sides=sides)
    arguments = [each_in_python(values, index) for values, index in columns]
    if isinstance(joiner, with_key):
        arguments.insert(0, (copied(key_of(n)) for n in range(len(pairs.left_index))))
    is_tombstone = np.logical_and.reduce([index < 0 for _, index in columns]).tolist()
    for n, (gone, values) in enumerate(zip(is_tombstone, zip(*arguments, strict=True), strict=True)):
        if gone:
            yield None
            continue
        try:
            result = joiner(*values)
        except Exception as error:
            refused(n, error)
            result = None
        yield result


def refusing(functions: Functions, pairs: Pairs, key_of: Callable[[int], Any], *, sides: int = 2) -> Callable[[int, Exception], None]:
    """Puts a pair, by its index, for which a joiner of records raised into ``bad``, or raises
    ``FunctionFailed`` where such exceptions are not handled.
    """
    columns = _columns(pairs, sides)

    def refuse(n: int, error: Exception) -> None:
        timestamp = 0 if pairs.timestamp is None else int(pairs.timestamp[n])
        # read again, as the joiner may have written into its arguments
        shown = [python_values(gather(values, index[n : n + 1]))[0] for values, index in columns]
        functions.failed("joiner", error, shown, timestamp, key=key_of(n))
        if pairs.left_out is not None:
            pairs.left_out.append(n)

    return refuse


def _columns(pairs: Pairs, sides: int) -> tuple[tuple[pa.Array, Ints], ...]:
    return ((pairs.left, pairs.left_index), (pairs.right, pairs.right_index))[:sides]
