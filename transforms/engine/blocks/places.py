"""The places of rows in a partition: further bits of the hash by which they were routed, as if there were more partitions.

Rows that meet have one place. A **range** of places is a part of a partition that can have its turn by itself.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from beam_joins.keys.key_columns import Ints

SPACE: Final = 1 << 48
"""The end of the places: those of rows are from 0 up to it."""
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


def places(hashes: Any) -> Ints:
    """The places of rows by the hashes by which they are routed: by other bits than those by which partitions, and parts of
    left rows, are chosen.
    """
    place: Ints = ((hashes * _SPREAD) >> np.uint64(16)).view(np.int64)
    return place


class PlaceRange(NamedTuple):
    """One of ``of`` equal ranges of places, a power of two.

    >>> PlaceRange(1, 4).end == SPACE // 2, PlaceRange.numbers(np.array([0, SPACE - 1]), 4).tolist()
    (True, [0, 3])
    """

    number: int
    of: int

    @property
    def end(self) -> int:
        """The first place behind it."""
        return SPACE // self.of * (self.number + 1)

    @staticmethod
    def numbers(places: Ints, count: int) -> Ints:
        """The numbers of the ranges of places."""
        return places // (SPACE // count)


ALL_PLACES: Final = PlaceRange(0, 1)
