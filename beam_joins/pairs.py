"""The pairs of rows of a join, and a joiner of records called for each."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.copied import copied, copier
from beam_joins.functions import with_key
from beam_joins.keys.columns import Ints
from beam_joins.user_functions import Functions


class Pairs(NamedTuple):
    """Left and right values, and the indices of those that are joined: -1 for a missing one, and for both in a tombstone.

    ``key`` and ``timestamp`` are those of the results. A join appends to ``left_out`` the indices of the pairs for which the joiner raised.
    """

    left: pa.Array
    left_index: Ints
    right: pa.Array
    right_index: Ints
    key: Any = None
    timestamp: Any = None
    left_out: list[int] | None = None


def each_joined(
    joiner: Callable[..., Any],
    functions: Functions,
    pairs: Pairs,
    lefts: list[Any],
    rights: list[Any] | None,
    key_of: Callable[[int], Any],
) -> Iterator[Any]:
    """What a joiner of records gives for each pair, ``None`` for a tombstone or where it raised; ``key_of`` gives the key of the pair's result.

    Without ``rights`` the joiner is one of left values. It may write into its arguments. A result is valid only until the next one is taken.
    """
    # how often a value must be used to be copied; with an output of bad records always, as they are shown unchanged
    at_least = 1 if functions.handles_any else 2
    sides = 1 if rights is None else 2
    right_index = np.full_like(pairs.left_index, -1) if rights is None else pairs.right_index
    left_copies, right_copies = _copies(lefts, pairs.left_index, at_least), _copies(rights or [], right_index, at_least)
    lefts, rights = [*lefts, None], [*(rights or []), None]
    keyed = isinstance(joiner, with_key)
    for n, (i, j) in enumerate(zip(pairs.left_index.tolist(), right_index.tolist(), strict=True)):
        if i < 0 and j < 0:
            yield None
            continue
        left, right = left_copies[i], right_copies[j]
        try:
            given = (lefts[i] if left is None else left(), rights[j] if right is None else right())[:sides]
            result = joiner(copied(key_of(n)), *given) if keyed else joiner(*given)
        except Exception as error:
            timestamp = 0 if pairs.timestamp is None else int(pairs.timestamp[n])
            functions.failed("joiner", error, (lefts[i], rights[j])[:sides], timestamp, key=key_of(n))
            if pairs.left_out is not None:
                pairs.left_out.append(n)
            result = None
        yield result


def _copies(values: list[Any], index: Ints, at_least: int) -> list[Callable[[], Any] | None]:
    """What gives copies of values, an absent one at the end; ``None`` for a value that is used less often than ``at_least``."""
    uses = np.bincount(index[index >= 0], minlength=len(values))
    return [copier(value) if count >= at_least else None for value, count in zip(values, uses.tolist(), strict=True)] + [None]
