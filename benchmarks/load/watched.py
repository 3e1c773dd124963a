"""A program seen from outside: how long it takes and how much memory all its processes have together."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import psutil

from benchmarks.harness.process import ROOT

_SAMPLE_SECONDS: Final = 0.25


class RunFailed(RuntimeError):
    """A program has ended badly or not at all; the message is one sentence."""


@dataclass(frozen=True)
class Watched:
    """Seconds, processor seconds of all processes, the most bytes that they had together, and what was said
    on standard output.

    Memory that processes share, files that are mapped too, is counted once (Linux's proportional set size).

    >>> a = Watched(1.0, 2.0, 300, "a")
    >>> a + Watched(2.0, 2.0, 100, "b")
    Watched(seconds=3.0, processor_seconds=4.0, peak_bytes=300, said='b')
    """

    seconds: float
    processor_seconds: float
    peak_bytes: int
    output: str

    def __add__(self, other: "Watched") -> "Watched":
        """One run after the other."""
        peak = max(self.peak_bytes, other.peak_bytes)
        return Watched(self.seconds + other.seconds, self.processor_seconds + other.processor_seconds, peak, other.output)


def watched(arguments: Sequence[str], *, limit: float) -> Watched:
    """Run Python with these arguments and wait for its end, at most ``limit`` seconds.

    Raises:
        RunFailed: it ended with another code than 0, or took too long.
    """
    begin, peak, used, late = time.monotonic(), 0, dict[int, float](), False
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        top = psutil.Process(started.pid)
        while True:
            try:
                output, errors = started.communicate(timeout=_SAMPLE_SECONDS)
                break
            except subprocess.TimeoutExpired:
                seen = list(_seen(top))
                peak = max(peak, sum(memory for _, memory, _ in seen))
                used.update((pid, seconds) for pid, _, seconds in seen)
                if not late and time.monotonic() > begin + limit:
                    late = True
                    started.terminate()
    if late:
        raise RunFailed(f"took longer than {limit:.0f} s and was ended")
    if started.returncode:
        raise RunFailed(f"ended with code {started.returncode}: {(errors.strip().splitlines() or ['it said nothing'])[-1]}")
    return Watched(time.monotonic() - begin, sum(used.values()), peak, output)


def _seen(top: psutil.Process) -> Iterator[tuple[int, int, float]]:
    try:
        tree = [top, *top.children(recursive=True)]
    except psutil.Error:
        return
    for process in tree:
        try:
            times = process.cpu_times()
            yield process.pid, process.memory_full_info().pss, times.user + times.system
        except psutil.Error:
            continue  # it has ended
