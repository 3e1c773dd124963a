"""Turns the condition of a join, beside the equality of its keys, into a function of pairs of rows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import gather
from beam_joins.function_failed import NO_KEY, called_with_no_rows
from beam_joins.functions.column_expressions import EXPRESSIONS
from beam_joins.functions.joiner import joiner_in_columns
from beam_joins.functions.marked_functions import batch_of, values_of, vectorized
from beam_joins.functions.pairs import Pairs, each_joined
from beam_joins.functions.user_functions import Functions, require_takes
from beam_joins.keys.key_columns import Bools
from beam_joins.keys.opaque import python_keys

_NAME = "condition"


def condition_in_columns(
    condition: Any, functions: Functions | None = None, *, types: Sequence[pa.DataType] | None = None
) -> Callable[[Pairs], Bools] | None:
    """Turns a user's condition into a function that says which pairs satisfy it; a null does not. ``None`` for none.

    Raises ``ValueError`` for anything but a function of both values, a vectorized one or an Arrow expression, and if it does
    not fit the ``types`` of the values where they are known.

    >>> import pyarrow.compute as pc
    >>> pairs = Pairs(pa.array([{"n": 1}, {"n": 5}]), np.array([0, 1]), pa.array([{"n": 3}]), np.array([0, 0]))
    >>> condition_in_columns(pc.field("left", "n") < pc.field("right", "n"))(pairs).tolist()
    [True, False]
    """
    if condition is None:
        return None
    functions = functions or Functions("a join")
    columns: Callable[[Pairs], pa.Array]
    if isinstance(condition, EXPRESSIONS):
        joined = joiner_in_columns({_NAME: condition}, option=f"{_NAME}={condition}")

        def columns(pairs: Pairs) -> pa.Array:
            return joined(pairs).field(0)

    elif isinstance(condition, vectorized):
        called = functions.function(_NAME, condition)

        def columns(pairs: Pairs) -> pa.Array:
            batches = [batch_of(gather(values, index)) for values, index in pairs.columns(2)]
            return values_of(called(*batches), len(pairs.left_index))

    elif callable(condition):
        require_takes(_NAME, condition, 2, "the left and the right value")
        return _by_record(condition, functions)
    else:
        raise ValueError(
            f"condition={condition!r}: give a function of the left and the right value, a vectorized one, or an Arrow expression "
            'such as pyarrow.compute.field("left", "from") <= pyarrow.compute.field("right", "at")'
        )

    def satisfied(pairs: Pairs) -> Bools:
        truths = columns(pairs)
        if not pa.types.is_boolean(truths.type):
            raise ValueError(f"condition gave values of type {truths.type}: give true for a pair that matches")
        are_true: Bools = truths.fill_null(False).to_numpy(zero_copy_only=False)
        return are_true

    if types is not None:
        none = np.zeros(0, np.int64)
        with called_with_no_rows():
            satisfied(Pairs(pa.nulls(0, types[0]), none, pa.nulls(0, types[1]), none))
    return satisfied


def _by_record(condition: Callable[..., Any], functions: Functions) -> Callable[[Pairs], Bools]:
    def satisfied(pairs: Pairs) -> Bools:
        def key_of(n: int) -> Any:
            return NO_KEY if pairs.key is None else python_keys(pairs.key.slice(n, 1))[0]

        # a pair for which it raised has no result
        results = each_joined(lambda left, right: [condition(left, right)], functions, pairs, key_of, option=_NAME)
        return np.fromiter((result is not None and _truth(*result) for result in results), np.bool_, len(pairs.left_index))

    return satisfied


def _truth(result: Any) -> bool:
    if not isinstance(result, bool | np.bool_):
        raise ValueError(f"condition gave {result!r} of type {type(result).__name__}: give True for a pair that matches, or False")
    return bool(result)
