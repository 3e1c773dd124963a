"""What an endless join does over time: results, processor time and memory, from outside."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import psutil

from benchmarks.data.endless import Endless

_SAMPLE_SECONDS: Final = 1.0
_PARTS: Final = 5


class Sample(NamedTuple):
    """A moment: its time in microseconds, memory in bytes and processor seconds of the Python processes and
    of the JVM or Prism.
    """

    at: int
    python: int
    runner: int
    python_seconds: float
    runner_seconds: float


class Flow:
    """Watches the processes below one, and reads what the results' sink has noted in a folder."""

    def __init__(self, folder: Path, top: psutil.Process) -> None:
        self._folder = folder
        self._top = top
        self._seen = dict[Path, int]()
        self._latest = 0
        self.samples: list[Sample] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Take samples in the meantime."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_SAMPLE_SECONDS):
                self.samples.append(self._sample())

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _sample(self) -> Sample:
        memory, seconds = [0, 0], [0.0, 0.0]
        for process in [self._top, *self._top.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                which = 0 if process.name().startswith("python") else 1
                times = process.cpu_times()
                memory[which] += process.memory_info().rss
                seconds[which] += times.user + times.system
        return Sample(time.time_ns() // 1000, memory[0], memory[1], seconds[0], seconds[1])

    def results(self) -> np.ndarray:
        """The notes of the sink in the order in which they came: time, number of results, earliest and latest
        change.
        """
        lines = [line.split() for path in self._folder.iterdir() for line in path.read_text().splitlines()]
        notes = np.array(lines, np.int64).reshape(-1, 4)
        return notes[np.argsort(notes[:, 0], kind="stable")]

    def latest(self) -> int:
        """The time of the latest change with a result; that of none is 0. Reads the notes that are new."""
        for path in self._folder.iterdir():
            with path.open() as file:
                file.seek(self._seen.get(path, 0))
                lines = file.read()
            whole = lines[: lines.rfind("\n") + 1]
            self._seen[path] = self._seen.get(path, 0) + len(whole)
            self._latest = max([self._latest, *(int(line.split()[3]) for line in whole.splitlines())])
        return self._latest


_COLUMNS: Final = (
    "changes so far",
    "changes/s",
    "seconds until a result, median",
    "99 %",
    "Python, GB",
    "runner, GB",
    "changes per processor second of Python",
    "of all",
)


def flow_report(flow: Flow, endless: Endless) -> str:
    """What was measured, as a Markdown table of five stretches of time, and the number of results."""
    came = flow.results()
    came = came[came[:, 3] >= endless.begin]
    behind = np.minimum((came[:, 3] - endless.begin) * endless.per_second // 1_000_000 + 1, endless.changes)
    done = np.maximum.accumulate(behind)
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    bounds = np.searchsorted(done, np.linspace(0, endless.changes, _PARTS + 1)[1:] * 0.999)
    start = 0
    for end in np.minimum(bounds, len(came) - 1).tolist():
        seconds, changes = (came[end, 0] - came[start, 0]) / 1e6, int(done[end] - done[start])
        first, last = (min(flow.samples, key=lambda sample: abs(sample.at - came[at, 0])) for at in (start, end))
        late = np.repeat(came[start : end + 1, 0] - came[start : end + 1, 2], came[start : end + 1, 1]) / 1e6
        waits = [f"{np.percentile(late, share):.1f}" for share in (50, 99)] if endless.live else ["-", "-"]
        python = last.python_seconds - first.python_seconds
        both = python + last.runner_seconds - first.runner_seconds
        memory = [f"{size / 1e9:.2f}" for size in (last.python, last.runner)]
        rates = [f"{changes / max(each, 0.01):,.0f}" for each in (seconds, python, both)]
        lines.append(f"| {int(done[end]):,} | {rates[0]} | {' | '.join([*waits, *memory, *rates[1:]])} |")
        start = end
    return "\n".join([*lines, "", f"{int(came[:, 1].sum()):,} results"])
