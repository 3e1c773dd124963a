"""Locks an output for one run at a time, by a hidden file beside it.

On this machine's file systems nobody comes between looking and writing, and in a store the claim is a lease, which a run
whose machine is gone loses after minutes. Each run looks again before it publishes, so that the results are those of one run.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from beam_joins.errors import InputError
from beam_joins.pipelines.base.paths import absolute, beginning_with, folders_beginning_with, is_local, remove, remove_directory
from beam_joins.transforms.connect.files import (
    Claim,
    ClaimInStore,
    FileLock,
    claim_at,
    claim_of,
    end_lease,
    give_up,
    read_whole,
    share_lease,
    take_lease,
    write_whole,
)

_STAGING: Final = ".beam_joins-"
_PATTERN: Final = re.compile(r"[*?\[\]]")


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
        other, version = claim_at(lock) if not is_local(output) else ClaimInStore(_read(lock))
        if other is not None and other.token == mine.token:
            if not is_local(output):  # the worker that has claimed it may end before the others
                share_lease(lock, mine)
            return
        if other is not None:
            given_up = again and mine.same_process(other) and mine.at > other.at
            if not given_up and not other.is_dead:
                raise InputError(
                    f"{output} is being written by another run, process {other.pid} on {other.host}: wait for it or "
                    "name another output"
                    f" (if that run has ended, delete {lock})"
                )
        if is_local(output):
            write_whole(lock, json.dumps(mine).encode())
        elif not take_lease(lock, mine, version):
            raise InputError(f"{output} is being written by another run, which began in the same moment: name another output")
        if other is not None:
            remove_directory(staging_of(output, other))
        _remove_unclaimed(os.path.dirname(lock))


def held(output: str, mine: Claim) -> bool:
    """Whether this run still holds the claim on the output."""
    other = _read(lock_of(output))
    return other is not None and other.token == mine.token


def release(output: str, mine: Claim) -> None:
    """Releases the claim on an output."""
    lock = lock_of(output)
    if not is_local(output):
        with suppress(OSError):
            end_lease(lock, mine)
        return
    with _alone(os.path.dirname(lock)):
        if held(output, mine):
            remove(lock)


def leave(output: str, mine: Claim) -> None:
    """Leaves the claim on an output, and the files of this run, to a later run, as a process that is killed does."""
    give_up(lock_of(output), mine)


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
    """The claim in a file; a claim that was cut off, or is none of ours, counts as none.

    Raises OSError if another file system does not say what it is.
    """
    try:
        return claim_of(read_whole(lock) or b"")
    except OSError:
        if not is_local(lock):
            raise
        return None


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
