"""One contestant as a process: how long it takes and how much memory it has, seen from outside."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Final, NamedTuple

import psutil

from benchmarks.harness.environments import Environment
from benchmarks.harness.figures import Run

ROOT: Final = Path(__file__).parents[2]
_SAMPLE_SECONDS: Final = 0.2
_MEMORY_SECONDS: Final = 1.0
_TOO_SHORT_TO_TELL: Final = 3.0


class ContestantFailed(RuntimeError):
    """A contestant has ended badly or not at all; the message is one sentence."""


class _Seen(NamedTuple):
    pid: int
    name: str
    memory: int
    processor_seconds: float


def run(module: str, arguments: Sequence[str], *, limit: float, environment: Environment | None = None) -> Run:
    """Run a module of this project in a new interpreter, of this environment or another, and wait for its
    end, at most ``limit`` seconds.

    Raises:
        ContestantFailed: it ended with another code than 0, or took too long.
    """
    environment = environment or Environment()
    command = [environment.python, "-m", module, *arguments]
    variables = {**of_programs(), **environment.variables}
    with tempfile.TemporaryFile() as errors:
        begin, busy = time.monotonic(), _busy_seconds()
        # A session of its own, so that all that it leaves behind can be ended with it.
        started = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        try:
            seen = _watch(started, begin, limit)
            seconds, busy = time.monotonic() - begin, _busy_seconds() - busy
        finally:
            _end(started)
        if started.returncode:
            raise ContestantFailed(f"ended with code {started.returncode}: {_last_line(errors)}")
    others = max(busy - seen.processor, 0.0) / (seconds * (os.cpu_count() or 1))
    # The last moments of a process are not seen; a short run has little else.
    return replace(seen, seconds=seconds, others=others if seconds > _TOO_SHORT_TO_TELL else 0.0)


def of_programs() -> dict[str, str]:
    """The environment variables of a program: Python keeps the bytecode of modules, as where a package is installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _watch(started: subprocess.Popen[bytes], begin: float, limit: float) -> Run:
    top = psutil.Process(started.pid)
    jvm = python = memory = 0
    used: dict[int, float] = {}
    next_memory = begin
    while True:
        if time.monotonic() >= next_memory:
            memory, next_memory = max(memory, memory_of(top)), time.monotonic() + _MEMORY_SECONDS
        seen = list(filter(None, map(_seen, _tree(top))))
        now = peak_parts((each.name, each.memory) for each in seen)
        jvm, python = max(jvm, now[0]), max(python, now[1])
        used.update((each.pid, each.processor_seconds) for each in seen)
        try:
            # Closer together at first, for processes that are over within a second.
            started.wait(min(_SAMPLE_SECONDS, 0.02 + (time.monotonic() - begin) / 5))
            return Run(0.0, jvm, python, processor=sum(used.values()), memory=memory)
        except subprocess.TimeoutExpired:
            if time.monotonic() > begin + limit:
                raise ContestantFailed("took longer than the limit and was ended.") from None


def _tree(top: psutil.Process) -> list[psutil.Process]:
    try:
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []


def memory_of(top: psutil.Process) -> int:
    """The memory of a process and its children; of pages that they share each has a part."""
    total = 0
    for each in _tree(top):
        with contextlib.suppress(psutil.Error):
            total += each.memory_full_info().pss
    return total


def peak_parts(processes: Iterable[tuple[str, int]]) -> tuple[int, int]:
    """Of processes' names and sizes: the sum of the JVMs and the largest of the others.

    >>> peak_parts([("java", 5), ("java", 6), ("python3.11", 2), ("python", 3)])
    (11, 3)
    """
    jvm = python = 0
    for name, size in processes:
        if name == "java":
            jvm += size
        elif name.startswith("python"):
            python = max(python, size)
    return jvm, python


def _seen(process: psutil.Process) -> _Seen | None:
    try:
        with process.oneshot():
            times = process.cpu_times()
            return _Seen(process.pid, process.name(), process.memory_info().rss, times.user + times.system)
    except psutil.Error:
        return None


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _end(started: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    return why(errors.read().decode("utf-8", "replace"))


def why(standard_error: str) -> str:
    r"""The line of what a program said that tells why it ended: the innermost cause of a Java exception, else
    the last one.

    >>> why("Caused by: A\n  at x\nCaused by: java.io.IOException: disk full\n  ... 17 more\nexit code 1")
    'java.io.IOException: disk full'
    >>> why("Traceback:\n  f()\nValueError: no\n")
    'ValueError: no'
    """
    lines = [line.strip() for line in standard_error.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["it said nothing."])[-1]
