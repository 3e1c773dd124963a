"""The pairs of rows of a join, and a joiner of records called for each."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_joins.copied import copier, only_reads
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
    joiner: Callable[[Any, Any], Any],
    functions: Functions,
    pairs: Pairs,
    lefts: list[Any],
    rights: list[Any],
    key_of: Callable[[int], Any],
) -> Iterator[Any]:
    """What a joiner of records gives for each pair, ``None`` for a tombstone or where it raised; ``key_of`` gives the key of the pair's result.

    The joiner may write into its arguments. A result is valid only until the next one is taken.
    """
    # how often a value must be used to be copied; a record that goes to the output of bad ones is shown as it was
    at_least = len(pairs.left_index) + 1 if only_reads(joiner) else 1 if functions.handles_any else 2
    left_copies, right_copies = _copies(lefts, pairs.left_index, at_least), _copies(rights, pairs.right_index, at_least)
    lefts, rights = [*lefts, None], [*rights, None]
    for n, (i, j) in enumerate(zip(pairs.left_index.tolist(), pairs.right_index.tolist(), strict=True)):
        if i < 0 and j < 0:
            yield None
            continue
        left, right = left_copies[i], right_copies[j]
        try:
            result = joiner(lefts[i] if left is None else left(), rights[j] if right is None else right())
        except Exception as error:
            timestamp = 0 if pairs.timestamp is None else int(pairs.timestamp[n])
            functions.failed("joiner", error, (lefts[i], rights[j]), timestamp, key=key_of(n))
            if pairs.left_out is not None:
                pairs.left_out.append(n)
            result = None
        yield result


def _copies(values: list[Any], index: Ints, at_least: int) -> list[Callable[[], Any] | None]:
    """What gives copies of values, an absent one at the end; ``None`` for a value that is used less often than ``at_least``."""
    uses = np.bincount(index[index >= 0], minlength=len(values))
    return [copier(value) if count >= at_least else None for value, count in zip(values, uses.tolist(), strict=True)] + [None]
