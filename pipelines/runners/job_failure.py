"""Explains a failed job by the user's frames of the Python error, not Java's."""

import re
from pathlib import Path
from typing import NamedTuple

from beam_joins.pipelines.runners.runner import START_POOL, Runner

_START = "Traceback (most recent call last):"
_CAUSE = "The above exception was the direct cause of the following exception:"
_JAVA = re.compile(r"^(?:\s+at [\w.$/<>]+\(|\s*\.\.\. \d+ more|Caused by: |Driver stacktrace:|\tSuppressed: )")
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line \d+')
_STEP = re.compile(r"\s*\[while running '(?P<step>.*?)(?:-ptransform-\d+)?'\]")
_MACHINE = re.compile(r"Lost task .*? \((\S+) executor \S+\): ")
_BEAM = re.compile(r"(?:^|[/\\])(?:apache_beam|pipelines[/\\]runners[/\\]local)[/\\]|^<frozen ")


class JobFailed(RuntimeError):
    """Raised when a job fails that its runner had accepted.

    The message is for a terminal; `log` is the file with everything, if there is one.

    `user` is True when a function of the pipeline raised; the message then holds its exception and its
    frames.
    """

    def __init__(self, message: str, *, log: Path | None, user: bool) -> None:
        """Keep message and log."""
        super().__init__(message)
        self.log = log
        self.user = user


class UserError(NamedTuple):
    """The exception of a user's function: its step, its last lines, and those frames that are not Beam's."""

    step: str
    frames: str
    exception: str


def user_error(message: str) -> UserError | None:
    r"""Find the Python traceback in a job's error message; None when it holds none.

    >>> found = user_error('''java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
    ...   File "apache_beam/runners/common.py", line 1498, in process
    ...   File "/home/me/shop.py", line 7, in price
    ...     return 1 / quantity
    ... ZeroDivisionError: division by zero [while running 'Price-ptransform-12']
    ...
    ... \tat org.apache.beam.Some.java(Some.java:1)''')
    >>> found.step, found.exception
    ('Price', 'ZeroDivisionError: division by zero')
    >>> print(found.frames)
      File "/home/me/shop.py", line 7, in price
        return 1 / quantity
    """
    if _START not in message:
        return None
    python: list[str] = []
    for line in message.split(_START, 1)[1].splitlines():
        if _JAVA.match(line):
            break
        python.append(line)
    block = _last_block(python)
    frames, end = _frames(block)
    exception = "\n".join(block[end:]).strip()
    if "function_failed.FunctionFailed: " in exception and _CAUSE in python:
        # these frames are ours: the user's are those of the exception that this one tells of
        frames, _ = _frames(_last_block(python[: len(python) - 1 - python[::-1].index(_CAUSE)]))
    step = _STEP.search(exception)
    return UserError(step["step"] if step else "", "\n".join(frames), _STEP.sub("", exception).strip())


def _frames(block: list[str]) -> tuple[list[str], int]:
    """The frames of a traceback that are not Beam's, and the line after the last frame."""
    frames: list[str] = []
    keep = False
    for number, line in enumerate(block):
        if not line.startswith("  "):
            if line.strip() and number:
                return frames, number
            continue
        frame = _FRAME.match(line)
        keep = not _BEAM.search(frame["file"]) if frame else keep
        frames += [line] if keep else []
    return frames, 0


def _last_block(lines: list[str]) -> list[str]:
    # Beam raises the user's exception once more with the step's name; that last copy has all frames, too.
    starts = [number + 1 for number, line in enumerate(lines) if line == _START]
    return lines[starts[-1] :] if starts else lines


def user_failure(message: str, log: Path | None) -> JobFailed | None:
    """The exception for a job whose error message holds one of a function of the pipeline."""
    if (raised := user_error(message)) is None:
        return None
    where = f" in step {raised.step!r}" if raised.step else ""
    lines = [*filter(None, (f"the job failed{where}:", raised.frames, raised.exception))]
    return JobFailed("\n".join(lines if log is None else [*lines, f"The log is {log}."]), log=log, user=True)


def job_failure(message: str, log: Path, runner: Runner, text: bytes = b"") -> JobFailed:
    """The exception for a failed job with this error message of the job server, and this text in the log."""
    if (failure := user_failure(message, log)) is not None:
        return failure
    if "OutOfMemoryError" in message:
        sentence = f"{runner.name}'s JVM ran out of memory; give it more with {runner.memory_option}. "
    elif runner.refused and runner.refused in text:
        sentence = f"{runner.master_option} names a cluster that is not of {runner.name} {runner.version}. "
    elif "JobCancellationException" in message:
        sentence = "the job was cancelled. "
    elif "StatusRuntimeException: UNAVAILABLE" in message:
        machine = lost[1] if (lost := _MACHINE.search(message)) else "a machine of the cluster"
        sentence = f"no worker pool answers on {machine}: each of them needs one, started with '{START_POOL}PORT'. "
    elif "StatusRuntimeException: CANCELLED" in message:
        sentence = "a Python worker process ended in the middle of the job, out of memory or by a crash in a library. "
    else:
        cause = re.sub(r"^Pipeline \S+ failed in state \w+: ", "", message).strip().splitlines()
        sentence = f"the job failed: {(cause or ['no reason given'])[0]} "
    return JobFailed(f"{sentence}The log is {log}.", log=log, user=False)
