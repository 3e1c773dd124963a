"""How many partitions bounded input is replayed in. No result depends on it: only time and memory do."""

import os

PARTITION_BYTES = 16 << 20
"""How much input a partition should have at most; sorting and joining it takes about twenty times as much memory in a worker."""

DEFAULT_PARTITIONS = max(16, 2 * (os.cpu_count() or 1))
"""Enough for the cores of this machine, and for input of some hundred megabytes."""


def suggested_partitions(input_bytes: int) -> int:
    """The number of partitions for input of so many bytes, before compression.

    >>> suggested_partitions(10 << 30)
    640
    """
    return max(DEFAULT_PARTITIONS, -(-input_bytes // PARTITION_BYTES))


def partition_count(partitions: int | None) -> int:
    """The given number of partitions or the default; raises ``ValueError`` if it is not a positive int."""
    if partitions is None:
        return DEFAULT_PARTITIONS
    if not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1:
        raise ValueError(f"--beam_joins_partitions={partitions!r}: give a positive whole number, such as {DEFAULT_PARTITIONS}")
    return partitions
