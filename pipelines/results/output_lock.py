"""Locks an output for one run at a time, by a hidden file beside it.

On this machine's file systems nobody comes between looking and writing. On those in a cloud two runs that
begin within the same moment may both believe that they own the output; each looks again before it publishes,
so that the results are those of one run.
"""

import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import absolute, beginning_with, folders_beginning_with, is_local, remove, remove_directory
from beam_joins.transforms.connect import FileLock, read_whole, write_whole

_TOKEN: Final = re.compile(r"[0-9a-f]{12}")
_STAGING: Final = ".beam_joins-"
_PATTERN: Final = re.compile(r"[*?\[\]]")


class Claim(NamedTuple):
    """A run's claim: ``token`` is its own; ``host``, ``pid`` and ``process`` (when that began) say where it
    runs; ``at`` in ns since 1970.
    """

    token: str
    host: str
    pid: int
    process: str
    at: int

    @property
    def is_dead(self) -> bool:
        """Whether the process of the claim has ended, as far as this machine can tell."""
        if self.host != socket.gethostname():
            return False
        beginning = _beginning_of(self.pid)
        return beginning is None or bool(beginning and self.process and beginning != self.process)

    def same_process(self, other: "Claim") -> bool:
        """Whether two claims belong to the same process."""
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
    # what deletes in a cloud may take a name for a pattern
    return f"{parent}/.{base if is_local(output) else _PATTERN.sub('%', base)}.lock"


def staging_of(output: str, claim: Claim) -> str:
    """The hidden directory beside an output for the unfinished files of a run."""
    return os.path.join(os.path.dirname(absolute(output)), f"{_STAGING}{claim.token}")


def take(output: str, mine: Claim, *, again: bool = False) -> None:
    """Claims an output; removes the files that a dead run has left of it.

    ``again``: an earlier run of the same process is given up, since a process that goes on does not tell that
    its pipeline has failed.

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
                    f"{output} is being written by another run, process {other.pid} on {other.host}: wait for it or "
                    "name another output"
                    f" (if that run has ended, delete {lock})"
                )
            remove_directory(staging_of(output, other))
        if other is None or other.token != mine.token:
            write_whole(lock, json.dumps(mine).encode())
            _remove_unclaimed(os.path.dirname(lock))
    if not is_local(output) and not held(output, mine):
        raise InputError(f"{output} is being written by another run, which began in the same moment: name another output")


def held(output: str, mine: Claim) -> bool:
    """Whether this run still holds the claim on the output."""
    other = _read(lock_of(output))
    return other is not None and other.token == mine.token


def release(output: str, mine: Claim) -> None:
    """Releases the claim on an output."""
    lock = lock_of(output)
    with _alone(os.path.dirname(lock)):
        if held(output, mine):
            remove(lock)


def _remove_unclaimed(directory: str) -> None:
    """Removes hidden directories that no claim in the directory is of: a run claims before it writes there."""
    with suppress(OSError):
        staging = folders_beginning_with(f"{directory}/{_STAGING}")
        # looked for behind the directories, so that the claim of a run that has just begun is among them
        claims = [_read(path) for path in beginning_with(f"{directory}/.") if path.endswith(".lock")] if staging else []
        claimed = {f"{_STAGING}{claim.token}" for claim in claims if claim is not None}
        for path in staging:
            if os.path.basename(path) not in claimed:
                remove_directory(path)


def _read(lock: str) -> Claim | None:
    """The claim in a file; one that was cut off, or is none of ours, is as good as none.

    Raises OSError if another file system does not say what it is.
    """
    try:
        content = read_whole(lock)
        token, host, pid, process, at = json.loads(content or b"")
    except (ValueError, TypeError):
        return None
    except OSError:
        if not is_local(lock):
            raise
        return None
    return Claim(token, host, pid, process, at) if isinstance(pid, int) and _TOKEN.fullmatch(str(token)) else None


@contextmanager
def _alone(directory: str) -> Iterator[None]:
    """Within the block no other process of this machine is in a block for the directory."""
    if not is_local(directory):
        yield
        return
    os.makedirs(directory, exist_ok=True)
    with closing(FileLock(directory)) as lock:
        with suppress(OSError):  # a network's file system without locks is as one in a cloud
            lock.take(wait=True)
        yield


def _beginning_of(pid: int) -> str | None:
    """The start time of a process, which tells it from a later one with the same number, where the system says it;
    None if there is no such process.
    """
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
