"""The number of CPU cores that a process may use."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """The number of cores for this process: the machine's, within its affinity and its control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))  # "max" is no number
    return cores
