"""One run at a time writes an output: a hidden file beside it says which.

On this machine's file systems nobody comes between looking and writing. On those in a cloud two runs that begin within the same moment may
both believe that they own the output; each looks again before it publishes, so that the results are those of one run.
"""

import fcntl
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.changelog_files.paths import absolute, is_local, remove
from beam_joins.pipelines.command.input_error import InputError

_TOKEN: Final = re.compile(r"[0-9a-f]{12}")


class Claim(NamedTuple):
    """A run's claim: ``token`` is its own; ``host``, ``pid`` and ``process`` (when that began) say where it runs; ``at`` in ns since 1970."""

    token: str
    host: str
    pid: int
    process: str
    at: int

    @property
    def is_dead(self) -> bool:
        """Whether its process is known to have ended: on this machine, and no longer there."""
        if self.host != socket.gethostname():
            return False
        there = _beginning_of(self.pid)
        return there is None or bool(there and self.process and there != self.process)

    def same_process(self, other: "Claim") -> bool:
        """Whether two runs are of one process."""
        return self[1:4] == other[1:4]


def new_claim() -> Claim:
    """The claim of a run that this process starts."""
    pid = os.getpid()
    return Claim(uuid.uuid4().hex[:12], socket.gethostname(), pid, _beginning_of(pid) or "", time.time_ns())


def lock_of(output: str) -> str:
    """The file that holds the claim on an output.

    >>> lock_of("/out/e.jsonl")
    '/out/.e.jsonl.lock'
    """
    parent, base = os.path.split(absolute(output))
    return f"{parent}/.{base}.lock"


def staging_of(output: str, claim: Claim) -> str:
    """The hidden directory beside an output for what a run has not yet finished."""
    return os.path.join(os.path.dirname(absolute(output)), f".beam_joins-{claim.token}")


def take(output: str, mine: Claim, *, again: bool = False) -> None:
    """Claim an output; removes what a run that is dead has left of it.

    ``again``: an earlier run of the same process is given up, since a process that goes on does not tell that its pipeline has failed.

    Raises:
        InputError: another run writes it.
        OSError: the claim cannot be written.
    """
    lock = lock_of(output)
    with _alone(os.path.dirname(lock)):
        other = _read(lock)
        if other is not None and other.token != mine.token:
            given_up = again and mine.same_process(other) and mine.at > other.at
            if not given_up and not other.is_dead:
                raise InputError(
                    f"{output} is being written by another run, process {other.pid} on {other.host}: wait for it or name another output"
                    f" (if that run has ended, delete {lock})"
                )
            remove(staging_of(output, other))
        if other is None or other.token != mine.token:
            _write(lock, mine)
    if not is_local(output) and not held(output, mine):
        raise InputError(f"{output} is being written by another run, which began in the same moment: name another output")


def held(output: str, mine: Claim) -> bool:
    """Whether the output is still this run's."""
    other = _read(lock_of(output))
    return other is not None and other.token == mine.token


def release(output: str, mine: Claim) -> None:
    """Give an output free."""
    lock = lock_of(output)
    with _alone(os.path.dirname(lock)):
        if held(output, mine):
            remove(lock)


def _read(lock: str) -> Claim | None:
    """The claim in a file; one that was cut off, or is none of ours, is as good as none."""
    try:
        with open(lock, "rb") if is_local(lock) else FileSystems.open(lock) as file:
            token, host, pid, process, at = json.loads(file.read())
    except (OSError, ValueError, TypeError):
        return None
    return Claim(token, host, pid, process, at) if isinstance(pid, int) and _TOKEN.fullmatch(str(token)) else None


def _write(lock: str, claim: Claim) -> None:
    text = json.dumps(claim).encode()
    if not is_local(lock):
        with FileSystems.create(lock) as file:
            file.write(text)
        return
    part = f"{lock}.{claim.token}"
    try:
        with open(part, "wb") as file:
            file.write(text)
        os.replace(part, lock)
    finally:
        remove(part)


@contextmanager
def _alone(directory: str) -> Iterator[None]:
    """Within the block no other process of this machine is in a block for the directory."""
    if not is_local(directory):
        yield
        return
    os.makedirs(directory, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # a network's file system without locks is as one in a cloud
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _beginning_of(pid: int) -> str | None:
    """What tells a process from another that gets its number later, where the system says it; None if there is no such process."""
    try:
        with suppress(PermissionError):  # another user's
            os.kill(pid, 0)
    except ProcessLookupError:
        return None
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return None if state in "ZX" else fields[18]
