"""Pairs of joined rows, and the call of a joiner of records for each."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import gather
from beam_joins.functions.marked_functions import with_key
from beam_joins.functions.user_functions import Functions
from beam_joins.keys.key_columns import Ints
from beam_joins.keys.opaque import each_in_python, python_values
from beam_joins.values.copying import copied


class Pairs(NamedTuple):
    """Left and right values, and the indices of those that are joined: -1 for a missing value, and for all
    in a tombstone.

    ``key`` and ``timestamp`` are those of the results. A join appends to ``left_out`` the indices of the
    pairs for which the joiner raised. ``others`` are the values of further tables, with their indices.
    """

    left: pa.Array
    left_index: Ints
    right: pa.Array
    right_index: Ints
    key: Any = None
    timestamp: Any = None
    left_out: list[int] | None = None
    others: Sequence[tuple[pa.Array, Ints]] = ()

    def columns(self, sides: int) -> list[tuple[pa.Array, Ints]]:
        """The values of so many tables, with their indices."""
        return [(self.left, self.left_index), (self.right, self.right_index), *self.others][:sides]


def each_joined(
    joiner: Callable[..., Any],
    functions: Functions,
    pairs: Pairs,
    key_of: Callable[[int], Any],
    *,
    sides: int = 2,
    option: str = "joiner",
) -> Iterator[Any]:
    """The results of a joiner of records, one for each pair; ``None`` for a tombstone and where the joiner
    raised. ``key_of`` gives the key of the pair's result; ``option`` names the joiner.

    With ``sides=1`` the joiner is a function of left values. It may write into its arguments. A result is
    valid only until the next one is taken.
    """
    columns = pairs.columns(sides)
    refused = refusing(functions, pairs, key_of, sides=sides, option=option)
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


def refusing(
    functions: Functions, pairs: Pairs, key_of: Callable[[int], Any], *, sides: int = 2, option: str = "joiner"
) -> Callable[[int, Exception], None]:
    """Puts a pair, by its index, for which a joiner of records raised into ``bad``, or raises
    ``FunctionFailed`` where such exceptions are not handled.
    """
    columns = pairs.columns(sides)

    def refuse(n: int, error: Exception) -> None:
        timestamp = 0 if pairs.timestamp is None else int(pairs.timestamp[n])
        # read again, as the joiner may have written into its arguments
        shown = [python_values(gather(values, index[n : n + 1]))[0] for values, index in columns]
        functions.failed(option, error, shown, timestamp, key=key_of(n))
        if pairs.left_out is not None:
            pairs.left_out.append(n)

    return refuse
