"""The number of partitions for bounded input. No result depends on it: only time and memory do."""

from beam_joins.cores import usable_cores
from beam_joins.errors import InputError

PARTITION_BYTES = 256 << 20
"""The most bytes of input that a partition should have; it is replayed in parts."""

RANGE_BYTES = 8 << 20
"""The most bytes of rows that are replayed at a time, where it can be: more do not stay in a processor's cache."""

MOST_BLOCKS = 128
"""The most blocks that a worker should fill at a time: with more they are smaller than half a megabyte, and the work for each block,
whatever its size, is more than is gained where rows stay in the cache.
"""

WORTHWHILE_BYTES = 2 << 20
"""The least bytes of input that a partition should have: on Spark a partition costs some hundredths of a
second in every stage.
"""

CORES = usable_cores()
DEFAULT_PARTITIONS = max(16, 2 * CORES)
"""Enough for the cores of this machine, and for input of some hundred megabytes."""

GROWING_PARTITIONS = max(4, CORES)
"""The least number of partitions in the first of many runs, whose tables may grow: all runs have the same
number, and each partition costs every run some time.
"""

GROWING_WORTHWHILE_BYTES = 16 << 20
"""The least bytes that a partition should have in many runs."""

GROWING_BYTES = 512 << 20
"""The most bytes of input that a partition should have in the first of many runs; its state is in parts."""


def growing_partitions(input_bytes: int | None) -> int:
    """The number of partitions for many runs, by the bytes of an input of the first run: few, as each costs
    every later run some time.

    >>> growing_partitions(0) == growing_partitions(None) == GROWING_PARTITIONS, growing_partitions(100 << 30)
    (True, 200)
    """
    return max(GROWING_PARTITIONS, -(-(input_bytes or 0) // GROWING_BYTES))


def grown_partitions(size: int, before: int | None = None) -> int:
    """The number of partitions for many runs where ``size`` is that of the state, or of the whole input of this run, if it has more
    bytes: fewer for small ones. Of a state which had ``before`` it is the same, or twice as large at least, as all of the state is
    distributed anew then; a state that is large has more parts in place of more partitions.
    """
    worthwhile = max(1, min(GROWING_PARTITIONS, size // GROWING_WORTHWHILE_BYTES))
    if before is None:
        return worthwhile if worthwhile < GROWING_PARTITIONS else growing_partitions(size)
    return worthwhile if worthwhile >= 2 * before else before


def suggested_partitions(input_bytes: int) -> int:
    """The number of partitions for input of so many bytes, before compression: one for each core at least.

    >>> suggested_partitions(0) == CORES, suggested_partitions(100 << 30)
    (True, 400)
    """
    worthwhile = min(DEFAULT_PARTITIONS, -(-input_bytes // WORTHWHILE_BYTES))
    return max(CORES, worthwhile, -(-input_bytes // PARTITION_BYTES))


def range_count(partitions: int, size: int | None) -> int:
    """The number of ranges of places, a power of two, that partitions of so many bytes all together are replayed in; one where
    the size is not known.

    >>> range_count(16, 900 << 20), range_count(400, 100 << 30), range_count(16, None)
    (8, 1, 1)
    """
    count = 1
    while size is not None and count * partitions * RANGE_BYTES < size and 2 * count * partitions <= MOST_BLOCKS:
        count *= 2
    return count


def partition_count(partitions: int | None, size: int | None = None) -> int:
    """The given number of partitions, without one as many as input of so many bytes needs, or the default
    where its size is not known; fewer for input that is known to be small.

    Raises ``ValueError`` if it is not a positive int.

    >>> partition_count(64), partition_count(64, 3 << 20), partition_count(None, 100 << 30)
    (64, 2, 400)
    """
    count = DEFAULT_PARTITIONS if partitions is None else partitions
    if partitions is None and size is not None:
        count = suggested_partitions(size)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(f"--beam_joins_partitions={partitions!r}: give a positive whole number, such as {DEFAULT_PARTITIONS}")
    return count if size is None else min(count, max(1, -(-size // WORTHWHILE_BYTES)))
